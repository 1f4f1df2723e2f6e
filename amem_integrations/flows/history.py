"""History: what was changed, taking it back, and what waits for a person's decision."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import takewhile
from typing import Any, TypeVar, overload

from ..decisions import Call, Decision, Flip, Item, Switch
from ..errors import InvalidInputError, NoteNotFoundError, RevisionConflictError
from ..evolution.gate import edited
from ..fetch import existing, get, not_found
from ..ids import first_seq, now
from ..journal.changes import (
    ADD,
    DELETE,
    ChangeId,
    Edit,
    change_of_edit,
    change_of_flip,
    change_of_item,
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
Ids = list[str] | tuple[str, ...]


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
        records = await resolve(store.find_records(space, RecordQuery()))
        return changes_of(notes.values(), _decisions(records), _makers(records))
    stored = (await resolve(store.notes(space, [note_id]))).get(note_id)
    # A form has no note.
    query = RecordQuery(about=frozenset([note_id])) if stored else RecordQuery(note=note_id)
    found = await resolve(store.find_records(space, replace(query, decisions=True)))
    decisions = [one for one in _decisions(found) if stored or one.stage == "form"]
    if stored is None and not decisions:
        raise not_found(space, note_id)
    calls = sorted({one.call for one in decisions if one.void})
    by = _makers(await resolve(store.records(space, calls)) if calls else {})
    return changes_of_note(stored, decisions, by) if stored else changes_of([], decisions, by)


def _decisions(records: Mapping[str, object]) -> list[Decision]:
    return [one for one in records.values() if isinstance(one, Decision)]


def _makers(records: Mapping[str, object]) -> dict[str, str]:
    """Return by the id of each call who made it."""
    return {key: one.by for key, one in records.items() if isinstance(one, Call)}


@overload
async def undo(runtime: Runtime, change_id: str, *, namespace: Sequence[str]) -> Change: ...
@overload
async def undo(runtime: Runtime, change_id: Ids, *, namespace: Sequence[str]) -> UndoReport: ...
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
    change_id: str | Ids | None = None,
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

    Of several changes, and with `model` or `since`, it takes back what was decided, then what was edited, each the last
    change first, and returns an `UndoReport`. What is off already stays off. What a reviewer approved of a model's proposals stays: the report says
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
        return await undoing.of_model(model, first_seq(since) if since else 0)
    if isinstance(change_id, list | tuple):
        return await undoing.of_these(change_id)
    report = await undoing.of_these([change_id], again=True)
    for one, why in report.skipped.items():
        error = InvalidInputError if why == VOID else RevisionConflictError
        raise error(f"change {one!r} cannot be undone: {why}")
    return undoing.made[0]


@dataclass(frozen=True, slots=True)
class FoundEdit:
    """A change of a note by the user, found by the id of the change; the edit is None where a note is added or deleted."""

    id: str
    seq: int
    note: str
    edit: Edit | None
    kind: str


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

    def flipped(self, flip: Flip) -> Change:
        """Return the change that a new setting of the switch is."""
        if self.item is None:
            raise InvalidInputError(f"change {self.id!r} cannot be undone: {VOID}")
        return change_of_flip(self.decision, self.item.flipped(flip), flip)


def _check_undoable(found: FoundEdit | FoundItem) -> None:
    """Do nothing if a change is of a kind that can be undone.

    Raises:
        InvalidInputError: The change cannot be undone; the message says what to do instead.
    """
    kinds: tuple[str, ...] = ()
    if isinstance(found, FoundEdit):
        kinds = (found.kind,)
    elif found.item is not None and found.flip is None:
        kinds = (found.item.kind, found.item.switch)
    for kind in kinds:
        if kind in INSTEAD:
            raise InvalidInputError(f"change {found.id!r} is of kind {kinds[0]!r}: {INSTEAD[kind]}")


async def _find(
    runtime: Runtime, space: Namespace, ids: Iterable[str]
) -> list[FoundEdit | FoundItem]:
    """Return the changes with these ids, in this order.

    Raises:
        NoteNotFoundError: There is no such change in this namespace; the message names the first of those.
    """
    parsed = {text: ChangeId.parse(text) for text in ids}
    of_notes = sorted({one.of for one in parsed.values() if one and one.number is None})
    of_decisions = sorted({one.of for one in parsed.values() if one and one.number is not None})
    store, found = runtime.store, list[FoundEdit | FoundItem]()
    notes = await resolve(store.notes(space, of_notes)) if of_notes else {}
    records = await resolve(store.records(space, of_decisions)) if of_decisions else {}
    for text, parts in parsed.items():
        one: FoundEdit | FoundItem | None = None
        if parts is not None and (stored := notes.get(parts.of)) is not None:
            edits = {} if stored.is_deleted else {edit.token: edit for edit in edits_of(stored)}
            if (edit := edits.get(parts.write)) is not None:
                one = FoundEdit(text, edit.seq, stored.id, edit, "update")
            elif parts.write == (DELETE if stored.is_deleted else ADD):
                one = FoundEdit(text, stored.rev, stored.id, None, parts.write)
        elif parts is not None and isinstance(decision := records.get(parts.of), Decision):
            item = decision.item(parts.number or 0)
            flips = {flip.token: flip for flip in item.log} if item else {}
            if item is None or not parts.write:
                one = FoundItem(text, decision.seq, decision, item, None)
            elif (flip := flips.get(parts.write)) is not None:
                one = FoundItem(text, flip.seq, decision, item, flip)
        if one is None:
            raise NoteNotFoundError(f"there is no change {text!r} in namespace {space!r}")
        found.append(one)
    return found


@dataclass(slots=True)
class _Undoing:
    """Takes changes back. What was written is not done again."""

    runtime: Runtime
    space: Namespace
    undone: list[str] = field(default_factory=list)
    made: list[Change] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)

    async def of_these(self, ids: Sequence[str], *, again: bool = False) -> UndoReport:
        """Take back these changes; of a kind that cannot be undone, or an unknown one, none is.

        With `again` an item that is off already is switched on.
        """
        found = await _find(self.runtime, self.space, ids)
        for one in found:
            _check_undoable(one)
        items = [one for one in found if isinstance(one, FoundItem)]
        await self._switch_back(_newest_first(items), again=again)
        for one in _newest_first(one for one in found if isinstance(one, FoundEdit)):
            if one.edit is not None:
                await self._edit_back(one.id, one.note, one.edit)
        return self._report()

    async def of_model(self, model: str | None, first: int) -> UndoReport:
        """Take back what a model decided and switched since an instant, and take its open proposals off the list."""
        query = RecordQuery(decisions=True)
        records = await resolve(self.runtime.store.find_records(self.space, query))
        theirs, rejected = list[FoundItem](), list[FoundItem]()
        for decision in _decisions(records):
            for item in decision.items:
                one = FoundItem(id_of(decision, item), decision.seq, decision, item, None)
                flips = _flips_by(item, model, first)
                theirs += [
                    replace(one, id=f"{one.id}:{flip.token}", seq=flip.seq, flip=flip)
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
        await self._switch_back(_newest_first(theirs))
        rejected = _newest_first(rejected)
        off = await self._set({one.place: "off" for one in rejected}, rejected)
        return self._report(rejected=[one.id for one in rejected if one.place in off])

    def _report(self, rejected: Sequence[str] = ()) -> UndoReport:
        return UndoReport(
            undone=tuple(self.undone),
            changes=tuple(change.id for change in self.made),
            skipped=self.skipped,
            rejected=tuple(rejected),
        )

    async def _switch_back(self, found: Sequence[FoundItem], *, again: bool = False) -> None:
        """Take back items and flips, given the last one first; what is not in force any more is passed over."""
        items = {one.place: one.item for one in found if one.item is not None}
        taken: list[FoundItem] = []
        for one in found:
            item = items.get(one.place)
            if item is None:
                self.skipped[one.id] = VOID
            elif (switch := _switch_back(item, one.flip, again=again)) is None:
                later = f"{id_of(one.decision, item)}:{item.log[-1].token}"
                self.skipped[one.id] = f"change {later!r} set the switch after it; undo that one"
            elif switch != item.switch:
                log = item.log if one.flip is None else item.log[:-1]
                items[one.place] = replace(item, switch=switch, log=log)
                taken.append(one)
        # A switch that ends as it is needs no write.
        taken = [one for one in taken if one.item and items[one.place].switch != one.item.switch]
        flips = await self._set({one.place: items[one.place].switch for one in taken}, taken)
        self.undone += [one.id for one in taken if one.place in flips]
        self.skipped |= {one.id: VOID for one in taken if one.place not in flips}

    async def _set(
        self, switches: Mapping[Place, Switch], found: Sequence[FoundItem]
    ) -> dict[Place, Flip]:
        """Set switches, a batch of decisions at a time; return those that were set."""
        known = {one.decision.id: one.decision for one in found}
        ids, flips = list(known), dict[Place, Flip]()
        for start in range(0, len(ids), BATCH):
            batch = {key: known[key] for key in ids[start : start + BATCH]}
            mine = {place: switch for place, switch in switches.items() if place[0] in batch}
            async with writing(self.runtime, self.space) as writer:
                flips |= await toggle_all(writer, mine, batch)
        at = {one.place: one for one in found}
        self.made += [at[place].flipped(flips[place]) for place in switches if place in flips]
        return flips

    async def _edit_back(self, change_id: str, note_id: str, edit: Edit) -> None:
        """Give the fields of a note back what they held before an edit, by another edit or correction."""
        stored = (await resolve(self.runtime.store.notes(self.space, [note_id]))).get(note_id)
        if stored is None or stored.note is None:
            raise not_found(self.space, note_id)
        later = stored

        def back(note: Note) -> Note:
            touched = [name for name in edit.after if getattr(note, name) != edit.after[name]]
            if not touched:
                return note.revised(**edit.before)
            edits = [one for one in edits_of(later) if not one.before.keys().isdisjoint(touched)]
            last = f"{note_id}:{edits[-1].token}" if edits else note_id
            raise RevisionConflictError(
                f"change {last!r} ('update') touched {', '.join(touched)} after it; undo that one first"
            )

        if not edit.before:
            self.skipped[change_id] = VOID
            return
        try:
            back(stored.note)
            async with writing(self.runtime, self.space) as writer:
                change = forget if edit.corrects else edit_note
                await change(writer, note_id, back)
                stands = (await writer.notes([note_id])).get(note_id)
        except RevisionConflictError as error:
            self.skipped[change_id] = str(error)
            return
        made = [] if stands is None else [one for one in edits_of(stands) if one.seq > edit.seq]
        made = [one for one in made if one.after == edit.before]
        if not made:
            raise not_found(self.space, note_id)
        self.undone.append(change_id)
        self.made.append(change_of_edit(note_id, made[-1]))


Found = TypeVar("Found", bound=FoundEdit | FoundItem)


def _newest_first(found: Iterable[Found]) -> list[Found]:
    return sorted(found, key=lambda one: (-one.seq, one.id))


def _switch_back(item: Item, flip: Flip | None, *, again: bool) -> Switch | None:
    """Return how the switch of an item is set when the item, or a flip, is taken back; None: it was set again since."""
    if flip is not None:
        return switch_before(item, flip.token) if item.log[-1].token == flip.token else None
    if item.switch != "on":
        return item.first_switch if again and item.switch == "off" else item.switch
    return "waiting" if item.first_switch == "waiting" else "off"


def _flips_by(item: Item, model: str | None, first: int) -> list[Flip]:
    """Return the flips at the end of an item's log that a model made since an instant, oldest first."""
    theirs = takewhile(lambda flip: flip.seq >= first and _is_by(flip.by, model), item.log[::-1])
    return [*theirs][::-1]


