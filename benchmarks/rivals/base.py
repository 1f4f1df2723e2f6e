"""What every rival is made with, and what it is asked for; who measures it counts its calls of a model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
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


class Workshop:
    """The tools of a rival: a chat model, whose cost is kept by the stage of the run, and an embedder.

    `records` are annotations of the turns; `kept` keeps what must not be paid for twice.
    """

    def __init__(
        self,
        model: ChatModel,
        embedder: Embedder,
        records: Sequence[Mapping[str, Any]] = (),
        kept: Cache | None = None,
    ) -> None:
        self.model, self.embedder, self.records, self.kept = model, embedder, records, kept
        self.stage = "build"
        self._costs: defaultdict[str, list[Spent]] = defaultdict(list)

    def ask(self, task: str, reply: type[M], **values: str) -> M | None:
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

    def recalled(self, memory: Memory, questions: Sequence[str], concurrency: int) -> list[Found]:
        """Return the text that a memory recalls for each question, as many at once as `concurrency` says."""
        self.stage = "recall"
        with ThreadPoolExecutor(concurrency) as pool:
            texts = list(pool.map(memory.recall, questions))
        self.stage = "build"
        return [Found(ids=(), context=lambda _, text=text: text) for text in texts]


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
    """The vectors of texts, whose places are numbered in the order in which they were put in."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder, self._rows = embedder, list[Vector]()

    def put(self, *texts: str) -> None:
        """Put texts at the end."""
        self._rows.extend(run(resolve(self._embedder.embed_documents(texts))))

    def nearest(self, query: str) -> list[int]:
        """Return all places, the nearest to a query first."""
        if not self._rows:
            return []
        cosines = np.stack(self._rows) @ run(resolve(self._embedder.embed_query(query)))
        return [int(place) for place in np.argsort(-cosines, kind="stable")]
