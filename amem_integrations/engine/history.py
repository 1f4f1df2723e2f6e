"""What was changed, and taking it back: history, undo, proposals, clear."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .._sync import resolve
from ..errors import InvalidInputError, NoteNotFoundError, RevisionConflictError
from ..ids import check_namespace, clock, derive, new_operation, now
from ..notes import Change, ChangeKind, Namespace, Note
from ..ports import NoteStore
from ..runtime import Runtime
from ..steps import proposals, undoing
from .existing import existing, gone
from .rewriting import rewrite

PAGE = 1000


async def all_changes(
    store: NoteStore,
    namespace: Namespace,
    note_id: str | None = None,
    kinds: Sequence[ChangeKind] = (),
    after: int = -1,
) -> list[Change]:
    """Return the whole history of a note, or of a namespace, oldest first."""
    found: list[Change] = []
    while True:
        page = await resolve(
            store.changes(namespace, note_id=note_id, kinds=kinds, after=after, limit=PAGE)
        )
        found += page
        if len(page) < PAGE:
            return found
        after = page[-1].seq


class History:
    """Flows over the ports of `runtime`."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def history(self, note_id: str | None, *, namespace: Sequence[str]) -> list[Change]:
        """Return the changes of a note, or (None) of the whole namespace, oldest first."""
        space = check_namespace(namespace)
        changes = await all_changes(self._runtime.store, space, note_id)
        if not changes and note_id is not None:
            await self._notes(space, [note_id])
        return changes

    async def undo(self, change_id: str, *, namespace: Sequence[str]) -> Change:
        """Apply the inverse of a change, at both ends where it is about a link."""
        space = check_namespace(namespace)
        made = await self._change(space, change_id)
        undoing.check_undoable(made)
        later = await all_changes(self._runtime.store, space, made.note_id, after=made.seq)
        undoing.check_free(made, later)
        op, at = new_operation(), now()
        edits = {
            **undoing.undo_other_ends(made, op, at),
            made.note_id: undoing.undo(made, op, at),
        }
        await self._notes(space, list(edits))
        _, changes = await rewrite(self._runtime, space, op, edits)
        undone = [change for change in changes if change.note_id == made.note_id]
        if not undone:
            raise RevisionConflictError(
                f"change {change_id!r} has no effect any more; see history()"
            )
        return undone[0]

    async def clear(self, *, namespace: Sequence[str]) -> None:
        """Remove everything of a namespace but receipts."""
        space = check_namespace(namespace)
        op = new_operation()
        receipt = Change(
            id=derive("change", op, "clear"),
            seq=clock.tick(),
            op=op,
            kind="clear",
            namespace=space,
            note_id="",
            cause=None,
            model=None,
            recorded_at=now(),
            data={"notes": await resolve(self._runtime.store.count(space))},
        )
        await resolve(self._runtime.store.clear(space, [receipt]))

    async def proposals(self, *, namespace: Sequence[str]) -> list[Change]:
        """Return the proposals that nobody has answered, oldest first."""
        space = check_namespace(namespace)
        store = self._runtime.store
        changes = await all_changes(store, space, kinds=("proposal", "rejection"))
        ids = list(dict.fromkeys(made.note_id for made in changes))
        notes = await resolve(store.get(space, ids))
        # Only an entry that is there now is an answer; what was approved and undone is open again.
        entries = proposals.possible_answers(changes, notes)
        approvals = await resolve(store.changes_by_id(space, entries))
        return proposals.open_proposals(changes, approvals)

    async def approve(
        self, change_id: str, *, namespace: Sequence[str], edited: Mapping[str, Any]
    ) -> Change:
        """Write the entry of a proposal, with what the reviewer changed of it."""
        space = check_namespace(namespace)
        proposal = await self._proposal(space, change_id)
        target, source = await self._notes(space, [proposal.note_id, proposal.cause or ""])
        await self._check_not_approved(space, proposal, target)
        op = new_operation()
        entry = proposals.approved_entry(proposal, source, op, edited, now())
        edit = proposals.approve(proposal, entry, op, sorted(edited))
        _, changes = await rewrite(self._runtime, space, op, {target.id: edit})
        if not changes:
            raise gone(space, target.id)
        return changes[0]

    async def reject(self, change_id: str, *, namespace: Sequence[str]) -> Change:
        """Record that a proposal is not wanted."""
        space = check_namespace(namespace)
        proposal = await self._proposal(space, change_id)
        (target,) = await self._notes(space, [proposal.note_id])
        await self._check_not_approved(space, proposal, target)
        record = proposals.rejection(proposal, target, new_operation(), now(), "by a reviewer")
        await resolve(self._runtime.store.replace(space, [], [record]))
        return record

    async def _check_not_approved(
        self, namespace: Namespace, proposal: Change, target: Note
    ) -> None:
        entries = proposals.possible_answers([proposal], [target])
        for made in await resolve(self._runtime.store.changes_by_id(namespace, entries)):
            if made.data.get("proposal") == proposal.id:
                raise InvalidInputError(
                    f"proposal {proposal.id!r} was approved by change {made.id!r}; undo that first"
                )

    async def _proposal(self, namespace: Namespace, change_id: str) -> Change:
        found = await self._change(namespace, change_id)
        if found.kind != "proposal":
            raise InvalidInputError(
                f"change {change_id!r} is of kind {found.kind!r}, not a proposal; see proposals()"
            )
        return found

    async def _change(self, namespace: Namespace, change_id: str) -> Change:
        found = await resolve(self._runtime.store.changes_by_id(namespace, [change_id]))
        if not found:
            raise NoteNotFoundError(
                f"there is no change {change_id!r} in namespace {namespace!r}; history() lists them"
            )
        return found[0]

    async def _notes(self, namespace: Namespace, ids: Sequence[str]) -> list[Note]:
        return await existing(self._runtime.store, namespace, ids)
