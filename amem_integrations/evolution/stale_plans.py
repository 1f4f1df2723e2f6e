"""A plan may wait for a reviewer for days: what it quotes of notes that are gone since is not written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ..changes.quotes import Fragments, is_quote
from ..fetch import all_changes
from ..notes import Change, ChangeKind, Note
from ..plans import Plan, PlannedNote
from ..prompts import PROMPT_TEXTS
from ..runtime import Runtime


async def without_quotes(runtime: Runtime, plan: Plan, known: Mapping[str, Note]) -> Plan:
    """Return the plan without what may quote a note that was deleted or corrected after it was made.

    `known` are the notes of the plan that are there. A text is taken for a quote if it has a word that stands
    neither in them nor in the prompts: of what was corrected, a word of the old text; of what was deleted, any.
    """
    kinds: tuple[ChangeKind, ...] = ("update", "delete", "clear")
    later = await all_changes(runtime.store, plan.namespace, kinds=kinds, after=plan.since)
    shown = {candidate.id for note in plan.notes for candidate in note.candidates}
    shown |= {note.id for note in plan.notes}
    touching = [made for made in later if made.note_id in shown or made.kind == "clear"]
    if not touching:
        return plan
    texts = [
        text
        for note in known.values()
        for text in (note.content, note.speaker or "", *(entry.text for entry in note.contexts))
    ]
    elsewhere = Fragments([*PROMPT_TEXTS, *texts])
    test = _test(touching, elsewhere)
    return replace(plan, notes=tuple(_cleaned(note, test) for note in plan.notes))


def _test(changes: Sequence[Change], elsewhere: Fragments) -> Callable[[str], bool]:
    if any(made.kind != "update" for made in changes):
        return lambda text: bool(Fragments([text]).minus(elsewhere))
    steps = [made.data["content"] for made in changes if "content" in made.data]
    lost = Fragments(step["before"] for step in steps)
    return lambda text: is_quote(text, lost, elsewhere)


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
        supersessions=tuple(
            replace(one, reason="") if is_quoted(one.reason) else one for one in note.supersessions
        ),
        relinks=tuple(
            replace(one, reason="") if is_quoted(one.reason) else one for one in note.relinks
        ),
    )
