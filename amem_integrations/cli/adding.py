"""`amem add`, `amem import` and `amem evolve`: what goes into the memory."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import InvalidInputError
from ..notes import Note
from ..plans import EvolutionReport
from .imports import Form, Part, origin, read, recognise
from .looks import console, one_line, progress, short
from .namespaces import format_namespace
from .opening import Opened, encoding
from .options import MODEL, NAMESPACE, Options, command
from .values import note_values, print_json
from .work import check_all, finish, store


class Origin(StrEnum):
    """Who a note comes from."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    IMPORT = "import"


Content = Annotated[str, typer.Argument(help='What to remember; "-" reads standard input.')]
At = Annotated[str | None, typer.Option(help="When it happened: 2026-05-08 or 2026-05-08T18:30Z.")]
Key = Annotated[str | None, typer.Option(help="Identifies it; the same key again is a correction.")]
Thread = Annotated[str | None, typer.Option(help="The conversation it belongs to.")]
Speaker = Annotated[str | None, typer.Option(help="Who said it.")]
Source = Annotated[Origin, typer.Option(help="Who it comes from.")]
Metadata = Annotated[
    list[str] | None, typer.Option(metavar="NAME=VALUE", help="May be given several times.")
]
Later = Annotated[
    bool, typer.Option("--later", help="Store only; `amem evolve` makes and links the notes.")
]
File = Annotated[Path, typer.Argument(metavar="FILE", help="What to import.")]
As = Annotated[Form, typer.Option("--format", help="What the file holds.")]
Upgrade = Annotated[
    bool, typer.Option("--upgrade", help="Also redo notes that were made without a model.")
]
Retry = Annotated[
    bool, typer.Option("--retry", help="Also try again what has failed too often to be tried.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, "add", MODEL, NAMESPACE)(add)
    command(app, "import", MODEL, NAMESPACE)(import_)
    command(app, "evolve", MODEL, NAMESPACE)(evolve)


def add(
    options: Options,
    content: Content,
    at: At = None,
    key: Key = None,
    thread: Thread = None,
    speaker: Speaker = None,
    source: Source = Origin.USER,
    metadata: Metadata = None,
    later: Later = False,
) -> None:
    """Remember something.

    It is stored at once, then made into a note, linked and evolved.
    """
    space, when, named = options.space, parse_time(at), dict(map(_pair, metadata or []))
    text = sys.stdin.read().strip() if content == "-" else content
    with encoding(options, create=True) as opened:
        note = opened.memory.add(
            text,
            namespace=space,
            at=when,
            key=key,
            thread=thread,
            speaker=speaker,
            source=source.value,
            metadata=named,
            evolve=not later,
        )
        if options.as_json:
            print_json(note_values(note))
        else:
            _print_added(opened, note)


def _print_added(opened: Opened, note: Note) -> None:
    out = console()
    out.print(short(note.id), note.state, f"in {format_namespace(note.namespace)}")
    for target, link in note.links.items():
        other = opened.memory.get(target, namespace=note.namespace)
        out.print("  linked to", short(target), one_line(other.content), soft_wrap=True)
        out.print(f"    {one_line(link.relation)}: {one_line(link.reason)}", soft_wrap=True)


def import_(
    options: Options, file: File, form: As = Form.AUTO, thread: Thread = None, later: Later = False
) -> None:
    """Import many notes from a file.

    What `amem export` wrote, JSONL, a LoCoMo file, a mem0 export, the items of a LangGraph store, or a
    chat history. Ctrl-C leaves what was imported so far; the same command goes on from there. Files that say whose
    memory each item is (LoCoMo, mem0, LangGraph) are kept apart by it, below --namespace if that is given.
    """
    if recognise(file, form) is Form.EXPORT:
        _import_export(options, file)
        return
    parts = read(file, form, thread=thread)
    if any(not part.labels for part in parts):
        options.space  # noqa: B018 - raises while nothing has been written
    for part in parts:
        check_all(part.items)
    base = options.optional_space or ()
    with encoding(options, create=True) as opened:
        rows = [_import_part(opened, part, (*base, *part.labels), later=later) for part in parts]
    if options.as_json:
        print_json(rows)
        return
    for row in rows:
        _print_imported(row)


def _import_export(options: Options, file: Path) -> None:
    """Bring in what `amem export` wrote, with links, contexts and history."""
    space = options.optional_space or origin(file)
    with encoding(options, create=True) as opened, progress() as tell:
        before = opened.memory.stats(namespace=space)["notes"]
        items = opened.memory.import_(
            file, namespace=space, progress=lambda done, total: tell("storing", done, total)
        )
        after = opened.memory.stats(namespace=space)["notes"]
    row = {"namespace": list(space), "items": items, "added": after - before, "notes": after}
    if options.as_json:
        print_json([row])
        return
    text = f"{format_namespace(space)}: {row['added']} notes added, with links and history"
    known = f", {items - after + before} were there" if items > after - before else ""
    console().print(text + known, soft_wrap=True)


def _import_part(
    opened: Opened, part: Part, space: tuple[str, ...], *, later: bool
) -> dict[str, Any]:
    memory = opened.memory
    before = memory.stats(namespace=space)["notes"]
    with progress() as tell:
        store(memory, space, part.items, tell)
        report = EvolutionReport() if later else finish(memory, space, tell)
    after = memory.stats(namespace=space)
    return {
        "namespace": list(space),
        "items": len(part.items),
        "added": after["notes"] - before,
        "links": report.links,
        "evolved": len(report.evolved),
        "failed": dict(report.failed),
        "notes": after["notes"],
    }


def _print_imported(row: dict[str, Any]) -> None:
    known = row["items"] - row["added"]
    there = f", {known} were there" if known else ""
    made = f"{row['links']} links, {row['evolved']} notes evolved"
    failed = f", {len(row['failed'])} failed: see `amem doctor`" if row["failed"] else ""
    space = format_namespace(row["namespace"])
    console().print(f"{space}: {row['added']} notes added{there}; {made}{failed}", soft_wrap=True)


def evolve(options: Options, upgrade: Upgrade = False, retry: Retry = False) -> None:
    """Finish what is unfinished.

    That is what was stored with --later, left over by Ctrl-C, or failed.
    """
    with encoding(options) as opened, progress() as tell:
        space = options.optional_space
        report = finish(opened.memory, space, tell, upgrade=upgrade, retry=retry)
    if options.as_json:
        print_json(report.to_dict())
        return
    made = f"{report.links} links, {len(report.evolved)} notes evolved"
    console().print(f"{len(report.done)} notes finished; {made}", soft_wrap=True)
    for note_id, reason in report.failed.items():
        console().print(short(note_id), "failed:", one_line(reason), soft_wrap=True)


def parse_time(text: str | None) -> datetime | None:
    """Return the time that a text stands for; without a zone it is taken as UTC.

    Raises:
        InvalidInputError: It is no time.
    """
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidInputError(f"{text!r} is no time such as 2026-05-08T18:30Z") from error
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise InvalidInputError(f"--metadata {text!r} is not of the form NAME=VALUE")
    return name, value
