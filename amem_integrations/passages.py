"""Passages: the parts of a content that is longer than the embedder reads, each of which has a vector.

The text is cut between paragraphs, lines, sentences or words, in this order of preference. The passages joined
are the text again.

Which passages answer a query: those of all long texts that were found are ranked together, by their cosines and their
words, as notes are. How a whole text matches tells little: a long text has a few of any query's words, and its best
passage may be about that by chance.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from math import log

from . import ranking
from .kinds import ENDINGS, STEM, UNSPACED, telling_words
from .notes import Note, Passage, ScoredNote
from .ports import Embedder, Ranked
from .stored_note import Vector
from .texts import BYTES_PER_TOKEN, count_tokens

MOST_CHARS = 1500  # that are shown of one note: more would leave no room for others

# Sessions of two LoCoMo conversations added whole and cut to 50, 100, 150, 200 tokens: the evidence is in the
# first 1000 tokens found for .59, .84, .86, .80 of the questions; uncut, where MiniLM reads 256, for .37.
PASSAGE_TOKENS = 150
FOR_TEXT = 0.6  # of what an embedder reads; the rest is left for context, keywords and tags

Spans = Sequence[tuple[int, int]]

# Where a part may end. Chinese and Japanese sentences end without a space. The sentence's pattern looks at each
# character once (it starts only where a run of marks does, and gives nothing back), however long the runs are.
_BORDERS = (
    re.compile(r"\n\s*\n"),
    re.compile(r"\n"),
    re.compile(r"(?<![.!?…])[.!?…]++[\"'”’)\]]*+\s++|[。！？]++[」』”’）]*+"),  # noqa: RUF001
    re.compile(r"\s+"),
)


def spans(text: str, size: int) -> tuple[tuple[int, int], ...]:
    """Return where the passages of a text stand, which joined are the text; empty if the text is only one."""
    parts = split(text, size)
    if len(parts) == 1:
        return ()
    ends = list(accumulate(map(len, parts)))
    return tuple(zip([0, *ends[:-1]], ends, strict=True))


def size_of(embedder: Embedder) -> int:
    """Return how many tokens a passage has at most that an embedder reads."""
    window = getattr(embedder, "max_tokens", None)
    return min(PASSAGE_TOKENS, int(window * FOR_TEXT)) if window else PASSAGE_TOKENS


def split(text: str, size: int) -> list[str]:
    """Return the text in parts of at most about `size` tokens, of about equal length, none of them blank.

    Joined they are the text; one that is short enough is its only part.
    """
    total = count_tokens(text)
    if total <= size:
        return [text]
    fair = -(-total // -(-total // size))  # so that the last part is no mere scrap
    parts: list[str] = []
    current = ""
    for piece in _pieces(text, size, _BORDERS):
        full = count_tokens(current) >= fair or count_tokens((current + piece).rstrip()) > size
        if full and current.strip():
            parts.append(current)
            current = ""
        current += piece
    if not current.strip() and parts:
        parts[-1] += current
        return parts
    return [*parts, current]


def _pieces(text: str, size: int, borders: Sequence[re.Pattern[str]]) -> list[str]:
    """Return the text in pieces of at most `size` tokens, cut at the first kind of border that does."""
    if count_tokens(text.rstrip()) <= size:
        return [text]
    if not borders:
        width = max(1, size * BYTES_PER_TOKEN // -(-len(text.encode()) // len(text)))
        return [text[start : start + width] for start in range(0, len(text), width)]
    first, *rest = borders
    return [part for found in _cut(text, first) for part in _pieces(found, size, rest)]


def _cut(text: str, border: re.Pattern[str]) -> Iterator[str]:
    """Yield the text cut after each border."""
    start = 0
    for found in border.finditer(text):
        if found.end() > start:
            yield text[start : found.end()]
            start = found.end()
    if start < len(text):
        yield text[start:]


def best_passages(
    query: str, texts: Mapping[str, tuple[str, Spans]], cosines: Mapping[str, Vector]
) -> dict[str, tuple[Passage, ...]]:
    """Return of each text the passages that match a query best, best first, which have `MOST_CHARS` together at most.

    Args:
        query: What is looked for.
        texts: Long texts with their passages, by id.
        cosines: Of the query and each passage of a text, by id, as far as they are known.
    """
    places = {
        f"{name}:{n}": (name, span)
        for name, (_, passages) in texts.items()
        for n, span in enumerate(passages)
    }
    near = {f"{name}:{n}": float(c) for name, row in cosines.items() for n, c in enumerate(row)}
    words = _word_scores(query, {p: texts[name][0][a:b] for p, (name, (a, b)) in places.items()})
    # Where neither tells, the beginning of a text stands for it.
    found = ranking.fuse(Ranked(dense=_sorted(near), lexical=_sorted(words)))
    ranking.lead(found)
    best: dict[str, list[Passage]] = {name: [] for name in texts}
    full: set[str] = set()
    for place in [*ranking.order(found), *(place for place in places if place not in found)]:
        name, span = places[place]
        score = found[place].score if place in found else 0.0
        passage = _passage(texts[name][0], span, score)
        if best[name] and _chars([*best[name], passage]) > MOST_CHARS:
            full.add(name)
        if name not in full:
            best[name].append(passage)
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
    """Return what is shown of a note: some passages in the order of the text, else its beginning, with marks of what is left out."""
    text, spans = note.content, sorted((one.start, one.end) for one in passages)
    if not spans:
        return text if len(text) <= MOST_CHARS else f"{text[:MOST_CHARS].rstrip()} …"
    shown, last = [], 0
    for start, end in spans:
        shown += ["…"] if text[last:start].strip() else []
        shown.append(text[start : min(end, start + MOST_CHARS)])
        last = start + len(shown[-1])
    return " ".join([*shown, *(["…"] if text[last:].strip() else [])])


def _passage(text: str, span: tuple[int, int], score: float) -> Passage:
    """Return a passage without the blanks around it."""
    start, end = span
    end = start + len(text[start:end].rstrip())
    start = end - len(text[start:end].lstrip())
    return Passage(text=text[start:end], start=start, end=end, score=score)


def _chars(passages: Sequence[Passage]) -> int:
    return sum(one.end - one.start for one in passages)


def _sorted(scores: Mapping[str, float]) -> list[tuple[str, float]]:
    ranked = sorted(scores.items(), key=lambda one: (-one[1], one[0]))
    return ranked[: ranking.FUSION_DEPTH]


def _word_scores(query: str, texts: Mapping[str, str]) -> dict[str, float]:
    """Return how much the words of each text have to do with a query: more for those that few of these texts have.

    How often a text has a word does not count.
    """
    patterns = dict(_patterns(telling_words(query)))
    lower = {name: text.lower() for name, text in texts.items()}
    found = {
        name: [stem for stem, one in patterns.items() if stem in text and one.search(text)]
        for name, text in lower.items()
    }
    having = Counter(stem for stems in found.values() for stem in stems)
    rare = {stem: log(1 + (len(texts) - n + 0.5) / (n + 0.5)) for stem, n in having.items()}
    return {name: sum(rare[stem] for stem in stems) for name, stems in found.items() if stems}


def _patterns(stems: frozenset[str]) -> Iterator[tuple[str, re.Pattern[str]]]:
    """Yield what finds the words with each of some stems."""
    for stem in sorted(stems):
        if UNSPACED.search(stem):
            yield stem, re.compile(re.escape(stem))
        else:
            rest = r"\w*" if len(stem) == STEM else rf"(?:{ENDINGS})?(?!\w)"
            yield stem, re.compile(rf"(?<!\w){re.escape(stem)}{rest}")
