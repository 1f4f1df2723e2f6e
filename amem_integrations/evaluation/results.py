"""What an evaluation hands to its report: plain values, before any figure is made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .locomo import Question


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What each system found for a question: ids of turns, best first.

    `shown` is by system and number of hits the length of the context made of them, in tokens of about
    four bytes.
    """

    question: Question
    found: Mapping[str, Sequence[str]]
    shown: Mapping[str, Mapping[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What a language model was asked and gave: calls, and tokens as the endpoint counts them."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a model answered to one question from what one system put before it.

    `context_tokens` is the length of that, in tokens of about four bytes. `correct` is a judge's
    verdict, if there is a judge and something to compare with.
    """

    text: str
    context_tokens: int
    correct: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Writes:
    """What building a memory took and gave.

    `model_calls`, tokens and `rejected_replies` count a language model's, so they are 0 without one.
    `annotated_links` and `offered_links` count what the annotations hold, and of it what the memory
    showed as candidates. `unfinished` are notes that were not linked in the end.
    """

    notes: int = 0
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
    """One conversation: what was found and answered, and what it cost; times in milliseconds.

    Attributes:
        conversation: Its id.
        written_by: Who made the notes: `"annotations"`, `"rules"`, or the name of a model.
        notes: How many there are.
        outcomes: For each question, what was found.
        writes: By variant of the memory, what building it took.
        search_ms: For each question, the memory's search with the encoding of the question.
        embed_query_ms: The encoding alone.
        answers: By system and number of hits shown, an answer to each question.
        spent: What answering and judging took.
        full_tokens: Length of the whole conversation as context, in tokens of about four bytes.
    """

    conversation: str
    written_by: str
    notes: int
    outcomes: tuple[Outcome, ...]
    writes: Mapping[str, Writes]
    search_ms: tuple[float, ...]
    embed_query_ms: tuple[float, ...]
    answers: Mapping[str, Mapping[int, tuple[Answer, ...]]] = field(default_factory=dict)
    spent: Mapping[str, Spent] = field(default_factory=dict)
    full_tokens: int = 0
