"""History: what was changed, and taking it back, one change or all that a model did."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby
from typing import overload

from ..decisions import Call, Decision, Flip, Item, Switch
from ..errors import InvalidInputError, NoteNotFoundError, RevisionConflictError
from ..fetch import not_found
from ..ids import first_seq
from ..journal.changes import (
    ADD,
    DELETE,
    ChangeId,
    Edit,
    change_of_edit,
    change_of_flip,
    changes_of,
    changes_of_note,
    edits_of,
    id_of,
    switch_before,
)
from ..journal.erasure import forget
from ..journal.history import Place, toggle_all
from ..journal.insertion import edit as edit_note
from ..notes import USER, Change, Namespace, Note, check_namespace, check_time
from ..plans import UndoReport
from ..ports import NoteQuery, RecordQuery
from ..runtime import Runtime, resolve
from ..stored_note import StoredNote
from .writing import writing

BATCH = 64  # decisions that are written by one request
APPROVED = "a reviewer approved it"
VOID = "it quoted a text that was deleted or corrected since"
INSTEAD = {
    ADD: "a note is taken back by delete()",
    DELETE: "what was deleted is gone for good; add it again",
    "failure": "nothing was changed; evolve() tries the note again",
    "waiting": "nothing was written; approve() or reject() it",
    "rejected": "nothing was written; approve() the proposal to have it after all",
}


async def history(
    runtime: Runtime, note_id: str | None, *, namespace: Sequence[str]
) -> list[Change]:
    """Return the changes of a note, or (None) of the whole namespace, oldest first.

    Of what the user edited, the newest 20 edits of each note are kept. A note that was deleted says so until `sweep`
    takes the last trace of the note. What models have cost is in `usage`.

    Raises:
        NoteNotFoundError: There neither is nor was a note with this id in this namespace.
    """
    space, store = check_namespace(namespace), runtime.store
    if note_id is None:
        notes = await resolve(store.find_notes(space, NoteQuery()))
        records = (await resolve(store.find_records(space, RecordQuery()))).values()
        decisions = [one for one in records if isinstance(one, Decision)]
        by = {one.id: one.by for one in records if isinstance(one, Call)}
        return changes_of(notes.values(), decisions, by)
    stored = (await resolve(store.notes(space, [note_id]))).get(note_id)
    # A form has no note.
    query = RecordQuery(about=frozenset([note_id])) if stored else RecordQuery(note=note_id)
    found = await resolve(store.find_records(space, replace(query, decisions=True)))
    decisions = [
        one
        for one in found.values()
        if isinstance(one, Decision) and (stored is not None or one.stage == "form")
    ]
    if stored is None and not decisions:
        raise not_found(space, note_id)
    calls = sorted({one.call for one in decisions if one.void})
    read = await resolve(store.records(space, calls)) if calls else {}
    by = {key: one.by for key, one in read.items() if isinstance(one, Call)}
    return (
        changes_of([], decisions, by) if stored is None else changes_of_note(stored, decisions, by)
    )


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
    `construct` (the note is pending again, and the next `evolve` makes it anew), `evolve`, `link`, `relink`,
    `supersede`, `fill`, `update` (by another edit, or correction, back) and `undo`. A change that is off already is
    switched on again; an approved proposal waits again.

    Of several changes, and with `model` or `since`, it takes back the last change first and returns an
    `UndoReport`. What is off already stays off. What a reviewer approved of a model's proposals stays: the report says
    so. The model's open proposals are taken off the list. Calling it again changes nothing; after an interruption it
    goes on. `undo(report.changes, namespace=…)` has everything back.

    Args:
        change_id: Which change, or a list of several; `history()` lists them.
        namespace: Whose memory.
        model: All that this model did, by the name that the history has for it. None: any model.
        since: Only what was changed at that time or later.

    Raises:
        RevisionConflictError: A later edit changed the same field, or a switch was set again since; the message names
            the later change.
        InvalidInputError: A change of this kind cannot be undone; the message says what to do. Or both a
            change and a model are given, or neither.
        NoteNotFoundError: There is no such change in this namespace.
    """
    space = check_namespace(namespace)
    check_time("since", since)
    if not isinstance(model, str | None):
        raise InvalidInputError(f"model={model!r} must be the name of a model")
    if (change_id is None) == (model is None and since is None):
        raise InvalidInputError("undo takes either the id of a change, or model= and since=")
    undoing = _Undoing(runtime, space)
    if change_id is None:
        return await undoing.of_model(model, since)
    if isinstance(change_id, list | tuple):
        return await undoing.of_these(change_id)
    return await undoing.of_one(change_id)


