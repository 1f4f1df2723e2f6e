"""`amem stats`, `export`, `reindex`, `sweep`, `optimize`, `compact` and `doctor`: how a memory is, and what keeps it well."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import typer
from rich.text import Text

from ..errors import ConfigurationError, StoreError
from ..notes import Namespace
from . import app
from .app import SHORT_ID, Line, Session, format_namespace

COLUMNS = ("notes", "threads", "links", "evolved", "without_links", "superseded", "duplicates")
UNFINISHED = ("pending", "constructed", "failed")
SHOWN = 5  # notes that a finding names

Level = Literal["good", "hint", "wrong"]
_MARKS: Mapping[Level, tuple[str, str]] = {
    "good": ("ok", "green"),
    "hint": ("note", "yellow"),
    "wrong": ("WRONG", "red"),
}


@app.command("stats", app.NAMESPACE)
def stats(amem: Session) -> None:
    """Count notes, links and states, and what needs a look.

    That is what is superseded, said twice, without links, unfinished, or waits for a decision.
    """
    spaces = [amem.any_space] if amem.any_space else amem.memory.namespaces()
    counts = {each: amem.memory.stats(namespace=each) for each in spaces}
    total = amem.memory.stats(namespace=amem.any_space)
    rows = [{**values, "namespace": each} for each, values in counts.items()]
    amem.show({**total, "by_namespace": rows}, _stats(counts, total))


def _stats(
    counts: Mapping[Namespace, Mapping[str, Any]], total: Mapping[str, Any]
) -> Iterator[Line]:
    """Yield the table of the namespaces, and below it what no column holds."""
    states = [state for state in UNFINISHED if total["states"].get(state)]
    rows = app.table("namespace", *(name.replace("_", " ") for name in COLUMNS), *states)
    for column in rows.columns[1:]:
        column.justify = "right"
    titled = {app.one_line(format_namespace(each)): values for each, values in counts.items()}
    for title, values in [*titled.items(), *([("all", total)] if len(counts) > 1 else [])]:
        numbers = [values[name] for name in COLUMNS] + [values["states"].get(s, 0) for s in states]
        rows.add_row(title, *map(str, numbers), end_section=title == list(titled)[-1])
    yield rows
    degree, cost = total["degree"], total["cost"]
    yield (
        f"links a note: {degree['min']} to {degree['max']}, median {degree['median']}, "
        f"nine of ten have at most {degree['p90']}"
    )
    yield f"superseded: {total['superseded_share']:.1%} of the notes"
    named = {"proposals": "proposals that wait", "rejected_replies": "rejected replies"}
    for name, what in named.items():
        if total[name]:
            yield f"{what}: {', '.join(f'{model} {count}' for model, count in total[name].items())}"
    if cost["calls"]:
        tokens = cost["input_tokens"] + cost["output_tokens"]
        yield f"cost: {cost['calls']:,} calls, {tokens:,} tokens, {cost['tokens_per_note']:,} a note"
    yield from total["stopped"]


@app.command("export", app.NAMESPACE)
def export(amem: Session, file: Path) -> None:
    """Write a namespace, or all, to a file, with links and history.

    `amem import` reads it back, exactly. The file is written whole or not at all. Without --namespace it holds all
    namespaces, with what models have cost: a backup, and the way from a folder to a server.

    Args:
        file: Where to write, as lines of JSON; "-" is standard output.
    """
    space = amem.any_space
    with tempfile.TemporaryDirectory(prefix="amem-export-") as folder:
        piped = str(file) == "-"
        whole = Path(folder) / "export.jsonl" if piped else file
        count = amem.memory.export(whole, namespace=space)
        if piped:
            with whole.open("rb") as lines:  # in UTF-8, whatever the terminal's encoding is
                shutil.copyfileobj(lines, sys.stdout.buffer)
            return
    whose = format_namespace(space) if space else "all namespaces"
    values = {"file": str(file), "namespace": space, "notes": count}
    amem.show(values, [f"{file}: {count} notes of {whose}"])


@app.command("reindex", app.EMBEDDER)
def reindex(amem: Session) -> None:
    """Embed all notes again, with the same embedder or another.

    With another one (--embedder) a folder is built anew beside the old one and takes its place when it is
    complete; Ctrl-C leaves the old one.
    """
    from ..reindex import rebuild  # noqa: PLC0415 - imports numpy

    made = amem.place.made_with()
    with app.progress() as show:
        embedding = partial(show, "embedding")
        if amem.embedder in (None, made):
            count, name = amem.memory.reindex(progress=embedding), made
        else:
            embedder = amem.ports.embedder(amem.embedder, amem.base_url)
            count, name = rebuild(amem.place, embedder, embedding), embedder.name
    amem.show({"notes": count, "embedder": name}, [f"{count} notes encoded by {name}"])


@app.command("sweep", app.EMBEDDER, app.NAMESPACE)
def sweep(amem: Session) -> None:
    """Delete the notes that have expired.

    They go as by `amem delete`; until then they are stored, but found by no command that reads notes. Without
    --namespace it is done in all namespaces.
    """
    count = amem.memory.sweep(namespace=amem.any_space)
    amem.show({"deleted": count}, [f"{count} expired notes deleted"])


@app.command("optimize")
def optimize(amem: Session) -> None:
    """Build the index for very many notes.

    It is the graph that finds neighbours quickly (HNSW), worth it from about 200,000 notes in a folder. It
    takes minutes, and cannot be interrupted.
    """
    _require_folder(amem)
    done = amem.memory.optimize()
    text = "The graph is built." if done else "Nothing to do: exact search is quick enough here."
    amem.show({"optimized": done}, [text])


@app.command("compact")
def compact(amem: Session) -> None:
    """Write a folder anew, without the bytes of what was deleted.

    Until then the engine only marks them as gone. It takes about as long as an import.
    """
    from ..stores.folder import used_bytes  # noqa: PLC0415 - imports the engine

    _require_folder(amem)
    before = used_bytes(amem.place.folder)
    amem.memory.compact()
    amem.close()
    after = used_bytes(amem.place.folder)
    text = f"The folder takes {after:,} bytes; it took {before:,}."
    amem.show({"before": before, "after": after}, [text])


def _require_folder(amem: Session) -> None:
    if amem.place.is_served:
        raise ConfigurationError(
            f"{amem.location!r} is no folder; a server maintains its collections by itself"
        )


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check: how it is, and what to do about it."""

    level: Level
    about: str
    text: str
    advice: str | None = None


