"""The systems that are compared, each a way to find the notes for a question, and the settings of a run."""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amem_integrations import AgenticMemory, NoteInput
from amem_integrations.config import MemoryConfig
from amem_integrations.flows.read import RECALLED
from amem_integrations.notes import Note
from amem_integrations.ports import ChatModel, Embedder
from amem_integrations.retrieval.context import fit, render_notes
from amem_integrations.runtime import resolve, run
from amem_integrations.stored_note import Vector

from .data import Found

MAIN = "amem"
WITHOUT_LINKS = "amem_without_links"  # the same memory, searched without following links
FULL = "full"  # no search: the whole conversation

# How each memory is built, by the name of the system that searches it.
VARIANTS: Mapping[str, MemoryConfig] = {
    MAIN: MemoryConfig(),
    "amem_without_evolution": MemoryConfig(evolve=False),  # no note is updated by a later one
    "amem_without_both": MemoryConfig(link=False, evolve=False),
    "amem_paper_calls": MemoryConfig.paper(),  # three kinds of call, one note at a time
}
ABLATIONS = (WITHOUT_LINKS, *list(VARIANTS)[1:])
# Rankings of the turns that share no code with the memory, and so no mistakes.
BASELINES = ("dense", "bm25", "rrf", FULL)
KNOWN = (MAIN, *ABLATIONS, *BASELINES)

BM25_K = 1.2
BM25_B = 0.75
RRF_K = 60
RRF_DEPTH = 100

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What to run.

    Attributes:
        ks: How many of the first hits count, for each figure.
        answer_k: How many of the first hits a model answers from. None: no questions are answered.
        budgets: Tokens that the memory's `recall` may fill: the evidence in them is counted, and questions are
            answered from them in place of the memory's first hits.
        systems: Names in `KNOWN` of what is measured beside the memory itself.
        prompt: The name of the prompt by which questions are put to a model.
        concurrency: Calls of a language model at once.
    """

    ks: tuple[int, ...] = (3, 5, 10, 20)
    answer_k: int | None = None
    budgets: tuple[int, ...] = ()
    systems: tuple[str, ...] = ()
    prompt: str = "answer"
    concurrency: int = 4

    @property
    def depth(self) -> int:
        """How many hits are needed."""
        return max((*self.ks, self.answer_k or 0))

    @property
    def chosen(self) -> tuple[str, ...]:
        """The systems, each once and in the usual order; the whole conversation only answers."""
        named = {MAIN, *self.systems} - ({FULL} if self.answer_k is None else set())
        return tuple(name for name in KNOWN if name in named)

    @property
    def variants(self) -> dict[str, MemoryConfig]:
        """The configuration of each memory that these systems search, by its name."""
        return {
            name: replace(config, on_model_error="raise")
            for name, config in VARIANTS.items()
            if name in self.chosen
        }


def in_budget(budget: int) -> str:
    """Return the name of the system that is what the memory's `recall` shows in a budget of tokens."""
    return f"{MAIN} in {budget} tokens"


