"""The systems that are compared, each a way to find the notes for a question, and the settings of a run."""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from amem_integrations import AgenticMemory
from amem_integrations.config import MemoryConfig
from amem_integrations.errors import InvalidInputError
from amem_integrations.filters import check_count
from amem_integrations.flows.read import RECALLED
from amem_integrations.notes import Note
from amem_integrations.ports import Embedder
from amem_integrations.retrieval.context import fit, render_notes
from amem_integrations.runtime import resolve, run

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
RANKINGS = ("dense", "bm25", "rrf")
BASELINES = (*RANKINGS, FULL)
KNOWN = (MAIN, *ABLATIONS, *BASELINES)

BM25_K = 1.2
BM25_B = 0.75
RRF_K = 60
RRF_DEPTH = 100

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a system found for a question: `ids` of turns, best first; `context(k)` shows the first `k`."""

    ids: tuple[str, ...]
    context: Callable[[int], str]


Finder = Callable[[str], Found]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What to run; an `InvalidInputError` is raised for numbers below 1.

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

    def __post_init__(self) -> None:
        """Check the values."""
        if not self.ks:
            raise InvalidInputError("k=() must be numbers of at least 1, such as 3,5,10,20")
        checked = [("k", one) for one in self.ks] + [("budget", one) for one in self.budgets]
        one_each = ("answer_k", "concurrency")
        for name, value in [*checked, *((name, getattr(self, name)) for name in one_each)]:
            if value is not None:
                check_count(name, value)

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


def memory_finder(
    memory: AgenticMemory, namespace: tuple[str, ...], depth: int, *, links: bool = True
) -> Finder:
    """Return a finder that searches a memory for `depth` notes."""
    return lambda question: _found(
        [hit.note for hit in memory.search(question, namespace=namespace, k=depth, links=links)]
    )


def budget_finder(
    memory: AgenticMemory, namespace: tuple[str, ...], budgets: Sequence[int]
) -> Callable[[str], dict[int, Found]]:
    """Return a finder of what the memory shows in each of some budgets of tokens."""

    def find(question: str) -> dict[int, Found]:
        most = max(RECALLED, max(budgets, default=0) // 20)
        hits = memory.recall(question, namespace=namespace, k=most) if budgets else []
        shown = {budget: fit(hits, max_tokens=budget) for budget in budgets}
        return {
            budget: replace(_found(notes), context=lambda _, text=text: text)
            for budget, (notes, text) in shown.items()
        }

    return find


def _found(notes: Sequence[Note]) -> Found:
    return Found(
        ids=tuple(note.key or "" for note in notes),
        context=lambda k: render_notes(notes[:k], max_tokens=sys.maxsize),
    )


def baseline_finders(notes: Sequence[Note], embedder: Embedder, depth: int) -> dict[str, Finder]:
    """Return the baselines' finders, over the turns without what a model added to the notes."""
    bare = _bare(notes)
    rankings = Rankings([f"{note.speaker}: {note.content}" for note in bare], embedder)

    def finder(rank: Callable[[str], Sequence[int]]) -> Finder:
        return lambda question: _found([bare[index] for index in rank(question)[:depth]])

    everything = whole(notes)
    return {
        **{name: finder(getattr(rankings, name)) for name in RANKINGS},
        FULL: lambda _: Found(ids=(), context=lambda _: everything),
    }


def whole(notes: Sequence[Note]) -> str:
    """Return the whole conversation as context, without what a model added to the notes."""
    return render_notes(_bare(notes), max_tokens=sys.maxsize)


def _bare(notes: Sequence[Note]) -> list[Note]:
    return [replace(note, contexts=(), links={}) for note in notes]


class Rankings:
    """Rankings of texts, as their indexes, best first; equal ones in the order given."""

    def __init__(self, texts: Sequence[str], embedder: Embedder) -> None:
        """Encode the texts and count their words."""
        self._embedder = embedder
        self._vectors = run(resolve(embedder.embed_documents(texts)))
        self._weights = bm25_weights([_words(text) for text in texts])
        self._size = len(texts)

    def dense(self, query: str) -> list[int]:
        """Return all texts by cosine."""
        return _ranked(self._vectors @ run(resolve(self._embedder.embed_query(query))))

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
