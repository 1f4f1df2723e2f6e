"""History: what was changed, taking it back, and what waits for a person's decision."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import takewhile
from typing import Any, NamedTuple, TypeVar, overload

from ..decisions import Call, Decision, Flip, Item, Record, Switch
from ..errors import InvalidInputError, NoteNotFoundError, RevisionConflictError
from ..evolution.gate import edited
from ..fetch import existing, living, not_found
from ..ids import first_seq
from ..journal import history as journal
from ..journal.erasure import forget
from ..journal.history import Edit, Place, edits_of, id_of, switch_before
from ..journal.writer import Writer
from ..journal.writer import edit as edit_note
from ..notes import USER, Change, Namespace, Note, check_namespace, check_time
from ..plans import UndoReport
from ..ports import NoteQuery, RecordQuery
from ..runtime import Runtime, resolve
from ..stored_note import StoredNote
from .writing import writing

BATCH = 64  # items that are switched by one request
APPROVED = "a reviewer approved it"
VOID = "it quoted a text that was deleted or corrected since"
INSTEAD = {
    journal.ADD: "a note is taken back by delete()",
    journal.DELETE: "what was deleted is gone for good; add it again",
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
        return journal.changes_of(notes.values(), _decisions(records), _makers(records))
    stored = (await resolve(store.notes(space, [note_id]))).get(note_id)
    # A form has no note.
    query = RecordQuery(about=frozenset([note_id])) if stored else RecordQuery(note=note_id)
    found = await resolve(store.find_records(space, replace(query, decisions=True)))
    decisions = [one for one in _decisions(found) if stored or one.stage == "form"]
    if stored is None and not decisions:
        raise not_found(space, note_id)
    calls = sorted({one.call for one in decisions if one.void})
    by = _makers(await resolve(store.records(space, calls)) if calls else {})
    return (
        journal.changes_of_note(stored, decisions, by)
        if stored
        else journal.changes_of([], decisions, by)
    )


def _decisions(records: Mapping[str, Record]) -> list[Decision]:
    return [one for one in records.values() if isinstance(one, Decision)]


def _makers(records: Mapping[str, Record]) -> dict[str, str]:
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
    if not isinstance(model, str | None) or model == "":
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


class _Edited(NamedTuple):
    """A change of a note by the user; without an edit the note was added, or deleted."""

    id: str
    seq: int
    note: str
    edit: Edit | None = None


class _Decided(NamedTuple):
    """An item of a decision, or (with a flip) one setting of the item's switch."""

    decision: Decision
    item: Item
    flip: Flip | None = None

    @property
    def id(self) -> str:
        """The id of the change."""
        made = id_of(self.decision, self.item)
        return made if self.flip is None else f"{made}:{self.flip.token}"

    @property
    def seq(self) -> int:
        """The instant of the decision, or of the setting."""
        return self.decision.seq if self.flip is None else self.flip.seq

    @property
    def place(self) -> Place:
        """The place of the item."""
        return self.decision.id, self.item.number


def _edited(stored: StoredNote) -> Iterator[_Edited]:
    kind = journal.DELETE if stored.is_deleted else journal.ADD
    yield _Edited(f"{stored.id}:{kind}", stored.rev, stored.id)
    for edit in edits_of(stored):
        yield _Edited(f"{stored.id}:{edit.token}", edit.seq, stored.id, edit)


def _decided(decision: Decision) -> Iterator[_Decided]:
    for item in decision.items:
        yield _Decided(decision, item)
        yield from (_Decided(decision, item, flip) for flip in item.log)


