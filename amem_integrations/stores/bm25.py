"""BM25 weights as sparse vectors, with nothing to download.

A document is a set of (index, weight) pairs, a query the indices of its words; the engine multiplies by
the inverse document frequency. Indices are those of Qdrant's own BM25 (murmur3 of the
token), so that vectors of both can live together.

Text without spaces between words (Chinese, Japanese, Thai, …) is cut into pairs of neighbouring
characters: deterministic, no dictionary, and what search engines do by default. A document also holds
the single characters, so that a query of one character finds it. Korean is treated alike, because its
particles stick to the word.

A combining mark belongs to its word, as in Hindi or Tamil. The points of Arabic and Hebrew, which most people
leave out, are removed, so that a word is found in either spelling.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain, pairwise
from typing import Any
from unicodedata import category, normalize

import mmh3
import snowballstemmer

Sparse = tuple[list[int], list[float]]

VERSION = 2  # of the text processing; goes into the fingerprint
LANGUAGE = "english"  # by which words are stemmed, and stopwords left out
AVG_LEN = 60.0  # tokens of a note's enriched text: content, context, keywords, tags
K = 1.2  # how fast repeats of a word stop counting
B = 0.75  # how much long documents are discounted, 0 to 1
# The settings that must be equal for two vectors to be comparable, as JSON.
FINGERPRINT: Mapping[str, Any] = {
    "version": VERSION, "language": LANGUAGE, "avg_len": AVG_LEN, "k": K, "b": B,
}  # fmt: skip
CACHED_TOKENS = 65_536

_NO_SPACES = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f"  # kana, Han
    "\uac00-\ud7af\U00020000-\U0003ffff"  # Hangul, rare Han
)
# Blocks with the combining marks of scripts that put spaces between words; `\w` does not know marks.
_BLOCKS = (range(0x300, 0x1E00), range(0xA800, 0xAC00), range(0x11000, 0x12000))
_MARKS = "".join(char for char in map(chr, chain(*_BLOCKS)) if category(char) in ("Mn", "Mc"))
_JOINERS = "\u200c\u200d"  # shape the letters within a word of Persian or Hindi
_LETTER = rf"(?![{_NO_SPACES}])[^\W_]"
_TOKEN = re.compile(
    rf"(?P<run>[{_NO_SPACES}]+)|{_LETTER}(?:{_LETTER}|(?![{_NO_SPACES}])[{_MARKS}{_JOINERS}])*"
)
_ASCII_TOKEN = re.compile("[a-z0-9]+")  # the same in texts of ASCII, much quicker
# Vowels and accents of Hebrew and Arabic, and the line that makes an Arabic word longer.
_POINTS = re.compile(
    "[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"
    "\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u08d3-\u08ff]"
)
_ENGLISH = (
    "a an and are as at be been but by did do does for from had has have he her his i if in into is it "
    "its me my of on or our she so than that the their them then there these they this those to us was "
    "we were what when where which who will with would you your s t d m ll re ve"
)
_STOPWORDS = frozenset(_ENGLISH.split())


def encode_document(*passages: str) -> Sparse:
    """Return (indices, values) of a document: how much each of its words says about it.

    Of a long document it is how much a word says about the passage that the word says most about.
    """
    weights: dict[int, float] = {}
    for text in passages:
        counts = _counts(_tokens(text, singles=True))
        discount = K * (1 - B + B * counts.total() / AVG_LEN)
        for index, count in counts.items():
            weight = count * (K + 1) / (count + discount)
            weights[index] = max(weight, weights.get(index, 0.0))
    indices = sorted(weights)
    return indices, [weights[index] for index in indices]


def encode_query(text: str) -> Sparse:
    """Return (indices, values) of a query, which may be a note: a word weighs as often as it occurs."""
    counts = _counts(_tokens(text, singles=False))
    indices = sorted(counts)
    return indices, [float(counts[index]) for index in indices]


def _counts(tokens: Iterable[str]) -> Counter[int]:
    return Counter(index for index in map(_index, tokens) if index is not None)


@lru_cache(maxsize=CACHED_TOKENS)
def _index(token: str) -> int | None:
    """Return the number of a word; None for a stopword."""
    if token in _STOPWORDS:
        return None
    if not token.isdigit():  # a stemmer keeps its word in itself, so each word has one of its own
        token = snowballstemmer.stemmer(LANGUAGE).stemWord(token)
    return abs(mmh3.hash(token, signed=True))


def _tokens(text: str, *, singles: bool) -> Iterator[str]:
    folded = text.casefold()
    if folded.isascii():
        yield from _ASCII_TOKEN.findall(folded)
        return
    for found in _TOKEN.finditer(_POINTS.sub("", normalize("NFC", folded))):
        token = found[0]
        if found["run"] is None:
            yield token
            continue
        if singles or len(token) == 1:
            yield from token
        yield from map("".join, pairwise(token))