@app.command("doctor", app.EMBEDDER)
def doctor(amem: Session, mend: bool = False) -> None:
    """Check the memory, and say what is wrong.

    The status is 0 if nothing is wrong, and 1 if something is. Without --mend nothing is changed, except that
    opening a memory finishes what a killed process left half done.

    Args:
        mend: First check all decisions, and make every view anew.
    """
    checks = list(_checks(amem, mend=mend))
    failed = any(check.level == "wrong" for check in checks)
    values = {"ok": not failed, "findings": [asdict(check) for check in checks]}
    amem.show(values, _findings(checks, failed=failed))
    if failed:
        raise typer.Exit(app.FAILED)


def _findings(checks: Sequence[Check], *, failed: bool) -> Iterator[Line]:
    for check in checks:
        mark, style = _MARKS[check.level]
        yield Text(f"{mark:>6}", style), f"{check.about}: {check.text}"
        if check.advice:
            yield f"{'':9}{check.advice}"
    yield "Something is wrong; see above." if failed else "All is well."


def _checks(amem: Session, *, mend: bool) -> Iterator[Check]:
    """Yield the result of each check; an error that stops all others is the last one."""
    from ..flows.overview import unsound  # noqa: PLC0415 - imports numpy
    from ..flows.writing import make_views_anew  # noqa: PLC0415
    from ..runtime import run  # noqa: PLC0415

    try:
        closed: Mapping[str, int] = {}
        if not amem.place.is_served:
            closed = amem.place.description().closed or {}
            if not closed:
                text = (
                    "the last process was killed or did not close the memory; it has been put right"
                )
                yield Check("hint", "closing", text)
        if mend:
            with amem.write() as memory:
                run(make_views_anew(memory._runtime))  # noqa: SLF001
        with amem.read() as memory:
            info, counts = memory.info(), memory.stats()
            bare, differing, failed = run(unsound(memory._runtime))  # noqa: SLF001
        yield from _describe(info, counts)
        if failed:
            advice = "run `amem evolve --retry` with a model to try again"
            told = "; ".join(f"{n.id[:SHORT_ID]}: {n.failure or '?'}" for n in failed[:SHOWN])
            yield Check("wrong", "failed", f"{len(failed)} notes; {told}", advice)
        if bare:
            text = f"{len(bare)} notes are found by words only: {_some(bare)}"
            yield Check("wrong", "vectors", text, "run `amem doctor --mend`")
        if differing:
            text = f"{len(differing)} notes do not show what was decided about them: {_some(differing)}"
            yield Check("wrong", "views", text, "run `amem doctor --mend`")
        else:
            yield Check("good", "views", "all notes show what was decided about them")
        if not amem.place.is_served:
            yield from _check_files(amem.place.folder, closed)
        if deleted := info.get("deleted_bytes"):
            text = f"about {deleted:,} bytes of deleted text still lie in the files"
            yield Check("hint", "deleted", text, "run `amem compact`")
    except (StoreError, OSError) as error:
        yield Check("wrong", "memory", str(error))


