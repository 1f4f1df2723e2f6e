"""What every rival is made with, and what it is asked for; who measures it counts its calls of a model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, TypeVar

import numpy as np
from pydantic import BaseModel

from amem_integrations import NoteInput
from amem_integrations.ports import ChatModel, Embedder
from amem_integrations.runtime import resolve, run
from amem_integrations.stored_note import Vector

from ..answering import ask
from ..cache import Cache
from ..data import Spent
from ..systems import Found

M = TypeVar("M", bound=BaseModel)


class Memory(Protocol):
    """A memory that is compared: it hears turns, and says what to put before a question."""

    def add(self, turns: Sequence[NoteInput]) -> None:
        """Remember turns, which come in their order and once each."""

    def recall(self, question: str) -> str:
        """Return the text to answer a question from; no question changes what another one recalls."""


class Reader:
    """A chat model as a rival asks it; the cost of each call is kept under the stage of the run."""

    def __init__(self, model: ChatModel) -> None:
        self.model, self.stage = model, "build"
        self._costs: defaultdict[str, list[Spent]] = defaultdict(list)

    def __call__(self, task: str, reply: type[M], **values: str) -> M | None:
        """Return the reply to a prompt of `prompts.md`, or None if the reply cannot be read."""
        found, _, spent = ask(self.model, task, reply, **values)
        self.count(spent)
        return found

    def count(self, spent: Spent) -> None:
        """Add a cost to those of the present stage."""
        self._costs[self.stage].append(spent)

    def spent(self, stage: str) -> Spent:
        """Return what a stage cost, `build` or `recall`."""
        return Spent.total(self._costs[stage])


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """What a rival may use: `records` are annotations of the turns, `kept` keeps what must not be paid for twice."""

    reader: Reader
    embedder: Embedder
    records: Sequence[Mapping[str, Any]] = ()
    kept: Cache | None = None


@dataclass(slots=True)
class Measured:
    """A rival under measurement, and all that it recalled, question for question."""

    memory: Memory
    reader: Reader
    recalled: list[Found] = field(default_factory=list)

    def ask(self, questions: Sequence[str], concurrency: int) -> None:
        """Recall for each question, as many at once as `concurrency` says."""
        self.reader.stage = "recall"
        with ThreadPoolExecutor(concurrency) as pool:
            for text in pool.map(self.memory.recall, questions):
                self.recalled.append(Found(ids=(), context=lambda _, text=text: text))
        self.reader.stage = "build"


def day_of(at: datetime | None) -> str:
    """Return a date as the prompts write it, such as `8 May 2023`."""
    return f"{at.day} {at:%B} {at.year}" if at else "no date"


def transcript(turns: Sequence[NoteInput]) -> str:
    """Return turns as they are read, each day under its date."""
    lines, day = [], ""
    for turn in turns:
        if (today := day_of(turn.at)) != day:
            lines.append(f"[{today}]")
            day = today
        lines.append(said(turn))
    return "\n".join(lines)


def said(turn: NoteInput) -> str:
    """Return a turn with its speaker."""
    return f"{turn.speaker}: {turn.content}" if turn.speaker else turn.content


class Vectors:
    """Texts by their vectors; places are numbered in the order in which they were put in."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder, self._rows = embedder, list[Vector]()

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._rows)

    def put(self, text: str, place: int | None = None) -> None:
        """Put a text at the end, or in the place of an earlier one."""
        (row,) = run(resolve(self._embedder.embed_documents([text])))
        if place is None:
            self._rows.append(row)
        else:
            self._rows[place] = row

    def nearest(self, query: str) -> list[int]:
        """Return all places, the nearest to a query first."""
        if not self._rows:
            return []
        cosines = np.stack(self._rows) @ run(resolve(self._embedder.embed_query(query)))
        return [int(place) for place in np.argsort(-cosines, kind="stable")]
