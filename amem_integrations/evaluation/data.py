"""What every data set is read into: conversations of turns, and questions with gold answers.

A data set is a module that returns `Conversation`s. A question says when it is asked, how it is put to a
model and what its answer is compared with; `runner` needs to know nothing else of where it comes from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from ..notes import NoteInput

CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
LIST, REASONED, AS_IT_STANDS, ADVERSARIAL = 1, 3, 4, 5  # categories that are compared differently


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One utterance, which becomes one note; `thread` is its session."""

    id: str
    thread: str
    text: str
    speaker: str | None = None
    at: datetime | None = None

    def as_input(self) -> NoteInput:
        """Return the note to add."""
        return NoteInput(
            content=self.text, at=self.at, key=self.id, thread=self.thread, speaker=self.speaker
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A way to put questions to a model: by which prompt, and whether a judge can compare the answers."""

    prompt: str
    judged: bool = True


ANSWER = Task(prompt="answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question about a conversation.

    Attributes:
        text: What the memory is searched for.
        category: One of LoCoMo's `CATEGORIES`, which decides how an answer is compared with the gold.
        evidence: Ids of the turns that answer it.
        answer: The gold answer; None where there is none to give (category 5, mostly).
        adversarial: The wrong answer that a question of category 5 leads to.
        after: The number of turns after which it is asked; None is the end of the conversation.
        wordings: By prompt, the question as it is put to a model; `text` for the others.
    """

    text: str
    category: int
    evidence: frozenset[str] = frozenset()
    answer: str | None = None
    adversarial: str | None = None
    after: int | None = None
    wordings: Mapping[str, str] = field(default_factory=dict)

    def wording(self, task: Task) -> str:
        """Return the question as it is put to a model."""
        return self.wordings.get(task.prompt, self.text)

    @property
    def gold(self) -> str | None:
        """What a judge compares an answer with; None for adversarial questions, which need a refusal."""
        return None if self.category == ADVERSARIAL else self.answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A conversation of one or more sessions, and the questions about it."""

    id: str
    turns: tuple[Turn, ...]
    questions: tuple[Question, ...]
    dataset: str = "locomo"

    @property
    def namespace(self) -> tuple[str, str]:
        """The namespace of its notes."""
        return (self.dataset, self.id)

    @property
    def asked_at_the_end(self) -> bool:
        """Whether every question is asked when all turns have been added."""
        return all(question.after is None for question in self.questions)

    def stages(self) -> Iterator[tuple[Sequence[Turn], list[int]]]:
        """Yield turns to add, and the positions of the questions to ask after them, in their order.

        Turns after the last question are left out, unless there is no question.
        """
        end = len(self.turns)
        stops = [end if one.after is None else one.after for one in self.questions]
        start = 0
        for stop in sorted(set(stops)) or [end]:
            yield self.turns[start:stop], [n for n, one in enumerate(stops) if one == stop]
            start = stop