@dataclass(frozen=True, slots=True)
class FoundEdit:
    """A change of a note by the user, found by the id of the change; the edit is None where a note is added or deleted."""

    id: str
    seq: int
    stored: StoredNote
    edit: Edit | None
    kind: str

    def check(self) -> None:
        """Do nothing if the change can be undone.

        Raises:
            InvalidInputError: The change cannot be undone; the message says what to do instead.
        """
        if self.edit is None:
            raise _not_undoable(self.id, self.kind, self.kind)


@dataclass(frozen=True, slots=True)
class FoundItem:
    """An item of a decision, or (with a flip) a setting of its switch, found by the id of the change.

    Without an item the text is gone, of which it was made.
    """

    id: str
    seq: int
    decision: Decision
    item: Item | None
    flip: Flip | None

    @property
    def place(self) -> Place:
        """Where the item stands."""
        return self.decision.id, -1 if self.item is None else self.item.number

    def check(self) -> None:
        """Do as `FoundEdit.check` does; a change that is void passes."""
        if self.item is None or self.flip is not None:
            return
        for kind in (self.item.kind, self.item.switch):
            if kind in INSTEAD:
                raise _not_undoable(self.id, self.item.kind, kind)


def _not_undoable(change_id: str, kind: str, why: str) -> InvalidInputError:
    return InvalidInputError(f"change {change_id!r} is of kind {kind!r}: {INSTEAD[why]}")


async def find_changes(
    runtime: Runtime, space: Namespace, ids: Iterable[str]
) -> list[FoundEdit | FoundItem]:
    """Return the changes with these ids, in this order.

    Raises:
        NoteNotFoundError: There is no such change in this namespace; the message names the first of those.
    """
    parsed = {text: ChangeId.parse(text) for text in ids}
    of_notes = sorted({one.of for one in parsed.values() if one and one.number is None})
    of_decisions = sorted({one.of for one in parsed.values() if one and one.number is not None})
    store = runtime.store
    notes = await resolve(store.notes(space, of_notes)) if of_notes else {}
    records = await resolve(store.records(space, of_decisions)) if of_decisions else {}
    found = list[FoundEdit | FoundItem]()
    for text, parts in parsed.items():
        one: FoundEdit | FoundItem | None = None
        if parts is not None and (stored := notes.get(parts.of)) is not None:
            one = _edit_with(text, stored, parts.write)
        elif parts is not None and isinstance(decision := records.get(parts.of), Decision):
            one = _item_with(text, decision, parts)
        if one is None:
            raise NoteNotFoundError(f"there is no change {text!r} in namespace {space!r}")
        found.append(one)
    return found


def _edit_with(text: str, stored: StoredNote, write: str) -> FoundEdit | None:
    if write in (ADD, DELETE):
        is_so = stored.is_deleted is (write == DELETE)
        return FoundEdit(text, stored.rev, stored, None, write) if is_so else None
    edits = {} if stored.is_deleted else {edit.token: edit for edit in edits_of(stored)}
    edit = edits.get(write)
    return FoundEdit(text, edit.seq, stored, edit, "update") if edit else None


def _item_with(text: str, decision: Decision, parts: ChangeId) -> FoundItem | None:
    item = decision.item(parts.number or 0)
    if item is None or not parts.write:
        return FoundItem(text, decision.seq, decision, item, None)
    flip = next((one for one in item.log if one.token == parts.write), None)
    return flip and FoundItem(text, flip.seq, decision, item, flip)