def _some(ids: Sequence[str]) -> str:
    return ", ".join(note_id[:SHORT_ID] for note_id in ids[:SHOWN])


def _describe(info: Mapping[str, Any], counts: Mapping[str, Any]) -> Iterator[Check]:
    """Yield what the memory was made with, which versions read it, and what is in it."""
    states, embedder = counts["states"], info["embedder"] or "unknown"
    told = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    good = {
        "versions": ", ".join(f"{name} {version}" for name, version in info["versions"].items()),
        "format": f"{info['format']}, schema {info['schema']}, made {info['created_at']}",
        "embedder": f"{embedder}, {info['dimensions']} dimensions",
        "notes": f"{counts['notes']}, {counts['links']} links" + (f" ({told})" if told else ""),
    }
    yield from (Check("good", about, text) for about, text in good.items())
    if waiting := states.get("pending", 0) + states.get("constructed", 0):
        yield Check("hint", "unfinished", f"{waiting} notes wait to be linked", "run `amem evolve`")


def _check_files(folder: Path, closed: Mapping[str, int]) -> Iterator[Check]:
    """Compare the points in a closed folder with those at its last closing, and the free space with what a write needs."""
    from ..stores.folder import MIN_FREE_BYTES, point_counts  # noqa: PLC0415

    counts = point_counts(folder)
    for name, before in closed.items():
        if (missing := before - counts.get(name, 0)) > 0:
            text = f"{missing} of {before} points are missing from {name}"
            yield Check("wrong", "points", text, "restore a backup, or import an export")
    if empty := counts["empty"]:
        text = f"{empty} points hold no note; they are left out of everything"
        yield Check("wrong", "points", text, "run `amem compact`")
    else:
        text = f"{counts['notes']} notes and tombstones, {counts['journal']} records"
        yield Check("good", "points", text)
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    free = _free(folder)
    text = f"the memory takes up to {_mib(size)}, {_mib(free)} are free"
    if free >= 4 * MIN_FREE_BYTES:
        yield Check("good", "disk", text)
    else:
        level: Level = "wrong" if free < MIN_FREE_BYTES else "hint"
        text = f"{text}; nothing is written below {_mib(MIN_FREE_BYTES)}"
        yield Check(level, "disk", text, "make room")


def _free(folder: Path) -> int:
    return shutil.disk_usage(folder).free


def _mib(size: int) -> str:
    return f"{size / 2**20:,.0f} MiB"
