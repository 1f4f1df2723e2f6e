"""How much time the memory takes beyond the engine's own, printed as ratios.

Every call to the memory is followed at once by the engine calls that it made, recorded and made again
with nothing round them. Both are measured in the same run, so the ratio holds on a busy machine too.
The encoder is left out: vectors are known beforehand.

    python benchmarks/search.py [number of notes]
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count, islice
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from amem_integrations import AgenticMemory, ContextEntry, EdgeStore, Link, Note
from amem_integrations.ports import Indexed, Vector
from amem_integrations.texts import lexical_text

NOTES = 10_000
DIMENSIONS = 384
TOPICS = 200
VOCABULARY = 8_000
LINKS_OUT = 3  # and as many in, on average
QUERIES = 40
ROUNDS = 5
BATCH = 250
START = datetime(2025, 1, 1, tzinfo=UTC)
SPACE = ("bench",)

AIM_RATIO, AIM_MS = 1.5, 1.0  # a search should take at most that often the engine's time, and 1 ms

Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


class World:
    """Synthetic notes: each is about a topic, by its words and by its vector."""

    def __init__(self, seed: int = 7) -> None:
        self._random = random.Random(seed)
        self._numbers = np.random.default_rng(seed)
        self._topics = self._numbers.normal(size=(TOPICS, DIMENSIONS))
        # Words are as unevenly frequent as in a language: the n-th comes about 1/n as often.
        self._words = [f"word{number:x}" for number in range(VOCABULARY)]
        self._weights = [1 / (number + 10) for number in range(VOCABULARY)]
        self._own = [self._random.sample(self._words[200:], 12) for _ in range(TOPICS)]

    def text(self, topic: int, length: int) -> str:
        """Return words, a third of them the topic's own."""
        common = self._random.choices(self._words, self._weights, k=length - length // 3)
        words = common + self._random.choices(self._own[topic], k=length // 3)
        self._random.shuffle(words)
        return " ".join(words)

    def vector(self, topic: int) -> Vector:
        """Return a unit vector near the topic's centre."""
        raw = self._topics[topic] + self._numbers.normal(size=DIMENSIONS)
        unit: Vector = (raw / np.linalg.norm(raw)).astype(np.float32)
        return unit

    def notes(self, number: int) -> Iterator[Indexed]:
        """Return notes with everything that a constructed and linked note has."""
        linked = self._links(number)
        for place in range(number):
            at = START + timedelta(minutes=place)
            note = Note(
                id=_id(place),
                seq=1_700_000_000_000_000_000 + place,
                namespace=SPACE,
                content=self.text(place % TOPICS, 18),
                recorded_at=at,
                at=at,
                speaker=f"speaker{place % 2}",
                thread=f"thread{place // 20}",
                key=str(place),
                contexts=(self._entry(place, at),),
                links=linked[place],
                state="done",
            )
            vector = self.vector(place % TOPICS)
            yield Indexed(note=note, vector=vector, text=lexical_text(note))

    def _entry(self, place: int, at: datetime) -> ContextEntry:
        topic = place % TOPICS
        return ContextEntry(
            text=self.text(topic, 20),
            keywords=tuple(self._own[topic][:4]),
            tags=tuple(self._own[topic][4:7]),
            cause=_id(place),
            model="bench",
            change=_id(place),
            at=at,
            recorded_at=at,
        )

    def _links(self, number: int) -> list[dict[str, Link]]:
        """Return each note's links to earlier notes of its topic, and the other ends of those."""
        links: list[dict[str, Link]] = [{} for _ in range(number)]
        for place in range(TOPICS, number):
            earlier = range(place % TOPICS, place, TOPICS)
            for target in self._random.sample(earlier, min(LINKS_OUT, len(earlier))):
                links[place][_id(target)] = _link("out")
                links[target][_id(place)] = _link("in")
        return links


class KnownVectors:
    """An encoder that looks texts up."""

    name = "bench"
    dimensions = DIMENSIONS

    def __init__(self) -> None:
        self.known: dict[str, Vector] = {}
        self._other = World(seed=1).vector(0)

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Return the vectors of the texts."""
        return np.stack([self.embed_query(text) for text in texts])

    def embed_query(self, text: str) -> Vector:
        """Return the vector of the text; an unknown one has some vector."""
        return self.known.get(text, self._other)


class Tape:
    """Stands before an engine and records the calls that it passes on."""

    def __init__(self, engine: Any, calls: list[Call]) -> None:  # noqa: ANN401 - the engine's type is private
        self._engine, self._calls = engine, calls

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return the engine's method, recording."""
        method = getattr(self._engine, name)

        def record(*args: Any, **options: Any) -> Any:  # noqa: ANN401 - whatever it takes
            self._calls.append((method, args, options))
            return method(*args, **options)

        return record


def main(number: int) -> None:
    """Build the memory, measure, and print."""
    world, embedder = World(), KnownVectors()
    calls: list[Call] = []
    with TemporaryDirectory(prefix="amem-bench-") as folder:
        store = EdgeStore(folder, dimensions=DIMENSIONS, embedder=embedder.name)
        with AgenticMemory(store, embedder) as memory:
            _fill(store, world, number)
            shards: list[Any] = [store._notes, store._history]  # noqa: SLF001 - the engine is private
            for shard in shards:
                shard._shard = Tape(shard._shard, calls)  # noqa: SLF001
            print(f"{number} notes in one namespace, {DIMENSIONS} dimensions\n")
            print(f"{'':10}{'engine':>10}{'memory':>10}{'ratio':>8}{'beyond':>10}")
            for name, operation in _operations(memory, world, embedder, number).items():
                _report(name, *_measure(operation, calls), calls)
    print(f"\nAim: a search takes at most {AIM_RATIO} times the engine's time and {AIM_MS:.0f} ms.")


def _operations(
    memory: AgenticMemory, world: World, embedder: KnownVectors, number: int
) -> dict[str, Callable[[int], object]]:
    questions = [world.text(topic, 9) for topic in range(QUERIES)]
    embedder.known |= {text: world.vector(topic) for topic, text in enumerate(questions)}
    fresh = count()

    def add(place: int) -> object:
        text = f"{world.text(place, 18)} {next(fresh)}"
        return memory.add(text, namespace=SPACE, thread=f"new{place}", evolve=False)

    return {
        "search": lambda place: memory.search(questions[place], namespace=SPACE),
        "flat": lambda place: memory.search(questions[place], namespace=SPACE, links=False),
        "context": lambda place: memory.context(questions[place], namespace=SPACE),
        "get": lambda place: memory.get(_id(place * 7 % number), namespace=SPACE),
        "add": add,
    }


def _measure(
    operation: Callable[[int], object], calls: list[Call]
) -> tuple[list[float], list[float]]:
    """Return the milliseconds of the operation, and of its engine calls alone, one by one."""
    operation(0)  # loads what is loaded on first use
    whole, engine = [], []
    for _ in range(ROUNDS):
        for place in range(QUERIES):
            calls.clear()
            whole.append(_time(lambda place=place: operation(place)))  # type: ignore[misc]
            engine.append(_time(lambda: _replay(calls)))
    return whole, engine


def _replay(calls: Sequence[Call]) -> None:
    for method, args, options in calls:
        method(*args, **options)


def _report(name: str, whole: list[float], engine: list[float], calls: Sequence[Call]) -> None:
    own, raw = median(whole), median(engine)
    made = ", ".join(method.__name__ for method, _, _ in calls)
    aim = ""
    if name == "search":
        aim = "  aim met" if own <= AIM_RATIO * raw + AIM_MS else "  AIM MISSED"
    figures = f"{raw:7.2f} ms{own:7.2f} ms{own / raw:8.2f}{own - raw:7.2f} ms"
    print(f"{name:10}{figures}  {made}{aim}")


def _fill(store: EdgeStore, world: World, number: int) -> None:
    notes = world.notes(number)
    while batch := list(islice(notes, BATCH)):
        store.insert(SPACE, batch, [])


def _time(operation: Callable[[], object]) -> float:
    start = time.perf_counter()
    operation()
    return (time.perf_counter() - start) * 1000


def _id(place: int) -> str:
    return f"00000000-0000-4000-8000-{place:012x}"


def _link(direction: Any) -> Link:  # noqa: ANN401 - a literal
    return Link(
        relation="same topic",
        reason="both are about the same topic",
        strength=0.8,
        direction=direction,
        created=START,
        reinforced=START,
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else NOTES)