def _is_by(who: str, model: str | None) -> bool:
    return who == model if model else who != USER


async def proposals(runtime: Runtime, *, namespace: Sequence[str]) -> list[Change]:
    """Return the proposals that the gate stopped, or `MemoryConfig.review` held back, and nobody has answered yet, oldest first.

    Each proposal says in `after` what would be written, and in `why` why it was not: a sentence for an earlier note (`evolve`), a
    `link`, another strength of a link (`relink`), or that a note takes the place of another (`supersede`).
    """
    space, store = check_namespace(namespace), runtime.store
    records = await resolve(store.find_records(space, RecordQuery(waiting=True)))
    decisions = [one for one in _decisions(records) if one.shows]
    time = now()
    notes = await get(store, space, sorted({i for one in decisions for i in one.about}))
    alive = {note.id for note in notes if not note.is_expired(time)}
    return [
        change_of_item(decision, item)
        for decision in sorted(decisions, key=lambda one: (one.seq, one.id))
        for item in decision.items
        if item.switch == "waiting" and alive.issuperset(_ends(decision, item))
    ]


@overload
async def approve(
    runtime: Runtime,
    change_id: str,
    *,
    namespace: Sequence[str],
    context: str | None = None,
    keywords: Sequence[str] | None = None,
    tags: Sequence[str] | None = None,
) -> Change: ...
@overload
async def approve(
    runtime: Runtime, change_id: Ids, *, namespace: Sequence[str]
) -> list[Change]: ...
async def approve(
    runtime: Runtime,
    change_id: str | Ids,
    *,
    namespace: Sequence[str],
    context: str | None = None,
    keywords: Sequence[str] | None = None,
    tags: Sequence[str] | None = None,
) -> Change | list[Change]:
    """Write what was proposed; return the change, which can be undone: then the proposal waits again.

    Args:
        change_id: Which proposal; or several, for which it returns a change each.
        namespace: Whose memory.
        context: Another text for a sentence; then the change is the user's.
        keywords: Other keywords for it.
        tags: Other tags for it.

    Raises:
        InvalidInputError: It is no proposal, was approved already, or its text is empty; of several, none is written.
        NoteNotFoundError: There is no such proposal in this namespace.
    """
    given = {"context": context, "keywords": keywords, "tags": tags}
    edited = {name: value for name, value in given.items() if value is not None}
    if edited and isinstance(change_id, list | tuple):
        raise InvalidInputError("context=, keywords= and tags= are for a single proposal")
    return await _answer(runtime, check_namespace(namespace), change_id, "on", edited)


