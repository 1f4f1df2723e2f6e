"""Conversations, questions about them and results, as plain values; files of LoCoMo and annotations of them.

LoCoMo (Maharana et al., ACL 2024) comes as `locomo10.json`, which is the user's own. Recorded annotations are what a
language model wrote about the turns of a conversation, in JSON lines: `testing.RecordedModel` replays them, so that a
memory with a language model is measured without one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from amem_integrations import NoteInput
from amem_integrations.errors import InvalidInputError

CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
LIST, REASONED, AS_IT_STANDS, ADVERSARIAL = 1, 3, 4, 5  # categories that are scored differently
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")

_DATE = re.compile(
    r"(?P<hour>\d{1,2}):(?P<minute>\d\d)\s*(?P<half>[ap])m on (?P<day>\d{1,2}) (?P<month>[a-z]+),? (?P<year>\d{4})",
    re.IGNORECASE,
)
_SESSION = re.compile(r"session_(\d+)")
_TURN_ID = re.compile(r"\bD\d+:\d+\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question about a conversation.

    Attributes:
        category: One of LoCoMo's `CATEGORIES`, which decides how an answer is compared with the gold answer.
        evidence: Ids of the turns that answer the question.
        adversarial: The wrong answer that a question of category 5 leads to; mostly it has no `answer`.
        after: The number of turns after which the question is asked; None is the end of the conversation.
        put: The question as a model is asked it, if not by the `text` that is searched for.
        rule: What a judge is told beside the gold answer.
        sessions: Ids of the sessions that answer the question, where the data set names them.
    """

    text: str
    category: int
    evidence: frozenset[str] = frozenset()
    answer: str | None = None
    adversarial: str | None = None
    after: int | None = None
    put: str | None = None
    rule: str = ""
    sessions: frozenset[str] = frozenset()

    @property
    def gold(self) -> str | None:
        """The answer that a judge compares with; None for adversarial questions, which need a refusal."""
        return None if self.category == ADVERSARIAL else self.answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A conversation of one or more sessions, each turn a note to add, and the questions, in the order of asking."""

    id: str
    turns: tuple[NoteInput, ...]
    questions: tuple[Question, ...]
    dataset: str = "locomo"

    @property
    def namespace(self) -> tuple[str, str]:
        """The namespace of its notes."""
        return (self.dataset, self.id)

    def stages(self) -> Iterator[tuple[int, list[Question]]]:
        """Yield how many turns have been said, and the questions that are asked then; at the end if there are none."""
        end = len(self.turns)
        stages = groupby(self.questions, key=lambda one: end if one.after is None else one.after)
        yield from ((after, list(asked)) for after, asked in stages)
        if not self.questions:
            yield end, []


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """For a question, the ids that each system found, best first, and the tokens `shown` with so many of them.

    `within` has the ids that the memory shows in a budget of tokens.
    """

    question: Question
    found: Mapping[str, Sequence[str]]
    shown: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    within: Mapping[int, Sequence[str]] = field(default_factory=dict)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One conversation, by its id: what was found and answered, and what it cost.

    Attributes:
        written_by: What made the notes: `"annotations"`, `"rules"`, or the name of a model.
        writes: By variant of the memory, what building it took and gave (see `runner.Built.writes`).
        full_tokens: Length of the whole conversation as context, in tokens of about four bytes.
    """

    conversation: str
    written_by: str
    notes: int
    outcomes: tuple[Outcome, ...]
    writes: Mapping[str, Mapping[str, float]]
    answers: Mapping[str, tuple[Answer, ...]] = field(default_factory=dict)
    spent: Mapping[str, Spent] = field(default_factory=dict)
    full_tokens: int = 0


class _RawTurn(BaseModel):
    dia_id: str
    speaker: str
    text: str | None = None
    blip_caption: str | None = None


class _RawQuestion(BaseModel):
    model_config = ConfigDict(coerce_numbers_to_str=True)

    question: Annotated[str, Field(min_length=1)]
    category: Literal[1, 2, 3, 4, 5]
    evidence: str | list[str] | None = None
    answer: str | None = None  # a few are numbers
    adversarial_answer: str | None = None


class _RawConversation(BaseModel):
    sample_id: str
    conversation: dict[str, Any]
    qa: list[_RawQuestion]


_SAMPLES = TypeAdapter(Annotated[list[_RawConversation], Field(min_length=1)])
_TURNS = TypeAdapter(list[_RawTurn])


def load(path: Path) -> list[Conversation]:
    """Return the conversations of a LoCoMo file.

    Raises:
        InvalidInputError: The file holds something else.
        OSError: The file cannot be read.
    """
    with checked(f"{str(path)!r} is not in the form of locomo10.json"):
        samples = _SAMPLES.validate_json(path.read_bytes().removeprefix(b"\xef\xbb\xbf"))
    conversations = []
    for sample in samples:
        with checked(f"conversation {sample.sample_id!r} is not in the form of LoCoMo"):
            turns = tuple(_turns(sample.conversation))
        questions = tuple(
            Question(
                text=one.question.strip(),
                category=one.category,
                evidence=evidence_ids(one.evidence or (), turns),
                answer=one.answer,
                adversarial=one.adversarial_answer,
            )
            for one in sample.qa
        )
        if not turns:
            raise InvalidInputError(f"conversation {sample.sample_id!r} has no turns")
        conversations.append(Conversation(id=sample.sample_id, turns=turns, questions=questions))
    if len({conversation.id for conversation in conversations}) < len(conversations):
        raise InvalidInputError(f"{str(path)!r} holds two conversations of the same sample_id")
    return conversations


