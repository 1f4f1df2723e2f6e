"""Rewrite notes: read, change by a pure edit, re-embed, write; again for those another writer changed.

No lock is held meanwhile. Edits are set operations on single notes, so doing one again on a newer
revision needs no second look by a model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .. import texts
from .._sync import resolve
from ..errors import RevisionConflictError
from ..notes import Change, Namespace, Note
from ..ports import Indexed
from ..runtime import Runtime
from ..steps.edits import Edit, chain, withdraw
from .embedding import embed, embed_if_possible

MAX_TRIES = 50
OPS_KEPT = 32


async def rewrite(
    runtime: Runtime, namespace: Namespace, op: str, edits: Mapping[str, Edit]
) -> tuple[dict[str, Note], list[Change]]:
    """Apply edits to stored notes; return the notes as they are now, and the changes made.

    A note that has `op` among its last operations was written by an earlier try and is left as it is; a
    note that is gone is left out.

    Raises:
        RevisionConflictError: Other writers kept getting in between.
    """
    left = dict(edits)
    notes: dict[str, Note] = {}
    changes: list[Change] = []
    for _ in range(MAX_TRIES):
        stored = await resolve(runtime.store.get(namespace, list(left)))
        edited = [_edit(note, left[note.id], op) for note in stored]
        revised = [(old, new) for old, (new, _) in zip(stored, edited, strict=True)]
        made = [change for _, records in edited for change in records]
        moved = [(old, new) for old, new in revised if new is not old]
        stale: set[str] = set()
        if moved or made:
            items = await _indexed(runtime, moved)
            stale = await resolve(runtime.store.replace(namespace, items, made))
        notes |= {new.id: new for _, new in revised if new.id not in stale}
        changes += [change for change in made if change.note_id not in stale]
        left = {note_id: edit for note_id, edit in left.items() if note_id in stale}
        if not left:
            return notes, changes
    raise RevisionConflictError(
        f"notes {sorted(left)} were changed by others {MAX_TRIES} times in a row; try again"
    )


def _edit(note: Note, edit: Edit, op: str) -> tuple[Note, list[Change]]:
    if op in note.ops:
        return note, []
    new, changes = edit(note)
    if new == note:
        return note, changes
    ops = (*note.ops, op)[-OPS_KEPT:]
    return new.revised(revision=note.revision + 1, ops=ops), changes


async def _indexed(runtime: Runtime, moved: Sequence[tuple[Note, Note]]) -> list[Indexed]:
    """Give the new versions their vectors; what reads the same as before keeps the ones it has."""
    changed = [new for old, new in moved if texts.lexical_text(old) != texts.lexical_text(new)]
    raw = all(note.state == "pending" for note in changed)
    rows = await (embed_if_possible if raw else embed)(
        runtime, [texts.embedding_text(note) for note in changed]
    )
    vectors = {note.id: row for note, row in zip(changed, rows, strict=True)}
    lexical = {note.id: texts.lexical_text(note) for note in changed}
    return [
        Indexed(note=new, vector=vectors.get(new.id), text=lexical.get(new.id)) for _, new in moved
    ]


async def withdraw_echoes(
    runtime: Runtime, namespace: Namespace, op: str, changes: Sequence[Change]
) -> None:
    """Take back from other notes what the old content of corrected ones had added to them."""
    corrected = [c.note_id for c in changes if c.kind == "update" and "content" in c.data]
    if not corrected:
        return
    at = changes[0].recorded_at
    steps = chain([withdraw(note_id, f"{op}:echo", at) for note_id in corrected])
    others = await resolve(runtime.store.backlinks(namespace, corrected))
    ids = [note.id for note in others] + (corrected if len(corrected) > 1 else [])
    if ids:
        await rewrite(runtime, namespace, f"{op}:echo", dict.fromkeys(ids, steps))
