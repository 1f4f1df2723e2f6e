"""The options of the commands of `python -m benchmarks.evaluation`, and what they mean."""

# ruff: noqa: RUF009 - a field is made with its option

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, get_type_hints

import typer

from amem_integrations.cli.options import Ports
from amem_integrations.cli.terminal import console, progress
from amem_integrations.cli.terminal import table as rich_table
from amem_integrations.errors import InvalidInputError

from .cache import write_json
from .document import COSTS, Section, System, Values, markdown, system
from .models import Backend, Models, Named, Reply, Served
from .systems import Settings

_EMBEDDER = "a sentence-transformers model by name or folder, openai:NAME, fastembed:NAME, python:MODULE:NAME, or hash (words only, for comparison)"


def _option(default: Any, help_: str, *flags: str, **more: Any) -> Any:  # noqa: ANN401
    given = typer.Option(default, *flags, help=help_, **more)
    return field(default=default, metadata={"option": given})


def _argument(metavar: str, help_: str) -> Any:  # noqa: ANN401
    return field(metadata={"option": typer.Argument(metavar=metavar, help=help_)})


# fmt: off
@dataclass(slots=True, kw_only=True)
class Run:
    """The options of every command. A field is an option: its type, default and help."""

    out: Path = _option(Path("report"), "Folder for the reports: JSON, Markdown, HTML.")
    embedder: str | None = _option(None, f"{_EMBEDDER[0].upper()}{_EMBEDDER[1:]}; by default all-MiniLM-L6-v2.", metavar="NAME")
    no_progress: bool = _option(False, "Show no progress bar.", "--no-progress")
    as_json: bool = _option(False, "Print the report as JSON.", "--json")
    ports: Ports = field(default_factory=Ports)
# fmt: on

    def showing_progress(self) -> AbstractContextManager[Callable[[str, int, int], None]]:
        """Show how far the run is, if that is wanted."""
        return nullcontext(lambda *_: None) if self.no_progress else progress()

    def write(self, name: str, title: str, report: Values, sections: Iterator[Section]) -> None:
        """Write a report as JSON, Markdown and on the page; print it as JSON, or its first tables."""
        from . import page  # noqa: PLC0415 - slow, and needs an extra

        shown = list(sections)
        self.out.mkdir(parents=True, exist_ok=True)
        write_json(self.out / f"{name}.json", report)
        text = markdown(title, shown, report["settings"])
        (self.out / f"{name}.md").write_text(text, encoding="utf-8")
        written = page.write(self.out)
        if self.as_json:
            typer.echo(json.dumps(report, indent=2))
            return
        for table in (one.tables[0] for one in shown if one.tables and one.title != COSTS):
            printed = rich_table(*table.head, title=table.caption)
            for row in table.rows:
                cells = (system(cell) if isinstance(cell, System) else cell for cell in row)
                printed.add_row(*(cell.partition("\n")[0] for cell in cells))  # without intervals
            console().print(printed)
        typer.echo(str(written))


# fmt: off
@dataclass(slots=True, kw_only=True)
class Ask(Run):
    """The options of commands that have a model asked about a `dataset`."""

    dataset: Path
    answer: bool = _option(False, "Have a chat model answer the questions (needs --model).", "--answer")
    model: str | None = _option(None, "The chat model. It answers, and it writes the notes of the conversations that have no annotations; without one notes are made by rules.")
    backend: Backend = _option("openai", "What serves the model; decides the default address.")
    base_url: str | None = _option(None, "Where the model is served, if not at the backend's usual address. The key is read from OPENAI_API_KEY.")
    temperature: float = _option(0.0, "Of the model.")
    reply: Reply = _option("auto", "How JSON is asked for: by schema, as any JSON, by tool call, in words; auto takes the first of them that the endpoint accepts.")
    rule_notes: bool = _option(False, "The model only answers; notes are made by rules.", "--rule-notes")
    judge: str | None = _option(None, "A chat model that says which answers are correct.", metavar="MODEL")
    judge_base_url: str | None = _option(None, "Where the judge is served; by default like the model.")
    concurrency: int = _option(4, "Questions asked at once.")
    build_concurrency: int = _option(4, "Batches of new notes asked about at once; they do not see each other, so it is part of what decides a memory.")
    price_input: float | None = _option(None, "Price of a million input tokens of the model.")
    price_output: float | None = _option(None, "Price of a million output tokens.")
    cache: Path | None = _option(None, "Folder in which memories, replies and vectors are kept, so that a run that was stopped goes on; by default `cache` in the folder of the reports.")
