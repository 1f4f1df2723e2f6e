"""The passages of long texts that answer a query.

The passages of all long texts that were found are ranked together, by their cosines and their words, as notes are. How
a whole text matches tells little: a long text has a few of any query's words, and its best passage may be about that by
chance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import log

from ..kinds import telling_words
from ..notes import Note, Passage, ScoredNote
from ..ports import Ranked
from ..stored_note import Vector
from . import ranking

MOST_CHARS = 1500  # that are shown of one note: more would leave no room for others

Spans = Sequence[tuple[int, int]]


def best_passages(
    query: str, texts: Mapping[str, tuple[str, Spans]], cosines: Mapping[str, Vector]
) -> dict[str, tuple[Passage, ...]]:
    """Return of each text the passages that match a query best, best first, which have `MOST_CHARS` together at most.

    Args:
        query: What is looked for.
        texts: Long texts with their passages, by id.
        cosines: Of the query and each passage of a text, by id, as far as they are known; not as many as it has passages
            are those of another wording.
    """
    places: dict[str, tuple[str, Passage]] = {}
    near: dict[str, float] = {}
    for name, (text, passages) in texts.items():
        row = cosines.get(name, ())
        for n, span in enumerate(passages):
            places[f"{name}:{n}"] = name, _passage(text, span)
            if len(row) == len(passages):
                near[f"{name}:{n}"] = float(row[n])
    words = _word_scores(query, {place: one.text for place, (_, one) in places.items()})
    scores, match = ranking.fuse(Ranked(dense=_sorted(near), lexical=_sorted(words)), {})
    ordered = ranking.order(scores, match)
    ranking.lead(scores, ordered)
    best: dict[str, list[Passage]] = {name: [] for name in texts}
    full: set[str] = set()
    # Where neither tells, the beginning of a text stands for it.
    for place in dict.fromkeys([*ordered, *places]):
        name, passage = places[place]
        shown = [*best[name], replace(passage, score=scores.get(place, 0.0))]
        if sum(len(one.text) for one in shown) > MOST_CHARS:
            full.add(name)
        if name not in full:
            best[name] = shown
    return {name: tuple(passages) for name, passages in best.items()}


def in_order_of_passages(hits: Sequence[ScoredNote]) -> list[ScoredNote]:
    """Return hits with those on long texts in the order of their best passages, in the same places.

    What replaces another note, or is replaced, stays where it is.
    """
    named = {hit.superseded_by for hit in hits}.union(*(hit.contradicted_by for hit in hits))
    places = [
        place
        for place, hit in enumerate(hits)
        if hit.passages
        and hit.note.id not in named
        and not (hit.superseded_by or hit.contradicted_by)
    ]
    ordered = sorted(places, key=lambda place: (-hits[place].passages[0].score, place))
    shown = list(hits)
    for place, source in zip(places, ordered, strict=True):
        shown[place] = replace(hits[source], score=hits[place].score)
    return shown


def excerpt(note: Note, passages: Sequence[Passage]) -> str:
    """Return the excerpt of a note: some passages in the order of the text, else its beginning, with marks at the gaps."""
    text, spans = note.content, sorted((one.start, one.end) for one in passages)
    if not spans:
        return text if len(text) <= MOST_CHARS else f"{text[:MOST_CHARS].rstrip()} …"
    shown, last = [], 0
    for start, end in spans:
        shown += ["…"] if text[last:start].strip() else []
        shown.append(text[start : min(end, start + MOST_CHARS)])
        last = start + len(shown[-1])
    return " ".join([*shown, *(["…"] if text[last:].strip() else [])])


def _passage(text: str, span: tuple[int, int]) -> Passage:
    """Return a passage without the blanks around it."""
    start, end = span
    end = start + len(text[start:end].rstrip())
    start = end - len(text[start:end].lstrip())
    return Passage(text=text[start:end], start=start, end=end)


def _sorted(scores: Mapping[str, float]) -> list[tuple[str, float]]:
    ranked = sorted(scores.items(), key=lambda one: (-one[1], one[0]))
    return ranked[: ranking.FUSION_DEPTH]


def _word_scores(query: str, texts: Mapping[str, str]) -> dict[str, float]:
    """Return a score for the words of a query that each text has: a word that few of these texts have counts more.

    How often a text has a word does not count.
    """
    wanted = telling_words(query)
    found = {name: wanted & telling_words(text) for name, text in texts.items()}
    having = Counter(word for words in found.values() for word in words)
    rare = {word: log(1 + (len(texts) - n + 0.5) / (n + 0.5)) for word, n in having.items()}
    return {name: sum(rare[word] for word in words) for name, words in found.items() if words}
