"""Pure: the notes that match best stand first; the others follow by fusion of ranks and activation spread over links.

Constants were chosen on halves of LoCoMo's conv-26 and conv-30 and of small dialogues; `docs/adr` has the figures.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from math import sqrt
from operator import itemgetter

from .. import kinds
from ..filters import Condition
from ..notes import Link, Note
from ..plans import FOLLOWS
from ..ports import Ranked

# How much of the lists counts, and how flat: 1 / (k + rank). 10 favours the top more than the usual 60.
FUSION_DEPTH = 100
RRF_K = 10

# A BM25 score under this comes of words that nearly every note has, and counts by its share of it.
TELLING = 1.0

# Each of the best hits gives every note it is linked to SPREAD · score / √(number of its links): of as many hits as are
# wanted, within these bounds. Each costs a note to fetch. Links that only say that one turn came after another do not
# count in that number, for every note has two of them, and give TURNS in place of SPREAD.
SPREAD = 0.4
TURNS = 0.25
SPREAD_FROM = (20, 40)

# The best matches, as many as this, stand first, whatever links say: what stands between two hits is seldom the answer.
LEADING = 2

# A note by the one speaker whom the query names has this more.
NAMED = 0.03

# How much a note counts that a user did not state. A question asks for what others know, and an assistant repeats
# what it was told: of either there can be any number on a topic, so none pushes down what was stated.
QUESTION = ASSISTANT = 0.25
FILLER = 0.001
STATED = 1.0
STATEMENTS = (
    Condition("kind", "$eq", "statement"),
    Condition("source", "$ne", "assistant"),
)


@dataclass(slots=True)
class Activation:
    """How a note came to its score, and to one of the first places.

    Attributes:
        match: The cosine and the BM25 score, each as a share of the best in its list, on the scale of `fusion`.
        least: The score that the note has at least, because it leads.
        sources: The notes that `spread` is from, with the share of each.
    """

    dense_rank: int | None = None
    lexical_rank: int | None = None
    match: float = 0.0
    fusion: float = 0.0
    spread: float = 0.0
    named: float = 0.0
    least: float = 0.0
    sources: tuple[tuple[float, str], ...] = ()

    @property
    def score(self) -> float:
        """Fusion, spread, and what the note has for its speaker; of a note that leads, no less than of those below."""
        return max(self.fusion + self.spread + self.named, self.least)


Activations = dict[str, Activation]


def weight_of(note: Note, query: str) -> float:
    """Return how much a note counts in the fusion, up to 1; filler that the query names counts like a statement."""
    if note.kind == "filler":
        return STATED if kinds.says(query, note.content) else FILLER
    # A note that an assistant stores by a tool, apart from any thread, is meant to be kept.
    echoes = note.source == "assistant" and note.thread is not None
    return (QUESTION if note.kind == "question" else 1.0) * (ASSISTANT if echoes else 1.0)


def fuse(lists: Ranked, weights: Mapping[str, float] | None = None) -> Activations:
    """Return the reciprocal rank fusion of the dense and the BM25 list, and how well each note matches.

    A place in the BM25 list that is due to words of nearly every note counts little. A note of less weight counts
    less, and is passed over where the ranks of those of more weight are counted.
    """
    notes: Activations = {}
    dense_share, word_share = _share(lists.dense, 0.0), _share(lists.lexical, TELLING)
    for note_id, rank, counted, score, weight in _counted(lists.dense, weights or {}):
        match = weight * score * dense_share if score > 0 else 0.0
        notes[note_id] = Activation(rank, None, match, weight / (RRF_K + counted))
    for note_id, rank, counted, score, weight in _counted(lists.lexical, weights or {}):
        note = notes.get(note_id)
        if note is None:
            note = notes[note_id] = Activation()
        note.lexical_rank = rank
        note.match += weight * score * word_share
        telling = score / TELLING if score < TELLING else 1.0
        note.fusion += telling * weight / (RRF_K + counted)
    return notes


def _share(ranked: Sequence[tuple[str, float]], least: float) -> float:
    """Return the share of a match that a score of 1 gives, if the best score or `least` gives 1 / (k + 1)."""
    best = max(map(itemgetter(1), ranked), default=0.0)
    return 1 / (max(best, least) * (RRF_K + 1)) if best > 0 else 0.0


def _counted(
    ranked: Sequence[tuple[str, float]], weights: Mapping[str, float]
) -> Iterator[tuple[str, int, int, float, float]]:
    """Yield of each note its rank, its rank among those of no less weight, its score, and its weight."""
    light: dict[float, int] = {}
    for rank, (note_id, score) in enumerate(ranked, start=1):
        weight = weights.get(note_id, STATED)
        lighter = sum(number for other, number in light.items() if other < weight) if light else 0
        if weight < STATED:
            light[weight] = light.get(weight, 0) + 1
        yield note_id, rank, rank - lighter, score, weight


def joined(first: Ranked, then: Ranked) -> Ranked:
    """Return two answers as one: what the second has more comes after the first."""
    lists = ((first.dense, then.dense), (first.lexical, then.lexical))
    dense, lexical = (list({**dict(one), **dict(other)}.items()) for one, other in lists)
    return Ranked(dense=dense, lexical=lexical)


def raised(
    ranked: Sequence[tuple[str, float]], least: Mapping[str, float]
) -> list[tuple[str, float]]:
    """Return a list in which some notes have a score of at least so much."""
    scores = ((note_id, max(score, least.get(note_id, score))) for note_id, score in ranked)
    return sorted(scores, key=lambda hit: (-hit[1], hit[0]))


def order(notes: Activations) -> list[str]:
    """Return the note ids, best first; equal scores are ordered by match, then by id, so that runs repeat."""
    # The number of `score`, which would be looked up some hundred times.
    ranked = sorted(
        (-score if score > note.least else -note.least, -note.match - note.named, note_id)
        for note_id, note in notes.items()
        for score in [note.fusion + note.spread + note.named]
    )
    return [note_id for _, _, note_id in ranked]


def lead(notes: Activations) -> None:
    """Let the notes that match best have the first places: their scores are no less than those of the others."""
    leads = [(-(note.match + note.named), i) for i, note in notes.items()]
    first = [note_id for _, note_id in nsmallest(LEADING, leads)]
    others = (one.fusion + one.spread + one.named for i, one in notes.items() if i not in first)
    least = max(others, default=0.0)
    for note_id in reversed(first):
        notes[note_id].least = least
        least = notes[note_id].score


def looked_at(k: int) -> int:
    """Return of how many of the best hits the kind and the links count, if `k` are wanted."""
    least, most = SPREAD_FROM
    return min(max(k, least), most)


def spread(notes: Activations, links: Mapping[str, Mapping[str, Link]]) -> Activations:
    """Let the notes in `links` activate what they are linked to, and return all activations."""
    for note_id, targets in links.items():
        stated = sum(link.relation != FOLLOWS for link in targets.values())
        fusion = notes[note_id].fusion / sqrt(stated or 1)
        for target, link in targets.items():
            activation = notes.get(target)
            if activation is None:
                activation = notes[target] = Activation()
            share = fusion * (TURNS if link.relation == FOLLOWS else SPREAD)
            activation.spread += share
            activation.sources += ((share, note_id),)
    return notes


def favour_named(notes: Activations, query: str, known: Iterable[Note]) -> None:
    """Give more to those of the `known` notes whose speaker is named in the query, if it names only one."""
    by_speaker: dict[str, list[str]] = {}
    for note in known:
        if note.id in notes and note.speaker:
            by_speaker.setdefault(note.speaker, []).append(note.id)
    named = [speaker for speaker in by_speaker if kinds.says(query, speaker)]
    if len(named) == 1 < len(by_speaker):
        for note_id in by_speaker[named[0]]:
            notes[note_id].named = NAMED


def matched(notes: Activations, k: int) -> list[str]:
    """Return the ids of the best `k` without links, best first: those that match best, then by fusion alone."""
    found = [(note_id, note) for note_id, note in notes.items() if note.fusion]
    first = nsmallest(LEADING, [(-note.match, note_id) for note_id, note in found])
    ranked = sorted([(-note.fusion, note_id) for note_id, note in found])
    return list(dict.fromkeys(note_id for _, note_id in (*first, *ranked)))[:k]
