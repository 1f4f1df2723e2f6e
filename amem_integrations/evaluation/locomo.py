"""LoCoMo conversations (Maharana et al., ACL 2024), as they come in `locomo10.json`.

The file is the user's own; nothing of it is part of this package. Irregular evidence ids, such as `"D8:06"` or
`"D8:6; D9:17"`, are normalised, and dates of sessions without turns are ignored.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Any

from ..errors import InvalidInputError
from .data import CATEGORIES, Conversation, Question, Turn

log = logging.getLogger("amem_integrations")

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")

_DATE = re.compile(r"(\d{1,2}):(\d\d)\s*([ap])m on (\d{1,2}) ([a-z]+),? (\d{4})", re.IGNORECASE)
_SESSION = re.compile(r"session_(\d+)")
_TURN_ID = re.compile(r"\bD(\d+):(\d+)\b")


def load(path: str | PathLike[str]) -> list[Conversation]:
    """Return the conversations of a LoCoMo file.

    Raises:
        InvalidInputError: The file holds something else.
        OSError: It cannot be read.
    """
    try:
        samples = json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
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
    for name in names:
        if name not in known:
            raise InvalidInputError(
                f"there is no conversation {name!r}; there are {', '.join(known)}"
            )
    chosen = [one for one in conversations if not names or one.id in names]
    # The small amount keeps .3 of ten at three: .3 is a little less than three tenths.
    return chosen[: max(1, int(len(chosen) * ratio + 1e-9))]


def parse_date(text: str) -> datetime:
    """Return the time that a text such as `1:56 pm on 8 May, 2023` stands for, taken as UTC.

    Raises:
        InvalidInputError: It is written in another way.
    """
    found = _DATE.fullmatch(text.strip())
    try:
        # By hand: what `strptime` takes for a month depends on the locale.
        hour, minute, half, day, month, year = found.groups() if found else ("",) * 6
        return datetime(
            int(year),
            MONTHS.index(month[:3].lower()) + 1,
            int(day),
            int(hour) % 12 + (12 if half.lower() == "p" else 0),
            int(minute),
            tzinfo=UTC,
        )
    except ValueError as error:
        raise InvalidInputError(
            f"date {text!r} is not written as '1:56 pm on 8 May, 2023'"
        ) from error


def turn_ids(turns: Iterable[Turn]) -> dict[str, str]:
    """Return the id of every turn, by its id without leading zeros."""
    return {_plain_id(turn.id): turn.id for turn in turns}


def evidence_ids(evidence: Sequence[str], turns: Mapping[str, str]) -> frozenset[str]:
    """Return the ids of the turns that evidence names; one string can name several, with leading zeros.

    Args:
        evidence: The strings of the file.
        turns: As `turn_ids` returns them; ids that are not there are left out.
    """
    found = (_without_zeros(match) for text in evidence for match in _TURN_ID.finditer(text))
    return frozenset(turns[turn_id] for turn_id in found if turn_id in turns)


def _conversation(sample: Any, number: int) -> Conversation:  # noqa: ANN401 - JSON
    try:
        name = str(sample["sample_id"])
        turns = tuple(_turns(sample["conversation"]))
        ids = turn_ids(turns)
        questions = tuple(_question(item, ids) for item in sample["qa"])
    except InvalidInputError as error:
        raise InvalidInputError(f"conversation {name!r}: {error}") from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
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
        answer=_text(item.get("answer")),
        adversarial=_text(item.get("adversarial_answer")),
    )


def _text(answer: object) -> str | None:
    return None if answer is None else str(answer)  # a few are numbers


def _plain_id(turn_id: str) -> str:
    found = _TURN_ID.fullmatch(turn_id)
    return _without_zeros(found) if found else turn_id


def _without_zeros(found: re.Match[str]) -> str:
    return f"D{int(found[1])}:{int(found[2])}"
