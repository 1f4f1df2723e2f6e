"""The systems an evaluation compares: each a way to find what belongs to a question."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ..config import MemoryConfig
from ..context import render_notes
from ..memory import AgenticMemory
from ..notes import Note
from .baselines import Baselines
from .cache import KeptEmbedder
from .locomo import Conversation

MAIN = "amem"
WITHOUT_LINKS = "amem_without_links"  # the same memory, searched without following links
WITHOUT_EVOLUTION = "amem_without_evolution"  # built with links, and no note updated by a later one
WITHOUT_BOTH = "amem_without_both"  # notes with keywords, tags and context, and no more
PAPER_CALLS = "amem_paper_calls"  # built by the paper's three kinds of call, one note at a time
FULL = "full"  # no search: the whole conversation

# How each memory is built, by the name of the system that is searched in it.
VARIANTS: Mapping[str, MemoryConfig] = {
    MAIN: MemoryConfig(),
    WITHOUT_EVOLUTION: MemoryConfig(evolve=False),
    WITHOUT_BOTH: MemoryConfig(link=False, evolve=False),
    PAPER_CALLS: MemoryConfig.paper(),
}
ABLATIONS = (WITHOUT_LINKS, WITHOUT_EVOLUTION, WITHOUT_BOTH, PAPER_CALLS)
BASELINES = ("dense", "bm25", "rrf", FULL)
KNOWN = (MAIN, *ABLATIONS, *BASELINES)

ALL_TOKENS = 1 << 40  # `k` alone bounds what is shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a system found for a question: `ids` of turns, best first; `context(k)` is the text of the first `k`."""

    ids: tuple[str, ...]
    context: Callable[[int], str]


Finder = Callable[[str], Found]


def needed_variant(system: str) -> str:
    """Return which memory a system of the memory is searched in."""
    return MAIN if system == WITHOUT_LINKS else system


def in_memory(
    memory: AgenticMemory, conversation: Conversation, depth: int, *, links: bool = True
) -> Finder:
    """Return a finder that searches a memory."""

    def find(question: str) -> Found:
        hits = memory.search(question, namespace=conversation.namespace, k=depth, links=links)
        return Found(
            ids=tuple(hit.note.key or "" for hit in hits),
            context=lambda k: render_notes(hits[:k], max_tokens=ALL_TOKENS),
        )

    return find


def plain(notes: Sequence[Note], embedder: KeptEmbedder, depth: int) -> dict[str, Finder]:
    """Return the finders that share nothing with the memory, over the bare turns.

    Their context is shown as the memory shows its own, without what a model added to the notes.
    """
    bare = [_bare(note) for note in notes]
    rankings = Baselines([f"{note.speaker}: {note.content}" for note in notes], embedder)

    def finder(rank: Callable[[str], Sequence[int]]) -> Finder:
        def find(question: str) -> Found:
            shown = [bare[place] for place in rank(question)[:depth]]
            return Found(
                ids=tuple(note.key or "" for note in shown),
                context=lambda k: render_notes(shown[:k], max_tokens=ALL_TOKENS),
            )

        return find

    everything = whole(notes)
    return {
        "dense": finder(rankings.dense),
        "bm25": finder(rankings.bm25),
        "rrf": finder(rankings.rrf),
        FULL: lambda _: Found(ids=(), context=lambda _: everything),
    }


def whole(notes: Sequence[Note]) -> str:
    """Return the whole conversation as context, without what a model added to the notes."""
    return render_notes([_bare(note) for note in notes], max_tokens=ALL_TOKENS)


def _bare(note: Note) -> Note:
    return replace(note, contexts=(), links={})
