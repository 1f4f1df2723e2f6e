"""What an evaluation hands to its report: plain values, before any figure is made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .locomo import Question


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What each system found for a question: ids of turns, best first."""

    question: Question
    found: Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Writes:
    """What building a memory took and gave.

    `model_calls`, tokens and `rejected_replies` count a language model's, so they are 0 without one.
    `annotated_links` and `offered_links` count what the annotations hold, and of it what the memory
    showed as candidates. `unfinished` are notes that were not linked in the end.
    """

    model_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    rejected_replies: int = 0
    links: int = 0
    updates: int = 0
    unfinished: int = 0
    annotated_links: int = 0
    offered_links: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One conversation: its notes, what was found, what it cost; times in milliseconds."""

    conversation: str
    annotated: bool
    notes: int
    outcomes: tuple[Outcome, ...]
    writes: Writes
    search_ms: tuple[float, ...]
    embed_query_ms: tuple[float, ...]
