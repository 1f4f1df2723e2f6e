"""What the user changes: other content, other metadata, a note deleted with all its traces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from .._sync import resolve
from ..errors import InvalidInputError
from ..ids import check_namespace, new_operation, now
from ..notes import Namespace, Note, NoteInput
from ..runtime import Runtime
from ..steps import edits
from ..steps.history import change
from .existing import existing, gone
from .intake import check, store_raw
from .pieces import split, surplus
from .rewriting import rewrite, withdraw_echoes

LATE = ":late"  # ends the operation that forgets what was added while a note was being deleted


class Editing:
    """Flows over the ports of `runtime`."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def update(
        self,
        note_id: str,
        *,
        namespace: Sequence[str],
        content: str | None,
        metadata: Mapping[str, Any] | None,
    ) -> Note:
        """Give a note other content, which makes it pending again, or other metadata, or both."""
        space = check_namespace(namespace)
        if content is None and metadata is None:
            raise InvalidInputError("update was given neither content nor metadata; give one")
        (note,) = await existing(self._runtime.store, space, [note_id])
        text = note.content if content is None else content
        check(NoteInput(content=text, metadata=metadata or {}), self._runtime.config)
        values: dict[str, Any] = {}
        if metadata is not None:
            values["metadata"] = dict(metadata)
        if content is not None:
            given = note.revised(**values)
            values["content"] = await self._other_pieces(space, given, content)
        op = new_operation()
        edit = edits.update(op, now(), values)
        notes, changes = await rewrite(self._runtime, space, op, {note_id: edit})
        if note_id not in notes:
            raise gone(space, note_id)
        await withdraw_echoes(self._runtime, space, op, changes)
        return notes[note_id]

    async def delete(self, note_id: str, *, namespace: Sequence[str]) -> None:
        """Remove a note for good, with the links to it and every context entry that it caused.

        The first note of a long text goes last, after all the others.
        """
        space = check_namespace(namespace)
        (note,) = await existing(self._runtime.store, space, [note_id])
        for piece in await surplus(self._runtime, space, {note_id: 1}):
            await self._delete(space, *await existing(self._runtime.store, space, [piece]))
        await self._delete(space, note)

    async def _delete(self, space: Namespace, note: Note) -> None:
        op, at = new_operation(), now()
        await self.forget_traces(space, note.id, op, at)
        receipt = change(op, "delete", note, recorded_at=at)
        await resolve(self._runtime.store.delete(space, [note.id], [receipt]))
        # A note that was linked to this one in the meantime would keep a link into nothing.
        await self.forget_traces(space, note.id, f"{op}{LATE}", at)

    async def forget_traces(
        self, namespace: Namespace, note_id: str, op: str, at: datetime
    ) -> None:
        """Take away from other notes what they hold of this one."""
        traces = await resolve(self._runtime.store.backlinks(namespace, [note_id]))
        if traces:
            forget = edits.forget(note_id, op, at)
            steps = {other.id: forget for other in traces}
            await rewrite(self._runtime, namespace, op, steps, removing=True)

    async def _other_pieces(self, namespace: Namespace, note: Note, content: str) -> str:
        """Return the content itself; for the first piece of a long text, store the others and return its own."""
        runtime = self._runtime
        item = NoteInput(
            content=content,
            at=note.at,
            thread=note.thread,
            speaker=note.speaker,
            source=note.source,
            metadata=note.metadata,
        )
        before = await surplus(runtime, namespace, {note.id: 1})
        if not before:
            return content
        (_, first), *others = split(runtime, namespace, item, note.id)
        await store_raw(runtime, namespace, [replace(other, split=False) for _, other in others])
        kept = {identity for identity, _ in others}
        for piece in [piece for piece in before if piece not in kept]:
            await self.delete(piece, namespace=namespace)
        return first.content
