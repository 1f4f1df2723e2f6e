"""Undo, redo, approval and rejection: the switches of what was decided."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..decisions import Decision, Flip, Switch
from .commit import settle
from .writer import Writer, reopened


async def toggle(
    writer: Writer,
    decision_id: str,
    number: int,
    switch: Switch,
    **edits: Any,  # noqa: ANN401 - fields of an item
) -> bool:
    """Set the switch of one item of a decision, and make the change show; return False if the item is gone.

    Args:
        writer: Who decides.
        decision_id: Which decision.
        number: Which of its items.
        switch: On (redo, approval), off (undo) or rejected.
        edits: Other values for the item, such as a text that a reviewer has put right.
    """
    while True:
        decision = await stored_decision(writer, decision_id)
        if decision is None or decision.item(number) is None:
            return False
        flip = Flip(switch, writer.by, writer.new_seq(), writer.new_token())
        items = (
            item.flipped(flip, **edits) if item.number == number else item
            for item in decision.items
        )
        await writer.swap_decisions([(decision, reopened(replace(decision, items=tuple(items))))])
        stands = await stored_decision(writer, decision_id)
        if stands is not None and stands.has_flip(flip.token):
            break
    await settle(writer, decision.call)
    return True


async def stored_decision(writer: Writer, decision_id: str) -> Decision | None:
    """Return a decision; None: there is no decision with this id."""
    found = (await writer.records([decision_id])).get(decision_id)
    return found if isinstance(found, Decision) else None