@dataclass(slots=True)
class Ours:
    """A memory of ours, the model that makes its notes, and how many of them a search finds."""

    memory: AgenticMemory
    model: ChatModel | None
    namespace: tuple[str, ...]
    depth: int

    def add(self, turns: Sequence[NoteInput], told: Callable[[int], None]) -> None:
        """Add turns, and tell how many were."""
        self.memory.add_many(turns, namespace=self.namespace, progress=lambda done, _: told(done))

    def find(self, questions: Sequence[str], *, links: bool = True) -> list[Found]:
        """Return the notes that a search finds for each question."""
        asked: dict[str, Any] = {"namespace": self.namespace, "k": self.depth, "links": links}
        every = (self.memory.search(question, **asked) for question in questions)
        return [of_notes(hit.note for hit in hits) for hits in every]

    def recall(self, questions: Sequence[str], *, budget: int, largest: int) -> list[Found]:
        """Return what `recall` shows for each question in a budget of tokens; `largest` is that of the run."""
        found, k = [], max(RECALLED, largest // 20)
        for question in questions:
            hits = self.memory.recall(question, namespace=self.namespace, k=k)
            notes, text = fit(hits, max_tokens=budget)
            found.append(replace(of_notes(notes), context=lambda _, text=text: text))  # type: ignore[misc]
        return found

    def ranked(self, questions: Sequence[str], *, name: str, embedder: Embedder) -> list[Found]:
        """Return what a baseline finds, over the turns without what a model added to the notes."""
        bare = self.bare()
        if name == FULL:
            whole = self.whole()
            return [Found(context=lambda _: whole) for _ in questions]
        rankings = Rankings([f"{note.speaker}: {note.content}" for note in bare], embedder)
        every = (getattr(rankings, name)(question)[: self.depth] for question in questions)
        return [of_notes(bare[place] for place in places) for places in every]

    def notes(self) -> list[Note]:
        """Return all notes."""
        return self.memory.get_all(namespace=self.namespace, limit=1_000_000)

    def bare(self) -> list[Note]:
        """Return all notes, without what a model added to them."""
        return [replace(note, contexts=(), links={}) for note in self.notes()]

    def whole(self) -> str:
        """Return the whole conversation as context."""
        return render_notes(self.bare(), max_tokens=sys.maxsize)

    def writes(self) -> dict[str, int]:
        """Return what building took and gave so far.

        Calls, tokens and `rejected_replies` are a language model's, so they are 0 without one. Of the
        `annotated_links` in recorded annotations, `offered_links` had their target among the candidates. `unfinished`
        notes are not linked.
        """
        notes = self.notes()
        spent = Counter(self.memory.stats()["usage"]["total"] if self.model else {})
        tokens = ("input_tokens", "output_tokens", "rejected_replies")
        nothing: dict[str, tuple[()]] = {"links": ()}
        return {
            "notes": len(notes),
            "model_calls": spent["calls"],
            **{name: spent[name] for name in tokens},
            "links": sum(link.direction == "out" for note in notes for link in note.links.values()),
            "updates": sum(entry.cause != note.id for note in notes for entry in note.contexts),
            "unfinished": sum(note.state != "done" for note in notes),
            "annotated_links": len(getattr(self.model, "annotated", nothing)["links"]),
            "offered_links": len(getattr(self.model, "offered", nothing)["links"]),
        }


def of_notes(some: Iterable[Note]) -> Found:
    """Return what a system found that found these notes, best first."""
    notes = list(some)
    return Found(
        ids=tuple(note.key or "" for note in notes),
        context=lambda k: render_notes(notes[:k], max_tokens=sys.maxsize),
    )


class Vectors:
    """The vectors of texts, whose places are numbered in the order in which they were put in."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder, self._rows = embedder, list[Vector]()

    def put(self, *texts: str) -> None:
        """Put texts at the end."""
        self._rows.extend(run(resolve(self._embedder.embed_documents(texts))))

    def nearest(self, query: str) -> list[int]:
        """Return all places, the nearest to a query first."""
        if not self._rows:
            return []
        return _ranked(np.stack(self._rows) @ run(resolve(self._embedder.embed_query(query))))


class Rankings:
    """Rankings of texts, as their indexes, best first; equal ones in the order given."""

    def __init__(self, texts: Sequence[str], embedder: Embedder) -> None:
        """Encode the texts and count their words."""
        vectors = Vectors(embedder)
        vectors.put(*texts)
        self.dense = vectors.nearest
        self._weights = bm25_weights([_words(text) for text in texts])
        self._size = len(texts)

    def bm25(self, query: str) -> list[int]:
        """Return the texts that share a word with the query, by BM25."""
        scores = np.zeros(self._size)
        for word in set(_words(query)):
            for index, weight in self._weights.get(word, ()):
                scores[index] += weight
        return [index for index in _ranked(scores) if scores[index] > 0]

    def rrf(self, query: str) -> list[int]:
        """Return the reciprocal rank fusion of both."""
        scores = np.zeros(self._size)
        for ranking in (self.dense(query), self.bm25(query)):
            best = ranking[:RRF_DEPTH]
            scores[best] += 1 / (RRF_K + np.arange(1, len(best) + 1))
        return [index for index in _ranked(scores) if scores[index] > 0]


def bm25_weights(texts: Sequence[Sequence[str]]) -> dict[str, list[tuple[int, float]]]:
    """Return for each word the indexes of the texts it is in, with its BM25 weight there."""
    average = sum(map(len, texts)) / max(1, len(texts)) or 1.0
    spread = Counter(word for text in texts for word in set(text))
    weights: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
    for index, text in enumerate(texts):
        discount = BM25_K * (1 - BM25_B + BM25_B * len(text) / average)
        for word, count in Counter(text).items():
            rarity = np.log1p((len(texts) - spread[word] + 0.5) / (spread[word] + 0.5))
            weights[word].append((index, rarity * count * (BM25_K + 1) / (count + discount)))
    return weights


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _ranked(scores: NDArray[np.floating]) -> list[int]:
    order: list[int] = np.argsort(-scores, kind="stable").tolist()
    return order
