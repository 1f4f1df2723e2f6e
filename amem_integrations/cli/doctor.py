"""`amem doctor`: checks a memory, and says what is wrong and what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.text import Text

from .. import AgenticMemory
from ..errors import StoreError
from ..fetch import note_pages
from ..filters import WITHOUT_VECTOR
from ..flows.writer import writer_of
from ..journal.erasure import resume_after_power_cut
from ..journal.projection import differing
from ..notes import Namespace, Note
from ..runtime import Runtime, resolve, sync_method
from ..stores.folder import MIN_FREE_BYTES, free_bytes, point_counts
from ..stores.sidecar import Sidecar
from .command import FAILED, command
from .open_memory import folder, folder_description, open_to_read, open_to_write
from .options import EMBEDDER, Options
from .terminal import SHORT_ID, clean, console, one_line, print_json

Level = Literal["good", "hint", "wrong"]

_EXAMPLES = 5
_MARKS: Mapping[Level, tuple[str, str]] = {
    "good": ("ok", "green"),
    "hint": ("note", "yellow"),
    "wrong": ("WRONG", "red"),
}

_PAIRS = {
    "dangling links": "lead to a note that is gone",
    "orphaned contexts": "name a note that is gone as their cause",
}

app = typer.Typer(rich_markup_mode=None)


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check: how it is, and what to do about it."""

    level: Level
    about: str
    text: str
    advice: str | None = None


@dataclass(slots=True)
class Survey:
    """Counts over all notes, and the ids of those that something is wrong with."""

    states: Counter[str] = field(default_factory=Counter)
    failed: list[Note] = field(default_factory=list)
    pairs: dict[str, list[tuple[str, str]]] = field(
        default_factory=lambda: {about: [] for about in _PAIRS}
    )
    without_vector: list[str] = field(default_factory=list)
    differing: list[str] = field(default_factory=list)
    deleted: int = 0
    links: int = 0

    @property
    def notes(self) -> int:
        """The number of notes."""
        return self.states.total()


Mend = Annotated[
    bool,
    typer.Option("--mend", help="First check all decisions, and make all views and vectors anew."),
]


@command(app, "doctor", EMBEDDER)
def doctor(options: Options, mend: Mend = False) -> None:
    """Check the memory, and say what is wrong.

    The status is 0 if nothing is wrong, and 1 if something is. Without --mend nothing is changed, except that
    opening a memory finishes what a killed process left half done.
    """
    checks = list(_checks(options, mend=mend))
    failed = any(check.level == "wrong" for check in checks)
    if options.as_json:
        print_json({"ok": not failed, "findings": [asdict(check) for check in checks]})
    else:
        _print(console(), checks, failed=failed)
    if failed:
        raise typer.Exit(FAILED)


@sync_method
async def _mend(runtime: Runtime, namespace: Namespace) -> None:
    """Believe nothing: look at the sources of all decisions again, and make all views and their vectors anew."""
    await resume_after_power_cut(writer_of(runtime, namespace))


def _print(out: Console, checks: Sequence[Check], *, failed: bool) -> None:
    for check in checks:
        mark, style = _MARKS[check.level]
        text = f"{check.about}: {one_line(check.text)}"
        out.print(Text(f"{mark:>6}", style), clean(text), soft_wrap=True)
        if check.advice:
            out.print(f"{'':6}   {clean(check.advice)}", soft_wrap=True)
    out.print("Something is wrong; see above." if failed else "All is well.")


def _checks(options: Options, *, mend: bool) -> Iterator[Check]:
    """Yield the result of each check; the last one is that of what stops all others."""
    try:
        description = None
        if not options.remote:
            description = folder_description(options)
            yield from _check_closing(description)
        if mend:
            with open_to_write(options) as memory:
                for namespace in _recorded(memory):
                    _mend(memory, namespace)
        with open_to_read(options) as (memory, _):
            info = memory.info()
            yield from _describe(info)
            survey = _survey(memory)
            survey.deleted = info.get("deleted_bytes", 0)
        yield from _check_notes(survey)
        if description is not None:
            yield from _check_points(options, description, survey)
            yield _check_disk(options)
    except (StoreError, OSError) as error:
        yield Check("wrong", "memory", str(error))


def _describe(info: Mapping[str, Any]) -> Iterator[Check]:
    """Show what the memory was made with, and which versions read it."""
    versions = ", ".join(f"{name} {version}" for name, version in info["versions"].items())
    yield Check("good", "versions", versions)
    made = f"{info['format']}, schema {info['schema']}, made {info['created_at']}"
    yield Check("good", "format", made)
    embedder = f"{info['embedder'] or 'unknown'}, {info['dimensions']} dimensions"
    yield Check("good", "embedder", embedder)


def _survey(memory: AgenticMemory) -> Survey:
    """Read all notes of all namespaces once."""
    survey = Survey()
    for namespace in memory.namespaces():
        _survey_namespace(memory, namespace, survey)
    return survey


@sync_method
async def _recorded(runtime: Runtime) -> list[Namespace]:
    """Return the namespaces that hold notes or records."""
    return await resolve(runtime.store.namespaces(recorded=True))


