"""What the user changes: other content, other metadata, a note deleted with all its traces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from .._sync import resolve
from ..errors import InvalidInputError, NoteNotFoundError
from ..ids import check_namespace, new_operation, now
from ..notes import Namespace, Note, NoteInput
from ..runtime import Runtime
from ..steps import edits
from ..steps.history import change
from .intake import check
from .rewriting import rewrite

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
        op = new_operation()
        edit = edits.update(op, now(), content=content, metadata=metadata)
        notes, _ = await rewrite(self._runtime, space, op, {note_id: edit})
        if note_id not in notes:
            raise _missing(space, note_id)
        return notes[note_id]

    async def delete(self, note_id: str, *, namespace: Sequence[str]) -> None:
        """Remove a note for good, with the links to it and every context entry that it caused."""
        space = check_namespace(namespace)
        note = await self._existing(space, note_id)
        op, at = new_operation(), now()
        await self._forget_traces(space, note_id, op, at)
        receipt = change(op, "delete", note, recorded_at=at)
        await resolve(self._runtime.store.delete(space, [note_id], [receipt]))
        # A note that was linked to this one in the meantime would keep a link into nothing.
        await self._forget_traces(space, note_id, f"{op}{LATE}", at)

    async def _forget_traces(
        self, namespace: Namespace, note_id: str, op: str, at: datetime
    ) -> None:
        traces = await resolve(self._runtime.store.backlinks(namespace, [note_id]))
        if traces:
            forget = edits.forget(note_id, op, at)
            await rewrite(self._runtime, namespace, op, {other.id: forget for other in traces})

    async def _existing(self, namespace: Namespace, note_id: str) -> Note:
        notes = await resolve(self._runtime.store.get(namespace, [note_id]))
        if not notes:
            raise _missing(namespace, note_id)
        return notes[0]


def _missing(namespace: Namespace, note_id: str) -> NoteNotFoundError:
    return NoteNotFoundError(f"there is no note {note_id!r} in namespace {namespace!r}")
