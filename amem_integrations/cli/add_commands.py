"""`amem add`, `amem import` and `amem evolve`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import AgenticMemory
from ..config import MemoryConfig
from ..errors import InvalidInputError, ModelUnavailableError
from ..notes import Namespace, Note, NoteInput, Source, check_note_input
from ..plans import EvolutionReport
from .command import command
from .importers import Format, Part, export_namespace, is_export, read
from .open_memory import notes_by_id, open_to_write
from .options import MODEL, NAMESPACE, Options, format_namespace, parse_time
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

BATCH = 64  # notes stored at once: about a second of embedding

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
File = Annotated[Path, typer.Argument(metavar="FILE", help="What to import.")]
FileFormat = Annotated[Format, typer.Option("--format", help="The format of the file.")]
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
    text = sys.stdin.read().strip() if content == "-" else content
    with open_to_write(options, create=True) as memory:
        note = memory.add(text, **arguments)
        if options.as_json:
            print_json(note_values(note))
        else:
            _print_added(memory, note)


@command(app, "import", MODEL, NAMESPACE)
def import_(
    options: Options,
    file: File,
    format_: FileFormat = Format.AUTO,
    thread: Thread = None,
    later: Later = False,
) -> None:
    """Import many notes from a file.

    What `amem export` wrote, JSONL, a LoCoMo file, a mem0 export, the items of a LangGraph store, or a
    chat history. Ctrl-C leaves what was imported so far; the same command goes on from there. Files that say whose
    memory each item is (LoCoMo, mem0, LangGraph) are kept apart by it, below --namespace if that is given.
    """
    if is_export(file, format_):
        _import_export(options, file)
        return
    parts = read(file, format_, thread=thread)
    if any(not part.namespace for part in parts):
        options.required_namespace  # noqa: B018 - raises before anything is written
    for part in parts:
        _check_all(part.items)
    base = options.namespace or ()
    with open_to_write(options, create=True) as memory:
        rows = [_import_part(memory, part, (*base, *part.namespace), later=later) for part in parts]
    if options.as_json:
        print_json(rows)
        return
    for row in rows:
        console().print(_imported(row), soft_wrap=True)


@command(app, "evolve", MODEL, NAMESPACE)
def evolve(options: Options, upgrade: Upgrade = False, retry: Retry = False) -> None:
    """Finish what is unfinished.

    That is what was stored with --later, left over by Ctrl-C, or failed.
    """
    with open_to_write(options) as memory, progress() as show:
        report = _evolve(memory, options.namespace, show, upgrade=upgrade, retry=retry)
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


def _check_all(items: Sequence[NoteInput]) -> None:
    """Check all items before the first one is stored."""
    most = MemoryConfig().max_content_chars
    for number, item in enumerate(items, start=1):
        try:
            check_note_input(item, most)
        except InvalidInputError as error:
            raise InvalidInputError(f"item {number}: {error}") from error


def _import_part(
    memory: AgenticMemory, part: Part, namespace: Namespace, *, later: bool
) -> dict[str, Any]:
    before = memory.stats(namespace=namespace)["notes"]
    report = EvolutionReport()
    with progress() as show:
        # Stored in batches, so that after Ctrl-C the next import goes on from the last batch.
        for start in range(0, len(part.items), BATCH):
            batch = part.items[start : start + BATCH]
            memory.add_many(batch, namespace=namespace, evolve=False)
            show("storing", start + len(batch), len(part.items))
        if not later:
            report = _evolve(memory, namespace, show)
    after = memory.stats(namespace=namespace)["notes"]
    return {
        "namespace": list(namespace),
        "items": len(part.items),
        "added": after - before,
        "links": report.links,
        "evolved": len(report.evolved),
        "failed": dict(report.failed),
        "notes": after,
    }


def _imported(row: dict[str, Any]) -> str:
    known = row["items"] - row["added"]
    there = f", {known} were there" if known else ""
    made = f"{row['links']} links, {row['evolved']} notes evolved"
    failed = f", {len(row['failed'])} failed: see `amem doctor`" if row["failed"] else ""
    return (
        f"{format_namespace(row['namespace'])}: {row['added']} notes added{there}; {made}{failed}"
    )


def _import_export(options: Options, file: Path) -> None:
    """Import what `amem export` wrote, with links, contexts and history."""
    namespace = options.namespace or export_namespace(file)
    with open_to_write(options, create=True) as memory, progress() as show:
        before = memory.stats(namespace=namespace)["notes"]
        items = memory.import_(file, namespace=namespace, progress=partial(show, "storing"))
        after = memory.stats(namespace=namespace)["notes"]
    added = after - before
    known = f", {items - added} were there" if items > added else ""
    text = f"{format_namespace(namespace)}: {added} notes added, with links and history{known}"
    row = {"namespace": list(namespace), "items": items, "added": added, "notes": after}
    print_result(text, [row], as_json=options.as_json)


def _evolve(
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
