"""Facade: what was changed, taking it back, and answering what the gate stopped; synchronous only."""

from __future__ import annotations

from collections.abc import Sequence

from .._sync import run
from ..notes import Change
from .base import Base


class HistoryMethods(Base):
    """`history`, `undo`, `clear`, `proposals`, `approve`, `reject`."""

    def history(self, note_id: str | None, *, namespace: Sequence[str]) -> list[Change]:
        """Return the changes of a note, or (None) of the whole namespace, oldest first.

        Of a deleted note the receipt is left, and of a cleared namespace the receipt of that.

        Raises:
            NoteNotFoundError: There neither is nor was a note with this id in this namespace.
        """
        return run(self._engine.history(note_id, namespace=namespace))

    def undo(self, change_id: str, *, namespace: Sequence[str]) -> Change:
        """Take a change back and return the change that does so, which can be undone itself.

        What can be undone: `construct` (the note is pending again), `evolve`, `link` and `unlink` (at both
        ends), `update`, `withdraw` (what a correction of another note took away), `upgrade` and `undo`.

        Raises:
            RevisionConflictError: A later change touched the same field; the message names it.
            InvalidInputError: A change of this kind cannot be undone; the message says what to do.
            NoteNotFoundError: There is no such change in this namespace.
            ModelUnavailableError: The embedder failed; nothing was changed.
        """
        return run(self._engine.undo(change_id, namespace=namespace))

    def clear(self, *, namespace: Sequence[str]) -> None:
        """Remove all notes of a namespace for good, with their history; no other namespace is touched.

        What stays are receipts without content: of this, and of what was deleted before.
        """
        run(self._engine.clear(namespace=namespace))

    def proposals(self, *, namespace: Sequence[str]) -> list[Change]:
        """Return the updates that the gate stopped and nobody has answered yet, oldest first.

        `data["entry"]` is what would be added to the note `note_id`, `data["rejected"]` why it was not.
        """
        return run(self._engine.proposals(namespace=namespace))

    def approve(
        self,
        change_id: str,
        *,
        namespace: Sequence[str],
        context: str | None = None,
        keywords: Sequence[str] | None = None,
        tags: Sequence[str] | None = None,
    ) -> Change:
        """Write the entry of a proposal although the gate stopped it; return the change, which can be undone.

        Args:
            change_id: Which proposal.
            namespace: Whose memory.
            context: Another text for the entry.
            keywords: Other keywords.
            tags: Other tags.

        Raises:
            InvalidInputError: It is no proposal, was approved already, or its text is empty.
            NoteNotFoundError: There is no such proposal in this namespace.
            ModelUnavailableError: The embedder failed; nothing was changed.
        """
        given = {"text": context, "keywords": keywords, "tags": tags}
        edited = {name: value for name, value in given.items() if value is not None}
        return run(self._engine.approve(change_id, namespace=namespace, edited=edited))

    def reject(self, change_id: str, *, namespace: Sequence[str]) -> Change:
        """Take a proposal off the list; return the record of it. `approve` may still be called.

        Raises:
            InvalidInputError: It is no proposal, or was approved.
            NoteNotFoundError: There is no such proposal in this namespace.
        """
        return run(self._engine.reject(change_id, namespace=namespace))
