"""From the text of a script to its turns, and from a date in words to a time."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime

from ...errors import InvalidInputError
from .values import Turn

_CREDITS = ("Teleplay: ", "Story: ")
_LONGEST_NAME = 60  # what is longer before a colon is a sentence, such as a stage direction
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DATE = re.compile(r"([a-z]{3,9})\.?\s+(\d{1,2})(?:st|nd|rd|th)?,?\s+(\d{4})", re.IGNORECASE)


def turns(script: str) -> tuple[Turn, ...]:
    """Return what is said in a script, divided as the published simulator divides it.

    A line with a colon begins an utterance, a line without one goes on with it. Empty lines and the
    credits of writers are left out.
    """
    said: list[list[str]] = []
    for line in (line.strip() for line in script.split("\n")):
        if not line or any(credit in line for credit in _CREDITS):
            continue
        if ":" in line or not said:
            said.append([])
        said[-1].append(line)
    spoken = (_turn("\n".join(lines)) for lines in said)
    return tuple(turn for turn in spoken if turn.text)


def _turn(text: str) -> Turn:
    speaker, colon, rest = text.partition(":")
    named = colon and 0 < len(speaker.strip()) <= _LONGEST_NAME and speaker[0] not in "[("
    return (
        Turn(speaker=speaker.strip(), text=rest.strip()) if named else Turn(speaker=None, text=text)
    )


def parse_date(text: str) -> datetime:
    """Return the day that a text such as `September 22, 1994` or `1994-09-22` stands for, as 00:00 UTC.

    Raises:
        InvalidInputError: It is written in another way.
    """
    found = _DATE.fullmatch(text.strip())
    try:
        if not found:
            day = date.fromisoformat(text.strip())
        else:  # by hand: what `strptime` takes for a month depends on the locale
            day = date(int(found[3]), _MONTHS.index(found[1][:3].lower()) + 1, int(found[2]))
    except ValueError as error:
        raise InvalidInputError(f"date {text!r} is not written as 'September 22, 1994'") from error
    return datetime(day.year, day.month, day.day, tzinfo=UTC)
