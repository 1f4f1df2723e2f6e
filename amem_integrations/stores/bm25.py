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
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain, pairwise
from typing import Any
from unicodedata import category, normalize

import mmh3
import snowballstemmer

from ..errors import ConfigurationError

Sparse = tuple[list[int], list[float]]

VERSION = 2  # of the text processing; goes into the fingerprint
AVG_LEN = 60.0  # tokens of a note's enriched text: content, context, keywords, tags
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
_ENGLISH_STOPWORDS = frozenset(_ENGLISH.split())


class Bm25:
    """Turns texts into BM25 term weights.

    Args:
        language: A Snowball language (`"english"`, `"german"`, …) for stemming; None for words as they
            are. Stopwords are left out for English only.
        avg_len: The length of an average document, in tokens.
        k: How fast repeats of a word stop counting.
        b: How much long documents are discounted, 0 to 1.

    Raises:
        ConfigurationError: An unknown language, or a number out of its range.
    """

    def __init__(
        self,
        language: str | None = "english",
        *,
        avg_len: float = AVG_LEN,
        k: float = 1.2,
        b: float = 0.75,
    ) -> None:
        if avg_len <= 0 or k < 0 or not 0 <= b <= 1:
            raise ConfigurationError(
                f"BM25 wants avg_len > 0, k >= 0, 0 <= b <= 1, not {avg_len!r}, {k!r}, {b!r}"
            )
        self._language, self._avg_len, self._k, self._b = language, avg_len, k, b
        self._stopwords = _ENGLISH_STOPWORDS if language == "english" else frozenset[str]()
        try:
            self._stemmer: Any = None if language is None else snowballstemmer.stemmer(language)
        except KeyError as error:
            known = ", ".join(sorted(snowballstemmer.algorithms()))
            raise ConfigurationError(
                f"no stemmer for {language!r}; use None or one of {known}"
            ) from error
        self._stemming = threading.Lock()  # a Snowball stemmer keeps its word in itself
        self._index = lru_cache(maxsize=CACHED_TOKENS)(self._index_of)

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The settings that must be equal for two vectors to be comparable, as JSON."""
        numbers = {"avg_len": self._avg_len, "k": self._k, "b": self._b}
        return {"version": VERSION, "language": self._language, **numbers}

    def encode_document(self, *passages: str) -> Sparse:
        """Return (indices, values) of a document: how much each of its words says about it.

        Of a long document it is how much a word says about the passage that the word says most about.
        """
        weights: dict[int, float] = {}
        for text in passages:
            counts = self._counts(_tokens(text, singles=True))
            discount = self._k * (1 - self._b + self._b * counts.total() / self._avg_len)
            for index, count in counts.items():
                weight = count * (self._k + 1) / (count + discount)
                weights[index] = max(weight, weights.get(index, 0.0))
        indices = sorted(weights)
        return indices, [weights[index] for index in indices]

    def encode_query(self, text: str) -> Sparse:
        """Return (indices, values) of a query, which may be a note: a word weighs as often as it occurs."""
        counts = self._counts(_tokens(text, singles=False))
        indices = sorted(counts)
        return indices, [float(counts[index]) for index in indices]

    def _counts(self, tokens: Iterable[str]) -> Counter[int]:
        counts = Counter(map(self._index, tokens))
        del counts[None]
        return counts

    def _index_of(self, token: str) -> Any:  # noqa: ANN401 - a number, or None for a stopword
        if token in self._stopwords:
            return None
        if self._stemmer is not None and not token.isdigit():
            with self._stemming:
                token = self._stemmer.stemWord(token)
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
