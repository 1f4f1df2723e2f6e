"""A plan may wait for a reviewer for days: what it quotes of notes that are gone since is not written."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from ..changes.gone_texts import corrections
from ..changes.quote_matching import Fragments, is_quote
from ..fetch import all_changes
from ..notes import Change, ChangeKind, Note
from ..plans import Plan, Planned, PlannedLink, PlannedNote, PlannedUpdate
from ..prompts import PROMPT_TEXTS
from ..runtime import Runtime

# By these a text goes; the third and fourth take contexts that quoted it.
TAKING: tuple[ChangeKind, ...] = ("delete", "clear", "forget", "retract", "update", "undo")


async def without_quotes(runtime: Runtime, plan: Plan, known: Mapping[str, Note]) -> Plan:
    """Return the plan without what may quote a note that was deleted or corrected after it was made.

    `known` are the notes of the plan that are there. A text is taken for a quote if it has a word that stands
    neither in them nor in the prompts: of what was corrected, a word of the old text; of what was deleted, or of
    contexts that went with it, any.
    """
    later = await all_changes(runtime.store, plan.namespace, kinds=TAKING, after=plan.since)
    shown = {candidate.id for note in plan.notes for candidate in note.candidates}
    shown |= {*plan.sources, *(note.id for note in plan.notes)}
    touching = [made for made in later if _touches(made, shown)]
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


def _touches(made: Change, shown: Collection[str]) -> bool:
    """Return whether a change took away a text that was shown: of a note, or of a context that quoted one."""
    if made.kind in ("forget", "retract"):
        return made.note_id in shown and bool(made.data["entries"])
    if made.kind in ("update", "undo"):
        return made.note_id in shown and bool(corrections([made]))
    return made.note_id in shown or made.kind == "clear"


def _test(changes: Sequence[Change], elsewhere: Fragments) -> Callable[[str], bool]:
    corrected = corrections(changes)
    if len(corrected) < len(changes):  # nobody knows any more what the others took
        return lambda text: bool(Fragments([text]).minus(elsewhere))
    lost = Fragments(text for gone in corrected for text in gone.texts)
    return lambda text: is_quote(text, lost, elsewhere)


def _cleaned(note: PlannedNote, is_quoted: Callable[[str], bool]) -> PlannedNote:
    def cleaned(one: Planned) -> Planned:
        if isinstance(one, PlannedUpdate):
            return one
        if isinstance(one, PlannedLink) and any(map(is_quoted, (one.reason, one.relation))):
            return replace(one, reason="", relation="related")
        return replace(one, reason="") if is_quoted(one.reason) else one

    updates = (
        one
        for one in note.updates
        if not any(map(is_quoted, (one.context, *one.keywords, *one.tags)))
    )
    return replace(note, updates=tuple(updates)).with_each(cleaned)
