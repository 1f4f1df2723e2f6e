"""Rewrite notes: read, change by a pure edit, re-embed, write; again for those another writer changed.

No lock is held meanwhile. Edits are set operations on single notes, so doing one again on a newer
revision needs no second look by a model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .. import texts
from .._sync import resolve
from ..errors import ConfigurationError, ModelUnavailableError, RevisionConflictError
from ..notes import Change, Namespace, Note
from ..ports import OPS_KEPT, Indexed, Vector
from ..runtime import Runtime
from ..steps.edits import Edit, chain, withdraw
from ..steps.fields import SAID
from .embedding import embed, embed_if_possible

MAX_TRIES = 50
# An embedder that is down, one that only asynchronous calls can use, none at all.
WITHOUT_EMBEDDER = (ModelUnavailableError, ConfigurationError)

Edited = tuple[Note, list[Change]]


async def rewrite(
    runtime: Runtime,
    namespace: Namespace,
    op: str,
    edits: Mapping[str, Edit],
    *,
    removing: bool = False,
    again: bool = False,
) -> tuple[dict[str, Note], list[Change]]:
    """Apply edits to stored notes; return the notes as they are now, and the changes made.

    A note that has `op` among its last operations was written by an earlier try and is left as it is; a
    note that is gone is left out.

    Args:
        runtime: The ports.
        namespace: Whose notes.
        op: Names the operation.
        edits: By note id.
        removing: The edits take text away, which does not wait for the embedder: without it the old vector
            stays.
        again: The operation may be an old one. Where a note does not remember that far back, the history
            says what was done.

    Raises:
        RevisionConflictError: Other writers kept getting in between.
        ModelUnavailableError: The embedder failed; nothing was written.
    """
    left = dict(edits)
    notes: dict[str, Note] = {}
    changes: list[Change] = []
    for _ in range(MAX_TRIES):
        stored = await resolve(runtime.store.get(namespace, list(left)))
        edited = [_edit(note, left[note.id], op) for note in stored]
        if again:
            edited = await _not_yet_done(runtime, namespace, stored, edited)
        revised = [(old, new) for old, (new, _) in zip(stored, edited, strict=True)]
        made = [change for _, records in edited for change in records]
        moved = [(old, new) for old, new in revised if new is not old]
        stale: set[str] = set()
        if moved or made:
            items = await _indexed(runtime, moved, removing=removing)
            stale = await resolve(runtime.store.replace(namespace, items, made))
        notes |= {new.id: new for _, new in revised if new.id not in stale}
        changes += [change for change in made if change.note_id not in stale]
        left = {note_id: edit for note_id, edit in left.items() if note_id in stale}
        if not left:
            return notes, changes
    raise RevisionConflictError(
        f"notes {sorted(left)} were changed by others {MAX_TRIES} times in a row; try again"
    )


def _edit(note: Note, edit: Edit, op: str) -> Edited:
    if op in note.ops:
        return note, []
    new, changes = edit(note)
    if new == note:
        return note, changes
    ops = (*note.ops, op)[-OPS_KEPT:]
    return new.revised(revision=note.revision + 1, ops=ops), changes


async def _not_yet_done(
    runtime: Runtime, namespace: Namespace, stored: Sequence[Note], edited: Sequence[Edited]
) -> list[Edited]:
    """Leave out what was done before by the history, where the note itself cannot tell.

    It cannot where it has forgotten its older operations, and where nothing but the history was written.
    """
    pairs = list(zip(stored, edited, strict=True))
    doubtful = [
        record.id
        for old, (new, records) in pairs
        if new is old or len(old.ops) >= OPS_KEPT
        for record in records
    ]
    if not doubtful:
        return list(edited)
    made = await resolve(runtime.store.changes_by_id(namespace, doubtful))
    done = {record.note_id for record in made}
    return [(old, []) if old.id in done else pair for old, pair in pairs]


async def _indexed(
    runtime: Runtime, moved: Sequence[tuple[Note, Note]], *, removing: bool
) -> list[Indexed]:
    """Give the new versions their vectors; what reads the same as before keeps the ones it has."""
    changed = [new for old, new in moved if _reads_anew(old, new)]
    wanted = [texts.embedding_text(note) for note in changed]
    rows: Sequence[Vector | None]
    if removing:
        until = "they change again, or reindex()"
        rows = await embed_if_possible(runtime, wanted, until=until, despite=WITHOUT_EMBEDDER)
    elif all(note.state == "pending" for note in changed):
        rows = await embed_if_possible(runtime, wanted)
    else:
        rows = await embed(runtime, wanted)
    vectors = {note.id: row for note, row in zip(changed, rows, strict=True)}
    lexical = {note.id: texts.lexical_text(note) for note in changed}
    return [
        Indexed(note=new, vector=vectors.get(new.id), text=lexical.get(new.id)) for _, new in moved
    ]


def _reads_anew(old: Note, new: Note) -> bool:
    """Return whether a note needs another vector, or may have none: it was raw, and the embedder down."""
    constructed = old.own_entry is None and new.own_entry is not None
    return constructed or texts.lexical_text(old) != texts.lexical_text(new)


async def withdraw_echoes(
    runtime: Runtime,
    namespace: Namespace,
    op: str,
    changes: Sequence[Change],
    *,
    again: bool = False,
) -> None:
    """Take back from other notes what the old content of corrected ones had added to them.

    With `again`, it may have been done before: what was added since comes from the new content, and stays.
    """
    updates = [change for change in changes if change.kind == "update"]
    corrected = [made.note_id for made in updates if not made.data.keys().isdisjoint(SAID)]
    if not corrected:
        return
    at = changes[0].recorded_at
    until = at if again else None
    steps = chain([withdraw(note_id, f"{op}:echo", at, until) for note_id in corrected])
    others = await resolve(runtime.store.backlinks(namespace, corrected))
    ids = [note.id for note in others] + (corrected if len(corrected) > 1 else [])
    if ids:
        edits = dict.fromkeys(ids, steps)
        await rewrite(runtime, namespace, f"{op}:echo", edits, removing=True, again=again)
