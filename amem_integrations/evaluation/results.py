"""What an evaluation found, answered and spent, as plain values: reports are made of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from .data import Question


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What each system found for a question: ids of turns, best first.

    `shown` is, by system and number of hits, the length of the context made of them, in tokens of about
    four bytes.
    """

    question: Question
    found: Mapping[str, Sequence[str]]
    shown: Mapping[str, Mapping[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Calls of a language model, and tokens as the endpoint counts them."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    @staticmethod
    def total(parts: Iterable[Spent]) -> Spent:
        """Return the sum."""
        every = list(parts)
        return Spent(
            calls=sum(one.calls for one in every),
            input_tokens=sum(one.input_tokens for one in every),
            output_tokens=sum(one.output_tokens for one in every),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a model answered to one question from the context of one system.

    `context_tokens` is the length of that context, in tokens of about four bytes. `correct` is a judge's
    verdict, or None without a judge or a gold answer.
    """

    text: str
    context_tokens: int
    correct: bool | None = None


class Condition(NamedTuple):
    """Under what a question was answered: by which prompt, from which system, from how many hits."""

    task: str
    system: str
    k: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Writes:
    """What building a memory took and gave.

    `model_calls`, tokens and `rejected_replies` are a language model's, so they are 0 without one.
    `annotated_links` counts the links of recorded annotations, `offered_links` those whose target the memory
    had among its candidates. `unfinished` are notes that were not linked in the end.
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

    @property
    def spent(self) -> Spent:
        """The model's calls and tokens."""
        return Spent(
            calls=self.model_calls, input_tokens=self.input_tokens, output_tokens=self.output_tokens
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One conversation: what was found and answered, and what it cost; times in milliseconds.

    Attributes:
        conversation: Its id.
        written_by: What made the notes: `"annotations"`, `"rules"`, or the name of a model.
        notes: How many there are.
        outcomes: For each question, what was found.
        writes: By variant of the memory, what building it took.
        search_ms: For each question, the memory's search, with the encoding of the question.
        embed_query_ms: The encoding alone.
        answers: By condition, an answer to each question.
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
    answers: Mapping[Condition, tuple[Answer, ...]] = field(default_factory=dict)
    spent: Mapping[str, Spent] = field(default_factory=dict)
    full_tokens: int = 0
