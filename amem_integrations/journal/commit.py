"""Decisions are written: inserted with their call, looked at, shown, and settled; or redacted when a text is gone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from ..decisions import SETTLED, VISIBLE, WRITTEN, Call, Decision, Item, Record, sources_of
from ..notes import Wording
from ..plans import ANSWERS, FOLLOWS, REPEATS
from ..ports import RecordQuery
from ..stored_note import StoredNote
from .projection import project
from .writer import Writer, shown_once

PLAIN_RELATION = "related"
# Relations of links that no model has put into words of its own.
KNOWN_RELATIONS = (PLAIN_RELATION, FOLLOWS, ANSWERS, REPEATS)
ENDS = ("link", "relink", "supersession")  # items that connect notes, whatever their text says

Fate = Literal["deleted", "corrected"]
Fates = Callable[[Wording], Fate | None]  # what became of a wording; None: the wording still stands


class Settled(NamedTuple):
    """The decisions of a call as they stand after a write.

    Attributes:
        decisions: The decisions of the call by id, as they stand; none, if all slots had been taken.
        notes: The notes on which they show by id, as they stand, without their vectors.
        holders: The other calls that hold slots of decisions which were written, and are not settled.
    """

    decisions: Mapping[str, Decision]
    notes: Mapping[str, StoredNote]
    holders: Collection[str]


async def commit(writer: Writer, call: Call, decisions: Sequence[Decision]) -> Settled:
    """Write what a call decided, and make it show.

    The call that took a slot is settled too, since its writer may be dead.
    """
    await writer.insert_records([call, *decisions])
    mine: dict[str, Record] = {call.id: call, **{one.id: one for one in decisions}}
    settled = await settle(writer, call.id, mine)
    for holder in sorted(settled.holders):
        await settle(writer, holder)
    return settled


async def settle(
    writer: Writer, call_id: str, written: Mapping[str, Record] | None = None
) -> Settled:
    """Look whether the sources of a call's decisions still stand, show what does, redact what does not, and close.

    Anybody may settle a call, at any time, and again.

    Args:
        writer: Who settles.
        call_id: Which call.
        written: The call and its decisions as the writer has just inserted them; None reads them.
    """
    records = dict(written) if written is not None else await writer.records_of([call_id])
    touched, holders = set[str](), set[str]()
    while True:
        # The tokens of the decisions have been read; what they were made of is looked at after that.
        call = records.get(call_id)
        shown = call.shown if isinstance(call, Call) else None
        decisions = {key: one for key, one in records.items() if isinstance(one, Decision)}
        # A settled decision has been projected: of a call with many decisions only the open ones are projected.
        touched |= _about(one for one in decisions.values() if one.phase != SETTLED)
        read = frozenset(touched)
        named = {source.id for source in sources_of(decisions.values()).union(shown or ())}
        notes = await writer.whole_notes(touched, named)
        looked = _looked_at(writer, shown, decisions, notes)
        changed = [(one, looked[key]) for key, one in decisions.items() if looked[key] != one]
        touched |= _about(one for one, _ in changed)
        if not changed:
            break
        wrote = await writer.swap_records(changed)
        if written is None:
            records = await writer.records_of([call_id])
        else:
            stored = await stored_decisions(writer, written.keys() - {call_id})
            mine = {key: one for key, one in stored.items() if one.call == call_id}
            records = {call_id: written[call_id], **mine}
            holders |= {*_open_calls(stored.values())} - {call_id}
        decisions = {key: one for key, one in records.items() if isinstance(one, Decision)}
        if all(one == wrote.get(key) for key, one in decisions.items()):
            break  # what was looked at stands
    views = await project(writer, touched, notes if touched <= read else None)
    # A decision that another writer has changed meanwhile is settled by that writer.
    await writer.swap_records(
        (one, replace(one, phase=SETTLED)) for one in decisions.values() if one.phase == VISIBLE
    )
    return Settled(decisions, views, holders)


def _about(decisions: Iterable[Decision]) -> set[str]:
    """Return the notes that some decisions are about."""
    return {note_id for one in decisions for note_id in one.about}


async def unsettled_calls(writer: Writer) -> list[str]:
    """Return the calls of which a decision is not settled, sorted."""
    found = await writer.decisions(RecordQuery(unsettled=True))
    return _open_calls(found.values())


def _open_calls(decisions: Iterable[Decision]) -> list[str]:
    return sorted({one.call for one in decisions if one.phase != SETTLED})


async def stored_decisions(writer: Writer, ids: Iterable[str]) -> dict[str, Decision]:
    """Return the decisions with these ids that there are, by id."""
    found = await writer.records(ids)
    return {key: one for key, one in found.items() if isinstance(one, Decision)}


def _looked_at(
    writer: Writer,
    shown: Sequence[Wording] | None,
    decisions: Mapping[str, Decision],
    notes: Mapping[str, StoredNote],
) -> dict[str, Decision]:
    """Return decisions by id as they are after a look at their sources.

    Args:
        writer: Who looks.
        shown: The wordings that the call of the decisions was shown; None: the call is not stored.
        decisions: The decisions of the call, by id.
        notes: The notes that the call was shown or that the decisions name as sources, as they stand.
    """
    time = writer.now()

    def fate_of(source: Wording) -> Fate | None:
        stored = notes.get(source.id)
        if stored is None or stored.is_gone(time):
            return "deleted"
        return "corrected" if stored.rev != source.rev else None

    known = [(notes.get(source.id), source.rev) for source in shown or ()]
    # Without its call nobody knows what a decision was shown.
    is_void = shown is None or any(
        stored is not None and stored.thorough >= rev for stored, rev in known
    )
    # An answer that comes so late that the tombstone has been collected counts as one about a note that was deleted
    # thoroughly; what was looked at in time does not.
    is_late = any(stored is None for stored, _ in known)
    looked = dict[str, Decision]()
    for key, decision in decisions.items():
        new = redact(decision, fate_of)
        if is_void or (is_late and decision.phase == WRITTEN):
            new = redact_inferred(new)
        looked[key] = shown_once(new)
    return looked


def redact(decision: Decision, fate_of: Fates) -> Decision:
    """Return a decision without what was made of the wordings that are gone.

    What a model or the rules decided about the note's own wording becomes void whole. Of other decisions an entry or a
    form becomes void; a sentence goes; a link or a supersession loses its reason, and goes if the note at its other end
    was deleted. What the user decided stays in force, without its reason, where a note is corrected.
    """
    fates = {source: fate for source in decision.sources if (fate := fate_of(source))}
    if decision.void or not fates:
        return decision
    own = any(source.id == decision.note for source in fates)
    if decision.stage == "user":
        is_deleted = "deleted" in fates.values()
        return decision.voided() if is_deleted else decision.with_items(_blanked(fates))
    if own or decision.stage in ("construct", "form", "failure"):
        return decision.voided()
    return decision.with_items(_left_of(fates))


def redact_inferred(decision: Decision) -> Decision:
    """Return a decision of a call that was shown a text which is gone thoroughly, without the texts in it.

    Texts go, whatever they say; links and supersessions stay without their reasons.
    """
    if decision.void:
        return decision
    if decision.stage in ("construct", "form", "failure"):
        return decision.voided()
    return decision.with_items(lambda item: _blank(item) if item.kind in ENDS else None)


def _blanked(fates: dict[Wording, Fate]) -> Callable[[Item], Item]:
    """Return a function that takes the text from items that were made of a wording which is gone.

    The sources stay: when the other end of a link is deleted later, the link is found by them.
    """
    return lambda item: item if fates.keys().isdisjoint(item.sources) else _blank(item)


def _blank(item: Item) -> Item:
    """Return an item without its text; of a link the relation is in the words of a model, too."""
    relation = item.data.get("relation", "")
    if item.kind == "supersession" or relation in ("", *KNOWN_RELATIONS):
        return replace(item, text="")
    return replace(item, text="", data={**item.data, "relation": PLAIN_RELATION})


def _left_of(fates: dict[Wording, Fate]) -> Callable[[Item], Item | None]:
    """Return a function that gives the rest of an item of a model or the rules; None: nothing is left."""

    def left(item: Item) -> Item | None:
        gone = [source for source in item.sources if source in fates]
        if gone and item.kind not in ENDS:
            return None
        # A decision about one wording of an outdated note says nothing of the next wording.
        ends = [fates[one] for one in gone if one.id in (item.to, item.other)]
        if "deleted" in ends or (ends and item.kind == "supersession"):
            return None
        return _blanked(fates)(item)

    return left
