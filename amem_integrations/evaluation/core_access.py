"""Everything the evaluation takes from modules of the core that are not public, in one place."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TypeVar

from ..context import render_notes
from ..notes import Note, ScoredNote
from ..prompts.parse import parse
from ..ranking import FUSION_DEPTH
from ..runtime import resolve, run
from ..texts import count_tokens, embedding_text, lexical_text

__all__ = [
    "FUSION_DEPTH",
    "count_tokens",
    "embedding_text",
    "lexical_text",
    "parse",
    "rendered",
    "result_of",
]

T = TypeVar("T")

_NO_LIMIT = 1 << 40  # tokens


def result_of(value: T | Awaitable[T]) -> T:
    """Return what a port returned.

    Raises:
        ConfigurationError: The port is asynchronous; an evaluation needs synchronous ones.
    """
    return run(resolve(value))


def rendered(notes: Sequence[Note | ScoredNote]) -> str:
    """Return notes as the memory shows them to a model, without a limit on their length."""
    return render_notes(notes, max_tokens=_NO_LIMIT)
