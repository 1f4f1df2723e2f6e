"""What the user changes: other content, other metadata, a note deleted with all its traces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from .._sync import resolve
from ..errors import InvalidInputError, NoteNotFoundError
from ..ids import check_namespace, new_operation, now
from ..notes import Namespace, Note, NoteInput
from ..runtime import Runtime
from ..steps import edits
from ..steps.history import change
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
        note = await self._existing(space, note_id)
        text = note.content if content is None else content
        check(NoteInput(content=text, metadata=metadata or {}), self._runtime.config)
        if content is not None:
            content = await self._other_pieces(space, note, content)
        op = new_operation()
        edit = edits.update(op, now(), content=content, metadata=metadata)
        notes, changes = await rewrite(self._runtime, space, op, {note_id: edit})
        if note_id not in notes:
            raise _missing(space, note_id)
        await withdraw_echoes(self._runtime, space, op, changes)
        return notes[note_id]

    async def delete(self, note_id: str, *, namespace: Sequence[str]) -> None:
        """Remove a note for good, with the links to it and every context entry that it caused.

        The first note of a long text goes last, after all the others.
        """
        space = check_namespace(namespace)
        note = await self._existing(space, note_id)
        for piece in await surplus(self._runtime, space, {note_id: 1}):
            await self._delete(space, await self._existing(space, piece))
        await self._delete(space, note)

    async def _delete(self, space: Namespace, note: Note) -> None:
        op, at = new_operation(), now()
        await self._forget_traces(space, note.id, op, at)
        receipt = change(op, "delete", note, recorded_at=at)
        await resolve(self._runtime.store.delete(space, [note.id], [receipt]))
        # A note that was linked to this one in the meantime would keep a link into nothing.
        await self._forget_traces(space, note.id, f"{op}{LATE}", at)

    async def _forget_traces(
        self, namespace: Namespace, note_id: str, op: str, at: datetime
    ) -> None:
        traces = await resolve(self._runtime.store.backlinks(namespace, [note_id]))
        if traces:
            forget = edits.forget(note_id, op, at)
            await rewrite(self._runtime, namespace, op, {other.id: forget for other in traces})

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
        for gone in [piece for piece in before if piece not in kept]:
            await self.delete(gone, namespace=namespace)
        return first.content

    async def _existing(self, namespace: Namespace, note_id: str) -> Note:
        notes = await resolve(self._runtime.store.get(namespace, [note_id]))
        if not notes:
            raise _missing(namespace, note_id)
        return notes[0]


def _missing(namespace: Namespace, note_id: str) -> NoteNotFoundError:
    return NoteNotFoundError(f"there is no note {note_id!r} in namespace {namespace!r}")
