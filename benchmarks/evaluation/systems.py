"""The systems an evaluation compares, each a way to find the notes for a question, and the settings of a run."""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from amem_integrations import AgenticMemory
from amem_integrations.config import MemoryConfig
from amem_integrations.context import fit, render_notes
from amem_integrations.errors import InvalidInputError
from amem_integrations.filters import check_count
from amem_integrations.flows.recall import RECALLED
from amem_integrations.notes import Note
from amem_integrations.ports import Embedder
from amem_integrations.runtime import resolve, run

from .data import ANSWER, Task

MAIN = "amem"
WITHOUT_LINKS = "amem_without_links"  # the same memory, searched without following links
WITHOUT_DIGESTS = "amem_without_digests"  # the same memory, of which digests are left out
WITHOUT_EVOLUTION = "amem_without_evolution"  # built with links; no note is updated by a later one
WITHOUT_BOTH = "amem_without_both"  # keywords, tags and context only
PAPER_CALLS = "amem_paper_calls"  # built by the paper's three kinds of call, one note at a time
FULL = "full"  # no search: the whole conversation

# How each memory is built, by the name of the system that searches it.
VARIANTS: Mapping[str, MemoryConfig] = {
    MAIN: MemoryConfig(),
    WITHOUT_EVOLUTION: MemoryConfig(evolve=False),
    WITHOUT_BOTH: MemoryConfig(link=False, evolve=False),
    PAPER_CALLS: MemoryConfig.paper(),
}
ABLATIONS = (WITHOUT_LINKS, WITHOUT_EVOLUTION, WITHOUT_BOTH, PAPER_CALLS)
# Rankings of the turns that share no code with the memory, and so no mistakes.
RANKINGS = ("dense", "bm25", "rrf")
BASELINES = (*RANKINGS, FULL)
KNOWN = (MAIN, *ABLATIONS, *BASELINES)

# Of each system its label, and the hue and the marker that it has in every chart.
SHOWN: Mapping[str, tuple[str, int, str]] = {
    MAIN: ("this memory", 0, "o"),
    WITHOUT_LINKS: ("… without links", 1, "^"),
    WITHOUT_EVOLUTION: ("… without evolution", 2, "s"),
    WITHOUT_BOTH: ("… without both", 3, "D"),
    WITHOUT_DIGESTS: ("… without digests", 4, "p"),
    PAPER_CALLS: ("… the paper's calls", 5, "P"),
    "dense": ("dense", 6, "v"),
    "bm25": ("BM25", 6, "X"),
    "rrf": ("dense and BM25", 6, "*"),
    FULL: ("whole conversation", 7, "h"),
}

