"""What a DialSim file holds, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from string import ascii_uppercase
from typing import Literal

from ...notes import NoteInput

Source = Literal["graph", "quiz"]

EVERYONE = "default"  # the wording for an asker who has none of their own
LETTERS = ascii_uppercase  # by which options are called
UNKNOWN = "I don't know."  # the right answer, in words, where there is none to know


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One utterance; `speaker` is None where the script names nobody."""

    speaker: str | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question that can be asked in a session.

    Attributes:
        id: Its place in the session, such as `graph/past/3`.
        source: A temporal knowledge graph of the show (`hard_q` in the file) or a fan quiz (`easy_q`).
        kind: As in the file: `past`, `fu_cur`, `ans_w_time`, `dont_know_unans`, …
        wordings: The question in the words of each character, and of `default`.
        options: What to choose from; the last one is not to know.
        right: The place of the right option.
    """

    id: str
    source: Source
    kind: str
    wordings: Mapping[str, str]
    options: tuple[str, ...]
    right: int

    @property
    def answerable(self) -> bool:
        """Whether the dialogue so far has the answer."""
        return self.right < len(self.options) - 1

    @property
    def gold(self) -> str:
        """The right answer in words; `UNKNOWN` where there is none, as in the published simulator."""
        return self.options[self.right] if self.answerable else UNKNOWN

    def wording(self, asker: str) -> str | None:
        """Return the question as this character puts it, if there is a wording for them."""
        return self.wordings.get(asker) or self.wordings.get(EVERYONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A scene: what was said, on which day (00:00 UTC), and what can be asked in it."""

    id: str
    date: str
    at: datetime
    turns: tuple[Turn, ...]
    questions: tuple[Question, ...]

    def notes(self, start: int = 0, stop: int | None = None) -> list[NoteInput]:
        """Return the turns from `start` up to `stop` as notes; the session is their thread."""
        return [
            NoteInput(
                content=turn.text,
                at=self.at,
                key=f"{self.id}#{place}",
                thread=self.id,
                speaker=turn.speaker,
            )
            for place, turn in list(enumerate(self.turns))[start:stop]
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Show:
    """A show, in the order of the file.

    Attributes:
        name: Such as `friends`.
        agent: The character whom the memory belongs to, and who is asked.
        sessions: The scenes.
        left_out: How many questions cannot be asked, by the reason.
    """

    name: str
    agent: str
    sessions: tuple[Session, ...]
    left_out: Mapping[str, int] = field(default_factory=dict)

    @property
    def namespace(self) -> tuple[str, str]:
        """Where its notes are kept."""
        return ("dialsim", self.name)

    @property
    def dated_back(self) -> int:
        """How many sessions are dated before the one they follow; the file's order is the show's."""
        return sum(later.at < earlier.at for earlier, later in pairwise(self.sessions))