async def _find(
    runtime: Runtime, space: Namespace, ids: Iterable[str]
) -> dict[str, _Edited | _Decided | None]:
    """Return the changes with these ids, by id, in this order; None where the text of what was decided is gone.

    Raises:
        NoteNotFoundError: There is no such change in this namespace; the message names the first of those.
    """
    parsed = {text: journal.ChangeId.parse(text) for text in ids}
    of_notes = {one.of for one in parsed.values() if one and one.number is None}
    of_decisions = {one.of for one in parsed.values() if one and one.number is not None}
    notes = await resolve(runtime.store.notes(space, sorted(of_notes)))
    records = await resolve(runtime.store.records(space, sorted(of_decisions)))
    told: dict[str, _Edited | _Decided] = {}
    for stored in notes.values():
        told |= {one.id: one for one in _edited(stored)}
    for decision in _decisions(records):
        told |= {one.id: one for one in _decided(decision)}
    for text, parts in parsed.items():
        of = records.get(parts.of) if parts else None
        is_gone = parts and isinstance(of, Decision) and not of.item(parts.number or 0)
        if text not in told and not is_gone:
            raise NoteNotFoundError(f"there is no change {text!r} in namespace {space!r}")
    return {text: told.get(text) for text in parsed}


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
        for key, one in found.items():
            if why := _instead(one):
                raise InvalidInputError(f"change {key!r} cannot be undone: {why}")
        self.skipped |= {key: VOID for key, one in found.items() if one is None}
        decided = [one for one in found.values() if isinstance(one, _Decided)]
        await self._switch_back(_newest_first(decided), again=again)
        for change in _newest_first(one for one in found.values() if isinstance(one, _Edited)):
            if change.edit is not None:
                await self._edit_back(change, change.edit)
        return self._report()

    async def of_model(self, model: str | None, first: int) -> UndoReport:
        """Take back what a model decided and switched since an instant, and take its open proposals off the list."""
        query = RecordQuery(decisions=True)
        records = await resolve(self.runtime.store.find_records(self.space, query))
        theirs, waiting = list[_Decided](), list[_Decided]()
        for one in (_Decided(d, item) for d in _decisions(records) for item in d.items):
            item, flips = one.item, _flips_by(one.item, model, first)
            theirs += [one._replace(flip=flip) for flip in flips]
            if item.kind == "failure" or one.seq < first or not _is_by(item.by, model):
                continue
            switch = switch_before(item, flips[0].token) if flips else item.switch
            if switch == "waiting":
                waiting.append(one)
            elif switch == "on" and item.first_switch == "waiting":
                self.skipped[one.id] = APPROVED
            elif switch == "on":
                theirs.append(one)
        await self._switch_back(_newest_first(theirs))
        waiting = _newest_first(waiting)
        off = await self._set(waiting, {one.place: "off" for one in waiting})
        return self._report(rejected=[one.id for one in waiting if one.place in off])

    def _report(self, rejected: Sequence[str] = ()) -> UndoReport:
        return UndoReport(
            undone=tuple(self.undone),
            changes=tuple(change.id for change in self.made),
            skipped=self.skipped,
            rejected=tuple(rejected),
        )

    async def _switch_back(self, found: Sequence[_Decided], *, again: bool = False) -> None:
        """Take back items and flips, given the last one first; what is not in force any more is passed over."""
        items, taken = {one.place: one.item for one in found}, list[_Decided]()
        for one in found:
            item = items[one.place]
            if (switch := _switch_back(item, one.flip, again=again)) is None:
                later = f"{id_of(one.decision, item)}:{item.log[-1].token}"
                self.skipped[one.id] = f"change {later!r} set the switch after it; undo that one"
            elif switch != item.switch:
                log = item.log if one.flip is None else item.log[:-1]
                items[one.place] = replace(item, switch=switch, log=log)
                taken.append(one)
        # A switch that ends as it is needs no write.
        taken = [one for one in taken if items[one.place].switch != one.item.switch]
        flips = await self._set(taken, {place: item.switch for place, item in items.items()})
        self.undone += [one.id for one in taken if one.place in flips]
        self.skipped |= {one.id: VOID for one in taken if one.place not in flips}

    async def _set(
        self, found: Sequence[_Decided], switches: Mapping[Place, Switch]
    ) -> dict[Place, Flip]:
        """Set the switches of items, a batch at a time; return those that were set."""
        known, flips = {one.decision.id: one.decision for one in found}, dict[Place, Flip]()
        items = {one.place: one for one in found}
        places = list(items)
        for start in range(0, len(places), BATCH):
            batch = {place: switches[place] for place in places[start : start + BATCH]}
            async with writing(self.runtime, self.space) as writer:
                flips |= await journal.toggle(writer, batch, known)
        for place in (place for place in places if place in flips):
            one, flip = items[place], flips[place]
            self.made.append(journal.change_of_flip(one.decision, one.item.flipped(flip), flip))
        return flips

    async def _edit_back(self, found: _Edited, edit: Edit) -> None:
        """Give the fields of a note back what they held before an edit, by another edit or correction."""
        later: list[Edit] = []

        def back(note: Note) -> Note:
            touched = [name for name in edit.after if getattr(note, name) != edit.after[name]]
            if not touched:
                return note.revised(**edit.before)
            edits = [one for one in later if not one.before.keys().isdisjoint(touched)]
            last = f"{note.id}:{edits[-1].token}" if edits else note.id
            raise RevisionConflictError(
                f"change {last!r} ('update') touched {', '.join(touched)} after it; undo that one first"
            )

        if not edit.before:
            self.skipped[found.id] = VOID
            return
        async with writing(self.runtime, self.space) as writer:
            later = await self._edits(writer, found.note)
            try:
                await (forget if edit.corrects else edit_note)(writer, found.note, back)
            except RevisionConflictError as error:
                self.skipped[found.id] = str(error)
                return
            stands = await self._edits(writer, found.note)
        made = [one for one in stands if one.seq > edit.seq and one.after == edit.before]
        if not made:
            raise not_found(self.space, found.note)
        self.undone.append(found.id)
        self.made.append(journal.change_of_edit(found.note, made[-1]))

    async def _edits(self, writer: Writer, note_id: str) -> list[Edit]:
        stored = (await writer.notes([note_id])).get(note_id)
        if stored is None or stored.is_deleted:
            raise not_found(self.space, note_id)
        return edits_of(stored)