def _turns(conversation: Mapping[str, Any]) -> Iterator[NoteInput]:
    numbers = [int(found[1]) for found in map(_SESSION.fullmatch, conversation) if found]
    for session in (f"session_{number}" for number in sorted(numbers)):
        date = conversation.get(f"{session}_date_time")
        at = date_in(date, _DATE, "1:56 pm on 8 May, 2023") if date else None
        for one in _TURNS.validate_python(conversation[session]):
            image = f"[image: {one.blip_caption.strip()}]" if one.blip_caption else ""
            if text := f"{(one.text or '').strip()} {image}".strip():
                yield NoteInput(
                    content=text, at=at, key=one.dia_id, thread=session, speaker=one.speaker
                )


def select(conversations: Sequence[Conversation], names: Sequence[str]) -> list[Conversation]:
    """Return the named conversations, all of them without names; an unknown one is an `InvalidInputError`."""
    known = [conversation.id for conversation in conversations]
    if unknown := [name for name in names if name not in known]:
        raise InvalidInputError(
            f"there is no conversation {unknown[0]!r}; there are {', '.join(known)}"
        )
    return [one for one in conversations if not names or one.id in names]


def first_turns(whole: Conversation, number: int) -> Conversation:
    """Return the first turns of a conversation, and the questions that have evidence, all of it in them."""
    turns = whole.turns[:number]
    keys = {turn.key for turn in turns}
    asked = tuple(one for one in whole.questions if one.evidence and one.evidence <= keys)
    return replace(whole, turns=turns, questions=asked)


def date_in(text: str, form: re.Pattern[str], like: str) -> datetime:
    """Return the time in a text of a form, which names its groups, taken as UTC; others are an `InvalidInputError`."""
    try:
        # Not by `strptime`: the names of months that it takes depend on the locale.
        found = form.fullmatch(text.strip()).groupdict()  # type: ignore[union-attr] - caught
        month, hour, half = found["month"], int(found.get("hour") or 0), found.get("half")
        number = int(month) if month.isdigit() else MONTHS.index(month[:3].lower()) + 1
        hours = hour % 12 + 12 * (half.lower() == "p") if half else hour
        day, minute = int(found["day"]), int(found.get("minute") or 0)
        return datetime(int(found["year"]), number, day, hours, minute, tzinfo=UTC)
    except (AttributeError, ValueError) as error:
        raise InvalidInputError(f"date {text!r} is not written as {like!r}") from error


def evidence_ids(evidence: str | Sequence[str], turns: Sequence[NoteInput]) -> frozenset[str]:
    """Return the ids of those `turns` that evidence names, as in `D8:06` or `D8:6; D9:17`."""
    ids = {_plain(turn.key or ""): turn.key or "" for turn in turns}
    text = evidence if isinstance(evidence, str) else " ; ".join(evidence)
    found = _TURN_ID.findall(_plain(text))
    return frozenset(ids[turn_id] for turn_id in found if turn_id in ids)


def _plain(text: str) -> str:
    """Return a text in which ids of turns have no leading zeros."""
    return re.sub(r"\bD0*(\d+):0*(\d+)\b", r"D\1:\2", text)


@contextmanager
def checked(what: str) -> Iterator[None]:
    """Raise an `InvalidInputError` that says what is wrong first, and where, if values are not valid."""
    try:
        yield
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "the whole"
        raise InvalidInputError(f"{what}: {place}: {first['msg']}") from error


class _Link(BaseModel):
    to: str
    why: str


class _Attributes(BaseModel):
    keywords: list[str] = []
    context: str
    tags: list[str]


class _Update(_Attributes):
    to: str


class _Annotation(_Attributes):
    id: str
    links: list[_Link] = []
    updates: list[_Update] = []


class Annotations(NamedTuple):
    """The annotations of one conversation as `RecordedModel` takes them, and the file they are from."""

    file: Path
    records: list[dict[str, Any]]


def load_annotations(
    files: Sequence[Path], conversations: Sequence[Conversation]
) -> dict[str, Annotations]:
    """Return annotations by the id of their conversation, with which the name of the file begins.

    Raises:
        InvalidInputError: A line is no annotation, or the conversation of a file is not clear.
    """
    found: dict[str, Annotations] = {}
    for file in files:
        records = []
        for number, line in enumerate(file.read_bytes().splitlines(), 1):
            if line.strip():
                with checked(f"line {number} of {str(file)!r} is no annotation of a turn"):
                    records.append(_Annotation.model_validate_json(line).model_dump())
        choice = [one.id for one in conversations if file.name.startswith(f"{one.id}.")]
        if len(choice) != 1 or not records:
            raise InvalidInputError(
                f"{len(records)} annotations in {file.name!r} fit {len(choice)} conversations; name the "
                "file after one, such as 'conv-26.annotations.jsonl'"
            )
        if other := found.get(choice[0]):
            raise InvalidInputError(
                f"both {str(other.file)!r} and {str(file)!r} are annotations of {choice[0]!r}"
            )
        found[choice[0]] = Annotations(file, records)
    return found
