"""Upgrade: what rules decided about a note gives way to what a language model decides."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ..decisions import Decision, Flip, Item
from ..journal.commit import settle
from ..journal.writer import Writer, reopened
from ..notes import Note
from ..ports import RecordQuery
from ..runtime import RULES


async def switch_rules_off(writer: Writer, ids: Collection[str]) -> dict[str, Note]:
    """Switch off all that rules decided for these notes; return the notes on which that showed, as they are then.

    What waited for a person is off too. It is done when nothing more is found.
    """
    notes: dict[str, Note] = {}
    while True:
        query = RecordQuery(about=frozenset(ids), newest=1)  # and the notes' own decisions
        found = (await writer.decisions(query)).values()
        changed = [
            (one, off)
            for one in found
            if one.note in ids and (off := _switched_off(writer, one)) != one
        ]
        if not changed:
            return notes
        await writer.swap_decisions((one, reopened(off)) for one, off in changed)
        for call in sorted({one.call for one, _ in changed}):
            made = await settle(writer, call)
            notes |= {i: one.note for i, one in made.notes.items() if one.note is not None}


def _switched_off(writer: Writer, decision: Decision) -> Decision:
    def off(item: Item) -> Item:
        if item.by != RULES or item.switch in ("off", "rejected"):
            return item
        return item.flipped(Flip("off", writer.by, writer.new_seq(), writer.new_token()))

    return replace(decision, items=tuple(map(off, decision.items)))