@overload
async def reject(runtime: Runtime, change_id: str, *, namespace: Sequence[str]) -> Change: ...
@overload
async def reject(runtime: Runtime, change_id: Ids, *, namespace: Sequence[str]) -> list[Change]: ...
async def reject(
    runtime: Runtime,
    change_id: str | Ids,
    *,
    namespace: Sequence[str],
) -> Change | list[Change]:
    """Take a proposal off the list, or several; return each as it is now. `approve` may still be called.

    Raises:
        InvalidInputError: It is no proposal, or was approved; of several, none is rejected.
        NoteNotFoundError: There is no such proposal in this namespace.
    """
    return await _answer(runtime, check_namespace(namespace), change_id, "rejected", {})


async def _answer(
    runtime: Runtime,
    space: Namespace,
    change_id: str | Ids,
    switch: Switch,
    edits: Mapping[str, Any],
) -> Change | list[Change]:
    """Set the switches of proposals, with what the reviewer has edited; return the proposals as they are now."""
    ids = list(change_id) if isinstance(change_id, list | tuple) else [change_id]
    found = [_proposal(one) for one in await _find(runtime, space, ids)]
    ends = {end for one in found for end in _ends(one.decision, one.item)}
    await existing(runtime.store, space, sorted(ends))
    values: dict[str, Any] = {}
    for one in found if switch == "on" else ():
        if edits or (one.item and one.item.kind == "sentence" and not one.item.text.strip()):
            values = edited(one.id, one.item, edits) if one.item else {}
    known = {one.decision.id: one.decision for one in found}
    wanted = dict.fromkeys([one.place for one in found], switch)
    async with writing(runtime, space) as writer:
        flips = await toggle_all(writer, wanted, known, **values)
    answered = []
    for one in found:
        if one.item is None or one.place not in flips:
            raise InvalidInputError(f"proposal {one.id!r} cannot be answered: {VOID}")
        item = one.item.flipped(flips[one.place], **values)
        answered.append(change_of_item(one.decision, item))
    return answered if isinstance(change_id, list | tuple) else answered[0]


def _proposal(found: FoundEdit | FoundItem) -> FoundItem:
    """Return a change that was found, if it is a proposal that was not approved."""
    if not isinstance(found, FoundItem) or found.flip is not None:
        kind = "undo" if isinstance(found, FoundItem) else found.kind
        raise InvalidInputError(
            f"change {found.id!r} is of kind {kind!r}, not a proposal; see proposals()"
        )
    if found.item is None:
        raise InvalidInputError(f"proposal {found.id!r} cannot be answered: {VOID}")
    if found.item.first_switch != "waiting":
        raise InvalidInputError(
            f"change {found.id!r} was written when it was made, and is not a proposal; see proposals()"
        )
    if found.item.is_on:
        raise InvalidInputError(f"proposal {found.id!r} was approved; undo({found.id!r}) first")
    return found


def _ends(decision: Decision, item: Item | None) -> set[str]:
    """Return the ids of the notes that an item is about."""
    named = () if item is None else (item.to, item.other)
    return {decision.note, *named} - {""}
