"""What every data set is read into (`Conversation`), and what an evaluation returns (`Result`), as plain values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from amem_integrations.notes import NoteInput

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
        category: One of LoCoMo's `CATEGORIES`, which decides how an answer is compared with the gold.
        evidence: Ids of the turns that answer it.
        adversarial: The wrong answer that a question of category 5 leads to; mostly it has no `answer`.
        after: The number of turns after which it is asked; None is the end of the conversation.
        wordings: By prompt, the question as it is put to a model; `text` for the others, and for search.
    """

    text: str
    category: int
    evidence: frozenset[str] = frozenset()
    answer: str | None = None
    adversarial: str | None = None
    after: int | None = None
    wordings: Mapping[str, str] = field(default_factory=dict)

    def wording(self, prompt: str) -> str:
        """Return the question as it is put to a model by a prompt."""
        return self.wordings.get(prompt, self.text)

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
        """Yield turns to add, and the positions of the questions after them; turns after the last one are left out."""
        end = len(self.turns)
        stops = [end if one.after is None else one.after for one in self.questions]
        start = 0
        for stop in sorted(set(stops)) or [end]:
            yield self.turns[start:stop], [n for n, one in enumerate(stops) if one == stop]
            start = stop


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """For a question, the ids that each system found, best first, and the tokens `shown` with so many of them.

    `within` are the ids that the memory shows in a budget of tokens. A digest stands there by an id of its own;
    `digests` has by this the ids of the turns that it was gathered from.
    """

    question: Question
    found: Mapping[str, Sequence[str]]
    shown: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    within: Mapping[int, Sequence[str]] = field(default_factory=dict)
    digests: Mapping[str, Sequence[str]] = field(default_factory=dict)


class Spent(NamedTuple):
    """Calls of a language model, and tokens as the endpoint counts them."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    @staticmethod
    def total(parts: Iterable[Spent]) -> Spent:
        """Return the sum."""
        return Spent(*map(sum, zip(*parts, strict=True)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a model answered to one question, and the length of the context it was shown, in tokens of four bytes.

    `correct` is a judge's verdict, or None without a judge or a gold answer.
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

    Calls, tokens and `rejected_replies` are a language model's, so they are 0 without one. Of the `annotated_links`
    in recorded annotations, `offered_links` had their target among the candidates. `unfinished` notes are not linked.
    What was spent on `digests` stands apart, in no other figure.
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
    digests: int = 0
    digest_calls: int = 0
    digest_input_tokens: int = 0
    digest_output_tokens: int = 0

    @property
    def spent(self) -> Spent:
        """The model's calls and tokens."""
        return Spent(self.model_calls, self.input_tokens, self.output_tokens)

    @property
    def spent_on_digests(self) -> Spent:
        """The model's calls and tokens for digests."""
        return Spent(self.digest_calls, self.digest_input_tokens, self.digest_output_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One conversation, by its id: what was found and answered, and what it cost.

    Attributes:
        written_by: What made the notes: `"annotations"`, `"rules"`, or the name of a model.
        writes: By variant of the memory, what building it took.
        search_ms: For each question, the memory's search, with the encoding of the question.
        embed_query_ms: The encoding alone.
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
