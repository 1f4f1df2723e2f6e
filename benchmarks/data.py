"""Conversations, questions about them and results, as plain values; files of LoCoMo and annotations of them.

LoCoMo (Maharana et al., ACL 2024) comes as `locomo10.json`, which is the user's own. Recorded annotations are what a
language model wrote about the turns of a conversation, in JSON lines: `testing.RecordedModel` replays them, so that a
memory with a language model is measured without one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationError,
)

from amem_integrations import NoteInput
from amem_integrations.errors import InvalidInputError

CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
LIST, REASONED, AS_IT_STANDS, ADVERSARIAL = 1, 3, 4, 5  # categories that are scored differently

# Dates of LoCoMo, DialSim and LongMemEval, without what `_BESIDE` matches.
_DATES = ("%I:%M %p on %d %B %Y", "%B %d %Y", "%b %d %Y", "%Y/%m/%d %H:%M")
_BESIDE = re.compile(r"[.,]|\(\w+\)|(?<=\d)(?:st|nd|rd|th)\b")
_SESSION = re.compile(r"session_(\d+)")
_TURN_ID = re.compile(r"\bD0*(\d+):0*(\d+)\b")


def _turn_ids(evidence: str | Sequence[str] | None) -> frozenset[str]:
    """Return the ids of turns in evidence such as `D8:06` or `D8:6; D9:17`, without leading zeros."""
    text = evidence if isinstance(evidence, str) else " ; ".join(evidence or ())
    return frozenset(f"D{session}:{turn}" for session, turn in _TURN_ID.findall(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question about a conversation, in LoCoMo's form when it is read from a file.

    Attributes:
        category: One of LoCoMo's `CATEGORIES`, which decides how an answer is compared with the gold answer.
        evidence: Ids of the turns that answer the question.
        adversarial: The wrong answer that a question of category 5 leads to; mostly it has no `answer`.
        after: The number of turns after which the question is asked; None is the end of the conversation.
        put: The question as a model is asked it, if not by the `text` that is searched for.
        rule: What a judge is told beside the gold answer.
        sessions: Ids of the sessions that answer the question, where the data set names them.
        types: The types of which it is, where the data set has other ones than LoCoMo's categories.
    """

    __pydantic_config__ = ConfigDict(coerce_numbers_to_str=True)  # a few answers are numbers

    text: Annotated[
        str,
        StringConstraints(strip_whitespace=True, min_length=1),
        Field(validation_alias="question"),
    ]
    category: Annotated[int, Field(ge=1, le=5)]
    evidence: Annotated[frozenset[str], BeforeValidator(_turn_ids)] = frozenset()
    answer: str | None = None
    adversarial: Annotated[str | None, Field(validation_alias="adversarial_answer")] = None
    after: int | None = None
    put: str | None = None
    rule: str = ""
    sessions: frozenset[str] = frozenset()
    types: tuple[str, ...] = ()

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
        """The namespace of its notes, by which they have the same ids in every run."""
        return (self.dataset, self.id)

    def stages(self) -> Iterator[tuple[int, list[Question]]]:
        """Yield how many turns have been said, and the questions that are asked then; at the end if there are none."""
        end = len(self.turns)
        stages = groupby(self.questions, key=lambda one: end if one.after is None else one.after)
        yield from ((after, list(asked)) for after, asked in stages)
        if not self.questions:
            yield end, []


