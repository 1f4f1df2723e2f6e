"""History: what was changed, and taking it back, one change or all that a model did."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import overload

from ..changes import undo as undoing
from ..changes.edits import Edit, chain
from ..changes.proposals import rejection
from ..changes.rewrite import rewrite
from ..changes.unknown_texts import remove_brought_back
from ..errors import InvalidInputError, RevisionConflictError
from ..fetch import all_changes, existing, existing_change
from ..ids import first_seq, new_operation, now
from ..notes import Change, Namespace, Note, check_namespace, check_time
from ..plans import UndoReport
from ..runtime import Runtime, resolve
from .content import (
    SHARED,
    later_chunks,
    remove_old_text,
    set_later_chunks,
)
from .review import open_proposals

BATCH = 64  # changes that are taken back by one write
APPROVED = "a reviewer approved it"
UNDONE = "what the model did at that time was undone"


async def history(
    runtime: Runtime, note_id: str | None, *, namespace: Sequence[str]
) -> list[Change]:
    """Return the changes of a note, or (None) of the whole namespace, oldest first.

    Of a deleted note the receipt is left, and of a cleared namespace the receipt of that. What models have cost
    is in `usage`.

    Raises:
        NoteNotFoundError: There neither is nor was a note with this id in this namespace.
    """
    space = check_namespace(namespace)
    changes = await all_changes(runtime.store, space, note_id)
    if note_id is not None and not (changes and note_id):
        await existing(runtime.store, space, [note_id])
    return [made for made in changes if made.kind not in ("prompt", "usage")]


@overload
async def undo(runtime: Runtime, change_id: str, *, namespace: Sequence[str]) -> Change: ...
@overload
async def undo(
    runtime: Runtime, change_id: list[str] | tuple[str, ...], *, namespace: Sequence[str]
) -> UndoReport: ...
@overload
async def undo(
    runtime: Runtime,
    *,
    namespace: Sequence[str],
    model: str | None = None,
    since: datetime | None = None,
) -> UndoReport: ...
async def undo(
    runtime: Runtime,
    change_id: str | list[str] | tuple[str, ...] | None = None,
    *,
    namespace: Sequence[str],
    model: str | None = None,
    since: datetime | None = None,
) -> Change | UndoReport:
    """Take back a change, several, or all that a model did.

    Of one change it returns the change that takes it back, which can be undone itself. What can be undone:
    `construct` (the note is pending again), `evolve`, `link` and `unlink` (at both ends), `supersede`, `update`,
    `upgrade` and `undo`.

    Of several changes, and with `model` or `since`, it takes back the last change first and returns an
    `UndoReport`. What somebody else built on stays, and so does what a reviewer approved of a model's proposals:
    the report says so. The model's open proposals are rejected. Calling it again changes nothing; after an
    interruption it goes on. `undo(report.changes, namespace=…)` has everything back.

    Args:
        change_id: Which change, or a list of several; `history()` lists them.
        namespace: Whose memory.
        model: All that this model did, by the name that the history has for it. None: any model.
        since: Only what was changed at that time or later.

    Raises:
        RevisionConflictError: A later change touched the same field of a single one; the message names it.
        InvalidInputError: A change of this kind cannot be undone; the message says what to do. Or both a
            change and a model are given, or neither.
        NoteNotFoundError: There is no such change in this namespace.
        ModelUnavailableError: The embedder failed; of a single change nothing was taken back.
    """
    space = check_namespace(namespace)
    check_time("since", since)
    if not isinstance(model, str | None):
        raise InvalidInputError(f"model={model!r} must be the name of a model")
    if (change_id is None) == (model is None and since is None):
        raise InvalidInputError("undo takes either the id of a change, or model= and since=")
    if change_id is None:
        return await _Undoing(runtime, space).of_model(model, since)
    if isinstance(change_id, list | tuple):
        return await _Undoing(runtime, space).of_these(change_id)
    return await _undo_one(runtime, space, change_id)


async def _undo_one(runtime: Runtime, space: Namespace, change_id: str) -> Change:
    store = runtime.store
    made = await existing_change(store, space, change_id)
    undoing.check_undoable(made)
    undoing.check_free(made, await all_changes(store, space, made.note_id, after=made.seq))
    op, at = new_operation(), now()
    edits = _edits(made, op, at)
    for other in await _of_later_chunks(runtime, space, made):
        edits |= _edits(other, op, at)
    known = {note.id: note for note in await existing(store, space, list(edits))}
    done = await rewrite(runtime, space, op, edits, base=known)
    undone = [change for change in done.changes if change.note_id == made.note_id]
    if not undone:
        raise RevisionConflictError(f"change {change_id!r} has no effect any more; see history()")
    await remove_brought_back(runtime, space, done.changes)
    await remove_old_text(runtime, space, op, undone)
    await _undo_later_chunks(runtime, space, done.notes[made.note_id], undone[0])
    return undone[0]


async def _of_later_chunks(runtime: Runtime, space: Namespace, made: Change) -> list[Change]:
    """Return the changes by which the other chunks of a text were superseded with the first, or that was undone.

    What was changed again since is left as it is.
    """
    if made.kind not in ("supersede", "undo"):
        return []
    notes = await resolve(runtime.store.get(space, [made.note_id]))
    chunks = {chunk.id for note in notes for chunk in await later_chunks(runtime, space, note)}
    same = await resolve(runtime.store.changes_by_op(space, [made.op])) if chunks else []
    found = []
    for each in same:
        if each.note_id in chunks and (each.kind, each.cause) == (made.kind, made.cause):
            later = await all_changes(runtime.store, space, each.note_id, after=each.seq)
            found += [each] if undoing.obstacle_to(each, later) is None else []
    return found


async def _undo_later_chunks(
    runtime: Runtime, namespace: Namespace, first: Note, undone: Change
) -> None:
    """Give the chunks after the first what an undone update had changed for all of them."""
    steps = undone.data["fields"]
    shared = {name: getattr(first, name) for name in SHARED if name in steps}
    others = await later_chunks(runtime, namespace, first) if shared else []
    if "rest" in steps or others:
        contents = [chunk.content for chunk in others]
        contents = steps["rest"]["after"] if "rest" in steps else contents
        await set_later_chunks(runtime, namespace, undone.op, first, contents, shared)


def _edits(made: Change, op: str, at: datetime) -> dict[str, Edit]:
    """Return by note what takes a change back, at both ends of a link."""
    return {**undoing.undo_other_ends(made, op, at), made.note_id: undoing.undo(made, op, at)}


@dataclass(slots=True)
class _Undoing:
    """Takes back many changes. Each batch is one write, and a batch that was written is not done again."""

    runtime: Runtime
    space: Namespace
    by_note: Mapping[str, list[Change]] = field(default_factory=dict)
    cleared: set[str] = field(default_factory=set)  # ids of changes that are not in force any more
    skipped: dict[str, str] = field(default_factory=dict)
    records: list[Change] = field(default_factory=list)

    async def of_these(self, ids: Sequence[str]) -> UndoReport:
        """Take back these changes; of a kind that cannot be undone, or an unknown one, none is."""
        found = [
            await existing_change(self.runtime.store, self.space, i) for i in dict.fromkeys(ids)
        ]
        for made in found:
            undoing.check_undoable(made)
        others = [await _of_later_chunks(self.runtime, self.space, made) for made in found]
        given = list({made.id: made for group in (found, *others) for made in group}.values())
        first = min((made.seq for made in given), default=0)
        changes = await all_changes(self.runtime.store, self.space, after=first - 1)
        await self._take_all_back(sorted(given, key=lambda made: -made.seq), changes)
        return self._report()

    async def of_model(self, model: str | None, since: datetime | None) -> UndoReport:
        """Take back what a model did, and reject its open proposals."""
        after = first_seq(since) - 1 if since else -1
        changes = await all_changes(self.runtime.store, self.space, after=after)
        theirs = undoing.made_by(changes, model)
        self.skipped |= {made.id: APPROVED for made in theirs if "proposal" in made.data}
        await self._take_all_back([m for m in theirs if m.id not in self.skipped], changes)
        proposed = [
            made.id
            for made in changes
            if made.kind == "proposal" and (model is None or made.model == model)
        ]
        return self._report(rejected=await self._reject(proposed))

    def _report(self, rejected: Sequence[str] = ()) -> UndoReport:
        return UndoReport(
            undone=tuple(made.data["undone"] for made in self.records),
            changes=tuple(made.id for made in self.records if made.kind == "undo"),
            skipped={i: why for i, why in self.skipped.items() if i not in self.cleared},
            rejected=tuple(rejected),
        )

    async def _take_all_back(self, left: Sequence[Change], changes: Sequence[Change]) -> None:
        """Take changes back, given the last one first, and all that was changed since the first of them."""
        self.by_note = defaultdict(list)
        for made in changes:
            self.by_note[made.note_id].append(made)
        for is_alone, group in groupby(left, key=undoing.is_of_text):
            alike = list(group)
            step = 1 if is_alone else BATCH
            for start in range(0, len(alike), step):
                batch = alike[start : start + step]
                await (self._take_one_back(*batch) if is_alone else self._take_back(batch))

    async def _take_one_back(self, made: Change) -> None:
        """Take back what the user gave, as what was made of it elsewhere goes too."""
        if self._is_free(made):
            self.records.append(await _undo_one(self.runtime, self.space, made.id))
            self.cleared.add(made.id)

    async def _take_back(self, batch: Sequence[Change]) -> None:
        op, at = new_operation(), now()
        steps: defaultdict[str, list[Edit]] = defaultdict(list)
        for made in batch:
            if self._is_free(made):
                # The record at the other end of a link is of the same change.
                self.cleared |= {made.id, *undoing.ids_at_other_ends(made).values()}
                for note_id, edit in _edits(made, op, at).items():
                    steps[note_id].append(edit)
        edits = {note_id: chain(parts) for note_id, parts in steps.items()}
        done = await rewrite(self.runtime, self.space, op, edits)
        await remove_brought_back(self.runtime, self.space, done.changes)
        places = {made.id: place for place, made in enumerate(batch)}
        self.records += sorted(
            done.changes, key=lambda made: places.get(made.data["undone"], len(batch))
        )

    def _is_free(self, made: Change) -> bool:
        """Return whether a change can be taken back; if not, note why, unless it was taken back before."""
        if made.id in self.cleared:
            return False
        history = self.by_note[made.note_id]
        later = [c for c in history if c.seq > made.seq and c.id not in self.cleared]
        if (obstacle := undoing.obstacle_to(made, later)) is not None:
            other, touched = obstacle
            if touched:
                who = f" by {other.model}" if other.model else ""
                self.skipped[made.id] = (
                    f"change {other.id!r} ({other.kind!r}{who}) touched {', '.join(touched)} after it"
                )
            return False
        if made.data.get("blanked"):
            self.skipped[made.id] = "it quoted a text that was deleted or corrected since"
            return False
        return True

    async def _reject(self, ids: Sequence[str]) -> list[str]:
        """Take those of the proposals that are open off the list; return their ids."""
        if not ids:
            return []
        notes, waiting = await open_proposals(self.runtime, self.space)
        op, at, theirs = new_operation(), now(), set(ids)
        mine = [made for made in waiting if made.id in theirs and made.note_id in notes]
        records = [rejection(made, notes[made.note_id], op, at, UNDONE) for made in mine]
        if records:
            await resolve(self.runtime.store.replace(self.space, [], records))
        return [made.id for made in mine]