BM25_K = 1.2
BM25_B = 0.75
RRF_K = 60
RRF_DEPTH = 100

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a system found for a question: `ids` of turns, best first; `context(k)` shows the first `k`.

    A digest stands among them by its own id; `digests` has by this the ids of the notes that are its sources.
    """

    ids: tuple[str, ...]
    context: Callable[[int], str]
    digests: Mapping[str, Sequence[str]] = field(default_factory=dict)


Finder = Callable[[str], Found]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What to run; an `InvalidInputError` is raised for numbers below 1 and unknown systems.

    Attributes:
        ks: How many of the first hits count, for each figure.
        answer_ks: How many of the first hits a model answers from. Empty: no questions are answered.
        budgets: Tokens that the memory's `recall` may fill: what evidence is in them, and what is answered from
            them, in place of the memory's first hits.
        systems: What is measured, by the names in `systems`; the memory itself always is.
        digests: Whether the memory itself has digests; then it is also measured without them.
        tasks: How questions are put to a model, each once in every way.
        concurrency: Calls of a language model at once.
        build_concurrency: `MemoryConfig.max_concurrency`, which decides which notes see each other.
    """

    ks: tuple[int, ...] = (5, 10, 20)
    answer_ks: tuple[int, ...] = ()
    budgets: tuple[int, ...] = ()
    systems: tuple[str, ...] = (MAIN,)
    digests: bool = False
    tasks: tuple[Task, ...] = (ANSWER,)
    concurrency: int = 4
    build_concurrency: int = 4

    def __post_init__(self) -> None:
        """Check the values."""
        if not self.ks or min(self.ks) < 1:
            raise InvalidInputError(f"k={self.ks!r} must be numbers of at least 1, such as 5,10,20")
        for k in self.answer_ks:
            check_count("answer_k", k)
        for budget in self.budgets:
            check_count("budget", budget)
        check_count("concurrency", self.concurrency)
        check_count("build_concurrency", self.build_concurrency)
        if unknown := [name for name in self.systems if name not in KNOWN]:
            raise InvalidInputError(
                f"there is no system {unknown[0]!r}; there are {', '.join(KNOWN)}"
            )

    @property
    def depth(self) -> int:
        """How many hits are needed."""
        return max((*self.ks, *self.answer_ks))

    @property
    def chosen(self) -> tuple[str, ...]:
        """The systems, each once and in the usual order; the whole conversation only answers."""
        named = {MAIN, *self.systems}
        known = [name for name in KNOWN if name in named and (self.answer_ks or name != FULL)]
        return (MAIN, *((WITHOUT_DIGESTS,) if self.digests else ()), *known[1:])

    @property
    def variants(self) -> dict[str, MemoryConfig]:
        """The configuration of each memory that these systems search, by its name."""
        needed = {searched_variant(name) for name in self.chosen}
        return {
            name: replace(
                config,
                max_concurrency=self.build_concurrency,
                on_model_error="raise",
            )
            for name, config in VARIANTS.items()
            if name in needed
        }


def searched_variant(system: str) -> str:
    """Return the variant of the memory that a system searches."""
    return MAIN if system in (WITHOUT_LINKS, WITHOUT_DIGESTS) else system


def conditions(system: str) -> dict[str, str] | None:
    """Return the conditions under which a system searches its memory."""
    return {"kind": "note"} if system == WITHOUT_DIGESTS else None


def memory_finder(
    memory: AgenticMemory,
    namespace: tuple[str, ...],
    depth: int,
    *,
    links: bool = True,
    where: Mapping[str, str] | None = None,
) -> Finder:
    """Return a finder that searches a memory for `depth` notes."""

    def find(question: str) -> Found:
        hits = memory.search(question, namespace=namespace, k=depth, links=links, where=where)
        return _found([hit.note for hit in hits])

    return find


def within(budget: int, system: str = MAIN) -> str:
    """Return the name of the memory whose `recall` fills a budget of tokens, among the systems that answer."""
    return f"{system} in {budget} tokens"


def budget_finder(
    memory: AgenticMemory,
    namespace: tuple[str, ...],
    budgets: Sequence[int],
    where: Mapping[str, str] | None = None,
) -> Callable[[str], dict[int, Found]]:
    """Return a finder of what the memory shows in each of some budgets of tokens."""

    def find(question: str) -> dict[int, Found]:
        most = max(RECALLED, max(budgets) // 20)
        hits = memory.recall(question, namespace=namespace, k=most, where=where)
        shown = {budget: fit(hits, max_tokens=budget) for budget in budgets}
        return {budget: _shown(notes, text) for budget, (notes, text) in shown.items()}

    return find


def _shown(notes: Sequence[Note], text: str) -> Found:
    return replace(_found(notes), context=lambda _: text)


def _found(notes: Sequence[Note]) -> Found:
    return Found(
        ids=tuple(note.key or "" for note in notes),
        context=lambda k: _rendered(notes[:k]),
    )


def baseline_finders(notes: Sequence[Note], embedder: Embedder, depth: int) -> dict[str, Finder]:
    """Return the baselines' finders, over the turns without what a model added to them."""
    bare = _turns(notes)
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
    return _rendered(_turns(notes))


def _rendered(notes: Sequence[Note]) -> str:
    return render_notes(notes, max_tokens=sys.maxsize)


def _turns(notes: Sequence[Note]) -> list[Note]:
    """Return what was said, without what a model added to it or derived from it."""
    return [replace(note, contexts=(), links={}) for note in notes if not note.sources]


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
