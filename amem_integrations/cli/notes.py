"""`amem add`, `import`, `evolve`, `worker`, `search` and `show`: notes are stored, made, found and read."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from ..errors import InvalidInputError, ModelUnavailableError
from ..ids import now
from ..notes import RELATIONS, Namespace, Note, ScoredNote, Source, Via
from . import app
from .app import SHORT_ID, Limit, Line, Session, dim, format_namespace, headline, note_values

if TYPE_CHECKING:
    from ..plans import EvolutionReport


@app.command("add", app.MODEL, app.NAMESPACE, creates=True)
def add(
    amem: Session,
    content: str,
    *,
    at: datetime | None = None,
    key: str | None = None,
    thread: str | None = None,
    speaker: str | None = None,
    source: Source = "user",
    metadata: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE")] = None,
    expires: datetime | None = None,
    later: bool = False,
) -> None:
    """Remember something.

    It is stored at once, then made into a note, linked and evolved.

    Args:
        content: What to remember; "-" reads standard input.
        at: When it happened: 2026-05-08 or 2026-05-08T18:30Z.
        key: Identifies it; the same key again is a correction.
        thread: The conversation it belongs to.
        speaker: Who said it.
        source: Where it comes from.
        metadata: May be given several times.
        expires: From this time on it is not found: 2026-05-08T18:30Z.
        later: Store only; `amem evolve` makes and links the notes.
    """
    if content == "-":
        content = sys.stdin.read().strip()
    said: dict[str, Any] = {"key": key, "thread": thread, "speaker": speaker, "source": source}
    said |= {"at": at, "metadata": dict(map(_pair, metadata or [])), "expires_at": expires}
    show_written(amem, amem.memory.add(content, namespace=amem.space, evolve=not later, **said))


def show_written(amem: Session, note: Note) -> None:
    """Print what became of a note that was added or corrected."""
    told = {"id": note.id, "state": note.state, "namespace": format_namespace(amem.space)}
    amem.show(note_values(note), app.listed({**told, "links": _links(amem, note)}))


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise InvalidInputError(f"--metadata {text!r} is not of the form NAME=VALUE")
    return name, value


@app.command("import", app.MODEL, app.NAMESPACE, creates=True)
def import_(
    amem: Session,
    file: Path,
    *,
    format_: Annotated[str, typer.Option("--from")] = "auto",
    thread: str | None = None,
    later: bool = False,
) -> None:
    """Import many notes from a file.

    What mem0, langmem, LangGraph, LangChain, LlamaIndex, ChatGPT or Claude have kept, chat histories, JSONL, or what
    `amem export` wrote. It says what it could not take. Ctrl-C leaves what was imported so far; the same command goes
    on from there. Files that say whose memory each item is are kept apart by it, below --namespace if that is given.

    Args:
        file: A file with notes or messages.
        format_: What made it: chatgpt, claude, mem0, langgraph, llamaindex, langchain, chat, jsonl, or export.
        thread: The conversation of what names none.
        later: Store only; `amem evolve` makes and links the notes.
    """
    from .. import MemoryConfig, importers  # noqa: PLC0415 - they import numpy
    from ..flows import transfer  # noqa: PLC0415

    if format_ not in (known := ("auto", "export", *importers.FORMATS)):
        raise InvalidInputError(f"unknown format {format_!r}; use one of {', '.join(known)}")
    if file.is_fifo():
        raise InvalidInputError(f"{file} is a pipe, and a file is read twice; give one on disk")
    bar = app.progress("storing")
    if format_ == "export" or (format_ == "auto" and transfer.is_export(file)):
        transfer.look_through(file, amem.any_space)  # before a memory is made for it
        count = amem.memory.import_(file, namespace=amem.any_space, progress=bar)
        amem.show({"format": "export", "notes": count})
        return
    read = importers.Source(file, thread=thread)
    checked = importers.check(read, format_, MemoryConfig().max_content_chars)
    space = amem.space if () in checked.found else amem.any_space
    how: dict[str, Any] = {"namespace": space, "thread": thread, "evolve": False, "progress": bar}
    report = importers.import_from(amem.memory, file, checked.format, **how)
    rows: list[dict[str, Any]] = [
        {"namespace": each, "items": n, "added": report.added[each]}
        for each, n in report.found.items()
    ]
    for row in () if later else rows:
        done = _evolve(amem, row["namespace"])
        row |= {"links": done.links, "evolved": len(done.evolved), "failed": done.failed}
    told = {"format": report.format, "namespaces": rows, "skipped": report.skipped}
    amem.show({**told, "first_skipped": report.first_skipped})


@app.command("evolve", app.MODEL, app.NAMESPACE)
def evolve(amem: Session, *, upgrade: bool = False, retry: bool = False) -> None:
    """Finish what is unfinished.

    That is what was stored with --later, left over by Ctrl-C, or failed.

    Args:
        upgrade: Also redo notes that were made without a model.
        retry: Also try again notes that have failed too often.
    """
    amem.show(_evolve(amem, amem.any_space, upgrade=upgrade, retry=retry))


def _evolve(amem: Session, space: Namespace | None, **how: Any) -> EvolutionReport:  # noqa: ANN401 - options
    """Evolve what is unfinished, or raise `ModelUnavailableError`; finished notes stay finished."""
    report = amem.memory.evolve(namespace=space, progress=app.progress("linking"), **how)
    if report.interrupted:
        raise ModelUnavailableError(report.interrupted)
    return report


@app.command("worker", app.MODEL, app.NAMESPACE)
def worker(
    amem: Session,
    place: str | None = None,
    *,
    once: bool = False,
    concurrency: Annotated[int, typer.Option(min=1)] = 4,
    budget: Annotated[int | None, typer.Option(min=0)] = None,
    poll: Annotated[float, typer.Option(min=0.01, metavar="SECONDS")] = 2.0,
) -> None:
    """Evolve what is pending, for as long as it runs.

    On a server any number of workers may run; in a folder it is the one process that has it open. Without --namespace
    it works for all. SIGTERM or Ctrl-C ends it when what is under way is finished; a second one, at once: the
    others then go on after some seconds.

    Args:
        place: The same as --memory.
        once: End when nothing is pending.
        concurrency: Most calls of the model at once.
        budget: Most calls of the model; then it ends.
        poll: How often it looks for new work.
    """
    amem.location = place or amem.location
    how: dict[str, Any] = {"once": once, "concurrency": concurrency, "budget": budget, "poll": poll}
    stopped = threading.Event()

    def stop(number: int, _frame: FrameType | None) -> None:
        stopped.set()
        signal.signal(number, signal.SIG_DFL)  # a second one ends the process at once

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    report = amem.memory.work(namespace=amem.any_space, stop=stopped.is_set, **how)
    amem.show(report)
    if once and report.interrupted:
        raise ModelUnavailableError(report.interrupted)


@app.command("search", app.EMBEDDER, app.NAMESPACE)
def search(
    amem: Session,
    query: str,
    *,
    limit: Limit = 10,
    where: str | None = None,
    min_similarity: float | None = None,
    as_of: datetime | None = None,
    known_at: datetime | None = None,
    no_links: bool = False,
    explain: bool = False,
) -> None:
    """Find notes by meaning, by words and over links.

    No chat model is called.

    Args:
        query: What to look for.
        limit: Most notes to show.
        where: Conditions as JSON: '{"speaker": "Ann", "metadata.city": {"$in": […]}}'.
        min_similarity: Least cosine of query and note.
        as_of: What was true at this time.
        known_at: What the memory believed at this time.
        no_links: Do not follow links.
        explain: Show ranks, match, fusion and spread.
    """
    from ..importers.source import parsed  # noqa: PLC0415 - imports a library for JSON

    how: dict[str, Any] = {"k": limit, "min_similarity": min_similarity, "explain": explain}
    how |= {"links": not no_links, "as_of": as_of, "known_at": known_at}
    how["where"] = parsed(where, f"--where {where!r}")
    hits = amem.memory.search(query, namespace=amem.space, **how)
    sources = amem.notes(step.note_id for hit in hits for step in hit.via if isinstance(step, Via))
    values = [{**app.values_of(hit), "note": note_values(hit.note)} for hit in hits]
    lines = [line for hit in hits for line in _hit(hit, sources)]
    amem.show(values, lines or ["Nothing found."])


def _hit(hit: ScoredNote, sources: Mapping[str, Note]) -> Iterator[Line]:
    """Yield the lines of a hit: its passage, what is said against it, and how it was found."""
    past = hit.superseded_by is not None or hit.is_over
    title = Text(headline(hit.note), style="strike" if past else "")
    yield f"{hit.score:.3f}", hit.note.id[:SHORT_ID], title
    if hit.passage is not None:
        yield dim(f"      {hit.passage.start}-{hit.passage.end}: {hit.passage.text}")
    if hit.superseded_by is not None:
        yield f"      superseded by {hit.superseded_by[:SHORT_ID]} since {hit.note.superseded_since:%Y-%m-%d}"
    if hit.is_over:
        yield f"      over since {hit.note.holds_until:%Y-%m-%d}"
    for other in hit.contradicted_by:
        yield f"      contradicted by {other[:SHORT_ID]}"
    for step in (one for one in hit.via if isinstance(one, Via)):
        lead = "brought in for" if step.relation in RELATIONS else "over a link with"
        yield f"      {lead} {step.note_id[:SHORT_ID]} {_headline(sources, step.note_id)}"
        yield dim(f"        {step.relation}: {step.reason} ({step.strength:.2f})")
    if hit.why is not None:
        why = {**app.values_of(hit.why), "cosine": hit.similarity}
        yield dim(f"      {app.text_of({name: n for name, n in why.items() if n is not None})}")


@app.command("show", app.NAMESPACE)
def show(amem: Session, note: str | None = None, *, limit: Limit = 20) -> None:
    """Show a note, or list the last ones.

    Args:
        note: Id, start of the id, or key; none: the last.
        limit: Most notes to show.
    """
    if note is None:
        store = amem.memory._runtime.store  # noqa: SLF001 - the public methods begin with the oldest
        found: Any = store.scan(amem.space, limit=limit, newest_first=True)
        last = [each for each in found[::-1] if not each.is_expired(now())]
        rows = app.table(list(map(_row, last))) if last else "No notes."
        amem.show([note_values(each) for each in last], [rows])
    else:
        one = amem.find(note)
        amem.show(note_values(one), app.listed(_told(amem, one)))


def _row(note: Note) -> dict[str, Any]:
    when, _, said = headline(note).partition("  ")
    known = {"id": note.id[:SHORT_ID], "when": when, "state": note.state}
    return {**known, "links": len(note.links), "said": said}


def _told(amem: Session, note: Note) -> dict[str, Any]:
    """Return the values of a note that are shown, by name: its text and fields, contexts, what supersedes it, and links."""
    words = ("content", "speaker", "kind", "origin", "thread", "key", "state", "failure")
    return {
        "id": note.id,
        "namespace": format_namespace(note.namespace),
        **{name: getattr(note, name) for name in words},
        "when": f"{note.when:%Y-%m-%d %H:%M %Z}",
        "until": f"{note.holds_until:%Y-%m-%d %H:%M %Z}" if note.holds_until else None,
        "metadata": note.metadata,
        "keywords": list(note.keywords),
        "tags": list(note.tags),
        "contexts": [
            {"context": entry.text, "by": entry.model, "because of": entry.cause[:SHORT_ID]}
            for entry in note.contexts
        ],
        "superseded": [
            {"by": newer, "relation": one.relation, "reason": one.reason, "model": one.model}
            for newer, one in note.supersessions.items()
        ],
        "links": _links(amem, note),
    }


def _links(amem: Session, note: Note) -> list[dict[str, Any]]:
    """Return the links of a note as rows of a table."""
    others = amem.notes(note.links)
    return [
        {"link": f"{'->' if link.direction == 'out' else '<-'} {target[:SHORT_ID]}"}
        | {"relation": link.relation, "reason": link.reason, "strength": link.strength}
        | {"said": _headline(others, target)}
        for target, link in note.links.items()
    ]


def _headline(notes: Mapping[str, Note], note_id: str) -> str:
    return headline(notes[note_id]) if note_id in notes else "?"
