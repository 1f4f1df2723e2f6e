"""Synthetic notes in any number, the same for the same seed, about topics by their words and by their vectors."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from itertools import accumulate, islice
from os import PathLike

import numpy as np

from amem_integrations import AgenticMemory
from amem_integrations.notes import ContextEntry, Link, Note
from amem_integrations.stored_note import StoredNote, Vector

from .timing import milliseconds

DIMENSIONS = 384  # those of all-MiniLM-L6-v2
TOPICS = 200
VOCABULARY = 8_000
COMMON = 200  # words too frequent to be a topic's own
SPACE = ("synthetic",)
BLOCK = 1_000  # vectors made at once
BATCH = 250  # notes inserted at once

_START = datetime(2025, 1, 1, tzinfo=UTC)
_FIRST_SEQ = 1_700_000_000_000_000_000
_TOPICS, _NOISE, _QUERIES = 1, 2, 3  # parts of seeds
_OUT = Link(
    relation="same topic",
    reason="both are about the same topic",
    strength=0.8,
    direction="out",
    created=_START,
)
_IN = replace(_OUT, direction="in")


class World:
    """Synthetic notes, each with so many `links` to earlier ones of its topic; as many lead to it, on average."""

    def __init__(self, *, links: int = 2, seed: int = 7) -> None:
        self._links, self._seed, self._random = links, seed, random.Random(seed)
        self._topics = np.random.default_rng((seed, _TOPICS)).normal(size=(TOPICS, DIMENSIONS))
        # Words are as unevenly frequent as in a language: the n-th comes about 1/n as often.
        self._words = [f"word{number:x}" for number in range(VOCABULARY)]
        self._weights = list(accumulate(1 / (number + 10) for number in range(VOCABULARY)))
        self._own = [self._random.sample(self._words[COMMON:], 12) for _ in range(TOPICS)]
        self._block = lru_cache(maxsize=2)(self._make_block)

    def text(self, topic: int, length: int) -> str:
        """Return `length` words, a third of them the topic's own."""
        common = length - length // 3
        words = self._random.choices(self._words, cum_weights=self._weights, k=common)
        words += self._random.choices(self._own[topic % TOPICS], k=length // 3)
        self._random.shuffle(words)
        return " ".join(words)

    def vectors(self, number: int) -> Vector:
        """Return the unit vectors of the first notes, each near the centre of its topic."""
        blocks = [self._block(place) for place in range(-(-number // BLOCK))]
        return np.concatenate(blocks)[:number]

    def query(self, place: int) -> Vector:
        """Return a unit vector that asks about a topic, and is no note's own."""
        noise = np.random.default_rng((self._seed, _QUERIES, place)).normal(size=DIMENSIONS)
        return _units(self._topics[place % TOPICS] + noise)

    def questions(self, number: int) -> dict[str, Vector]:
        """Return so many texts that ask about topics, with their vectors."""
        return {self.text(topic, 9): self.query(topic) for topic in range(number)}

    def notes(self, number: int) -> Iterator[StoredNote]:
        """Yield notes with all that a constructed and linked note has, oldest first."""
        for place in range(number):
            note = self._note(place, self._linked(place, number))
            vectors = self._block(place // BLOCK)[place % BLOCK : place % BLOCK + 1]
            known = {"id": note.id, "namespace": SPACE, "token": note.id, "rev": note.seq}
            yield StoredNote(**known, note=note, vectors=vectors, embedded=note.id)  # type: ignore[arg-type]

    def _make_block(self, place: int) -> Vector:
        noise = np.random.default_rng((self._seed, _NOISE, place)).normal(size=(BLOCK, DIMENSIONS))
        return _units(self._topics[np.arange(place * BLOCK, (place + 1) * BLOCK) % TOPICS] + noise)

    def _linked(self, place: int, number: int) -> dict[str, Link]:
        """Return the links to the notes of the same topic just before, and from those just after."""
        steps = range(TOPICS, TOPICS * self._links + 1, TOPICS)
        ends = {place - step: _OUT for step in steps} | {place + step: _IN for step in steps}
        return {note_id(end): link for end, link in ends.items() if 0 <= end < number}

    def _note(self, place: int, links: dict[str, Link]) -> Note:
        at, own, name = _START + timedelta(minutes=place), self._own[place % TOPICS], note_id(place)
        # fmt: off
        entry = ContextEntry(
            text=self.text(place, 20), keywords=tuple(own[:4]), tags=tuple(own[4:7]),
            cause=name, model="synthetic", change=name, at=at, recorded_at=at,
        )
        return Note(
            id=name, seq=_FIRST_SEQ + place, namespace=SPACE, content=self.text(place, 18), recorded_at=at, at=at,
            speaker=f"speaker{place % 2}", thread=f"thread{place // 20}", key=str(place),
            contexts=(entry,), links=links, state="done",
        )
        # fmt: on


class KnownVectors:
    """An embedder that looks the vectors of texts up, so that it takes no time; all other texts have one vector."""

    name, dimensions = "synthetic", DIMENSIONS

    def __init__(self) -> None:
        self.known: dict[str, Vector] = {}
        self._other = World(seed=1).query(0)

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Return the vectors of the texts."""
        return np.stack([self.embed_query(text) for text in texts])

    def embed_query(self, text: str) -> Vector:
        """Return the vector of the text."""
        return self.known.get(text, self._other)


def opened(folder: str | PathLike[str], embedder: KnownVectors | None = None) -> AgenticMemory:
    """Return the memory in a folder, which takes no time to encode a text."""
    return AgenticMemory.open(folder, embedder=embedder or KnownVectors())


def fill(memory: AgenticMemory, world: World, number: int) -> float:
    """Insert so many notes of a world, which are encoded already, and return the milliseconds of a note."""
    notes, spent = world.notes(number), 0.0
    while batch := list(islice(notes, BATCH)):
        insert = memory._runtime.store.insert_notes  # noqa: SLF001 - through the front door it would take hours
        spent += milliseconds(partial(insert, SPACE, batch))
    return spent / number


def note_id(place: int) -> str:
    """Return the id of the note at a place."""
    return f"00000000-0000-4000-8000-{place:012x}"


def _units(rows: np.ndarray) -> Vector:
    units: Vector = (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)
    return units
