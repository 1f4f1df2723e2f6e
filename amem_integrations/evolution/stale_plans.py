"""A plan may wait for a reviewer for days: what it quotes of notes that are gone since is not written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..changes.quotes import Fragments, is_quote
from ..notes import Change, ChangeKind
from ..pages import all_changes
from ..plans import Plan, PlannedNote
from ..runtime import Runtime


async def without_quotes(runtime: Runtime, plan: Plan) -> Plan:
    """Return the plan without what may quote a note that was deleted or corrected after it was made."""
    kinds: tuple[ChangeKind, ...] = ("update", "delete", "clear")
    later = await all_changes(runtime.store, plan.namespace, kinds=kinds, after=plan.since)
    shown = {candidate.id for note in plan.notes for candidate in note.candidates}
    shown |= {note.id for note in plan.notes}
    touching = [made for made in later if made.note_id in shown or made.kind == "clear"]
    if not touching:
        return plan
    return replace(plan, notes=tuple(_cleaned(note, _test(touching)) for note in plan.notes))


def _test(changes: list[Change]) -> Callable[[str], bool]:
    """Return what tells a quote; of a deleted note the text is not known, so that anything may be one."""
    if any(made.kind != "update" for made in changes):
        return bool
    steps = [made.data["content"] for made in changes if "content" in made.data]
    lost = Fragments(step["before"] for step in steps)
    kept = Fragments(step["after"] for step in steps)
    return lambda text: is_quote(text, lost, kept)


def _cleaned(note: PlannedNote, is_quoted: Callable[[str], bool]) -> PlannedNote:
    return replace(
        note,
        links=tuple(
            replace(link, reason="", relation="related")
            if is_quoted(link.reason) or is_quoted(link.relation)
            else link
            for link in note.links
        ),
        updates=tuple(
            update
            for update in note.updates
            if not any(map(is_quoted, (update.context, *update.keywords, *update.tags)))
        ),
    )
