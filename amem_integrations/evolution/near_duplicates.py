"""Find notes that say the same: equal texts, and texts that are near by their vectors and differ in no fact."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ..current_facts import NOT_MERGED, named
from ..digests import is_derived
from ..duplicates import completeness, difference, identity, is_equal, text_difference
from ..embedding import embed_if_possible
from ..notes import Namespace, Note
from ..ports import Query
from ..runtime import Runtime, resolve

PAGE = 128
NEAREST = 16  # of each note
# Vectors of notes hold their context too: duplicates are a little further apart by them than by their contents.
SLACK = 0.3
# What was said between two equal statements, and is as near as this less than a duplicate, may have changed them.
CHANGED = 0.25


@dataclass
class _Pairs:
    """Pairs of notes that may say the same, and those that are near and do not."""

    same: set[tuple[str, str]] = field(default_factory=set)
    other: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def add(self, one: Note, other: Note) -> None:
        """Sort a pair in."""
        if difference(one, other) is None:
            self.same.add((min(one.id, other.id), max(one.id, other.id)))
        elif one.speaker == other.speaker and text_difference(one.content, other.content):
            self.other[one.id].add(other.id)
            self.other[other.id].add(one.id)


async def find_duplicates(
    runtime: Runtime, namespace: Namespace, notes: Sequence[Note]
) -> dict[str, str]:
    """Return by the id of a note of a namespace that says the same as another the id of that one, which can stand for it.

    What stands for others is the most complete wording (by different words with a meaning), and the earliest of
    equally complete ones: nothing that was said is missing from it, and it has the links and context that grew
    since. One that stands for others already goes on doing so, so that a second run finds nothing. Each note is
    as near to the one that stands for it as the threshold wants; nearness is not passed on.
    """
    replacing = named(notes)
    mergeable = {note.id: note for note in notes if _is_mergeable(note)}
    standing = {note.merged_into for note in notes if note.merged_into}
    pairs = _equal(mergeable.values(), standing)
    await _add_near(runtime, namespace, mergeable, pairs)
    accepted = await _accepted(runtime, mergeable, pairs)
    return _stars(mergeable, accepted, standing=standing, found=standing | replacing)


def _is_mergeable(note: Note) -> bool:
    """Return whether a note is finished, current, and all of its text."""
    if note.state != "done" or note.chunk or note.merged_into is not None or is_derived(note):
        return False
    return not note.supersessions


def _equal(notes: Iterable[Note], standing: Collection[str | None]) -> _Pairs:
    """Return each note of an equal text with the one that would stand for all of these."""
    pairs = _Pairs()
    first: dict[Hashable, Note] = {}
    for note in sorted(notes, key=lambda note: (note.id not in standing, _place(note))):
        head = first.setdefault(identity(note), note)
        if head is not note:
            pairs.add(head, note)
    return pairs


async def _add_near(
    runtime: Runtime, namespace: Namespace, notes: Mapping[str, Note], pairs: _Pairs
) -> None:
    """Add the pairs whose vectors are near enough that their contents may be."""
    floor, ids = runtime.config.min_duplicate_similarity - SLACK, list(notes)
    for start in range(0, len(ids), PAGE):
        stored = await resolve(runtime.store.get_indexed(namespace, ids[start : start + PAGE]))
        items = [item for item in stored if item.vector is not None]
        queries = [Query(vector=i.vector, limit=NEAREST, where=(NOT_MERGED,)) for i in items]
        found = await resolve(runtime.store.search(namespace, queries))
        for item, ranked in zip(items, found, strict=True):
            for other, cosine in ranked.dense:
                if cosine >= floor and other in notes and other != item.note.id:
                    pairs.add(notes[item.note.id], notes[other])


async def _accepted(
    runtime: Runtime, notes: Mapping[str, Note], pairs: _Pairs
) -> set[tuple[str, str]]:
    """Return the pairs that are near enough by their contents, and between which nothing else was said."""
    between = {pair: _between(notes, pairs, *pair) for pair in pairs.same}
    ids = {note_id for pair, others in between.items() for note_id in (*pair, *others)}
    wanted = sorted({notes[note_id].content for note_id in ids})
    rows = await embed_if_possible(runtime, wanted, until="the next call")
    vectors = dict(zip(wanted, rows, strict=True))
    floor = runtime.config.min_duplicate_similarity

    def near(one: str, other: str, least: float) -> bool:
        first, second = (vectors[notes[note_id].content] for note_id in (one, other))
        return first is not None and second is not None and float(first @ second) >= least

    return {
        (one, other)
        for (one, other), others in between.items()
        if (is_equal(notes[one].content, notes[other].content) or near(one, other, floor))
        and not any(near(one, each, floor - CHANGED) for each in others)
    }


def _between(notes: Mapping[str, Note], pairs: _Pairs, one: str, other: str) -> list[str]:
    """Return the notes near to both of which something else was said in the time between them."""
    first, last = sorted(_place(notes[note_id]) for note_id in (one, other))
    near = pairs.other[one] | pairs.other[other]
    return [note_id for note_id in near if first < _place(notes[note_id]) < last]


def _place(note: Note) -> tuple[object, int]:
    return note.when, note.seq


def _stars(
    notes: Mapping[str, Note],
    pairs: Iterable[tuple[str, str]],
    *,
    standing: set[str],
    found: set[str],
) -> dict[str, str]:
    """Return which note stands for which; what stands for others, or has to be `found` itself, is not merged."""
    near: defaultdict[str, set[str]] = defaultdict(set)
    for one, other in pairs:
        near[one].add(other)
        near[other].add(one)

    def rank(note_id: str) -> tuple[object, ...]:
        note = notes[note_id]
        return note_id not in standing, -completeness(note.content), note.when, note.seq

    merged: dict[str, str] = {}
    taken = set(found)
    for note_id in sorted(near, key=rank):
        if note_id in merged:
            continue
        others = {other for other in near[note_id] if other not in taken}
        if others:
            merged |= dict.fromkeys(sorted(others), note_id)
            taken |= {note_id, *others}
    return merged