@sync_method
async def _survey_namespace(runtime: Runtime, namespace: Namespace, survey: Survey) -> None:
    """Read all notes, those that have expired too: they are there until they are swept."""
    store, writer = runtime.store, writer_of(runtime, namespace)
    notes: list[Note] = []
    async for page in note_pages(store, namespace):
        notes += page
        survey.differing += await differing(writer, [note.id for note in page])
    known = {note.id for note in notes}
    for note in notes:
        _survey_note(survey, note, known)
    async for page in note_pages(store, namespace, (WITHOUT_VECTOR,)):
        survey.without_vector += [note.id for note in page]


def _survey_note(survey: Survey, note: Note, known: Collection[str]) -> None:
    survey.states[note.state] += 1
    survey.links += sum(link.direction == "out" for link in note.links.values())
    if note.state == "failed":
        survey.failed.append(note)
    pairs = survey.pairs
    pairs["dangling links"] += [(note.id, end) for end in note.links if end not in known]
    causes = sorted({entry.cause for entry in note.contexts} - set(known))
    pairs["orphaned contexts"] += [(note.id, cause) for cause in causes]


def _check_notes(survey: Survey) -> Iterator[Check]:
    counts = [f"{count} {state}" for state, count in sorted(survey.states.items())]
    states = ", ".join(counts)
    text = f"{survey.notes}, {survey.links} links" + (f" ({states})" if states else "")
    yield Check("good", "notes", text)
    if waiting := survey.states["pending"] + survey.states["constructed"]:
        yield Check("hint", "unfinished", f"{waiting} notes wait to be linked", "run `amem evolve`")
    if survey.failed:
        advice = "run `amem evolve --retry` with a model to try again"
        yield Check("wrong", "failed", _failures(survey.failed), advice)
    if survey.without_vector:
        ids = ", ".join(note_id[:SHORT_ID] for note_id in survey.without_vector[:_EXAMPLES])
        text = f"{len(survey.without_vector)} notes are found by words only: {ids}"
        yield Check("wrong", "vectors", text, "run `amem doctor --mend`")
    for about, pairs in survey.pairs.items():
        yield _check_pairs(about, pairs)
    yield _check_views(survey)


def _check_views(survey: Survey) -> Check:
    if survey.differing:
        ids = ", ".join(note_id[:SHORT_ID] for note_id in survey.differing[:_EXAMPLES])
        text = f"{len(survey.differing)} notes do not show what was decided about them: {ids}"
        return Check("wrong", "views", text, "run `amem doctor --mend`")
    return Check("good", "views", "all notes show what was decided about them")


def _failures(failed: Sequence[Note]) -> str:
    shown = [f"{n.id[:SHORT_ID]}: {one_line(n.failure or '?')}" for n in failed[:_EXAMPLES]]
    more = [f"{len(failed) - len(shown)} more"] if len(failed) > len(shown) else []
    return "; ".join([f"{len(failed)} notes", *shown, *more])


def _check_pairs(about: str, pairs: Sequence[tuple[str, str]]) -> Check:
    if not pairs:
        return Check("good", about, "none")
    shown = ", ".join(f"{one[:SHORT_ID]} -> {other[:SHORT_ID]}" for one, other in pairs[:_EXAMPLES])
    advice = "searches leave them out; run `amem doctor --mend`"
    return Check("wrong", about, f"{len(pairs)} {_PAIRS[about]}: {shown}", advice)


def _check_closing(description: Sidecar) -> Iterator[Check]:
    if description.closed is None:
        text = "the last process was killed or did not close the memory; it has been put right"
        yield Check("hint", "closing", text)


def _check_points(options: Options, description: Sidecar, survey: Survey) -> Iterator[Check]:
    """Compare the number of points in the closed folder with that at its last closing, and with the notes."""
    counts = point_counts(folder(options))
    for name, before in (description.closed or {}).items():
        if (missing := before - counts.get(name, 0)) > 0:
            text = f"{missing} of {before} points are missing from {name}"
            yield Check("wrong", "points", text, "restore a backup, or import an export")
    if empty := counts["empty"]:
        text = f"{empty} points hold no note; they are left out of everything"
        yield Check("wrong", "points", text, "run `amem compact`")
    else:
        text = f"{counts['notes']} notes and tombstones, {counts['journal']} records"
        yield Check("good", "points", text)
    if survey.deleted:
        text = f"about {survey.deleted:,} bytes of deleted text still lie in the files"
        yield Check("hint", "deleted", text, "run `amem compact`")


def _check_disk(options: Options) -> Check:
    """Compare the free space with the size below which the memory refuses to write."""
    path = folder(options)
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    free = free_bytes(path)
    text = f"the memory takes up to {_mib(size)}, {_mib(free)} are free"
    if free >= 4 * MIN_FREE_BYTES:
        return Check("good", "disk", text)
    level: Level = "wrong" if free < MIN_FREE_BYTES else "hint"
    text = f"{text}; nothing is written below {_mib(MIN_FREE_BYTES)}"
    return Check(level, "disk", text, "make room")


def _mib(size: int) -> str:
    return f"{size / 2**20:,.0f} MiB"
