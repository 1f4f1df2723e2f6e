"""The program `amem`: what its commands share, which is options, the memory they open, what they print, and their end."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from ast import literal_eval
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from copy import copy
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime
from functools import cached_property
from inspect import Parameter, Signature, getdoc, signature
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

import amem_integrations as amem  # its names are imported when they are used: help needs no engine

from ..ids import parse_time
from ..notes import Namespace, Note, check_namespace
from . import INTERRUPTED

if TYPE_CHECKING:
    from ..opening import Location

SHORT_ID = 8  # characters of an id that are shown; commands accept them in its place

Function = Callable[..., None]
Line = str | Text | Table | tuple[str | Text, ...]
Limit = Annotated[int, typer.Option("-k", "--limit", min=1, max=2**31 - 1)]

# The base class of all errors of usage; Typer gives a public name only to this subclass.
_UsageError: Any = typer.BadParameter.__base__
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class Commands(TyperGroup):
    """All commands, and how each ends: an error is one line on standard error, without a traceback."""

    def main(self, args: Sequence[str] | None = None, *_: Any, **extra: Any) -> Any:  # noqa: ANN401
        """Run a command, and exit with its status."""
        status, message = 1, ""
        given = list(sys.argv[1:] if args is None else args)
        try:
            with self.make_context("amem", given, obj=extra.get("obj")) as context:
                self.invoke(context)
            status = 0
        except typer.Exit as done:
            status = done.exit_code
        except _UsageError as error:
            status, message = error.exit_code, error.format_message()
            if not message.lstrip().startswith("Usage:"):  # without a command it is the whole help
                message = f"amem: {' '.join(message.split())} (see {error.ctx.command_path} --help)"
        except BrokenPipeError:  # the reader has stopped, as in `amem export - | head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except OSError as error:
            message = f"{error.filename}: {error.strerror}" if error.filename else str(error)
            message = f"amem: {one_line(message)}"
        except amem.AmemError as error:
            taken = self.commands[str(context.invoked_subcommand)].params
            options = {one.name: f"{max(one.opts, key=len)} " for one in taken}
            message = f"amem: {in_commands(str(error), options)}"
        except KeyboardInterrupt:
            status, message = INTERRUPTED, "amem: stopped"
        if message:
            typer.echo(message, err=True)
        sys.exit(status)


app = typer.Typer(
    cls=Commands,
    help="Long-term memory for LLM agents that organises itself.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # help as plain lines, for terminals and logs alike
)


def _env(variable: str, *names: str, **how: Any) -> Any:  # noqa: ANN401 - of Typer
    """Return an option that an environment variable can give."""
    return typer.Option(*names, envvar=variable, **how)


@dataclass(kw_only=True, repr=False, eq=False)
class Session:
    """One run of a command: the options that commands share, and the memory that they name.

    An option that a command lacks has its default. A command that has the option `embedder` writes. A program that runs
    commands can pass a class of its own (`obj`) that makes another embedder or chat model.

    Attributes:
        location: A folder, or the URL of a Qdrant server.
        collection: Name of the memory, if several are in one place.
        api_key: API key of the Qdrant server, if it needs one.
        as_json: Print JSON.
        namespace: The owner of the notes: labels with "/" between them, such as team/ann, or a JSON list.
        embedder: A model by name or folder, openai:NAME, fastembed:NAME, or python:MODULE:NAME for one of your own. By
            default the one the memory was made with; for a new memory all-MiniLM-L6-v2.
        base_url: URL of an OpenAI-compatible endpoint: Ollama, vLLM, …
        model: A chat model, such as gpt-4o-mini, with OPENAI_API_KEY; without one notes are made by rules.
        review: Let what is proposed for earlier notes wait for `amem approve`.
    """

    location: Annotated[str, _env("AMEM_MEMORY", "--memory", "-m", metavar="LOCATION")] = "./memory"
    collection: str = "amem"
    api_key: Annotated[str | None, _env("QDRANT_API_KEY")] = None
    as_json: Annotated[bool, typer.Option("--json")] = False
    namespace: Annotated[str | None, _env("AMEM_NAMESPACE", "--namespace", "-n")] = None
    embedder: Annotated[str | None, _env("AMEM_EMBEDDER", metavar="NAME")] = None
    base_url: Annotated[str | None, _env("OPENAI_BASE_URL")] = None
    model: Annotated[str | None, _env("AMEM_MODEL")] = None
    review: Annotated[bool, _env("AMEM_REVIEW", "--review")] = False

    writes: bool
    creates: bool
    opened: ExitStack = field(default_factory=ExitStack, init=False)

    @cached_property
    def memory(self) -> amem.AgenticMemory:
        """The memory, opened when it is first used, and closed at the end of the command."""
        return self.opened.enter_context(self.write() if self.writes else self.read())

    def make_embedder(self, name: str | None) -> amem.Embedder:
        """Return the embedder that a name stands for; without a name all-MiniLM-L6-v2."""
        from ..opening import embedder_named  # noqa: PLC0415 - imports numpy

        return embedder_named(name, self.base_url)

    def make_model(self) -> amem.ChatModel | None:
        """Return the chat model that `--model` names; None, which means rules, without a name."""
        return amem.OpenAIChatModel(self.model, base_url=self.base_url) if self.model else None

    @cached_property
    def any_space(self) -> Namespace | None:
        """The namespace, if one was given."""
        return None if self.namespace is None else parse_namespace(self.namespace)

    @property
    def space(self) -> Namespace:
        """The namespace.

        Raises:
            NamespaceError: None was given.
        """
        if self.any_space is None:
            raise amem.NamespaceError(
                "no namespace was given; use --namespace or set AMEM_NAMESPACE (`amem stats` lists the "
                "namespaces of a memory)"
            )
        return self.any_space

    @property
    def place(self) -> Location:
        """The place of the memory.

        Raises:
            ConfigurationError: Nothing would be kept there, or it is no place.
        """
        from ..opening import MEMORY, Location  # noqa: PLC0415

        if self.location in ("", MEMORY):
            raise amem.ConfigurationError(
                f"--memory {self.location!r} keeps nothing; give a folder, or the URL of a Qdrant server"
            )
        key = {"api_key": self.api_key} if "://" in self.location else {}
        return Location.of(self.location, self.collection, key)

    def read(self) -> amem.AgenticMemory:
        """Return an existing memory, without its embedder; or raise a `StoreError`."""
        return amem.AgenticMemory._as_made(self.place)  # noqa: SLF001

    def write(self) -> amem.AgenticMemory:
        """Return a memory with its embedder and, if one was named, a chat model.

        Raises:
            StoreError: There is no memory, and the command makes none; or it cannot be opened.
            ConfigurationError: The memory names code as its embedder, and no embedder was given.
        """
        from ..opening import trusted  # noqa: PLC0415 - imports numpy

        place = self.place
        known = place.made_with(required=not self.creates)
        return amem.AgenticMemory.open(
            place.path,
            embedder=self.make_embedder(self.embedder or trusted(known)),
            model=self.make_model(),
            config=amem.MemoryConfig(review=self.review),
            collection=place.collection,
            **place.options,
        )

    def find(self, name: str) -> Note:
        """Return the note that an id, the start of one, or a key stands for.

        Raises:
            NoteNotFoundError: There is none.
            InvalidInputError: Several ids start with it.
        """
        named = {"$or": [{"id": name}, {"key": name}]}
        if found := self.memory.get_all(namespace=self.space, where=named, limit=1):
            return found[0]
        some = self.all_notes(self.space) if re.fullmatch(r"[0-9a-f-]{4,35}", name) else ()
        notes = {note.id: note for note in some}
        none = f"no note has the id or key {name!r} in namespace {format_namespace(self.space)}"
        known = {note_id: [note_id] for note_id in notes}
        return notes[only(name, known, f"{none}; `amem show` lists the last ones")]

    def notes(self, ids: Iterable[str]) -> dict[str, Note]:
        """Return the notes with these ids that exist, by id."""
        wanted = [*dict.fromkeys(ids)]
        how: dict[str, Any] = {"where": {"id": {"$in": wanted}}, "limit": len(wanted)}
        found = self.memory.get_all(namespace=self.space, **how) if wanted else []
        return {note.id: note for note in found}

    def all_notes(self, namespace: Namespace) -> list[Note]:
        """Return all notes of a namespace, oldest first; their supersessions are also those that were in force once."""
        from ..fetch import note_pages  # noqa: PLC0415 - imports numpy
        from ..runtime import run  # noqa: PLC0415

        async def read() -> list[Note]:
            pages = note_pages(self.memory._runtime.store, namespace, expired=False)  # noqa: SLF001
            return [note async for page in pages for note in page]

        return run(read())

    def show(self, values: object, lines: Iterable[Line] | None = None) -> None:
        """Print the result of a command: its values as JSON, if that is asked for, else lines of text.

        Without lines the values are listed by name. In JSON an escape stands for what would control the terminal, and
        for what the terminal may have no character for.
        """
        if self.as_json:
            from pydantic_core import to_jsonable_python  # noqa: PLC0415 - takes as long as Typer

            is_ascii = "utf" not in str(sys.stdout.encoding).lower()
            text = json.dumps(to_jsonable_python(values), indent=2, ensure_ascii=is_ascii)
            typer.echo(_CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text))
            return
        out = Console(highlight=False, markup=False, emoji=False)
        # Without a column, which an environment may claim, nothing would be printed.
        out.width = max(out.width, 40)
        for line in listed(values) if lines is None else lines:
            parts = line if isinstance(line, tuple) else (line,)
            texts = [one_line(part) if isinstance(part, str) else part for part in parts]
            out.print(*texts, soft_wrap=not isinstance(line, Table))


COMMON = ("location", "collection", "api_key", "as_json")
NAMESPACE = ("namespace",)
EMBEDDER = ("embedder", "base_url")
MODEL = (*EMBEDDER, "model", "review")


def command(
    name: str, *groups: Sequence[str], creates: bool = False
) -> Callable[[Function], Function]:
    """Return a decorator that makes a command of a function whose first parameter is a `Session`.

    The command has the function's own parameters, of which those after `*` are options, and the options of `Session` that
    are in the groups. Its help is the docstring, of which `Args` describes the parameters; a time is given as text. With
    `creates` a memory is made if there is none.
    """
    shared = [each for group in (*groups, COMMON) for each in group]
    common = signature(Session, eval_str=True).parameters

    def decorate(function: Function) -> Function:
        def run(context: typer.Context, **values: Any) -> None:  # noqa: ANN401 - by signature
            times = {each: parse_time(values[each]) for each in dated if values[each] is not None}
            given = {each: values.pop(each) for each in shared}
            session = (context.obj or Session)(**given, creates=creates, writes="embedder" in given)
            with session.opened:
                function(session, **values | times)

        _, *own = signature(function, eval_str=True).parameters.values()
        dated = [one.name for one in own if one.annotation == datetime | None]
        told = {**_described(Session, "Attributes"), **_described(function, "Args")}
        context = Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context)
        declared = [_declared(one, told) for one in (*own, *(common[each] for each in shared))]
        # Typer reads the options from the signature.
        run.__signature__ = Signature([context, *declared])  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in (context, *declared)}
        app.command(name, help=str(getdoc(function)).partition("\nArgs:")[0])(run)
        return function

    return decorate


def _described(documented: object, section: str) -> dict[str, str]:
    """Return the explanation of each name in a section of a docstring."""
    listed = str(getdoc(documented)).partition(f"\n{section}:\n")[2]
    return dict(re.findall(r"^    (\w+): (.+(?:\n     .+)*)", listed, flags=re.MULTILINE))


def _declared(one: Parameter, told: Mapping[str, str]) -> Parameter:
    """Return a parameter as Typer reads it: an argument; after `*` an option, or what its annotation says."""
    kind: Any = str | None if one.annotation == datetime | None else one.annotation
    if hasattr(kind, "__metadata__"):
        kind, how = kind.__origin__, copy(kind.__metadata__[0])
    elif one.kind is Parameter.POSITIONAL_OR_KEYWORD:
        how = typer.Argument(metavar=one.name.upper())
    else:
        how = typer.Option(*([f"--{one.name.replace('_', '-')}"] if kind is bool else []))
    how.help = " ".join(told[one.name].split())
    return one.replace(kind=Parameter.KEYWORD_ONLY, annotation=Annotated[kind, how])


def parse_namespace(text: str) -> Namespace:
    """Return the namespace that a text stands for: labels with `/` between them, or a JSON list.

    `team/ann` is `("team", "ann")`. A label that holds a slash or starts with a bracket is written
    in JSON, as in `["a/b", "c"]`.

    Raises:
        NamespaceError: There is no label, or an empty one.
    """
    try:
        return check_namespace(json.loads(text) if text.startswith("[") else text.split("/"))
    except (ValueError, RecursionError) as error:
        raise amem.NamespaceError(
            f"--namespace {text!r} must be labels with / between them, such as team/ann, or a JSON list of labels"
        ) from error


def format_namespace(namespace: Sequence[str]) -> str:
    """Return the text that `parse_namespace` takes for this namespace."""
    if namespace[0].startswith("[") or any("/" in label for label in namespace):
        return json.dumps(list(namespace), ensure_ascii=False)
    return "/".join(namespace)


def only(name: str, known: Mapping[str, Sequence[str]], none: str) -> str:
    """Return the one id that a name stands for: a spelling of the id, or the start of one.

    Args:
        name: The name.
        known: The spellings of each id.
        none: What is said if the name stands for no id.

    Raises:
        NoteNotFoundError: The name stands for none.
        InvalidInputError: The name stands for several.
    """
    found = [i for i, spelled in known.items() if name in spelled]
    found = found or [i for i, spelled in known.items() if any(s.startswith(name) for s in spelled)]
    if not found:
        raise amem.NoteNotFoundError(none)
    if len(found) > 1:
        some = ", ".join(sorted(found)[:5])
        raise amem.InvalidInputError(f"{name!r} starts {len(found)} ids: {some}; give more of one")
    return found[0]


def clean(text: str) -> str:
    """Return text without characters that move the cursor, change colours or reverse the direction.

    Notes are data: they must not steer the terminal.
    """
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def one_line(text: str) -> str:
    """Return clean text on one line."""
    return clean(" ".join(text.splitlines()))


# Words of the library about its methods and parameters, and the words of the command line for the same.
_WORDS = {
    ", or amem_integrations.reindex.reindex(location, embedder)": "",
    ", or pass api_key=…": "",
    "context=": "text=",
    "give no context, keywords or tags": "leave out --text",
    "give content or metadata": "give CONTENT or --expires",
    "or raise MemoryConfig.max_content_chars": "and add each part",
    "or allow_insecure=True": "or leave out --api-key",
    "a dict of field": "a JSON object of field",
}
_CALL = re.compile(
    r"\b(approve|delete|evolve|export|import|proposals|reject|undo)_?\((?:'(.*?)')?\)"
)
_OPTION = re.compile(r"(?<!\w)'(?:[^'\\]|\\.)*'|\b([a-z_]+)=(?:True)?")
_LABEL = r"'[^'\\\x00-\x1f]+'"  # as it is printed if nothing in it has to be escaped
_NAMESPACE = re.compile(rf"(?<=namespace )\({_LABEL},(?: {_LABEL},?)*\)(?![^ ;,.])")


def in_commands(message: str, options: Mapping[str, str]) -> str:
    """Return a message of the library on one clean line, in the words of the command line.

    Args:
        message: The message.
        options: The options of the command by the names of their parameters, such as "--memory " for "location".
    """
    for said, told in _WORDS.items():
        message = message.replace(said, told)
    message = _CALL.sub(lambda one: f"`{' '.join(filter(None, ('amem', *one.groups())))}`", message)
    message = _NAMESPACE.sub(lambda one: format_namespace(literal_eval(one[0])), message)
    message = _OPTION.sub(lambda one: options.get(one[1], one[0]), message)
    return " ".join(clean(message).split())


class _Told(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        typer.echo(f"amem: {in_commands(record.getMessage(), {})}", err=True)


logging.lastResort = _Told(logging.WARNING)  # what the library logs is told as its errors are


def text_of(value: object) -> str:
    """Return a value as text: names and words with commas between them, a number with two decimals, else JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {text_of(one)}" for name, one in value.items())
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return ", ".join(value)
    return f"{value:.2f}" if isinstance(value, float) else json.dumps(value, ensure_ascii=False)


