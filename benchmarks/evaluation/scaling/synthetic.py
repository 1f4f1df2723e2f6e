"""Synthetic notes in any number, the same for the same seed, about topics by their words and by their vectors.

A note is not kept after it was yielded, so a million of them need no memory here.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from amem_integrations.notes import ContextEntry, Link, Note
from amem_integrations.ports import Indexed, Vector
from amem_integrations.texts import lexical_text

DIMENSIONS = 384  # those of all-MiniLM-L6-v2
TOPICS = 200
VOCABULARY = 8_000
COMMON = 200  # words too frequent to be a topic's own
SPACE = ("synthetic",)
BLOCK = 1_000  # vectors made at once

START = datetime(2025, 1, 1, tzinfo=UTC)
# What is drawn, as part of the seed. None is 0: NumPy ignores zeros at the end of a seed.
_TOPICS, _NOISE, _QUERIES = 1, 2, 3
_FIRST_SEQ = 1_700_000_000_000_000_000


class World:
    """Synthetic notes, each with so many `links` to earlier ones; on average as many lead to it."""

    def __init__(self, *, links: int = 2, seed: int = 7) -> None:
        self._links, self._seed = links, seed
        self._random = random.Random(seed)
        self._topics = np.random.default_rng((seed, _TOPICS)).normal(size=(TOPICS, DIMENSIONS))
        # Words are as unevenly frequent as in a language: the n-th comes about 1/n as often.
        self._words = [f"word{number:x}" for number in range(VOCABULARY)]
        self._weights = list(accumulate(1 / (number + 10) for number in range(VOCABULARY)))
        self._own = [self._random.sample(self._words[COMMON:], 12) for _ in range(TOPICS)]

    def text(self, topic: int, length: int) -> str:
        """Return `length` words, a third of them the topic's own."""
        common = length - length // 3
        words = self._random.choices(self._words, cum_weights=self._weights, k=common)
        words += self._random.choices(self._own[topic % TOPICS], k=length // 3)
        self._random.shuffle(words)
        return " ".join(words)

    def vectors(self, start: int, stop: int) -> Vector:
        """Return the unit vectors of the notes from `start` to `stop`, each near its topic's centre."""
        first = start // BLOCK
        rows = np.empty((-(-stop // BLOCK) * BLOCK - first * BLOCK, DIMENSIONS), dtype=np.float32)
        for number, block in enumerate(rows.reshape(-1, BLOCK, DIMENSIONS), first):
            noise = np.random.default_rng((self._seed, _NOISE, number)).normal(size=block.shape)
            places = np.arange(number * BLOCK, (number + 1) * BLOCK)
            block[:] = _units(self._topics[places % TOPICS] + noise)
        return rows[start - first * BLOCK : stop - first * BLOCK]

    def query(self, place: int) -> Vector:
        """Return a unit vector that asks about a topic, and is no note's own."""
        noise = np.random.default_rng((self._seed, _QUERIES, place)).normal(size=DIMENSIONS)
        return _units(self._topics[place % TOPICS] + noise)

    def notes(self, number: int) -> Iterator[Indexed]:
        """Return notes with everything that a constructed and linked note has, oldest first."""
        for start in range(0, number, BLOCK):
            vectors = self.vectors(start, min(start + BLOCK, number))
            for place, vector in enumerate(vectors, start):
                note = self._note(place, self._linked(place, number))
                yield Indexed(note=note, vector=vector, text=lexical_text(note))

    def _linked(self, place: int, number: int) -> dict[str, Link]:
        """Return the links to the notes of the same topic just before, and from those just after."""
        steps = range(TOPICS, TOPICS * self._links + 1, TOPICS)
        ends = {place - step: _OUT for step in steps} | {place + step: _IN for step in steps}
        return {note_id(end): link for end, link in ends.items() if 0 <= end < number}

    def _note(self, place: int, links: dict[str, Link]) -> Note:
        at, own = START + timedelta(minutes=place), self._own[place % TOPICS]
        entry = ContextEntry(
            text=self.text(place, 20),
            keywords=tuple(own[:4]),
            tags=tuple(own[4:7]),
            cause=note_id(place),
            model="synthetic",
            change=note_id(place),
            at=at,
            recorded_at=at,
        )
        return Note(
            id=note_id(place),
            seq=_FIRST_SEQ + place,
            namespace=SPACE,
            content=self.text(place, 18),
            recorded_at=at,
            at=at,
            speaker=f"speaker{place % 2}",
            thread=f"thread{place // 20}",
            key=str(place),
            contexts=(entry,),
            links=links,
            state="done",
        )


class KnownVectors:
    """An embedder that looks vectors up, so that it takes no time."""

    name, dimensions = "synthetic", DIMENSIONS

    def __init__(self) -> None:
        self.known: dict[str, Vector] = {}
        self._other = World(seed=1).query(0)

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Return the vectors of the texts."""
        return np.stack([self.embed_query(text) for text in texts])

    def embed_query(self, text: str) -> Vector:
        """Return the vector of the text; an unknown one has some vector."""
        return self.known.get(text, self._other)


def note_id(place: int) -> str:
    """Return the id of the note at a place."""
    return f"00000000-0000-4000-8000-{place:012x}"


def _units(rows: NDArray[np.float64]) -> Vector:
    units: Vector = (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)
    return units


_OUT = Link(
    relation="same topic",
    reason="both are about the same topic",
    strength=0.8,
    direction="out",
    created=START,
)
_IN = replace(_OUT, direction="in")
