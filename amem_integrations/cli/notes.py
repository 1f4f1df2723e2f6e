"""`amem add`, `import`, `evolve`, `worker`, `search` and `show`: notes are stored, made, found and read."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from ..errors import InvalidInputError, ModelUnavailableError
from ..filters import check_count
from ..ids import now
from ..notes import RELATIONS, Namespace, Note, ScoredNote, Source, Via
from . import INTERRUPTED, app
from .app import Line, Session, dim, format_namespace, headline, note_values, short_id

if TYPE_CHECKING:
    from ..plans import EvolutionReport

Limit = Annotated[int, typer.Option("-k", "--limit")]


@app.command("add", app.MODEL, app.NAMESPACE, creates=True)
def add(
    amem: Session,
    content: str,
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
    if content == "-":  # there is no standard input where it was closed
        content = sys.stdin.read().strip() if sys.stdin else ""
    said: dict[str, Any] = {"key": key, "thread": thread, "speaker": speaker, "source": source}
    said |= {"at": at, "metadata": dict(map(_pair, metadata or [])), "expires_at": expires}
    note = amem.memory.add(content, namespace=amem.space, evolve=not later, **said)
    stored: Line = short_id(note.id), note.state, f"in {format_namespace(amem.space)}"
    amem.show(note_values(note), [stored, *_links(note, amem.notes(note.links))])


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise InvalidInputError(f"--metadata {text!r} is not of the form NAME=VALUE")
    return name, value


@app.command("import", app.MODEL, app.NAMESPACE, creates=True)
def import_(
    amem: Session,
    file: Path,
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
        thread: The conversation it belongs to.
        later: Store only; `amem evolve` makes and links the notes.
    """
    from .. import MemoryConfig, export_format, importers  # noqa: PLC0415 - they import numpy

    space, before = amem.any_space, dict[Namespace, int]()
    if format_ == "export" or (format_ == "auto" and export_format.is_export(file)):
        counts = export_format.summary(file).counts
        counts = counts if space is None else {space: sum(counts.values())}
        report = importers.ImportReport(format="export", found=counts)
        before = {each: amem.memory.stats(namespace=each)["notes"] for each in counts}
    else:
        read = importers.Source(file, thread=thread)
        report = importers.check(read, format_, MemoryConfig().max_content_chars)
        space = amem.space if () in report.found else space
    memory, made = amem.memory, dict[Namespace, dict[str, Any]]()
    with app.progress() as show:
        how: dict[str, Any] = {"namespace": space, "progress": partial(show, "storing")}
        if before:
            memory.import_(file, **how)
        else:
            how |= {"thread": thread, "evolve": False}
            report = importers.import_from(memory, file, report.format, **how)
            for each in () if later else report.found:
                done = _evolve(amem, each, show)
                told = {"links": done.links, "evolved": len(done.evolved), "failed": done.failed}
                made[each] = told
    rows = []
    for each, items in report.found.items():
        notes = memory.stats(namespace=each)["notes"]
        added = report.added.get(each, notes - before.get(each, 0))
        counted = {"items": items, "added": added, "notes": notes}
        rows.append({"namespace": each, **counted, **made.get(each, {})})
    told = {"format": report.format, "namespaces": rows, "skipped": report.skipped}
    amem.show({**told, "first_skipped": report.first_skipped})


@app.command("evolve", app.MODEL, app.NAMESPACE)
def evolve(amem: Session, upgrade: bool = False, retry: bool = False) -> None:
    """Finish what is unfinished.

    That is what was stored with --later, left over by Ctrl-C, or failed.

    Args:
        upgrade: Also redo notes that were made without a model.
        retry: Also try again notes that have failed too often.
    """
    with app.progress() as show:
        amem.show(_evolve(amem, amem.any_space, show, upgrade=upgrade, retry=retry))


def _evolve(
    amem: Session,
    space: Namespace | None,
    show: app.Show,
    **how: Any,  # noqa: ANN401 - of AgenticMemory.evolve
) -> EvolutionReport:
    """Evolve what is unfinished, or raise `ModelUnavailableError`; finished notes stay finished."""
    report = amem.memory.evolve(namespace=space, progress=partial(show, "linking"), **how)
    if report.interrupted:
        raise ModelUnavailableError(report.interrupted)
    return report


