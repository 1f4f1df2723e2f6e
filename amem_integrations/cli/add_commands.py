"""`amem add` and `amem evolve`; `amem import` evolves like the latter."""

from __future__ import annotations

import sys
from functools import partial
from typing import Annotated, Any

import typer

from .. import AgenticMemory
from ..errors import InvalidInputError, ModelUnavailableError
from ..ids import parse_time
from ..notes import Namespace, Note, Source
from ..plans import EvolutionReport
from .command import command
from .open_memory import notes_by_id, open_to_write
from .options import MODEL, NAMESPACE, Options, format_namespace
from .terminal import (
    StageProgress,
    console,
    note_values,
    one_line,
    print_json,
    print_result,
    progress,
    short_id,
)

app = typer.Typer(rich_markup_mode=None)


Content = Annotated[str, typer.Argument(help='What to remember; "-" reads standard input.')]
At = Annotated[str | None, typer.Option(help="When it happened: 2026-05-08 or 2026-05-08T18:30Z.")]
Expires = Annotated[
    str | None, typer.Option(help="From this time on it is not found: 2026-05-08T18:30Z.")
]
Key = Annotated[str | None, typer.Option(help="Identifies it; the same key again is a correction.")]
Thread = Annotated[str | None, typer.Option(help="The conversation it belongs to.")]
Speaker = Annotated[str | None, typer.Option(help="Who said it.")]
SourceOption = Annotated[Source, typer.Option(help="Where it comes from.")]
Metadata = Annotated[
    list[str] | None, typer.Option(metavar="NAME=VALUE", help="May be given several times.")
]
Later = Annotated[
    bool, typer.Option("--later", help="Store only; `amem evolve` makes and links the notes.")
]
Upgrade = Annotated[
    bool, typer.Option("--upgrade", help="Also redo notes that were made without a model.")
]
Retry = Annotated[
    bool, typer.Option("--retry", help="Also try again notes that have failed too often.")
]


@command(app, "add", MODEL, NAMESPACE)
def add(  # noqa: PLR0913, PLR0917 - options of a command
    options: Options,
    content: Content,
    at: At = None,
    key: Key = None,
    thread: Thread = None,
    speaker: Speaker = None,
    source: SourceOption = "user",
    metadata: Metadata = None,
    expires: Expires = None,
    later: Later = False,
) -> None:
    """Remember something.

    It is stored at once, then made into a note, linked and evolved.
    """
    arguments: dict[str, Any] = {
        "namespace": options.required_namespace,
        "at": None if at is None else parse_time(at),
        "key": key,
        "thread": thread,
        "speaker": speaker,
        "source": source,
        "metadata": dict(map(_parse_pair, metadata or [])),
        "expires_at": None if expires is None else parse_time(expires),
        "evolve": not later,
    }
    if content == "-":  # there is no standard input where it was closed
        content = sys.stdin.read().strip() if sys.stdin else ""
    with open_to_write(options, create=True) as memory:
        note = memory.add(content, **arguments)
        if options.as_json:
            print_json(note_values(note))
        else:
            _print_added(memory, note)


@command(app, "evolve", MODEL, NAMESPACE)
def evolve(options: Options, upgrade: Upgrade = False, retry: Retry = False) -> None:
    """Finish what is unfinished.

    That is what was stored with --later, left over by Ctrl-C, or failed.
    """
    with open_to_write(options) as memory, progress() as show:
        report = evolve_shown(memory, options.namespace, show, upgrade=upgrade, retry=retry)
    made = f"{report.links} links, {len(report.evolved)} notes evolved"
    print_result(
        f"{len(report.done)} notes finished; {made}", report.to_dict(), as_json=options.as_json
    )
    for note_id, reason in () if options.as_json else report.failed.items():
        console().print(short_id(note_id), "failed:", one_line(reason), soft_wrap=True)


def _parse_pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise InvalidInputError(f"--metadata {text!r} is not of the form NAME=VALUE")
    return name, value


def _print_added(memory: AgenticMemory, note: Note) -> None:
    out = console()
    out.print(short_id(note.id), note.state, f"in {format_namespace(note.namespace)}")
    linked = notes_by_id(memory, note.links, note.namespace)
    for target, link in note.links.items():
        content = linked[target].content if target in linked else "?"
        out.print("  linked to", short_id(target), one_line(content), soft_wrap=True)
        out.print(f"    {one_line(link.relation)}: {one_line(link.reason)}", soft_wrap=True)


def evolve_shown(
    memory: AgenticMemory,
    namespace: Namespace | None,
    show: StageProgress,
    *,
    upgrade: bool = False,
    retry: bool = False,
) -> EvolutionReport:
    """Evolve what is unfinished.

    Raises:
        ModelUnavailableError: The model did not answer; finished notes stay finished.
    """
    report = memory.evolve(
        namespace=namespace, upgrade=upgrade, retry=retry, progress=partial(show, "linking")
    )
    if report.interrupted:
        raise ModelUnavailableError(report.interrupted)
    return report