# fmt: on

    @property
    def served(self) -> dict[str, Served]:
        """The `model` and the `judge`, as far as they are named; by default the judge is served like the model."""
        judge_url = self.judge_base_url or self.base_url
        named = {"model": (self.model, self.base_url), "judge": (self.judge, judge_url)}
        return {
            role: Served(
                model=name,
                backend=self.backend,
                base_url=base_url,
                temperature=self.temperature,
                reply=self.reply,
            )
            for role, (name, base_url) in named.items()
            if name is not None
        }

    @property
    def prices(self) -> dict[str, tuple[float, float]]:
        """Prices of a million tokens, in and out, by stage; the judge's if it is the same model."""
        if self.price_input is None or self.price_output is None:
            if self.price_input is self.price_output:
                return {}
            raise InvalidInputError("costs need both --price-input and --price-output")
        same = self.served.get("model") == self.served.get("judge")
        stages = ("build", "answer", "judge") if same else ("build", "answer")
        return dict.fromkeys(stages, (self.price_input, self.price_output))

    def settings(self, ks: tuple[int, ...], answer_ks: tuple[int, ...], **more: Any) -> Settings:  # noqa: ANN401
        """Return the settings of a run; `more` are other fields."""
        return Settings(
            ks=ks,
            answer_ks=answer_ks if self.answer else (),
            concurrency=self.concurrency,
            build_concurrency=self.build_concurrency,
            **more,
        )

    def models(self) -> Models:
        """Return the chat models; options that do not fit each other are an `InvalidInputError`."""
        if self.answer and self.model is None:
            raise InvalidInputError("--answer needs --model: the name of a chat model")
        if self.judge is not None and not self.answer:
            raise InvalidInputError("--judge needs --answer: there is nothing else to judge")
        named = {
            role: Named(model=one.connect(), identity=one.identity)
            for role, one in self.served.items()
        }
        model = named.get("model")
        writer, answerer = None if self.rule_notes else model, model if self.answer else None
        return Models(writer=writer, answerer=answerer, judge=named.get("judge"))

    def models_described(self) -> dict[str, Any]:
        """Return how the models were asked, as JSON values, without keys and passwords."""
        found: dict[str, Any] = {"notes": (None if self.rule_notes else self.model) or "rules"}
        for role, one in self.served.items():
            address = re.sub(r"//[^/@]*@", "//", one.address or "") or None
            found[role] = {**asdict(one), "base_url": address}
        return found


# fmt: off
@dataclass(slots=True, kw_only=True)
class Locomo(Ask):
    """The options of commands on LoCoMo."""

    dataset: Path = _argument("DATASET", "A file in the form of locomo10.json.")
    annotations: list[Path] | None = _option(None, "What a language model wrote about a conversation, such as conv-26.annotations.jsonl; may be given several times.")
    conversations: str = _option("", "Ids, separated by commas; all conversations by default.")
    ratio: float = _option(1.0, "Share of the conversations to run: the first ones, at least one.")
    golds: Path | None = _option(None, "A file with corrected answers or evidence of questions.")


@dataclass(slots=True, kw_only=True)
class Compare(Locomo):
    """The options of `python -m benchmarks.evaluation locomo`."""

    k: str = _option("5,10,20", "How many of the first hits count, for each figure.")
    answer_k: int = _option(10, "How many of the first hits the model answers from.")
    budget: str = _option("", "Tokens that recall may fill, such as 600,1100,2100: what evidence is in them and, with --answer, what the model answers from them (in place of --answer-k).", metavar="TOKENS")
    digests: bool = _option(False, "Have the model (see --model) write digests while the memory is built, and compare with the same memory without them.", "--digests")
    baselines: bool = _option(False, "Compare with plain rankings of the turns and, for answers, the whole conversation.", "--baselines")
    ablations: bool = _option(False, "Compare with the memory without links, without evolution, without both, and built by the paper's calls.", "--ablations")


@dataclass(slots=True, kw_only=True)
class Sweep(Locomo):
    """The options of `python -m benchmarks.evaluation sweep`."""

    k: str = _option("10..50", "Numbers of hits: 10..50 (in steps of ten), 10..50:5, or 5,10,20.")
    choose: str = _option("", "Conversations on which the number is chosen; it is reported on the others. By default the first half chooses.")


@dataclass(slots=True, kw_only=True)
class Simulate(Ask):
    """The options of `python -m benchmarks.evaluation dialsim`."""

    dataset: Path = _argument("FILE", "A show as published (friends_dialsim.pickle, unpacked), or the same as JSON.")
    agent: str | None = _option(None, "Who is asked; known for friends, bigbang and theoffice.")
    rename: list[str] | None = _option(None, "Another name for a character, so that the model cannot answer from what it knows of the show; may be given several times.", metavar="OLD=NEW")
    sessions: int | None = _option(None, "How many sessions, from the first one.", min=1)
    questions: int | None = _option(None, "How many questions at most.")
    seed: int = _option(0, "Decides which questions are asked, when and by whom.")
    k: int = _option(20, "How many notes the model answers from.")
    formats: str = _option("choice,open", "How questions are asked: choice (of five options), open, or both.")


@dataclass(slots=True, kw_only=True)
class Scale(Run):
    """The options of `python -m benchmarks.evaluation scale`."""

    sizes: str = _option("1000,10000,100000", "Numbers of notes, separated by commas.")
    queries: int = _option(50, "How many searches are timed, several times each.")
    embedder: str | None = _option(None, f"Also time the encoding of a query: {_EMBEDDER}.", metavar="NAME")
# fmt: on


def options_of(kind: type[Run], *without: str) -> dict[str, tuple[Any, Any]]:
    """Return the options of a command by name, those of its own first: type, and how it is given."""
    hints = get_type_hints(kind)
    order = [name for one in kind.__mro__ for name in getattr(one, "__annotations__", ())]
    given = {one.name: one.metadata["option"] for one in fields(kind) if "option" in one.metadata}
    return {
        name: (hints[name], given[name])
        for name in dict.fromkeys(order)
        if name in given and name not in without
    }


def numbers(text: str, option: str = "k", example: str = "5,10,20 or 10..50:5") -> tuple[int, ...]:
    """Return the numbers in `5,10,20`, in `10..50` (in steps of ten) or in `10..50:5`, sorted."""
    try:
        return tuple(sorted({number for part in text.split(",") for number in _span(part)}))
    except ValueError as error:
        raise InvalidInputError(f"{option}={text!r} must be numbers such as {example}") from error


def _span(part: str) -> Sequence[int]:
    if ".." not in part:
        return [int(part)]
    bounds, _, step = part.partition(":")
    first, last = map(int, bounds.split(".."))
    return range(first, last + 1, int(step or 10))


def names(text: str) -> list[str]:
    """Return the names in a list with commas."""
    return [name for name in (part.strip() for part in text.split(",")) if name]
