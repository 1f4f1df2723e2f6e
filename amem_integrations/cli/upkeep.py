"""`amem stats`, `export`, `reindex`, `sweep`, `optimize`, `compact`, `doctor` and `graph`: how a memory is, and what keeps it well.

Notes are data: on the page of `graph` their text never becomes code or markup.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import typer

from ..errors import InvalidInputError, StoreError
from ..notes import Change, Note
from . import app
from .app import SHORT_ID, Session, format_namespace, note_values
from .changes import cause_of, change_values

SHOWN = 5  # notes that a finding names

Finding = dict[str, str | None]


@app.command("stats", app.NAMESPACE)
def stats(amem: Session) -> None:
    """Count notes, links and states, and what needs a look.

    That is what is superseded, said twice, without links, unfinished, or waits for a decision.
    """
    spaces = [amem.any_space] if amem.any_space else amem.memory.namespaces()
    total = amem.memory.stats(namespace=amem.any_space)
    rows = [{"namespace": each, **amem.memory.stats(namespace=each)} for each in spaces]
    named = ("namespace", "notes", "threads", "links", "evolved", "superseded", "duplicates")
    counted = [{name: row[name] for name in named} for row in rows]
    told = app.listed({**total, "usage": None, "by_namespace": counted})
    amem.show({**total, "by_namespace": rows}, told)


@app.command("export", app.NAMESPACE)
def export(amem: Session, file: Path) -> None:
    """Write a namespace, or all, to a file, with links and history.

    `amem import` reads it back, exactly. The file is written whole or not at all. Without --namespace it holds all
    namespaces, with what models have cost: a backup, and the way from a folder to a server.

    Args:
        file: Where to write, as lines of JSON; "-" is standard output.
    """
    space = amem.any_space
    if str(file) != "-":
        count = amem.memory.export(file, namespace=space)
        amem.show({"file": str(file), "namespace": space and [*space], "notes": count})
        return
    with tempfile.TemporaryDirectory(prefix="amem-export-") as folder:
        amem.memory.export(Path(folder, "all"), namespace=space)
        # It is in UTF-8, whatever the encoding of the terminal is.
        sys.stdout.buffer.write(Path(folder, "all").read_bytes())


@app.command("reindex", app.EMBEDDER)
def reindex(amem: Session) -> None:
    """Embed all notes again, with the same embedder or another.

    With another one (--embedder) a folder is built anew beside the old one and takes its place when it is
    complete; Ctrl-C leaves the old one.
    """
    from ..reindex import reindex as reindex_folder  # noqa: PLC0415 - imports numpy

    place, embedding = amem.place, app.progress("embedding")
    made = place.made_with()
    if amem.embedder in (None, made):
        count, name = amem.memory.reindex(progress=embedding), made
    else:
        embedder = amem.make_embedder(amem.embedder)
        at = {"collection": place.collection}
        count, name = reindex_folder(place.path, embedder, progress=embedding, **at), embedder.name
    amem.show({"notes": count, "embedder": name})


@app.command("sweep", app.EMBEDDER, app.NAMESPACE)
def sweep(amem: Session) -> None:
    """Delete the notes that have expired.

    They go as by `amem delete`; until then they are stored, but found by no command that reads notes. Without
    --namespace it is done in all namespaces.
    """
    amem.show({"deleted": amem.memory.sweep(namespace=amem.any_space)})


@app.command("optimize")
def optimize(amem: Session) -> None:
    """Build the index for very many notes.

    It is the graph that finds neighbours quickly (HNSW), worth it from about 200,000 notes in a folder. It
    takes minutes, and cannot be interrupted.
    """
    amem.show({"optimized": amem.memory.optimize()})


@app.command("compact")
def compact(amem: Session) -> None:
    """Write a folder anew, without the bytes of what was deleted.

    Until then the engine only marks them as gone. It takes about as long as an import.
    """
    from ..stores.folder import used_bytes  # noqa: PLC0415 - imports the engine

    before = used_bytes(amem.place.folder)
    amem.memory.compact()
    amem.opened.close()
    amem.show({"before": before, "after": used_bytes(amem.place.folder)})


def check(level: str, about: str, text: str, advice: str | None = None) -> Finding:
    """Return the result of one check: "good", a "hint" or "wrong", about what, how it is, and what to do about it."""
    return {"level": level, "about": about, "text": text, "advice": advice}


@app.command("doctor", app.EMBEDDER)
def doctor(amem: Session, *, mend: bool = False) -> None:
    """Check the memory, and say what is wrong.

    The status is 0 if nothing is wrong, and 1 if something is. Without --mend nothing is changed, except that
    opening a memory finishes what a killed process left half done.

    Args:
        mend: First check all decisions, and make every view anew.
    """
    checks = list(_checks(amem, mend=mend))
    failed = any(one["level"] == "wrong" for one in checks)
    amem.show({"ok": not failed, "findings": checks})
    raise typer.Exit(int(failed))


def _checks(amem: Session, *, mend: bool) -> Iterator[Finding]:
    """Yield the result of each check; an error that stops all others is the last one."""
    from ..flows.overview import unsound  # noqa: PLC0415 - imports numpy
    from ..flows.writing import make_views_anew  # noqa: PLC0415
    from ..runtime import run  # noqa: PLC0415

    is_folder = not amem.place.is_served
    try:
        closed = (amem.place.description().closed if is_folder else None) or {}
        if mend:
            with amem.write() as memory:
                run(make_views_anew(memory._runtime))  # noqa: SLF001
        with amem.read() as memory:
            info, counts = memory.info(), memory.stats()
            runtime = memory._runtime  # noqa: SLF001
            bare, differing, failed = run(unsound(runtime))
            files = [*_check_files(runtime.store, closed)] if is_folder else []
        for name in ("versions", "format", "schema", "created_at", "embedder", "dimensions"):
            yield check("good", name, app.text_of(info[name]))
        states, links = counts["states"], counts["links"]
        yield check("good", "notes", f"{counts['notes']}, {links} links")
        if waiting := states.get("pending", 0) + states.get("constructed", 0):
            advice = "run `amem evolve`"
            yield check("hint", "unfinished", f"{waiting} notes wait to be linked", advice)
        if failed:
            told = "; ".join(f"{n.id[:SHORT_ID]}: {n.failure or '?'}" for n in failed[:SHOWN])
            advice = "run `amem evolve --retry` with a model to try again"
            yield check("wrong", "failed", f"{len(failed)} notes; {told}", advice)
        yield _notes("vectors", bare, "are found by words only")
        yield _notes("views", differing, "do not show what was decided about them")
        yield from files
        if deleted := info.get("deleted_bytes"):
            text = f"about {deleted:,} bytes of deleted text still lie in the files"
            yield check("hint", "deleted", text, "run `amem compact`")
    except (StoreError, OSError) as error:
        yield check("wrong", "memory", app.in_commands(str(error), {}))


def _notes(about: str, ids: Sequence[str], what: str) -> Finding:
    some = ", ".join(note_id[:SHORT_ID] for note_id in ids[:SHOWN])
    if ids:
        return check("wrong", about, f"{len(ids)} notes {what}: {some}", "run `amem doctor --mend`")
    return check("good", about, f"0 notes {what}")


def _check_files(store: Any, closed: Mapping[str, int]) -> Iterator[Finding]:  # noqa: ANN401 - FolderStore
    """Compare the points in a folder with those at its last closing."""
    counts = store.point_counts()
    for name, before in closed.items():
        if (missing := before - counts.get(name, 0)) > 0:
            text = f"{missing} of {before} points are missing from {name}"
            yield check("wrong", "points", text, "restore a backup, or import an export")
    if empty := store.empty_points():
        text = f"{empty} points hold no note; they are left out of everything"
        yield check("wrong", "points", text, "run `amem compact`")


@app.command("graph", app.NAMESPACE)
def graph(amem: Session, file: Path = Path("memory.html")) -> None:
    """Draw the notes and their links.

    The page needs nothing but a browser: notes, links and their history, with a search. Without a
    namespace all of them are drawn.

    Args:
        file: Where to write the page, a .html file.
    """
    from ..flows.transfer import whole_file  # noqa: PLC0415 - imports numpy

    if file.suffix.lower() not in (".html", ".htm"):
        raise InvalidInputError(f"{str(file)!r} must end in .html or .htm")
    spaces = [amem.any_space] if amem.any_space else amem.memory.namespaces()
    notes = [note for each in spaces for note in amem.all_notes(each)]
    changes = [change for each in spaces for change in amem.memory.history(None, namespace=each)]
    title = f"Memory of {format_namespace(amem.any_space)}" if amem.any_space else "Memory"
    with whole_file(file) as page:
        page.write(render(notes, changes, title=title))
    links = sum(link.direction == "out" for note in notes for link in note.links.values())
    amem.show({"file": str(file), "notes": len(notes), "links": links})


def render(notes: Sequence[Note], changes: Sequence[Change], *, title: str) -> str:
    """Return the page as HTML.

    Args:
        notes: The notes to show, oldest first.
        changes: Their history, oldest first.
        title: What the page is about.
    """
    from pydantic_core import to_json  # noqa: PLC0415 - takes as long as Typer

    histories: dict[str, list[dict[str, Any]]] = {}
    for change in changes:
        values = {**change_values(change), "cause": cause_of(change)}
        for end in dict.fromkeys((change.note_id, change.after.get("to", change.note_id))):
            histories.setdefault(end, []).append(values)
    held = [
        {
            **note_values(note),
            "space": format_namespace(note.namespace),
            "when": note.when,
            "holds_until": note.holds_until,
            "history": histories.get(note.id, []),
        }
        for note in notes
    ]
    text = to_json({"title": title, "notes": held}).decode()
    # Within a script element only "<" could end it; JSON may spell it otherwise.
    safe = text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    template = (files(__package__) / "graph_page.html").read_text(encoding="utf-8")
    return template.replace("__AMEM_DATA__", safe)
