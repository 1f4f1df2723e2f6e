"""Pure: the notes that match best stand first; the others follow by fusion of ranks and activation spread over links.

Constants were chosen on halves of LoCoMo's conv-26 and conv-30 and of small dialogues; `docs/adr` has the figures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from heapq import nlargest
from itertools import pairwise
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

LEAST = -1.0  # the least cosine there is

# A BM25 score under this comes of words that nearly every note has, and counts by its share of it.
TELLING = 1.0

# Each of the best hits gives every note it is linked to SPREAD · fusion / √(number of its links): of as many hits as are
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
STATEMENTS = (Condition("kind", "$eq", "statement"), Condition("source", "$ne", "assistant"))

MESSAGE_CHARS = 300  # of a message before a query: a long answer would drown the question

Scores = dict[str, float]  # by the id of a note


def weight_of(note: Note, query: str, said: Collection[str]) -> float:
    """Return how much a note counts in the fusion, up to 1; filler that the query names counts like a statement.

    `said` are the words of each message before the query: a note that says just that is known already.
    """
    if said and kinds.words_of(note.content[:MESSAGE_CHARS]) in said:
        return FILLER
    if note.kind == "filler":
        return STATED if kinds.says(query, note.content) else FILLER
    # A note that an assistant stores by a tool, apart from any thread, is meant to be kept.
    echoes = note.source == "assistant" and note.thread is not None
    return (QUESTION if note.kind == "question" else STATED) * (ASSISTANT if echoes else STATED)


def fuse(lists: Ranked, weights: Mapping[str, float]) -> tuple[Scores, Scores]:
    """Return the reciprocal rank fusion of the dense and the BM25 list, and how well each note matches.

    A match is the cosine and the BM25 score, each as a share of the best in its list, on the scale of the fusion. A
    place in the BM25 list that is due to words of nearly every note counts little. A note of less weight counts less,
    and is passed over where the ranks of those of more weight are counted. Equal scores stay in the order of the lists.
    """
    fusion: Scores = {}
    match: Scores = {}
    for ranked, telling in ((lists.dense, LEAST), (lists.lexical, TELLING)):
        best = max([telling, *map(itemgetter(1), ranked)])
        lighter: Counter[float] = Counter()
        for rank, (note_id, score) in enumerate(ranked, start=1):
            weight, counted = weights.get(note_id, STATED), rank
            if lighter:
                counted -= sum(number for other, number in lighter.items() if other < weight)
            if weight < STATED:
                lighter[weight] += 1
            share = weight if score >= telling else weight * score / telling
            fusion[note_id] = fusion.get(note_id, 0.0) + share / (RRF_K + counted)
            near = weight * score / (best * (RRF_K + 1)) if score > 0 else 0.0
            match[note_id] = match.get(note_id, 0.0) + near
    return fusion, match


def joined(first: Ranked, then: Ranked) -> Ranked:
    """Return two answers as one: what the second has more comes after the first."""
    lists = ((first.dense, then.dense), (first.lexical, then.lexical))
    dense, lexical = (list({**dict(one), **dict(other)}.items()) for one, other in lists)
    return replace(first, dense=dense, lexical=lexical)


def order(scores: Scores, match: Scores) -> list[str]:
    """Return the note ids, best first: those that match best, then by score; equal ones by id."""
    ranked = sorted(sorted(scores), key=scores.__getitem__, reverse=True)
    first = nlargest(LEADING, filter(match.__contains__, ranked), key=match.__getitem__)
    return list(dict.fromkeys([*first, *ranked]))


def lead(scores: Scores, ordered: Sequence[str]) -> None:
    """Let no note that leads have a lower score than those below."""
    for first, below in reversed([*pairwise(ordered[: LEADING + 1])]):
        scores[first] = max(scores[first], scores[below])


def looked_at(k: int) -> int:
    """Return of how many of the best hits the kind and the links count, if `k` are wanted."""
    least, most = SPREAD_FROM
    return min(max(k, least), most)


def lent(fusion: float, links: Mapping[str, Link]) -> Scores:
    """Return the scores that a note lends to the notes that it is linked to."""
    stated = sum(link.relation != FOLLOWS for link in links.values())
    share = fusion / sqrt(stated or 1)
    return {
        target: share * (TURNS if link.relation == FOLLOWS else SPREAD)
        for target, link in links.items()
    }


def named_by(query: str, known: Iterable[Note]) -> list[str]:
    """Return the ids of the notes whose speaker is named in the query, if it names only one of several."""
    by_speaker: dict[str, list[str]] = {}
    for note in known:
        if note.speaker:
            by_speaker.setdefault(note.speaker, []).append(note.id)
    speakers = [speaker for speaker in by_speaker if kinds.says(query, speaker)]
    return by_speaker[speakers[0]] if len(speakers) == 1 < len(by_speaker) else []
