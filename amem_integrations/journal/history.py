"""History: the changes that notes and decisions tell of, and the switches by which what was decided is taken back.

The id of a change says where it comes from: `note:add`, `note:delete`, `note:token` (the write of an edit), `decision:number`
(an item) or `decision:number:token` (one setting of the switch of an item).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from ..decisions import SETTLED, Decision, Flip, Item, Switch
from ..ids import time_of
from ..notes import USER, Change, ChangeKind
from ..stored_note import StoredNote
from .commit import settle, stored_decisions
from .projection import project
from .writer import Writer, reopened

Place = tuple[str, int]  # a decision, and the number of one of its items

# By the kind of an item, and by the stage of a decision that is void; all others construct a note.
KINDS: Mapping[str, ChangeKind] = {
    "sentence": "evolve",
    "link": "link",
    "relink": "relink",
    "supersession": "supersede",
    "user": "supersede",
    "form": "fill",
}


class Edit(NamedTuple):
    """A change that no switch takes back: a write of the user's to a note, with the values of the changed fields.

    There are no values where the note was added or deleted, or where they are gone.
    """

    seq: int
    change: Change
    before: Mapping[str, Any] = {}
    after: Mapping[str, Any] = {}


class Decided(NamedTuple):
    """A change by an item of a decision, or (with a flip) by one setting of the item's switch."""

    seq: int
    change: Change
    decision: Decision
    item: Item
    flip: Flip | None = None

    @property
    def place(self) -> Place:
        """The place of the item."""
        return self.decision.id, self.item.number

    @property
    def ends(self) -> set[str]:
        """The ids of the notes that the item is about."""
        return {self.decision.note, self.item.to, self.item.other} - {""}


async def toggle(
    writer: Writer,
    switches: Mapping[Place, Switch],
    read: Mapping[str, Decision],
    **edits: Any,  # noqa: ANN401 - fields of an item
) -> dict[Place, Flip]:
    """Set the switches of items, by decision and number, make that show, and return how those still there were set.

    Where a decision was settled before, and nobody else has changed it meanwhile, only the notes on which these items show
    are projected. Other calls are settled whole.

    Args:
        writer: Who decides.
        switches: How each switch is set.
        read: The decisions as they were read a moment ago, by id.
        edits: Other values for the items.
    """
    made: dict[Place, Flip] = {}
    calls, shown_on = set[str](), set[str]()
    mine: list[Decision] = []
    left = dict(switches)
    while left:
        flips = {
            (key, number): Flip(switch, writer.by, writer.new_seq(), writer.new_token())
            for (key, number), switch in left.items()
            if key in read and read[key].item(number) is not None
        }
        if not flips:
            break
        changed = sorted({key for key, _ in flips})
        wrote = await writer.swap_records(
            (read[key], reopened(_flipped(read[key], flips, edits))) for key in changed
        )
        stands = await stored_decisions(writer, changed)
        made |= {
            (key, number): flip
            for (key, number), flip in flips.items()
            if key in stands and stands[key].has_flip(flip.token)
        }
        for key in changed:
            if read[key].phase == SETTLED and key in stands and stands[key] == wrote[key]:
                mine.append(stands[key])
                numbers = [number for other, number in flips if other == key]
                shown_on |= _views(read[key], stands[key], numbers)
            else:
                calls.add(read[key].call)
        left = {place: switches[place] for place in flips if place not in made}
        read = stands
    await project(writer, shown_on)
    await writer.swap_records((one, replace(one, phase=SETTLED)) for one in mine)
    for call in sorted(calls):
        await settle(writer, call)
    return made


def _views(before: Decision, after: Decision, numbers: Collection[int]) -> set[str]:
    """Return the notes whose views differ when items of a decision are switched.

    A sentence shows on the note that it was added to. Whether its decision counts at all shows on the decision's own note.
    """
    items = [item for item in after.items if item.number in numbers]
    ends = {end for item in items for end in (item.to, item.other)}
    if before.is_off != after.is_off or any(item.kind != "sentence" for item in items):
        ends.add(after.note)
    return ends.intersection(after.about)


def _flipped(decision: Decision, flips: Mapping[Place, Flip], edits: Mapping[str, Any]) -> Decision:
    """Return a decision with the switches of its items set anew."""

    def flipped(item: Item) -> Item:
        flip = flips.get((decision.id, item.number))
        return item if flip is None else item.flipped(flip, **edits)

    return decision.with_items(flipped)


