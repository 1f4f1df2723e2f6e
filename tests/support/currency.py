"""Small dialogues in which facts change, or only seem to: `tests/data/currency.jsonl`, written for this project.

A line of the file is one case:

- `id`, `kind`, and `half`: constants are chosen on `tune` and measured on `report`; each kind is in both.
- `turns`: 3 to 9 dated statements, oldest first. `source` is who made it: the user, an assistant, a tool.
- `supersedes`: which turn takes the place of which (`older`, `newer`), how (`relation`), until when if it
  holds for a time only (`until`), and whether it is no more than a proposal (`proposal`), because an
  assistant or a tool disagrees with a user. A chain lists its steps: A to B and B to C, not A to C.
- `questions`: turns that answer it at the time of the last turn (`current`), turns that answered it
  before (`stale`), and what answered it at earlier or later times (`as_of`, event time).

Half of the cases are no updates: `supersedes` is empty, and all of their statements stay true.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

FILE = Path(__file__).parents[1] / "data/currency.jsonl"
FIRST_HIT = FILE.with_name("first_hit.jsonl")  # chats of several threads, about any fact

Half = Literal["tune", "report"]


@dataclass(frozen=True)
class Turn:
    id: str
    speaker: str
    source: Literal["user", "assistant", "tool"]
    at: datetime
    content: str
    thread: str | None = None


@dataclass(frozen=True)
class Supersession:
    older: str
    newer: str
    relation: Literal["updates", "corrects", "retracts", "contradicts"]
    until: datetime | None = None
    proposal: bool = False


@dataclass(frozen=True)
class AsOf:
    at: datetime
    current: tuple[str, ...]


@dataclass(frozen=True)
class Question:
    question: str
    current: tuple[str, ...]
    stale: tuple[str, ...]
    as_of: tuple[AsOf, ...]


@dataclass(frozen=True)
class Case:
    id: str
    kind: str
    half: Half
    turns: tuple[Turn, ...]
    supersedes: tuple[Supersession, ...]
    questions: tuple[Question, ...]

    def turn(self, turn_id: str) -> Turn:
        """Return the turn of an id. Raises KeyError if there is none."""
        return {turn.id: turn for turn in self.turns}[turn_id]


def load(half: Half | None = None, file: Path = FILE) -> list[Case]:
    """Return all cases of a file, or those of one half, in the order of the file."""
    lines = file.read_text(encoding="utf-8").splitlines()
    cases = [_case(json.loads(line)) for line in lines]
    return [case for case in cases if half in (None, case.half)]


def _case(line: Mapping[str, Any]) -> Case:
    return Case(
        id=line["id"],
        kind=line["kind"],
        half=line["half"],
        turns=tuple(
            Turn(**{**turn, "at": datetime.fromisoformat(turn["at"])}) for turn in line["turns"]
        ),
        supersedes=tuple(_supersession(one) for one in line["supersedes"]),
        questions=tuple(_question(one) for one in line["questions"]),
    )


def _supersession(line: Mapping[str, Any]) -> Supersession:
    until = datetime.fromisoformat(line["until"]) if "until" in line else None
    return Supersession(**{**line, "until": until})


def _question(line: Mapping[str, Any]) -> Question:
    points = tuple(
        AsOf(datetime.fromisoformat(one["at"]), tuple(one["current"])) for one in line["as_of"]
    )
    return Question(line["question"], tuple(line["current"]), tuple(line["stale"]), points)
