"""History: undo, redo, approval and rejection by the switches of what was decided, and the changes that notes and decisions tell.

The id of a change says where it comes from: `note:add`, `note:delete`, `note:token` (the write of an edit), `decision:number`
(an item) or `decision:number:token` (one setting of the switch of an item).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from ..decisions import SETTLED, Decision, Flip, Item, Switch
from ..ids import is_token, time_of
from ..notes import USER, Change, ChangeKind
from ..stored_note import StoredNote
from .commit import settle
from .projection import project
from .writer import Writer, reopened

Place = tuple[str, int]  # a decision, and the number of one of its items
Placed = tuple[tuple[int, int], Change]

ADD, DELETE = "add", "delete"
KINDS: Mapping[str, ChangeKind] = {
    "entry": "construct",
    "sentence": "evolve",
    "link": "link",
    "relink": "relink",
    "supersession": "supersede",
    "form": "fill",
    "failure": "construct",
    # A decision that is void has no items any more; the kind of its change follows from its stage.
    "construct": "construct",
    "user": "supersede",
}


async def toggle(
    writer: Writer,
    switches: Mapping[Place, Switch],
    known: Mapping[str, Decision] | None = None,
    **edits: Any,  # noqa: ANN401 - fields of an item
) -> dict[Place, Flip]:
    """Set the switches of items, by decision and number, make that show, and return how those still there were set.

    Where a decision was settled before, and nobody else has changed it meanwhile, only the notes on which these items show
    are projected. Other calls are settled whole.

    Args:
        writer: Who decides.
        switches: How each switch is set.
        known: The decisions as they were read a moment ago; None reads them.
        edits: Other values for the items.
    """
    made: dict[Place, Flip] = {}
    calls, shown_on = set[str](), set[str]()
    mine: list[Decision] = []
    left = dict(switches)
    while left:
        read = await stored_decisions(writer, {key for key, _ in left}) if known is None else known
        known = None
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


async def stored_decisions(writer: Writer, ids: Iterable[str]) -> dict[str, Decision]:
    """Return the decisions with these ids that there are, by id."""
    found = await writer.records(ids)
    return {key: one for key, one in found.items() if isinstance(one, Decision)}


class ChangeId(NamedTuple):
    """The parts of the id of a change.

    Attributes:
        of: The id of a note or of a decision.
        number: The number of an item of the decision; None: the change is about a note.
        write: `add`, `delete` or the token of an edit; of an item the token of a flip, or empty.
    """

    of: str
    number: int | None
    write: str = ""

    @classmethod
    def parse(cls, text: str) -> ChangeId | None:
        """Return the parts of an id; None: the text is no id of a change."""
        of, *parts = text.split(":") if isinstance(text, str) else ("",)
        if not parts or len(parts) > 2 or not all((of, *parts)):  # noqa: PLR2004
            return None
        if parts[0].isdecimal() and not is_token(parts[0]):
            return cls(of, int(parts[0]), *parts[1:])
        return cls(of, None, parts[0]) if len(parts) == 1 else None


@dataclass(frozen=True, slots=True)
class Edit:
    """One edit of a note by the user: the values of the changed fields before and after.

    `corrects`: the note has another wording since, of which everything has to be made anew. Without values: a thorough
    correction has taken them.
    """

    token: str
    seq: int
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    corrects: bool


def edits_of(stored: StoredNote) -> list[Edit]:
    """Return the edits of a note that are kept, oldest first."""
    edits, later, rev = list[Edit](), dict[str, Any](), stored.rev
    for token, seq, rev_before, before in reversed(stored.earlier):
        after = {name: later.get(name, getattr(stored.note, name)) for name in before}
        edits.append(Edit(token, seq, before, after, rev_before != rev))
        later, rev = {**later, **before}, rev_before
    return edits[::-1]


def changes_of(
    notes: Iterable[StoredNote], decisions: Iterable[Decision], by: Mapping[str, str] | None = None
) -> list[Change]:
    """Return the history of notes and of what was decided, oldest first; nothing that is void has a text.

    Args:
        notes: The stored notes; a tombstone tells that its note was deleted.
        decisions: The decisions about them.
        by: Who made a call, by the id of the call, for decisions that are void.
    """
    known = {stored.id: stored for stored in notes}
    placed = [one for stored in known.values() for one in _of_note(stored)]
    for decision in decisions:
        if decision.shows:
            placed += _of_decision(decision)
        elif decision.void and _is_of_this_life(decision, known):
            made = Change(
                id=f"{decision.id}:0",
                note_id=decision.note,
                at=time_of(decision.seq),
                by=(by or {}).get(decision.call, ""),
                kind=KINDS.get(decision.stage, "construct"),
                state="void",
            )
            placed.append(((decision.seq, 0), made))
    return [made for _, made in sorted(placed, key=lambda one: (one[0], one[1].id))]


def changes_of_note(
    stored: StoredNote, decisions: Iterable[Decision], by: Mapping[str, str] | None = None
) -> list[Change]:
    """Return the history of one note, oldest first: what changed the note, and the links at both ends."""
    changes = changes_of([stored], decisions, by)
    mine = {made.id for made in changes if stored.id in (made.note_id, made.after.get("to"))}
    return [made for made in changes if not mine.isdisjoint((made.id, made.after.get("change")))]


def _is_of_this_life(decision: Decision, known: Mapping[str, StoredNote]) -> bool:
    """Return whether a decision was made since its note was added; a form has no note."""
    stored = known.get(decision.note)
    if stored is None:
        return decision.stage == "form"
    return stored.note is not None and stored.note.seq <= decision.seq


def _of_note(stored: StoredNote) -> Iterator[Placed]:
    note = stored.note
    if note is None:
        yield (stored.deleted_at, 0), deletion_of(stored)
        return
    added = Change(id=f"{note.id}:{ADD}", note_id=note.id, at=note.recorded_at, by=USER, kind="add")
    yield (note.seq, 0), added
    for edit in edits_of(stored):
        yield (edit.seq, 0), change_of_edit(note.id, edit)


def deletion_of(stored: StoredNote) -> Change:
    """Return the change that a tombstone tells of."""
    at = time_of(stored.deleted_at)
    return Change(id=f"{stored.id}:{DELETE}", note_id=stored.id, at=at, by=USER, kind="delete")


def change_of_edit(note_id: str, edit: Edit) -> Change:
    """Return the change that an edit by the user made; without values if a thorough correction took the values."""
    return Change(
        id=f"{note_id}:{edit.token}",
        note_id=note_id,
        at=time_of(edit.seq),
        by=USER,
        kind="update",
        before={name: _plain(value) for name, value in edit.before.items()},
        after={name: _plain(value) for name, value in edit.after.items()},
        state="on" if edit.before else "void",
    )


def _of_decision(decision: Decision) -> Iterator[Placed]:
    for item in decision.items:
        yield (decision.seq, item.number), change_of_item(decision, item)
        for flip in item.log:
            yield (flip.seq, item.number), change_of_flip(decision, item, flip)


def change_of_item(decision: Decision, item: Item) -> Change:
    """Return the change that an item of a decision makes, or proposes."""
    before, after = _values(decision, item)
    why = {"why": item.data["why"]} if item.switch in ("waiting", "rejected") else {}
    return Change(
        id=id_of(decision, item),
        note_id=_note_of(decision, item),
        at=time_of(decision.seq),
        by=item.by,
        kind=_kind_of(item),
        before=before,
        after={**after, **why},
        state="failed" if item.kind == "failure" else item.switch,
    )


def change_of_flip(decision: Decision, item: Item, flip: Flip) -> Change:
    """Return the change by which the switch of an item was set."""
    return Change(
        id=f"{id_of(decision, item)}:{flip.token}",
        note_id=_note_of(decision, item),
        at=time_of(flip.seq),
        by=flip.by,
        kind="undo",
        before={"state": switch_before(item, flip.token)},
        after={"change": id_of(decision, item), "state": flip.switch},
        state="on" if item.log[-1].token == flip.token else "off",
    )


def switch_before(item: Item, token: str) -> Switch:
    """Return how the switch of an item was set before the write with this token."""
    tokens = [flip.token for flip in item.log]
    place = tokens.index(token)
    return item.log[place - 1].switch if place else item.first_switch


def id_of(decision: Decision, item: Item) -> str:
    """Return the id of the change that an item makes."""
    return f"{decision.id}:{item.number}"


def _kind_of(item: Item) -> ChangeKind:
    if item.kind == "failure":
        return "link" if item.data.get("stage") == "link" else "construct"
    return KINDS[item.kind]


def _note_of(decision: Decision, item: Item) -> str:
    if item.kind in ("sentence", "supersession"):
        return item.to
    return item.other if item.kind == "relink" else decision.note


def _values(decision: Decision, item: Item) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the values before and after an item."""
    data, before = dict(item.data), dict[str, Any]()
    match item.kind:
        case "entry" | "sentence":
            named = ("keywords", "tags", "kind", "until")
            after = {"context": item.text} | {n: _plain(data[n]) for n in named if data.get(n)}
            if item.kind == "sentence":
                after["cause"] = decision.note
        case "link":
            after = {"to": item.to, "relation": data.get("relation", ""), "reason": item.text}
            after["strength"] = data.get("strength", 1.0)
        case "relink":
            after = {"to": item.to, "reason": item.text, "cause": decision.note}
            after["strength"] = data.get("strength", 0.0)
            before = {"strength": data["before"]} if "before" in data else {}
        case "supersession":
            after = {"by": decision.note, "relation": data.get("relation", "updates")}
            after |= {"reason": item.text, "since": decision.at.isoformat()}
        case "form":
            after = {"value": json.loads(item.text) if item.text else None}
        case _:
            after = {"why": item.text}
    return before, after


def _plain(value: Any) -> Any:  # noqa: ANN401 - any value of a field
    """Return a value of a note's field as a JSON value."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