@dataclass(slots=True)
class _Undoing:
    """Takes changes back. What was written is not done again."""

    runtime: Runtime
    space: Namespace
    undone: list[str] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)

    async def of_one(self, change_id: str) -> Change:
        """Take back one change; one that is off is switched on again."""
        (found,) = await find_changes(self.runtime, self.space, [change_id])
        found.check()
        if isinstance(found, FoundEdit):
            return await self._edit_back(found)
        if found.item is None:
            raise InvalidInputError(f"change {change_id!r} cannot be undone: {VOID}")
        switch = _switch_back(found.item, found.flip)
        if switch is None:
            later = f"{id_of(found.decision, found.item)}:{found.item.log[-1].token}"
            raise RevisionConflictError(
                f"change {change_id!r} cannot be undone: change {later!r} set the switch after it; undo that one"
            )
        if found.flip is None and found.item.switch == "off":
            switch = found.item.first_switch
        known = {found.decision.id: found.decision}
        async with writing(self.runtime, self.space) as writer:
            flips = await toggle_all(writer, {found.place: switch}, known)
        if not flips:
            raise InvalidInputError(f"change {change_id!r} cannot be undone: {VOID}")
        (flip,) = flips.values()
        return change_of_flip(found.decision, found.item.flipped(flip), flip)

    async def of_these(self, ids: Sequence[str]) -> UndoReport:
        """Take back these changes; of a kind that cannot be undone, or an unknown one, none is."""
        found = await find_changes(self.runtime, self.space, ids)
        for one in found:
            one.check()
        found.sort(key=lambda one: (-one.seq, one.id))
        for is_item, group in groupby(found, key=lambda one: isinstance(one, FoundItem)):
            if is_item:
                await self._switch_back([one for one in group if isinstance(one, FoundItem)])
                continue
            for edited in group:
                await self._edit_back_if_free(edited.id)
        return self._report()

    async def of_model(self, model: str | None, since: datetime | None) -> UndoReport:
        """Take back what a model decided and switched, and take its open proposals off the list."""
        first = first_seq(since) if since else 0
        query = RecordQuery(decisions=True)
        records = await resolve(self.runtime.store.find_records(self.space, query))
        theirs, rejected = list[FoundItem](), list[FoundItem]()
        for decision in records.values():
            if not isinstance(decision, Decision):
                continue
            for item in decision.items:
                one = FoundItem(id_of(decision, item), decision.seq, decision, item, None)
                flips = _flips_by(item, model, first)
                theirs += [
                    FoundItem(f"{one.id}:{flip.token}", flip.seq, decision, item, flip)
                    for flip in flips
                ]
                switch = switch_before(item, flips[0].token) if flips else item.switch
                if item.kind == "failure" or decision.seq < first or not _is_by(item.by, model):
                    continue
                if switch == "waiting":
                    rejected.append(one)
                elif switch == "on" and item.first_switch == "waiting":
                    self.skipped[one.id] = APPROVED
                elif switch == "on":
                    theirs.append(one)
        theirs.sort(key=lambda one: (-one.seq, one.id))
        await self._switch_back(theirs)
        rejected.sort(key=lambda one: (-one.seq, one.id))
        off = await self._set({one.place: "off" for one in rejected}, rejected)
        self.changes += [_flip_id(place, flip) for place, flip in off.items()]
        return self._report(rejected=[one.id for one in rejected if one.place in off])

    def _report(self, rejected: Sequence[str] = ()) -> UndoReport:
        return UndoReport(
            undone=tuple(self.undone),
            changes=tuple(self.changes),
            skipped=self.skipped,
            rejected=tuple(rejected),
        )

    async def _switch_back(self, found: Sequence[FoundItem]) -> None:
        """Take back items and flips, given the last one first; what is not in force any more is passed over."""
        items = {one.place: one.item for one in found if one.item is not None}
        taken: list[FoundItem] = []
        for one in found:
            item = items.get(one.place)
            if item is None:
                self.skipped[one.id] = VOID
            elif (switch := _switch_back(item, one.flip)) is None:
                later = _flip_id(one.place, item.log[-1])
                self.skipped[one.id] = f"change {later!r} set the switch after it"
            elif switch != item.switch:
                log = item.log if one.flip is None else item.log[:-1]
                items[one.place] = replace(item, switch=switch, log=log)
                taken.append(one)
        # What comes out as it is needs no write.
        taken = [one for one in taken if one.item and items[one.place].switch != one.item.switch]
        flips = await self._set({one.place: items[one.place].switch for one in taken}, taken)
        self.undone += [one.id for one in taken if one.place in flips]
        self.changes += [_flip_id(place, flip) for place, flip in flips.items()]

    async def _set(
        self, switches: Mapping[Place, Switch], found: Sequence[FoundItem]
    ) -> dict[Place, Flip]:
        """Set switches, a batch of decisions at a time; return those that were set, in their order."""
        known = {one.decision.id: one.decision for one in found}
        ids, made = list(known), dict[Place, Flip]()
        for start in range(0, len(ids), BATCH):
            batch = {key: known[key] for key in ids[start : start + BATCH]}
            mine = {place: switch for place, switch in switches.items() if place[0] in batch}
            async with writing(self.runtime, self.space) as writer:
                made |= await toggle_all(writer, mine, batch)
        return {place: made[place] for place in switches if place in made}

    async def _edit_back_if_free(self, change_id: str) -> None:
        # What was taken back before has changed the note.
        for found in await find_changes(self.runtime, self.space, [change_id]):
            if isinstance(found, FoundEdit):
                try:
                    made = await self._edit_back(found)
                except RevisionConflictError as error:
                    self.skipped[change_id] = str(error)
                else:
                    self.undone.append(change_id)
                    self.changes.append(made.id)

    async def _edit_back(self, found: FoundEdit) -> Change:
        """Give the fields of a note back what they held before an edit, by another edit or correction."""
        edit, note_id = found.edit, found.stored.id
        if edit is None or not edit.before:
            raise InvalidInputError(f"change {found.id!r} cannot be undone: {VOID}")

        def back(note: Note) -> Note:
            values = {name: getattr(note, name) for name in edit.after}
            if values == edit.after:
                return note.revised(**edit.before)
            touched = [name for name in values if values[name] != edit.after[name]]
            raise RevisionConflictError(
                f"change {found.id!r} cannot be undone: change {_last(found.stored, touched)!r} ('update') "
                f"touched {', '.join(touched)} after it; undo that one first"
            )

        if found.stored.note is not None:
            back(found.stored.note)
        async with writing(self.runtime, self.space) as writer:
            if edit.corrects:
                await forget(writer, note_id, back)
            else:
                await edit_note(writer, note_id, back)
            stored = (await writer.notes([note_id])).get(note_id)
        made = [] if stored is None else [one for one in edits_of(stored) if one.seq > edit.seq]
        made = [one for one in made if one.after == edit.before]
        if not made:
            raise not_found(self.space, note_id)
        return change_of_edit(note_id, made[-1])


def _last(stored: StoredNote, names: Sequence[str]) -> str:
    """Return the id of the last edit of a note that touched one of these fields."""
    touching = [edit for edit in edits_of(stored) if not edit.before.keys().isdisjoint(names)]
    return f"{stored.id}:{touching[-1].token}" if touching else stored.id


def _switch_back(item: Item, flip: Flip | None) -> Switch | None:
    """Return how the switch of an item is set when the item, or a flip, is taken back; None: it was set again since."""
    if flip is not None:
        return switch_before(item, flip.token) if item.log[-1].token == flip.token else None
    if item.switch != "on":
        return item.switch
    return "waiting" if item.first_switch == "waiting" else "off"


def _flips_by(item: Item, model: str | None, first: int) -> list[Flip]:
    """Return the flips at the end of an item's log that a model made since an instant, oldest first."""
    flips: list[Flip] = []
    for flip in reversed(item.log):
        if flip.seq < first or not _is_by(flip.by, model):
            break
        flips.insert(0, flip)
    return flips


def _is_by(who: str, model: str | None) -> bool:
    return who == model if model else who != USER


def _flip_id(place: Place, flip: Flip) -> str:
    return f"{place[0]}:{place[1]}:{flip.token}"
