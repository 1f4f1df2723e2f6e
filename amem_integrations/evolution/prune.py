"""Prune: links that have become weak go, at both ends; the history keeps them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from ..changes.edits import Edit, chain, drop_link
from ..changes.rewrite import rewrite
from ..ids import new_operation, now
from ..notes import Namespace, Note
from ..runtime import Runtime

Pair = tuple[str, str]


def weak_links(
    notes: Iterable[Note], floor: float, time: datetime, half_life: timedelta | None
) -> list[Pair]:
    """Return the links to drop, weakest first: those that are under `floor` at both ends at a time.

    The last link of a note stays however weak it is, and so does the note at its other end with it: a note without
    links is found by its own words only, and one weak link costs a search nothing.
    """
    known = {note.id: note for note in notes}
    degrees = Counter({note_id: len(note.links) for note_id, note in known.items()})
    strengths: defaultdict[Pair, float] = defaultdict(float)
    for note in known.values():
        for target, link in note.links.items():
            pair = (min(note.id, target), max(note.id, target))
            strengths[pair] = max(strengths[pair], link.strength_at(time, half_life))
    found = []
    for strength, pair in sorted((s, pair) for pair, s in strengths.items()):
        if strength < floor and all(degrees[end] > 1 for end in pair):
            degrees.subtract(pair)
            found.append(pair)
    return found


async def prune(
    runtime: Runtime, namespace: Namespace, pairs: Sequence[Pair], floor: float
) -> None:
    """Drop links at both ends, in one write for each note."""
    op, at = new_operation(), now()
    why = f"its strength is under {floor:.2f}"
    steps: defaultdict[str, list[Edit]] = defaultdict(list)
    for one, other in pairs:
        steps[one].append(drop_link(other, op, at, why))
        steps[other].append(drop_link(one, op, at, why))
    await rewrite(runtime, namespace, op, {i: chain(parts) for i, parts in steps.items()})
