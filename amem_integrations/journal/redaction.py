"""Pure: what is left of a decision when a text that it was made of is gone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from ..decisions import Decision, Item, Source
from ..plans import ANSWERS, FOLLOWS, REPEATS

PLAIN_RELATION = "related"
# Relations of links that no model has put into words of its own.
KNOWN_RELATIONS = (PLAIN_RELATION, FOLLOWS, ANSWERS, REPEATS)
ENDS = ("link", "relink", "supersession")  # items that connect notes, whatever their text says

Fate = Literal["deleted", "corrected"]
Fates = Callable[[Source], Fate | None]  # what became of a wording; None: the wording still stands


def redact(decision: Decision, fate_of: Fates) -> Decision:
    """Return what is left of a decision when some of the wordings are gone that it was made of.

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
    """Return what is left of a decision of a call that was shown a text which is gone thoroughly.

    Texts go, whatever they say; links and supersessions stay without their reasons.
    """
    if decision.void:
        return decision
    if decision.stage in ("construct", "form", "failure"):
        return decision.voided()
    return decision.with_items(lambda item: _blank(item) if item.kind in ENDS else None)


def _blanked(fates: dict[Source, Fate]) -> Callable[[Item], Item]:
    """Return what takes the text from items that were made of a wording which is gone.

    The sources stay: when the other end of a link is deleted later, the link is found by them.
    """
    return lambda item: item if fates.keys().isdisjoint(item.sources) else _blank(item)


def _blank(item: Item) -> Item:
    """Return an item without its text; of a link the relation is in the words of a model, too."""
    relation = item.data.get("relation", "")
    if item.kind == "supersession" or relation in ("", *KNOWN_RELATIONS):
        return replace(item, text="")
    return replace(item, text="", data={**item.data, "relation": PLAIN_RELATION})


def _left_of(fates: dict[Source, Fate]) -> Callable[[Item], Item | None]:
    """Return what gives what is left of an item of a model or the rules; None: nothing."""

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
