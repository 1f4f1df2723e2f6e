"""Undo, redo, approval and rejection: the switches of what was decided."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from ..decisions import SETTLED, Decision, Flip, Item, Switch
from .commit import settle
from .projection import project
from .writer import Writer, reopened

Place = tuple[str, int]  # a decision, and the number of one of its items


async def toggle(
    writer: Writer,
    decision_id: str,
    number: int,
    switch: Switch,
    **edits: Any,  # noqa: ANN401 - fields of an item
) -> Flip | None:
    """Set the switch of one item of a decision, and make the change show; return None if the item is gone.

    Args:
        writer: Who decides.
        decision_id: Which decision.
        number: Which of its items.
        switch: On (redo, approval), off (undo), waiting or rejected.
        edits: Other values for the item, such as a text that a reviewer has put right.
    """
    place = (decision_id, number)
    return (await toggle_all(writer, {place: switch}, **edits)).get(place)


async def toggle_all(
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