def dim(text: str) -> Text:
    """Return the explanation of a line above, on one line, styled."""
    return Text(one_line(text), style="dim")


def headline(note: Note) -> str:
    """Return date, speaker and content of a note on one line."""
    speaker = f"{note.speaker}: " if note.speaker else ""
    return one_line(f"{note.when:%Y-%m-%d}  {speaker}{note.content}")


def table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return a table of objects that have the same fields, in the style of all commands; what is None is left empty."""
    made = Table(*(name.replace("_", " ") for name in rows[0]), box=box.SIMPLE, pad_edge=False)
    for row in rows:
        cells = [format_namespace(row[name]) if name == "namespace" else row[name] for name in row]
        made.add_row(*("" if cell is None else Text(one_line(text_of(cell))) for cell in cells))
    return made


def listed(values: Any) -> Iterator[Line]:  # noqa: ANN401 - an object, as a mapping or a dataclass
    """Yield a line for each value that is not empty: the number of ids, the text of another, a table of objects."""
    for name, value in (values_of(values) if is_dataclass(values) else values).items():
        if isinstance(value, list) and value and not isinstance(value[0], str):
            yield table([values_of(one) if is_dataclass(one) else one for one in value])
        elif any(value.values()) if isinstance(value, Mapping) else value not in (None, "", (), []):
            shown = len(value) if isinstance(value, tuple) else value
            yield f"{name.replace('_', ' ')}: {text_of(shown)}"


def progress(stage: str) -> Callable[[int, int], None]:
    """Return a function that tells how far a stage is, on standard error and only on a terminal."""

    def show(done: int, total: int) -> None:
        if sys.stderr.isatty():
            typer.echo(f"\r{stage} {done}/{total}", err=True, nl=done == total)

    return show


def values_of(record: Any) -> dict[str, Any]:  # noqa: ANN401 - a dataclass
    """Return the fields of a note, hit or change by name."""
    return {one.name: getattr(record, one.name) for one in fields(record)}


def note_values(note: Note) -> dict[str, Any]:
    """Return a note as values for JSON, with what follows from its entries and supersessions."""
    made = ("keywords", "tags", "attributes_source", "superseded_by", "superseded_since")
    return values_of(note) | {name: getattr(note, name) for name in made}
