"""Upgrade: what rules decided about a note gives way to what a language model decides."""

from __future__ import annotations

from collections.abc import Collection

from ..decisions import Switch
from ..journal.history import toggle_all
from ..journal.writer import Writer
from ..notes import Note
from ..ports import RecordQuery
from ..runtime import RULES


async def switch_rules_off(writer: Writer, ids: Collection[str]) -> dict[str, Note]:
    """Switch off all that rules decided for these notes, what waited for a person too; return the notes as they are then."""
    query = RecordQuery(about=frozenset(ids), newest=1)  # and the notes' own decisions
    own = {key: one for key, one in (await writer.decisions(query)).items() if one.note in ids}
    places: dict[tuple[str, int], Switch] = {
        (key, item.number): "off"
        for key, one in own.items()
        for item in one.items
        if item.by == RULES and item.switch in ("on", "waiting")
    }
    await toggle_all(writer, places, {key: own[key] for key, _ in places})
    found = await writer.notes(ids)
    return {key: one.note for key, one in found.items() if one.note is not None}
