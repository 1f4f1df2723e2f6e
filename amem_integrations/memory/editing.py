"""Facade: methods by which the user corrects and deletes, each with its asynchronous twin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .._sync import run
from ..notes import Note
from .base import Base


class EditingMethods(Base):
    """`update`, `delete`."""

    def update(
        self,
        note_id: str,
        *,
        namespace: Sequence[str],
        content: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Note:
        """Return the note with other content, other metadata, or both.

        The old values stay in the history. With new content the note is pending again, and found by
        that content at once; its links stay, what its old content had added to other notes goes, and the next
        `evolve` makes attributes for it. For the first note of a long text, `content` is the whole text, and
        its other notes change with it. While the embedder is down the note is found by its new words, and has
        the vector of the old ones until it is constructed.

        Args:
            note_id: Which note.
            namespace: Whose memory.
            content: The new text.
            metadata: The new metadata, in place of all there was.

        Raises:
            NoteNotFoundError: There is none with this id in this namespace.
            InvalidInputError: Neither was given, or one of them cannot be stored.
            StoreError: The store refused; `history` then tells what was written.
        """
        return run(
            self._engine.update(note_id, namespace=namespace, content=content, metadata=metadata)
        )

    async def aupdate(
        self,
        note_id: str,
        *,
        namespace: Sequence[str],
        content: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Note:
        """Asynchronous twin of `update`."""
        return await self._async_engine.update(
            note_id, namespace=namespace, content=content, metadata=metadata
        )

    def delete(self, note_id: str, *, namespace: Sequence[str]) -> None:
        """Remove a note for good: its history, the links to it, and every context entry it caused.

        With the first note of a long text, the one that `add` returned, all of that text goes. What stays is
        a receipt without content. It cannot be undone. It works while the embedder is down, too: notes that
        evolved by this one lose that text, and keep the vector it gave them until they change or `reindex`.

        Raises:
            NoteNotFoundError: There is none with this id in this namespace.
        """
        run(self._engine.delete(note_id, namespace=namespace))

    async def adelete(self, note_id: str, *, namespace: Sequence[str]) -> None:
        """Asynchronous twin of `delete`."""
        await self._async_engine.delete(note_id, namespace=namespace)
