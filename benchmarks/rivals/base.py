"""What every rival is made with, and what it is asked for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from itertools import groupby
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel

from amem_integrations import NoteInput
from amem_integrations.ports import ChatModel, Embedder

from ..answering import ask
from ..cache import Cache
from ..data import Found, Spent

M = TypeVar("M", bound=BaseModel)


class Memory(Protocol):
    """A memory that is compared: it hears turns, and says what to put before a question."""

    def add(self, turns: Sequence[NoteInput]) -> None:
        """Remember turns, which come in their order and once each."""

    def recall(self, question: str) -> str:
        """Return the text to answer a question from; no question changes what another one recalls."""


class Rival:
    """A memory that is compared, with its tools: a chat model, whose cost is kept by the stage of the run, and an embedder.

    `records` are annotations of the turns; `kept` keeps what must not be paid for twice.
    """

    def __init__(
        self,
        make: Callable[[Rival], Memory],
        model: ChatModel,
        embedder: Embedder,
        kept: Cache,
        records: Sequence[Mapping[str, Any]] = (),
        concurrency: int = 1,
    ) -> None:
        self.model, self.embedder, self.records, self.kept = model, embedder, records, kept
        self._concurrency, self._stage = concurrency, "build"
        self._costs: defaultdict[str, list[Spent]] = defaultdict(list)
        self.memory = make(self)

    def ask(self, task: str, reply: type[M], **values: str) -> M | None:
        """Return the reply to a prompt of `prompts.md`, or None if the reply cannot be read."""
        found, _, spent = ask(self.model, task, reply, **values)
        self.count(spent)
        return found

    def count(self, spent: Spent) -> None:
        """Add a cost to those of the present stage."""
        self._costs[self._stage].append(spent)

    def spent(self, stage: str) -> Spent:
        """Return what a stage cost, `build` or `recall`."""
        return Spent.total(self._costs[stage])

    def add(self, turns: Sequence[NoteInput], told: Callable[[int], None]) -> None:
        """Let the memory hear turns."""
        told(0)
        self.memory.add(turns)

    def find(self, questions: Sequence[str]) -> list[Found]:
        """Return the text that the memory recalls for each question."""
        self._stage = "recall"
        with ThreadPoolExecutor(self._concurrency) as pool:
            texts = list(pool.map(self.memory.recall, questions))
        self._stage = "build"
        return [Found(context=lambda _, text=text: text) for text in texts]  # type: ignore[misc]

    def close(self) -> None:
        """End what the memory has started."""
        getattr(self.memory, "close", lambda: None)()


def day_of(at: datetime | None) -> str:
    """Return a date as the prompts write it, such as `8 May 2023`."""
    return f"{at.day} {at:%B} {at.year}" if at else "no date"


def transcript(turns: Sequence[NoteInput]) -> str:
    """Return turns as they are read, each day under its date."""
    days = groupby(turns, key=lambda turn: day_of(turn.at))
    return "\n".join(line for day, some in days for line in (f"[{day}]", *map(said, some)))


def said(turn: NoteInput) -> str:
    """Return a turn with its speaker."""
    return f"{turn.speaker}: {turn.content}" if turn.speaker else turn.content
