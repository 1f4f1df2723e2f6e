"""Transfer: a memory as a file, its vectors by another embedder."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, islice
from operator import attrgetter
from os import PathLike
from pathlib import Path
from typing import Any

from .. import export_format, texts
from ..changes.edits import Edit, chain, change, link_json
from ..changes.recovery import drop_one_sided
from ..changes.rewrite import MAX_TRIES, next_revision, rewrite
from ..embedding import embed_by
from ..errors import InvalidInputError, RevisionConflictError
from ..fetch import all_changes, note_pages
from ..ids import clock, new_operation, now
from ..notes import Change, Link, Namespace, Note, check_namespace
from ..ports import Embedder, Indexed, NoteStore, Vector
from ..progress import Meter, Progress, reporter
from ..runtime import Runtime, resolve

PAGE = 64  # notes embedded and written at once
CHANGES = 512

Vectors = Callable[[Namespace, Sequence[Note]], Coroutine[Any, Any, Mapping[str, Vector]]]


async def export(
    runtime: Runtime, path: str | PathLike[str], *, namespace: Sequence[str] | None = None
) -> int:
    """Write a namespace, or all of them, to a file: notes, links, contexts and history, as lines of JSON.

    The file is there whole or not at all. Of all namespaces the file also says what models have cost; of one it does
    not: that was paid by this memory, and does not count against the limits of another.

    Args:
        path: The file.
        namespace: Whose memory; None writes all namespaces.

    Returns:
        The number of notes.

    Raises:
        OSError: The file cannot be written.
    """
    spaces = (
        await resolve(runtime.store.namespaces(recorded=True))
        if namespace is None
        else [check_namespace(namespace)]
    )
    draft = Path(f"{path}.tmp")
    count = 0
    try:
        with draft.open("w", encoding="utf-8") as file:

            def write(line: export_format.Line) -> None:
                file.write(json.dumps(line, ensure_ascii=False) + "\n")

            for space in spaces:
                write(export_format.header(space))
                async for page in note_pages(runtime.store, space):
                    count += len(page)
                    for note in page:
                        write(export_format.note_line(note))
                for made in await all_changes(runtime.store, space):
                    if namespace is None or made.kind != "usage":
                        write(export_format.change_line(made))
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return count


async def import_(
    runtime: Runtime,
    path: str | PathLike[str],
    *,
    namespace: Sequence[str] | None = None,
    progress: bool | Progress = False,
) -> int:
    """Add what `export` wrote, and return the number of notes of the file that are stored now.

    Notes that are there already stay as they are, so doing it again, or going on after an interruption,
    is safe. A link to a note that is neither in the file nor stored is dropped.

    Args:
        path: The file.
        namespace: Whose memory; the file has to be of one namespace, and notes that come from another one get ids of
            this one. None puts everything where it comes from, with what models have cost.
        progress: True logs how far it is; a function is called with (notes read, notes in the file).

    Raises:
        InvalidInputError: The file is no export, or of several namespaces where one is given; what stood before the
            damage is imported.
        NamespaceError: The namespace is malformed.
        StoreError: The store refused, such as an id in the file that a note of another namespace has.
        OSError: The file cannot be read.
        ModelUnavailableError: The embedder failed; import again to go on.
    """
    given = None if namespace is None else check_namespace(namespace)
    counts, stored = export_format.counts(path), set[str]()
    if given is not None:
        if len(counts) > 1:
            raise InvalidInputError(
                f"{path} holds {len(counts)} namespaces; import it without a namespace"
            )
        ids = export_format.note_ids(path)
        stored = (
            {note.id for note in await resolve(runtime.store.get(given, ids))} if ids else set()
        )
    values = export_format.read(path, given, stored)
    meter = Meter(reporter(progress), sum(counts.values()))
    for space, group in groupby(values, key=attrgetter("namespace")):
        await _import_namespace(runtime, space, group, meter, with_costs=given is None)
    return meter.done


async def _import_namespace(
    runtime: Runtime,
    namespace: Namespace,
    values: Iterator[Note | Change],
    meter: Meter,
    *,
    with_costs: bool,
) -> None:
    """Add the notes and changes of one namespace, as they stand in a file."""
    store, kept, imported = runtime.store, set[str](), list[str]()
    while page := list(islice(values, PAGE)):
        clock.start_above(max(value.seq for value in page))  # what is added next comes after it
        notes = [value for value in page if isinstance(value, Note)]
        differing = await insert_missing(store, namespace, notes, made_by(runtime.embedder))
        kept.update(note.id for note in differing)
        imported += [note.id for note in notes if note.id not in kept]
        changes = [value for value in page if isinstance(value, Change)]
        if not with_costs:
            changes = [made for made in changes if made.kind != "usage"]
        # A note that is there and another keeps its own history.
        own = [made for made in changes if made.note_id not in kept]
        await insert_changes(store, namespace, own)
        meter.add(len(notes))
    for start in range(0, len(imported), PAGE):
        await _mirror_links(runtime, namespace, imported[start : start + PAGE])


async def embed_anew(runtime: Runtime, progress: Progress | None = None) -> int:
    """Give every note a new vector and new BM25 weights, where it is; return how many there were."""
    spaces = await resolve(runtime.store.namespaces())
    meter = Meter(progress, sum([await resolve(runtime.store.count(space)) for space in spaces]))
    op = new_operation()
    runtime.vectors.clear()  # the embedder may be another one under the same name
    for space in spaces:
        async for page in note_pages(runtime.store, space, size=PAGE):
            await _embed_page(runtime, space, page, op)
            meter.add(len(page))
    return meter.done


def made_by(embedder: Embedder) -> Vectors:
    """Return a function that embeds notes."""

    async def vectors(_namespace: Namespace, notes: Sequence[Note]) -> Mapping[str, Vector]:
        known = {note.id: texts.embedding_text(note) for note in notes}
        once = list(dict.fromkeys(known.values()))
        rows = dict(zip(once, await embed_by(embedder, once), strict=True))
        return {i: row for i, text in known.items() if (row := rows[text]) is not None}

    return vectors


async def copy(
    source: NoteStore,
    target: NoteStore,
    vectors: Vectors,
    progress: Progress | None = None,
) -> int:
    """Make the namespaces of `source` the same in another store; return the number of notes.

    What is there already and equal costs nothing, so a copy that was interrupted goes on where it was. Namespaces that
    the source does not have are cleared in the target.
    """
    spaces = await resolve(source.namespaces(recorded=True))
    total = sum([await resolve(source.count(space)) for space in spaces])
    meter = Meter(progress, total)
    for space in spaces:
        kept: set[str] = set()
        async for page in note_pages(source, space, size=PAGE):
            kept.update(note.id for note in page)
            if differing := await insert_missing(target, space, page, vectors):
                await _remove(target, space, differing)
                await insert_missing(target, space, page, vectors)
            meter.add(len(page))
        async for page in note_pages(target, space, size=PAGE):
            await _remove(target, space, [note for note in page if note.id not in kept])
        await insert_changes(target, space, await all_changes(source, space))
    for space in await resolve(target.namespaces()):
        if space not in spaces:
            await resolve(target.clear(space, []))
    return meter.done


async def insert_missing(
    store: NoteStore, namespace: Namespace, notes: Sequence[Note], vectors: Vectors
) -> list[Note]:
    """Store those of the notes that are not there yet; return the stored ones that differ."""
    ids = [note.id for note in notes]
    stored = {note.id: note for note in await resolve(store.get(namespace, ids))}
    new = [note for note in notes if note.id not in stored]
    found = await vectors(namespace, new)
    items = [
        Indexed(note=note, vector=found.get(note.id), text=texts.lexical_text(note)) for note in new
    ]
    if items:
        await resolve(store.insert(namespace, items, []))
    return [stored[note.id] for note in notes if note.id in stored and stored[note.id] != note]


async def insert_changes(store: NoteStore, namespace: Namespace, changes: Sequence[Change]) -> None:
    """Store changes."""
    for start in range(0, len(changes), CHANGES):
        await resolve(store.replace(namespace, [], changes[start : start + CHANGES]))


async def _remove(target: NoteStore, namespace: Namespace, notes: Iterable[Note]) -> None:
    if ids := [note.id for note in notes]:
        await resolve(target.delete(namespace, ids, []))


async def _mirror_links(runtime: Runtime, namespace: Namespace, ids: Sequence[str]) -> None:
    """Give the notes that imported ones are linked to the other end of each link; drop links to nothing."""
    notes = {note.id: note for note in await resolve(runtime.store.get(namespace, ids))}
    op, steps = new_operation(), {}
    targets: dict[str, list[Edit]] = {}
    for note in notes.values():
        for target, link in note.links.items():
            targets.setdefault(target, []).append(_other_end(note.id, link, op))
    steps = {target: chain(parts) for target, parts in targets.items()}
    await rewrite(runtime, namespace, op, steps)
    await drop_one_sided(runtime, namespace, list(ids))


def _other_end(note_id: str, link: Link, op: str) -> Edit:
    other = replace(link, direction="in" if link.direction == "out" else "out")

    def edit(note: Note) -> tuple[Note, list[Change]]:
        if note_id in note.links:
            return note, []
        data = {"target": note_id, **link_json(other)}
        made = change(op, "link", note, cause=note_id, recorded_at=now(), data=data)
        return note.revised(links={**note.links, note_id: other}), [made]

    return edit


async def _embed_page(
    runtime: Runtime, namespace: Namespace, notes: Sequence[Note], op: str
) -> None:
    for _ in range(MAX_TRIES):
        rows = await made_by(runtime.embedder)(namespace, notes)
        items = [
            Indexed(
                note=next_revision(note, note, op),
                vector=rows.get(note.id),
                text=texts.lexical_text(note),
            )
            for note in notes
        ]
        unwritten = await resolve(runtime.store.replace(namespace, items, []))
        notes = await resolve(runtime.store.get(namespace, sorted(unwritten)))
        if not notes:
            return
    raise RevisionConflictError("notes were changed by others again and again; try again later")