def changes_of(
    notes: Mapping[str, StoredNote],
    decisions: Iterable[Decision],
    makers: Mapping[str, str] | None = None,
) -> list[Edit | Decided]:
    """Return what notes and decisions tell, oldest first; nothing that is void has a text.

    Args:
        notes: The stored notes by id; a tombstone tells that its note was deleted.
        decisions: The decisions about them. One that is void tells of the present life of its note, or of a form.
        makers: Who made a call, by the id of the call, for decisions that are void.
    """
    found: list[Edit | Decided] = [one for stored in notes.values() for one in _of_note(stored)]
    lives = {stored.id: stored.note.seq for stored in notes.values() if stored.note}
    for decision in decisions:
        is_of_this_life = lives.get(decision.note, decision.seq + 1) <= decision.seq
        if decision.shows:
            found += [one for item in decision.items for one in changes_of_item(decision, item)]
        elif decision.void and (is_of_this_life or decision.stage == "form"):
            by = (makers or {}).get(decision.call, "")
            kind = KINDS.get(decision.stage, "construct")
            made = _change(f"{decision.id}:0", decision.note, decision.seq, by, kind)
            found.append(Edit(decision.seq, replace(made, state="void")))
    return sorted(found, key=lambda one: one.seq)


def _change(change_id: str, note_id: str, seq: int, by: str, kind: ChangeKind) -> Change:
    """Return a change of a note, made at the instant of a seq."""
    return Change(id=change_id, note_id=note_id, at=time_of(seq), by=by, kind=kind)


def _of_note(stored: StoredNote) -> Iterator[Edit]:
    """Yield what the user did to a note, the last edit first."""
    note, later, key = stored.note, dict[str, Any](), stored.id
    if note is None:
        gone = _change(f"{key}:delete", key, stored.deleted_at, USER, "delete")
        yield Edit(stored.deleted_at, gone)
        return
    added = _change(f"{key}:add", key, note.seq, USER, "add")
    yield Edit(note.seq, replace(added, at=note.recorded_at))
    for token, seq, _, before in reversed(stored.earlier):
        after = {name: later.get(name, getattr(note, name)) for name in before}
        later |= before
        made = replace(
            _change(f"{key}:{token}", key, seq, USER, "update"),
            before=_plain(before),
            after=_plain(after),
            state="on" if before else "void",  # a thorough correction has taken the values
        )
        yield Edit(seq, made, before, after)


def changes_of_item(decision: Decision, item: Item) -> Iterator[Decided]:
    """Yield the change that an item of a decision makes, or proposes, and how its switch was set since."""
    note_id, seq = decision.note, decision.seq
    if item.kind in ("sentence", "supersession", "relink"):
        note_id = item.other if item.kind == "relink" else item.to
    before, after = _values(decision, item)
    kind = KINDS.get(item.data.get("stage", item.kind), "construct")  # a failure is one of a stage
    made = replace(
        _change(f"{decision.id}:{item.number}", note_id, seq, item.by, kind),
        before=before,
        after=after,
        state="failed" if item.kind == "failure" else item.switch,
    )
    yield Decided(seq, made, decision, item)
    switch = item.first_switch
    for flip in item.log:
        flipped = replace(
            _change(f"{made.id}:{flip.token}", note_id, flip.seq, flip.by, "undo"),
            before={"state": switch},
            after={"change": made.id, "state": flip.switch},
            state="on" if flip is item.log[-1] else "off",
        )
        yield Decided(flip.seq, flipped, decision, item, flip)
        switch = flip.switch


def _values(decision: Decision, item: Item) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the values before and after an item."""
    data, before = item.data, dict[str, Any]()
    match item.kind:
        case "entry" | "sentence":
            named = ("keywords", "tags", "kind", "until")
            after = {"context": item.text} | {name: data[name] for name in named if data.get(name)}
            if item.kind == "sentence":
                after["cause"] = decision.note
        case "link":
            after = {"to": item.to, "relation": data.get("relation", ""), "reason": item.text}
            after["strength"] = data.get("strength", 1.0)
        case "relink":
            after = {"to": item.to, "reason": item.text, "cause": decision.note}
            after["strength"] = data["strength"]
            before = {"strength": data["before"]} if "before" in data else {}
        case "supersession":
            after = {"by": decision.note, "relation": data.get("relation", "updates")}
            after |= {"reason": item.text, "since": decision.at.isoformat()}
        case "form":
            after = {"value": json.loads(item.text)}
        case _:
            after = {"why": item.text}
    if item.switch in ("waiting", "rejected"):
        after["why"] = data["why"]
    return before, after


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values of a note's fields as JSON values."""
    return {n: v.isoformat() if isinstance(v, datetime) else v for n, v in values.items()}