Found = TypeVar("Found", _Edited, _Decided)


def _newest_first(found: Iterable[Found]) -> list[Found]:
    return sorted(found, key=lambda one: (-one.seq, one.id))


def _instead(change: _Edited | _Decided | None) -> str | None:
    """Return why a change can never be undone, and what to do instead; None: it can, or its text is gone."""
    if isinstance(change, _Edited):
        return INSTEAD.get(change.id.rpartition(":")[2])
    if change is None or change.flip is not None:
        return None
    return INSTEAD.get(change.item.kind) or INSTEAD.get(change.item.switch)


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
    alive = await living(store, space, sorted({i for one in decisions for i in one.about}))
    return [
        journal.change_of_item(decision, item)
        for decision in sorted(decisions, key=lambda one: (one.seq, one.id))
        for item in decision.items
        if item.switch == "waiting" and _ends(decision, item) <= alive.keys()
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
        raise InvalidInputError("other words are for a single proposal; name one")
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
    changes = await _find(runtime, space, ids)
    proposals = [_proposal(key, one) for key, one in changes.items()]
    found = {one.place: (one.decision, one.item) for one in proposals}
    ends = {end for decision, item in found.values() for end in _ends(decision, item)}
    await existing(runtime.store, space, sorted(ends))
    values: dict[str, Any] = {}
    for place, (_, item) in found.items() if switch == "on" else ():
        if edits or (item.kind == "sentence" and not item.text.strip()):
            values = edited(f"{place[0]}:{place[1]}", item, edits)
    known = {decision.id: decision for decision, _ in found.values()}
    async with writing(runtime, space) as writer:
        flips = await journal.toggle(writer, dict.fromkeys(found, switch), known, **values)
    if gone := found.keys() - flips.keys():
        raise InvalidInputError(
            f"proposal {':'.join(map(str, min(gone)))!r} cannot be answered: {VOID}"
        )
    answered = [
        journal.change_of_item(decision, item.flipped(flips[place], **values))
        for place, (decision, item) in found.items()
    ]
    return answered if isinstance(change_id, list | tuple) else answered[0]


def _proposal(change_id: str, found: _Edited | _Decided | None) -> _Decided:
    """Return a change that was found, if the change is a proposal that was not approved."""
    if found is None:
        raise InvalidInputError(f"proposal {change_id!r} cannot be answered: {VOID}")
    if isinstance(found, _Edited) or found.flip or found.item.first_switch != "waiting":
        raise InvalidInputError(f"change {change_id!r} is not a proposal; see proposals()")
    if found.item.is_on:
        raise InvalidInputError(f"proposal {change_id!r} was approved; undo({change_id!r}) first")
    return found


def _ends(decision: Decision, item: Item) -> set[str]:
    """Return the ids of the notes that an item is about."""
    return {decision.note, item.to, item.other} - {""}
