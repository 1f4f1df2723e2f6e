"""LoCoMo conversations (Maharana et al., ACL 2024), as they come in `locomo10.json`, which is the user's own.

Recorded annotations are what a language model wrote about the turns of a conversation, in JSON lines.
`testing.RecordedModel` replays them, so that a memory with a language model is measured without one.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from amem_integrations.errors import InvalidInputError

from .data import CATEGORIES, Conversation, Question, Turn

log = logging.getLogger("amem_integrations")

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")

_DATE = re.compile(r"(\d{1,2}):(\d\d)\s*([ap])m on (\d{1,2}) ([a-z]+),? (\d{4})", re.IGNORECASE)
_SESSION = re.compile(r"session_(\d+)")
_TURN_ID = re.compile(r"\bD\d+:\d+\b")


def load(path: str | PathLike[str]) -> list[Conversation]:
    """Return the conversations of a LoCoMo file.

    Raises:
        InvalidInputError: The file holds something else.
        OSError: It cannot be read.
    """
    try:
        samples = json.loads(Path(path).read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"{str(path)!r} is not a JSON file: {error}") from error
    if not isinstance(samples, list) or not samples:
        raise InvalidInputError(
            f"{str(path)!r} must hold a list of conversations, as locomo10.json"
        )
    conversations = [_conversation(sample, number) for number, sample in enumerate(samples, 1)]
    if len({conversation.id for conversation in conversations}) < len(conversations):
        raise InvalidInputError(f"{str(path)!r} holds two conversations of the same sample_id")
    return conversations


def select(
    conversations: Sequence[Conversation], *, names: Sequence[str] = (), ratio: float = 1.0
) -> list[Conversation]:
    """Return the named conversations (all of them without names), and of these the first `ratio`.

    At least one is returned. `ratio` counts conversations, not questions, as in the authors' code.

    Raises:
        InvalidInputError: An unknown name, or a ratio that is not in (0, 1].
    """
    if not 0 < ratio <= 1:
        raise InvalidInputError(f"ratio={ratio!r} must be above 0 and at most 1")
    known = [conversation.id for conversation in conversations]
    if unknown := [name for name in names if name not in known]:
        raise InvalidInputError(
            f"there is no conversation {unknown[0]!r}; there are {', '.join(known)}"
        )
    chosen = [one for one in conversations if not names or one.id in names]
    # The small amount keeps .3 of ten at three: .3 is a little less than three tenths.
    return chosen[: max(1, int(len(chosen) * ratio + 1e-9))]


def parse_date(text: str) -> datetime:
    """Return the time that a text such as `1:56 pm on 8 May, 2023` stands for, taken as UTC."""
    found = _DATE.fullmatch(text.strip())
    try:
        # By hand: what `strptime` takes for a month depends on the locale.
        hour, minute, half, day, month, year = found.groups() if found else ("",) * 6
        hours = int(hour) % 12 + (12 if half.lower() == "p" else 0)
        number = MONTHS.index(month[:3].lower()) + 1
        return datetime(int(year), number, int(day), hours, int(minute), tzinfo=UTC)
    except ValueError as error:
        raise InvalidInputError(
            f"date {text!r} is not written as '1:56 pm on 8 May, 2023'"
        ) from error


def turn_ids(turns: Iterable[Turn]) -> dict[str, str]:
    """Return the id of every turn, by its id without leading zeros."""
    return {_plain(turn.id): turn.id for turn in turns}


def evidence_ids(evidence: Sequence[str], turns: Mapping[str, str]) -> frozenset[str]:
    """Return the ids of those `turns` that evidence names, as in `D8:06` or `D8:6; D9:17`."""
    found = _TURN_ID.findall(_plain(" ; ".join(evidence)))
    return frozenset(turns[turn_id] for turn_id in found if turn_id in turns)


def _conversation(sample: Any, number: int) -> Conversation:  # noqa: ANN401 - JSON
    try:
        name = str(sample["sample_id"])
        turns = tuple(_turns(sample["conversation"]))
        ids = turn_ids(turns)
        questions = tuple(_question(item, ids) for item in sample["qa"])
    except InvalidInputError as error:
        raise InvalidInputError(f"conversation {name!r}: {error}") from error
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise InvalidInputError(
            f"conversation {number} is not in the form of locomo10.json: {error!r}"
        ) from error
    if not turns:
        raise InvalidInputError(f"conversation {name!r} has no turns")
    if len(ids) < len(turns):
        log.warning("conversation %r has turns of the same dia_id; the last of them counts", name)
    return Conversation(id=name, turns=turns, questions=questions)


def _turns(conversation: Mapping[str, Any]) -> Iterator[Turn]:
    numbers = [int(found[1]) for found in map(_SESSION.fullmatch, conversation) if found]
    for number in sorted(numbers):
        session = f"session_{number}"
        date = conversation.get(f"{session}_date_time")
        at = parse_date(date) if date else None
        turns = (_turn(item, session, at) for item in conversation[session])
        yield from (turn for turn in turns if turn.text)


def _turn(item: Mapping[str, Any], session: str, at: datetime | None) -> Turn:
    """Return a turn; the caption of an image stands in brackets after its text."""
    text, caption = ((item.get(name) or "").strip() for name in ("text", "blip_caption"))
    image = f"[image: {caption}]" if caption else ""
    return Turn(
        id=str(item["dia_id"]),
        thread=session,
        speaker=item["speaker"],
        text=" ".join(part for part in (text, image) if part),
        at=at,
    )


def _question(item: Mapping[str, Any], turns: Mapping[str, str]) -> Question:
    text, category = item["question"].strip(), int(item["category"])
    if not text or category not in CATEGORIES:
        raise InvalidInputError(f"a question {text!r} of category {category!r} cannot be asked")
    evidence = item.get("evidence") or []
    return Question(
        text=text,
        category=category,
        evidence=evidence_ids([evidence] if isinstance(evidence, str) else evidence, turns),
        answer=None if (answer := item.get("answer")) is None else str(answer),  # a few are numbers
        adversarial=None if (wrong := item.get("adversarial_answer")) is None else str(wrong),
    )


def _plain(text: str) -> str:
    """Return a text in which ids of turns have no leading zeros."""
    return re.sub(r"\bD0*(\d+):0*(\d+)\b", r"D\1:\2", text)


class _Link(BaseModel):
    to: str
    why: str


class _Update(BaseModel):
    to: str
    context: str
    keywords: list[str] = []
    tags: list[str]


class Annotation(BaseModel):
    """All that was written about one turn."""

    id: str
    keywords: list[str]
    context: str
    tags: list[str]
    links: list[_Link] = []
    updates: list[_Update] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotations:
    """The annotations of one conversation, and the file they are from."""

    file: Path
    turns: tuple[Annotation, ...]

    def as_records(self) -> list[dict[str, Any]]:
        """Return the annotations as `RecordedModel` takes them."""
        return [one.model_dump() for one in self.turns]


def load_annotations(
    files: Sequence[Path], conversations: Sequence[Conversation]
) -> dict[str, Annotations]:
    """Return annotations by the id of their conversation; if that is not clear, an `InvalidInputError` is raised."""
    found: dict[str, Annotations] = {}
    for file in files:
        annotations = Annotations(file=file, turns=read_annotations(file))
        name = _subject(annotations, conversations)
        other = found.setdefault(name, annotations)
        if other is not annotations:
            raise InvalidInputError(
                f"both {str(other.file)!r} and {str(file)!r} are annotations of {name!r}"
            )
    return found


def read_annotations(file: Path) -> tuple[Annotation, ...]:
    """Return the annotations in a file; a line that is none is an `InvalidInputError`."""
    found = []
    for number, line in enumerate(file.read_bytes().splitlines(), 1):
        if line.strip():
            with checked(f"line {number} of {str(file)!r} is no annotation of a turn"):
                found.append(Annotation.model_validate_json(line))
    if not found:
        raise InvalidInputError(f"{str(file)!r} holds no annotations")
    return tuple(found)


def _subject(annotations: Annotations, conversations: Sequence[Conversation]) -> str:
    """Return the id of the conversation that begins the file's name, else of the one with exactly these turns."""
    name = annotations.file.name
    named = [one.id for one in conversations if name == one.id or name.startswith(f"{one.id}.")]
    turns = {one.id for one in annotations.turns}
    same = [one.id for one in conversations if {turn.id for turn in one.turns} == turns]
    choice = named or same
    if len(choice) != 1:
        raise InvalidInputError(
            f"annotations {name!r} fit {len(choice)} conversations; name the file after one, such as "
            "'conv-26.annotations.jsonl'"
        )
    return choice[0]


@contextmanager
def checked(what: str) -> Iterator[None]:
    """Raise an `InvalidInputError` that says what is wrong first, and where, if values are not valid."""
    try:
        yield
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "the whole"
        raise InvalidInputError(f"{what}: {place}: {first['msg']}") from error