@dataclass(slots=True, kw_only=True)
class Found:
    """The notes that a system found for a question, and the answer that a model gave from them.

    Attributes:
        context: Returns what is put before the question: the first so many notes, or a text that has no number.
        ids: Of turns, best first; None if the system has a text only.
        answer: The answer, "" if the request was refused, or None if the question was not asked.
        context_tokens: Length of what the model was shown, in tokens of about four bytes.
        correct: A judge's verdict, or None without a judge or a gold answer.
    """

    context: Callable[[int], str]
    ids: tuple[str, ...] | None = None
    answer: str | None = None
    context_tokens: int = 0
    correct: bool | None = None


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
class Result:
    """One conversation: what was found for its questions and answered, and what it cost.

    Attributes:
        written_by: What made the notes: `"annotations"`, `"rules"`, or the name of a model.
        found: By system, what was found for each question.
        writes: By variant of the memory, what building it took and gave (see `systems.Ours.writes`).
        spent: By stage of the run, what language models were asked beside that.
        full_tokens: Length of the whole conversation as context, in tokens of about four bytes.
    """

    conversation: Conversation
    written_by: str
    notes: int
    found: Mapping[str, Sequence[Found]]
    writes: Mapping[str, Mapping[str, int]]
    spent: Mapping[str, Spent] = field(default_factory=dict)
    full_tokens: int = 0


class _Turn(BaseModel):
    dia_id: str
    speaker: str
    text: str | None = None
    blip_caption: str | None = None


class _Sample(BaseModel):
    sample_id: str
    conversation: dict[str, Any]
    qa: list[Question]


_SAMPLES = TypeAdapter(Annotated[list[_Sample], Field(min_length=1)])
_TURNS = TypeAdapter(list[_Turn])


def load(path: Path) -> list[Conversation]:
    """Return the conversations of a LoCoMo file.

    Raises:
        InvalidInputError: The file holds something else.
        OSError: The file cannot be read.
    """
    with checked(f"{str(path)!r} is not in the form of locomo10.json"):
        samples = _SAMPLES.validate_json(path.read_bytes().removeprefix(b"\xef\xbb\xbf"))
    found: dict[str, Conversation] = {}
    for one in samples:
        with checked(f"conversation {one.sample_id!r} is not in the form of LoCoMo"):
            turns = tuple(_turns(one.conversation))
        if not turns or one.sample_id in found:
            raise InvalidInputError(f"conversation {one.sample_id!r} has no turns, or comes twice")
        keys = {turn.key for turn in turns}
        asked = tuple(replace(each, evidence=each.evidence & keys) for each in one.qa)
        found[one.sample_id] = Conversation(id=one.sample_id, turns=turns, questions=asked)
    return list(found.values())


def _turns(conversation: Mapping[str, Any]) -> Iterator[NoteInput]:
    numbers = [int(found[1]) for found in map(_SESSION.fullmatch, conversation) if found]
    for session in (f"session_{number}" for number in sorted(numbers)):
        date = conversation.get(f"{session}_date_time")
        for one in _TURNS.validate_python(conversation[session]):
            image = f"[image: {one.blip_caption.strip()}]" if one.blip_caption else ""
            if text := f"{(one.text or '').strip()} {image}".strip():
                yield NoteInput(
                    content=text,
                    at=date_in(date) if date else None,
                    key=one.dia_id,
                    thread=session,
                    speaker=one.speaker,
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


def date_in(text: str) -> datetime:
    """Return the time in a text as the data sets write it, taken as UTC; others are an `InvalidInputError`."""
    plain = " ".join(_BESIDE.sub(" ", text).split())
    for form in _DATES:
        with suppress(ValueError):
            return datetime.strptime(plain, form).replace(tzinfo=UTC)
    raise InvalidInputError(
        f"date {text!r} is not written as '1:56 pm on 8 May, 2023', 'September 22, 1994' or "
        "'2023/05/30 (Tue) 23:40'"
    )


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
        names = [one.id for one in conversations if file.name.startswith(f"{one.id}.")]
        if len(names) != 1 or names[0] in found:
            raise InvalidInputError(
                f"{str(file)!r} must be named after one conversation, such as 'conv-26.annotations.jsonl', and be the "
                "only file of its annotations"
            )
        records = []
        for number, line in enumerate(file.read_bytes().splitlines(), 1):
            with checked(f"line {number} of {str(file)!r} is no annotation of a turn"):
                records += [_Annotation.model_validate_json(line).model_dump()] if line else []
        found[names[0]] = Annotations(file, records)
    return found