@app.command("worker", app.MODEL, app.NAMESPACE)
def worker(
    amem: Session,
    place: Annotated[str | None, typer.Argument(metavar="[LOCATION]")] = None,
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
    with _stopping() as stopped:
        report = amem.memory.work(namespace=amem.any_space, stop=stopped, **how)
    amem.show(report)
    if once and report.interrupted:
        raise ModelUnavailableError(report.interrupted)


@contextmanager
def _stopping() -> Iterator[Callable[[], bool]]:
    """Yield a function that says whether SIGTERM or SIGINT has come; at the second one the process ends."""
    came: list[int] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        came.append(number)
        if len(came) > 1:
            os._exit(INTERRUPTED)  # the model's call that it would wait for is in another thread

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield lambda: bool(came)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@app.command("search", app.EMBEDDER, app.NAMESPACE)
def search(
    amem: Session,
    query: str,
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
    try:
        conditions = None if where is None else json.loads(where)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"--where {where!r} is not JSON: {error}") from error
    if not isinstance(conditions, dict | None):
        raise InvalidInputError(f"--where {where!r} must be a JSON object")
    times: dict[str, Any] = {"as_of": as_of, "known_at": known_at}
    how: dict[str, Any] = {"min_similarity": min_similarity, "links": not no_links}
    hits = amem.memory.search(
        query, namespace=amem.space, k=limit, where=conditions, explain=explain, **times, **how
    )
    sources = amem.notes(step.note_id for hit in hits for step in _path(hit))
    values = [{**app.values_of(hit), "note": note_values(hit.note)} for hit in hits]
    lines = [line for hit in hits for line in _hit(hit, sources)]
    amem.show(values, lines or ["Nothing found."])


def _path(hit: ScoredNote) -> Sequence[Via]:
    return () if isinstance(hit.via, str) else hit.via


def _hit(hit: ScoredNote, sources: dict[str, Note]) -> Iterator[Line]:
    """Yield the lines of a hit: its passage, what is said against it, and how it was found."""
    past = hit.superseded_by is not None or hit.is_over
    title = Text(headline(hit.note), style="strike" if past else "")
    yield Text(f"{hit.score:.3f}", style="bold"), short_id(hit.note.id), title
    if hit.passage is not None:
        yield dim(f"      {hit.passage.start}-{hit.passage.end}: {hit.passage.text}")
    if hit.superseded_by is not None:
        since = hit.note.superseded_since
        when = f"since {since:%Y-%m-%d}" if since else ""
        yield "      superseded by", short_id(hit.superseded_by), when
    if hit.is_over and hit.note.holds_until is not None:
        yield f"      over since {hit.note.holds_until:%Y-%m-%d}"
    for other in hit.contradicted_by:
        yield "      contradicted by", short_id(other)
    for step in _path(hit):
        lead = "brought in for" if step.relation in RELATIONS else "over a link with"
        found = headline(sources[step.note_id]) if step.note_id in sources else "?"
        yield f"      {lead}", short_id(step.note_id), found
        yield dim(f"        {step.relation}: {step.reason} ({step.strength:.2f})")
    if (why := hit.why) is not None:
        cosine = "-" if hit.similarity is None else f"{hit.similarity:.2f}"
        ranks = f"dense rank {why.dense_rank or '-'}, BM25 rank {why.lexical_rank or '-'}"
        sums = f"match {why.match:.4f}, fusion {why.fusion:.4f}, spread {why.spread:.4f}"
        yield dim(f"      cosine {cosine}, {ranks}, {sums}")


@app.command("show", app.NAMESPACE)
def show(
    amem: Session,
    note: Annotated[str | None, typer.Argument(metavar="NOTE")] = None,
    limit: Limit = 20,
) -> None:
    """Show a note, or list the last ones.

    Args:
        note: Id, start of the id, or key; none: the last.
        limit: Most notes to show.
    """
    check_count("limit", limit)
    if note is None:
        store = amem.memory._runtime.store  # noqa: SLF001 - the public methods begin with the oldest
        found: Any = store.scan(amem.space, limit=limit, newest_first=True)
        last = [each for each in found[::-1] if not each.is_expired(now())]
        rows = app.table(list(map(_row, last))) if last else "No notes."
        amem.show([note_values(each) for each in last], [rows])
    else:
        one = amem.find(note)
        others = amem.notes([*one.supersessions, *one.links])
        amem.show(note_values(one), _note(one, others))


def _row(note: Note) -> dict[str, Any]:
    when, _, said = headline(note).partition("  ")
    known = {"id": note.id[: app.SHORT_ID], "when": when, "state": note.state}
    return {**known, "links": len(note.links), "said": said}


def _note(note: Note, others: dict[str, Note]) -> Iterator[Line]:
    """Yield the lines that show a note: its text and fields, contexts, what supersedes it, and links."""
    yield Text(app.clean(note.content), style="bold")
    words = ("speaker", "kind", "origin", "thread", "key", "state", "failure", "keywords", "tags")
    shown = {
        "id": note.id,
        "namespace": format_namespace(note.namespace),
        "when": f"{note.when:%Y-%m-%d %H:%M %Z}",
        "until": f"{note.holds_until:%Y-%m-%d %H:%M %Z}" if note.holds_until else None,
        **{name: getattr(note, name) for name in (*words, "metadata")},
    }
    yield from (f"{name:>12}  {app.text_of(value)}" for name, value in shown.items() if value)
    for entry in note.contexts:
        own = entry.cause == note.id
        yield f"{'context' if own else 'evolved':>12}  {entry.text}"
        cause = "" if own else f", because of {entry.cause[: app.SHORT_ID]}"
        yield dim(f"{'':14}by {entry.model}{cause}")
    titles = {note_id: headline(other) for note_id, other in others.items()}
    for newer, one in note.supersessions.items():
        verb = "superseded" if one.replaces else "contradicted"
        yield f"{verb:>12}  by", short_id(newer), titles.get(newer, "?")
        yield dim(f"{'':14}{one.relation}: {one.reason} (by {one.model})")
    yield from _links(note, others)


def _links(note: Note, others: Mapping[str, Note]) -> Iterator[Line]:
    for target, link in note.links.items():
        arrow = "->" if link.direction == "out" else "<-"
        title = headline(others[target]) if target in others else "?"
        yield f"{'link':>12}  {arrow}", short_id(target), title
        yield dim(f"{'':14}{link.relation}: {link.reason} ({link.strength:.2f})")
