"""What a simulation hands to its report: plain values, before any figure is made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..results import Answer, Spent, Writes
from .choosing import Asked
from .settings import Format
from .values import Show


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """What the memory found for a question when it was asked.

    Attributes:
        asked: The question.
        keys: The notes, best first: session and number of the turn, such as `s1e2/3#14`.
        context: The notes as text.
        turns: How many turns had been heard by then.
        search_ms: What the search took, with the encoding of the question.
        embed_ms: What the encoding took.
    """

    asked: Asked
    keys: tuple[str, ...]
    context: str
    turns: int
    search_ms: float
    embed_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A simulation of a show.

    Attributes:
        show: The show.
        written_by: Who made the notes: `"rules"`, or the name of a model.
        recalled: What was found for each question.
        left_out: Sessions in which nothing could be asked, by the reason.
        writes: What building the memory took.
        answers: By format, the answer to each question.
        spent: What answering and judging took.
    """

    show: Show
    written_by: str
    recalled: tuple[Recalled, ...]
    left_out: Mapping[str, int]
    writes: Writes
    answers: Mapping[Format, tuple[Answer, ...]] = field(default_factory=dict)
    spent: Mapping[str, Spent] = field(default_factory=dict)
