"""MemoryBank (Zhong et al., 2023, arXiv 2305.10250): dense retrieval under a forgetting curve, daily and global summaries.

From the paper: turns and summaries of days are pieces, found by their vectors; retention is R = exp(-t / S), with t the
days since a piece was said or last recalled, and S its strength, 1 at first and 1 more with each recall, which also sets t
back to 0; the summary of all days and a portrait of the speakers always stand before a question. Six pieces are found, as
in the authors' program. Each turn recalls what it resembles before it is remembered, as what a user says does there. A piece
is forgotten as soon as R falls below a number between 0 and 1 that is drawn once for each, so a run can be repeated; the
questions of the benchmark strengthen nothing. One call makes the summary and the portrait, of a day or of all.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby, islice

from pydantic import BaseModel, Field

from amem_integrations import NoteInput

from ..systems import Vectors
from .base import Rival, day_of, said, transcript

FOUND, DAY_S = 6, 86_400


class Summary(BaseModel):
    """The reply to a day, or to all days."""

    events: str = Field(description="what happened, in short")
    portrait: str = Field(description="what the speakers are like and how they feel, in short")


@dataclass(slots=True)
class Piece:
    """A turn or the summary of a day, and how well it is remembered."""

    text: str
    recalled: datetime | None
    threshold: float
    strength: int = 1

    def kept(self, now: datetime | None) -> bool:
        """Return whether the piece is still remembered."""
        days = (now - self.recalled).total_seconds() / DAY_S if now and self.recalled else 0.0
        return math.exp(-max(days, 0.0) / self.strength) >= self.threshold


class MemoryBank:
    """Pieces with their vectors, and what sums them up."""

    def __init__(self, rival: Rival) -> None:
        self._ask, self._vectors = rival.ask, Vectors(rival.embedder)
        self._pieces: list[Piece] = []
        self._days: list[str] = []
        self._now: datetime | None = None
        self._whole = Summary(events="", portrait="")

    def add(self, turns: Sequence[NoteInput]) -> None:
        """Remember turns day by day, and sum up each day and all of them."""
        for day, some in groupby(turns, key=lambda turn: day_of(turn.at)):
            today = list(some)
            for turn in today:
                self._now = turn.at or self._now
                for piece in self._nearest(said(turn)):
                    piece.strength, piece.recalled = piece.strength + 1, self._now
            for turn in today:
                self._put(f"[{day}] {said(turn)}")
            found = self._ask("memorybank_day", Summary, day=transcript(today))
            if found:
                self._put(f"[{day}] Summary of the day: {found.events}")
                self._days.append(f"[{day}] {found.events}\nPortrait: {found.portrait}")
        if found := self._ask("memorybank_all", Summary, days="\n\n".join(self._days)):
            self._whole = found

    def _put(self, text: str) -> None:
        threshold = random.Random(f"{len(self._pieces)} {text}").random()
        self._pieces.append(Piece(text, self._now, threshold))
        self._vectors.put(text)

    def _nearest(self, query: str) -> list[Piece]:
        near = (self._pieces[place] for place in self._vectors.nearest(query))
        return list(islice((piece for piece in near if piece.kept(self._now)), FOUND))

    def recall(self, question: str) -> str:
        """Return the nearest pieces that are not forgotten, under the summary of all days and the portrait."""
        found = [piece.text for piece in self._nearest(question)]
        whole = [f"Events: {self._whole.events}", f"Portrait: {self._whole.portrait}"]
        return "\n".join([*whole, *found])
