"""What a memory is to be better than: three textbook rankings of the bare turns.

They share no code with the memory, so a mistake in one does not hide in the other.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .._sync import resolve, run
from ..ports import Embedder

BM25_K = 1.2
BM25_B = 0.75
RRF_K = 60
RRF_DEPTH = 100

_WORD = re.compile(r"\w+")


class Baselines:
    """Rankings of `texts`, as places in the sequence, best first; equal ones in the order given."""

    def __init__(self, texts: Sequence[str], embedder: Embedder) -> None:
        """Encode the texts and count their words."""
        self._embedder = embedder
        self._vectors = run(resolve(embedder.embed_documents(texts)))
        self._words = _weights([_words(text) for text in texts])
        self._size = len(texts)

    def dense(self, query: str) -> list[int]:
        """Return all texts by cosine."""
        return _ranked(self._vectors @ run(resolve(self._embedder.embed_query(query))))

    def bm25(self, query: str) -> list[int]:
        """Return the texts that share a word with the query, by BM25."""
        scores = np.zeros(self._size)
        for word in set(_words(query)):
            for place, weight in self._words.get(word, ()):
                scores[place] += weight
        return [place for place in _ranked(scores) if scores[place] > 0]

    def rrf(self, query: str) -> list[int]:
        """Return the reciprocal rank fusion of both."""
        scores = np.zeros(self._size)
        for ranking in (self.dense(query), self.bm25(query)):
            for rank, place in enumerate(ranking[:RRF_DEPTH], start=1):
                scores[place] += 1 / (RRF_K + rank)
        return [place for place in _ranked(scores) if scores[place] > 0]


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _weights(texts: Sequence[Sequence[str]]) -> dict[str, list[tuple[int, float]]]:
    """Return for each word the texts it is in, with its BM25 weight there."""
    average = sum(map(len, texts)) / max(1, len(texts)) or 1.0
    spread = Counter(word for text in texts for word in set(text))
    weights: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
    for place, text in enumerate(texts):
        discount = BM25_K * (1 - BM25_B + BM25_B * len(text) / average)
        for word, count in Counter(text).items():
            rarity = np.log1p((len(texts) - spread[word] + 0.5) / (spread[word] + 0.5))
            weights[word].append((place, rarity * count * (BM25_K + 1) / (count + discount)))
    return weights


def _ranked(scores: NDArray[np.floating]) -> list[int]:
    order: list[int] = np.argsort(-scores, kind="stable").tolist()
    return order
