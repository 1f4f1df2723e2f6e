"""History: what was changed, taking it back, and what waits for a person's decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal, overload

from ..decisions import Call, Decision, Flip, Record, Switch
from ..errors import InvalidInputError, NoteNotFoundError, RevisionConflictError
from ..evolution.gate import edited
from ..fetch import existing, living, not_found
from ..filters import check_id, unique_ids
from ..ids import first_seq
from ..journal.history import Decided, Edit, Place, changes_of, changes_of_item, toggle
from ..notes import USER, Change, Namespace, Note, check_namespace, check_time
from ..plans import UndoReport
from ..ports import NoteQuery, RecordQuery
from ..runtime import Runtime, resolve
from .writing import change_note, finish, writer_of, writing

BATCH = 64  # items that are switched by one request
APPROVED = "a reviewer approved it"
VOID = "it quoted a text that was deleted or corrected since"
INSTEAD = {  # by the kind or the state of a change that can never be undone
    "add": "a note is taken back by delete()",
    "delete": "what was deleted is gone for good; add it again",
    "failed": "nothing was changed; evolve() tries the note again",
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
    check_id(note_id)
    if note_id is None:
        notes = await resolve(store.find_notes(space, NoteQuery()))
        records = await resolve(store.find_records(space, RecordQuery()))
        return [one.change for one in changes_of(notes, _decisions(records), _makers(records))]
    notes = await resolve(store.notes(space, [note_id]))
    # A form has no note.
    query = RecordQuery(about=frozenset([note_id])) if notes else RecordQuery(note=note_id)
    decisions = (await writer_of(runtime, space).decisions(query)).values()
    calls = sorted({one.call for one in decisions if one.void})
    makers = _makers(await resolve(store.records(space, calls)) if calls else {})
    found = changes_of(notes, decisions, makers)
    if not found:
        raise not_found(space, note_id)
    return [
        one.change
        for one in found
        if isinstance(one, Edit) or note_id in (one.change.note_id, one.item.to)
    ]


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
    change first, and returns an `UndoReport`. What is off already stays off. What a reviewer approved of a model's
    proposals stays: the report says so. The model's open proposals are taken off the list. Calling it again changes
    nothing; after an interruption it goes on. `undo(report.changes, namespace=…)` has everything back.

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
    await finish(runtime, space)  # the same call before may have failed half way
    if change_id is None:
        first = first_seq(since) if since else 0
        return await _Undoing(runtime, space, "model").of_model(model, first)
    if isinstance(change_id, list | tuple):
        return await _Undoing(runtime, space, "several").of_these(change_id)
    undoing = _Undoing(runtime, space, "one")
    report = await undoing.of_these([change_id])
    for one, why in report.skipped.items():
        error = InvalidInputError if why == VOID else RevisionConflictError
        raise error(f"change {one!r} cannot be undone: {why}")
    return next(iter(undoing.made.values()))


async def _find(
    runtime: Runtime, space: Namespace, ids: Sequence[str]
) -> dict[str, Edit | Decided | None]:
    """Return the changes with these ids, by id, in this order; None where the text of what was changed is gone.

    Raises:
        NoteNotFoundError: There is no such change in this namespace; the message names the first of those.
    """
    of = {change_id: str(change_id).partition(":")[0] for change_id in unique_ids(ids)}
    records = await resolve(runtime.store.records(space, sorted(set(of.values()))))
    notes = await resolve(runtime.store.notes(space, sorted(set(of.values()) - records.keys())))
    told = {one.change.id: one for one in changes_of(notes, _decisions(records))}
    found = dict[str, Edit | Decided | None]()
    for change_id, record in of.items():
        one, item = told.get(change_id), ":".join(str(change_id).split(":")[:2])
        # An item goes with its text, and its decision stays: so the id names a change that was there.
        item_went = item != record and not isinstance(told.get(item), Decided)
        if one is None and not (item_went and isinstance(records.get(record), Decision)):
            raise NoteNotFoundError(f"there is no change {change_id!r} in namespace {space!r}")
        found[change_id] = None if one is not None and one.change.state == "void" else one
    return found


@dataclass(slots=True)
class _Undoing:
    """Takes changes back, the last one first. What was written is not done again.

    Attributes:
        mode: What is taken back: `one` change, by which an item that is off already is switched on again; `several`; or
            all of a `model`, but for what a reviewer approved.
    """

    runtime: Runtime
    space: Namespace
    mode: Literal["one", "several", "model"]
    undone: list[str] = field(default_factory=list)
    made: dict[str, Change] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    rejected: list[str] = field(default_factory=list)

    async def of_these(self, ids: Sequence[str]) -> UndoReport:
        """Take back these changes; of a kind that cannot be undone, or an unknown one, none is."""
        found = await _find(self.runtime, self.space, ids)
        for key, one in found.items():
            if one and (why := INSTEAD.get(one.change.kind) or INSTEAD.get(one.change.state)):
                raise InvalidInputError(f"change {key!r} cannot be undone: {why}")
        self.skipped |= {key: VOID for key, one in found.items() if one is None}
        decided = [one for one in found.values() if isinstance(one, Decided)]
        await self._switch_back(decided)
        edits = [one for one in found.values() if isinstance(one, Edit)]
        for edit in sorted(edits, key=lambda one: -one.seq):
            await self._edit_back(edit)
        return self._report()

    async def of_model(self, model: str | None, first: int) -> UndoReport:
        """Take back what a model decided and switched since an instant, and take its open proposals off the list."""
        decisions = await writer_of(self.runtime, self.space).decisions(RecordQuery())
        theirs = [
            one
            for one in changes_of({}, decisions.values())
            if isinstance(one, Decided)
            and one.seq >= first
            and (one.change.by == model if model else one.change.by != USER)
            and one.item.kind != "failure"
            and one.flip in (None, *one.item.log[-1:])  # no other setting is in force
        ]
        await self._switch_back(theirs)
        return self._report()

    def _report(self) -> UndoReport:
        return UndoReport(
            undone=tuple(self.undone),
            changes=tuple(self.made),
            skipped=self.skipped,
            rejected=tuple(self.rejected),
        )

    async def _switch_back(self, found: Sequence[Decided]) -> None:
        """Take back items, and settings of their switches; what is not in force any more is passed over."""
        taken, items = list[Decided](), {one.place: one.item for one in found}
        for one in sorted(found, key=lambda one: (-one.seq, one.change.id)):
            item = items[one.place]
            if one.flip is not None and one.flip != item.log[-1]:
                later = f"{one.change.id.removesuffix(one.flip.token)}{item.log[-1].token}"
                why = f"change {later!r} set the switch after it; undo that one"
                self.skipped[one.change.id] = why
                continue
            if one.flip is not None:
                items[one.place] = item.as_logged(item.log[:-1])
            elif self.mode == "model" and item.is_on and item.first_switch == "waiting":
                self.skipped[one.change.id] = APPROVED
                continue
            elif self.mode == "one" or item.switch in ("on", "waiting"):
                switch: Switch = "off" if item.switch == item.first_switch else item.first_switch
                items[one.place] = replace(item, switch=switch)
            taken.append(one)
        # A switch that ends as it is needs no write.
        taken = [one for one in taken if items[one.place].switch != one.item.switch]
        places = list(dict.fromkeys(one.place for one in taken))
        known, flips = {one.decision.id: one.decision for one in taken}, dict[Place, Flip]()
        for start in range(0, len(places), BATCH):
            batch = {place: items[place].switch for place in places[start : start + BATCH]}
            async with writing(self.runtime, self.space) as writer:
                flips |= await toggle(writer, batch, known)
        for one in taken:
            if one.place not in flips:
                self.skipped[one.change.id] = VOID
                continue
            group = self.rejected if one.change.state == "waiting" else self.undone
            group.append(one.change.id)
            *_, flipped = changes_of_item(one.decision, one.item.flipped(flips[one.place]))
            self.made[flipped.change.id] = flipped.change

    async def _edit_back(self, edit: Edit) -> None:
        """Give the fields of a note back what they held before an edit, by another edit or correction."""
        note_id, touched = edit.change.note_id, set[str]()

        def check(note: Note) -> None:
            touched.update(name for name in edit.after if getattr(note, name) != edit.after[name])
            if touched:
                raise RevisionConflictError

        async with writing(self.runtime, self.space) as writer:
            with suppress(RevisionConflictError, NoteNotFoundError):
                await change_note(writer, note_id, edit.before, check=check)
            changes = [one.change for one in changes_of(await writer.notes([note_id]), ())]
        if touched:
            sought = [one for one in changes if not touched.isdisjoint(one.after)]
        else:
            sought = [one for one in changes if one.after == edit.change.before]
        last = sought[-1] if sought else None
        if last is None:  # the note was deleted meanwhile
            self.skipped[edit.change.id] = VOID
        elif touched:
            why = f"change {last.id!r} ('update') touched {', '.join(sorted(touched))} after it"
            self.skipped[edit.change.id] = f"{why}; undo that one first"
        else:
            self.undone.append(edit.change.id)
            self.made[last.id] = last


async def proposals(runtime: Runtime, *, namespace: Sequence[str]) -> list[Change]:
    """Return the proposals that the gate stopped, or `MemoryConfig.review` held back, and nobody has answered, oldest first.

    Each proposal says in `after` what would be written, and in `after["why"]` why it was not: a sentence for an earlier
    note (`evolve`), a `link`, another strength of a link (`relink`), or that a note takes the place of another (`supersede`).
    """
    space = check_namespace(namespace)
    decisions = await writer_of(runtime, space).decisions(RecordQuery(waiting=True))
    found = changes_of({}, decisions.values())
    waiting = [one for one in found if isinstance(one, Decided) and one.change.state == "waiting"]
    alive = await living(runtime.store, space, sorted({i for one in waiting for i in one.ends}))
    return [one.change for one in waiting if one.ends <= alive.keys()]


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
    """Write a proposal; return the change, which can be undone: then the proposal waits again.

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
    runtime: Runtime, change_id: str | Ids, *, namespace: Sequence[str]
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
    await finish(runtime, space)
    ids = list(change_id) if isinstance(change_id, list | tuple) else [change_id]
    found, values = dict[Place, Decided](), dict[str, Any]()
    for key, one in (await _find(runtime, space, ids)).items():
        if one is None:
            raise InvalidInputError(f"proposal {key!r} cannot be answered: {VOID}")
        if isinstance(one, Edit) or one.flip or one.item.first_switch != "waiting":
            raise InvalidInputError(f"change {key!r} is not a proposal; see proposals()")
        if one.item.is_on:
            raise InvalidInputError(f"proposal {key!r} was approved; undo({key!r}) first")
        if switch == "on" and (
            edits or (one.item.kind == "sentence" and not one.item.text.strip())
        ):
            values = edited(key, one.item, edits)
        found[one.place] = one
    ends = {end for one in found.values() for end in one.ends}
    await existing(runtime.store, space, sorted(ends))
    known = {one.decision.id: one.decision for one in found.values()}
    # A proposal that was rejected before stays so, without another change in the history.
    switches = {place: switch for place, one in found.items() if one.item.switch != switch}
    async with writing(runtime, space) as writer:
        flips = await toggle(writer, switches, known, **values)
    answered = list[Change]()
    for place, one in found.items():
        if place in switches and place not in flips:
            raise InvalidInputError(f"proposal {one.change.id!r} cannot be answered: {VOID}")
        item = one.item.flipped(flips[place], **values) if place in flips else one.item
        answered.append(next(changes_of_item(one.decision, item)).change)
    return answered if isinstance(change_id, list | tuple) else answered[0]
