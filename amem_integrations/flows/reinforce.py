"""Reinforce: the links of notes that proved useful get their strength back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from ..changes.edits import Edit, change_of_namespace
from ..changes.rewrite import rewrite
from ..errors import InvalidInputError
from ..fetch import existing
from ..ids import new_operation, now
from ..notes import Change, Note, ScoredNote, check_namespace
from ..runtime import Runtime, resolve

Pair = tuple[str, str]


async def reinforce(
    runtime: Runtime, useful: Sequence[str | ScoredNote], *, namespace: Sequence[str]
) -> int:
    """Restore the strength of the links of notes that proved useful, and return how many links that were.

    These are the links by which a hit was found (`hit.via`), and the links between the given notes. Their strength
    decays again from now on (see `MemoryConfig.link_half_life`); it is never raised above what it was. All of it is
    one write. The history does not list it, and it is not undone; `known_at` takes it back like everything else.

    Args:
        useful: Ids of notes, or hits of a search: what an answer made use of.
        namespace: Whose memory.

    Raises:
        NoteNotFoundError: One of the notes is not in this namespace.
        InvalidInputError: `useful` holds something else.
    """
    space = check_namespace(namespace)
    if isinstance(useful, str) or not all(isinstance(one, str | ScoredNote) for one in useful):
        raise InvalidInputError(f"{useful!r} must be a list of ids of notes, or of hits")
    hits = [one for one in useful if isinstance(one, ScoredNote)]
    ids = list(dict.fromkeys(one if isinstance(one, str) else one.note.id for one in useful))
    steps = {(hit.note.id, step.note_id) for hit in hits if hit.via != "match" for step in hit.via}
    notes = {note.id: note for note in await existing(runtime.store, space, ids)}
    sources = sorted({source for _, source in steps} - notes.keys())
    notes |= {note.id: note for note in await resolve(runtime.store.get(space, sources))}
    between = {(one, other) for one in ids for other in notes[one].links if other in ids}
    if not (pairs := _linked(steps | between, notes)):
        return 0
    op, at = new_operation(), now()
    before = [[*pair, notes[pair[0]].links[pair[1]].reinforced.isoformat()] for pair in pairs]
    record = change_of_namespace(op, "reinforce", space, at, {"links": before})
    await rewrite(runtime, space, op, _edits(pairs, at), base=notes, records=[record])
    return len(pairs)


def _linked(pairs: Iterable[Pair], notes: Mapping[str, Note]) -> list[Pair]:
    """Return the pairs of notes that are linked, each once."""
    ordered = sorted({(min(pair), max(pair)) for pair in pairs})
    return [(a, b) for a, b in ordered if a in notes and b in notes and b in notes[a].links]


def _edits(pairs: Iterable[Pair], at: datetime) -> dict[str, Edit]:
    """Return by note id the edits that reinforce the links of pairs, at both ends."""
    others: defaultdict[str, set[str]] = defaultdict(set)
    for one, other in pairs:
        others[one].add(other)
        others[other].add(one)
    return {note_id: _reinforced(targets, at) for note_id, targets in others.items()}


def _reinforced(targets: set[str], at: datetime) -> Edit:
    def edit(note: Note) -> tuple[Note, list[Change]]:
        links = {
            target: replace(link, reinforced=max(link.reinforced, at))
            if target in targets
            else link
            for target, link in note.links.items()
        }
        return note.revised(links=links), []

    return edit
