"""Until when a statement holds, if it says so: "this week", "until Friday", "for the next two weeks"."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable
from datetime import date, datetime, time, timedelta

from ..calendar_names import DAYS, MONTHS, NUMBERS, any_of
from .statement_reading import CHARACTERS

_DAY, _MONTH = rf"(?P<day>{any_of(DAYS)})", rf"(?P<month>{any_of(MONTHS)})"
_COUNT = rf"(?P<count>\d{{1,2}}|a|{any_of(NUMBERS)})"
_UNIT = (
    r"(?P<unit>days?|weeks?|fortnight|months?|tage?n?|wochen?|monate?n?|jours?|semaines?|mois|"
    r"días?|semanas?|mes(?:es)?)"
)
_UP_TO = (
    r"\b(?:until|till|'til|through|thru|up to|bis|jusqu'(?:au|à|en)|hasta)\s+(?:and including )?"
)
_THE = (
    r"(?:the |this |next |end of |zum |ende |diesen |kommenden |le |la fin |el |fin de |of ){0,3}"
)

# A pattern, and what returns the last day from its match and the day of the statement.
_Rule = tuple[re.Pattern[str], Callable[[re.Match[str], date], date | None]]


def read_until(content: str, at: datetime) -> datetime | None:
    """Return the end of the last day on which a statement holds, or None if it names no end.

    It was made `at` a time, from which "Friday" is the first one, and in whose zone the end is. Only days are read:
    "open until 6" is no end of the statement.
    """
    text = content[:CHARACTERS].lower().replace("\u2019", "'")
    if not text.strip() or _PAST.search(text):
        return None
    for pattern, last_day in _RULES:
        found = pattern.search(text)
        try:
            day = last_day(found, at.date()) if found else None
        except (OverflowError, ValueError):  # after the last day of the calendar
            return None
        if day is not None and day >= at.date():
            return datetime.combine(day, time(23, 59, 59), tzinfo=at.tzinfo)
    return None


def _next_day(_: re.Match[str], day: date) -> date:
    return day + timedelta(days=1)


def _end_of_week(_: re.Match[str], day: date) -> date:
    return day + timedelta(days=6 - day.weekday())


def _end_of_next_week(_: re.Match[str], day: date) -> date:
    return day + timedelta(days=13 - day.weekday())


def _end_of_month(_: re.Match[str], day: date) -> date:
    return day.replace(day=monthrange(day.year, day.month)[1])


def _weekday(found: re.Match[str], day: date) -> date:
    return day + timedelta(days=(DAYS[found["day"]] - day.weekday()) % 7)


def _date(found: re.Match[str], day: date) -> date | None:
    return _coming(day, MONTHS[found["month"]], int(found["number"]))


def _numbers(found: re.Match[str], day: date) -> date | None:
    return _coming(day, int(found["month"]), int(found["number"]))


def _day_of_month(found: re.Match[str], day: date) -> date | None:
    number = int(found["number"])
    this_month = _valid(day.year, day.month, number)
    if this_month is not None and this_month >= day:
        return this_month
    return _valid(day.year + day.month // 12, day.month % 12 + 1, number)


def _month(found: re.Match[str], day: date) -> date | None:
    """Return the day before a month; its last day where the text says "through" or "end of"."""
    month = MONTHS[found["month"]]
    first = _coming(day, month, 1)
    if first is None:
        return None
    if re.match(r"through|thru|.*\b(?:end|ende|fin)\b", found[0]):
        first = first if month != day.month else day
        return first.replace(day=monthrange(first.year, first.month)[1])
    return first - timedelta(days=1)


def _iso(found: re.Match[str], _: date) -> date | None:
    return _valid(*map(int, found["iso"].split("-")))


def _after(found: re.Match[str], day: date) -> date:
    count = found["count"] or "a"
    number = int(count) if count.isdigit() else NUMBERS.get(count, 1)
    unit = found["unit"]
    if unit.startswith(("mo", "mes")):
        months = day.year * 12 + day.month - 1 + number
        year, month = divmod(months, 12)
        return date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))
    weeks = 2 if unit == "fortnight" else 1
    return day + timedelta(days=number * (1 if unit[0] in "dtj" else 7 * weeks))


def _coming(day: date, month: int, number: int) -> date | None:
    """Return the first day of that number and month from `day` on."""
    this_year = _valid(day.year, month, number)
    if this_year is not None and this_year >= day:
        return this_year
    return _valid(day.year + 1, month, number)


def _valid(year: int, month: int, number: int) -> date | None:
    try:
        return date(year, month, number)
    except ValueError:
        return None


# "It was hot this week" tells what happened; "I can't wait until Friday" and "not until May" name no end.
_PAST = re.compile(
    r"\b(?:was|were|did|went|got|finished|saw|met|made|bought|had been|wait (?:un)?til+|"
    r"waiting (?:un)?til+|days? (?:un)?til+|erst|war|waren)\b|"
    r"\b(?:not|n't|never|nicht|pas|no)(?: \w+){0,3} (?:until|till|bis|hasta)\b"
)
_ONLY = r"(?:only|just|nur|seulement|solo|sólo)"
_RULES: tuple[_Rule, ...] = tuple(
    (re.compile(pattern), last_day)
    for pattern, last_day in (
        (rf"{_UP_TO}(?P<iso>\d{{4}}-\d\d-\d\d)", _iso),
        (rf"{_UP_TO}{_THE}{_MONTH}\.? (?P<number>\d{{1,2}})(?!\d)", _date),
        (rf"{_UP_TO}{_THE}(?P<number>\d{{1,2}})(?:st|nd|rd|th|\.)? (?:of |de )?{_MONTH}\b", _date),
        (r"(?P<month>\d{1,2})月(?P<number>\d{1,2})日まで", _numbers),
        (
            rf"{_UP_TO}(?:the |zum )?(?P<number>\d{{1,2}})(?:st|nd|rd|th|(?<=zum \d)\.|(?<=zum \d\d)\.)(?!\d)",
            _day_of_month,
        ),
        (rf"{_UP_TO}(?:the )?(?:next week|end of next week|nächste woche)\b", _end_of_next_week),
        (
            rf"{_UP_TO}(?:the )?(?:end of (?:the |this )?week|ende der woche|weekend|wochenende|fin de semana|la fin de la semaine)",
            _end_of_week,
        ),
        (
            rf"{_UP_TO}(?:the )?(?:end of (?:the |this )?month|ende des monats|la fin du mois|fin de mes)",
            _end_of_month,
        ),
        (
            rf"{_UP_TO}(?:the )?(?:end of (?:the |this )?year|ende des jahres|jahresende|la fin de l'année|fin de año|new year)",
            lambda _, day: day.replace(month=12, day=31),
        ),
        (rf"{_UP_TO}(?:tomorrow|morgen|demain|mañana)\b", _next_day),
        (rf"(?<!day ){_UP_TO}{_THE}{_DAY}\b", _weekday),
        (rf"(?P<day>{any_of(DAYS)})日?まで", _weekday),
        (rf"{_UP_TO}{_THE}{_MONTH}\b(?!\.? \d)", _month),
        (rf"\b(?:for|over) (?:the )?(?:next|coming|another) (?:{_COUNT} )?{_UNIT}\b", _after),
        (
            rf"\b(?:die nächsten|für die nächsten|les|durante las próximas|las próximas|los próximos|durante los próximos) {_COUNT} (?:prochain\w* )?{_UNIT}\b",
            _after,
        ),
        (
            rf"\b{_ONLY}(?: for)? (?:tomorrow|morgen|demain|mañana)\b|\btomorrow {_ONLY}\b",
            _next_day,
        ),
        (
            rf"\b{_ONLY}(?: for)? (?:today|tonight|heute|aujourd'hui|hoy|this (?:morning|afternoon|evening|once))\b|\b(?:today|tonight|heute) {_ONLY}\b|今日だけ|सिर्फ़? आज|केवल आज",
            lambda _, day: day,
        ),
        (rf"\b{_ONLY} (?:for )?this {_DAY}\b", _weekday),
        (rf"\bthis {_DAY} only\b", _weekday),
        (
            r"\bthis week(?:end)?\b|\bdiese woche\b|\bcette semaine\b|\besta semana\b|今週|इस हफ़?्ते|इस सप्ताह",
            _end_of_week,
        ),
        (rf"\b{_ONLY} (?:for )?next week\b|\bnext week {_ONLY}\b", _end_of_next_week),
        (
            r"\bthis month\b|\bdiesen monat\b|\bce mois(?:-ci)?\b|\beste mes\b|今月|इस महीने",
            _end_of_month,
        ),
    )
)
