"""Pure: whether the dates of a text are those of its sources, or follow from them: "yesterday" on 8 May is 7 May."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date

from ..calendar_names import DAYS, MONTHS, NUMBERS, any_of
from ..notes import Note

WEEKDAYS = {**DAYS, "tues": 1, "weds": 2, "thurs": 3, "fri": 4}
DATE_WORDS = frozenset([*WEEKDAYS, *MONTHS])
ANY_LANGUAGE = 31  # days around a source in a language whose words for times are not known here

_MONTH, _YEAR, _DAY = (
    rf"(?P<month>{any_of(MONTHS)})\b(?:\.(?=,?\s*\d))?",
    r"(?P<year>\d{4})(?!\d)",
    r"(?P<day>\d{1,2})(?!\d)(?:st|nd|rd|th|\.)?",
)
_TO = r"(?:(?P<first>\d{1,2})(?:st|nd|rd|th|\.)?\s*(?:-|\u2013|to|and|until|through|bis|und)\s*)?"
_PATTERNS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"(?<!\d)(?P<year>\d{4})-(?P<number>\d{1,2})-(?P<day>\d{1,2})(?!\d)",
        r"(?P<year>\d{4})\s*[年년]\s*(?:(?P<number>\d{1,2})\s*[月월]\s*(?:(?P<day>\d{1,2})\s*[日号號일])?)?",
        r"(?<!\d)(?P<number>\d{1,2})\s*[月월]\s*(?P<day>\d{1,2})\s*[日号號일]",
        rf"(?<!\d){_TO}{_DAY}\s+(?:of\s+|de\s+)?{_MONTH},?(?:\s+(?:of\s+|de\s+)?{_YEAR})?",
        rf"\b{_MONTH}\s+{_TO}{_DAY}(?![\d:])(?:,?\s+{_YEAR})?",
        rf"\b{_MONTH},?\s+(?:of\s+|de\s+)?{_YEAR}",
        r"(?<![\d.,])(?P<year>1[5-9]\d\d|2[01]\d\d)(?![\d.,]\d|\d)",
    )
)
_BARE_MONTH = re.compile(
    r"\b(January|February|March|April|May|June|July|August|September|October|November|December)\b"
)
_ENGLISH = re.compile(
    r"\bI\b|(?i:\b(?:the|my|and|of|to|is|we|you|for|on|with|this|that|yesterday|today|tomorrow|last|ago)\b)"
)
_COUNT = (
    rf"(?P<count>\d{{1,3}}|{any_of(NUMBERS)}|a|an|few|couple of|several|last|next|past|this|some)"
)
_UNIT = re.compile(rf"\b(?:{_COUNT}\s+)?(?:more\s+)?(?P<unit>day|week|month|year|decade)s?\b")
_VAGUE = re.compile(r"\b(?:recently|lately|the other day|ago|soon|earlier|just)\b")
_SEASON = re.compile(
    r"\b(?:spring|summer|autumn|fall|winter|christmas|easter|halloween|thanksgiving|holidays?|season)\b"
)
_NAMED_DAYS = {
    "yesterday": (-1, -1), "last night": (-1, -1), "tomorrow": (1, 1), "day before yesterday": (-2, -2),
    "day after tomorrow": (2, 2), "weekend": (-9, 9), "fortnight": (-21, 21),
}  # fmt: skip
_SHORT_DAYS = {"mon": 0, "tue": 1, "wed": 2, "thu": 3, "sat": 5, "sun": 6}  # other words as well
_SHORT_DAY = re.compile(rf"\b(?:last|this|next|past|on|since|until)\s+({any_of(_SHORT_DAYS)})\b")
_ORDINAL = re.compile(r"\b(\d{1,2})(?:st|nd|rd|th)\b")
VAGUE = 5  # "a few" is up to so many


@dataclass(frozen=True, slots=True)
class Mentioned:
    """A date as a text gives it; None is what it leaves open."""

    year: int | None
    month: int | None
    day: int | None
    text: str


def without_dates(text: str) -> str:
    """Return the text without its dates."""
    return _BARE_MONTH.sub(" ", _dates_and_rest(text)[1])


def _dates_and_rest(text: str) -> tuple[list[Mentioned], str]:
    """Return the dates of a text, each looked for in what the patterns before have left, and what is left."""
    found = list[re.Match[str]]()
    for pattern in _PATTERNS:
        found += pattern.finditer(text)
        text = pattern.sub(lambda match: "\x00" * len(match[0]), text)
    dates = [mentioned for match in found for mentioned in _mentioned(match)]
    rest = text.replace("\x00", " ")
    bare = (Mentioned(None, MONTHS[m[0].lower()], None, m[0]) for m in _BARE_MONTH.finditer(rest))
    return [*dates, *bare], rest


def _mentioned(match: re.Match[str]) -> list[Mentioned]:
    found = match.groupdict()
    name = (found.get("month") or "").lower()
    month = MONTHS[name] if name else int(found["number"]) if found.get("number") else None
    year = int(found["year"]) if found.get("year") else None
    days = [int(found[one]) for one in ("first", "day") if found.get(one)]
    text = match[0].strip()
    return [Mentioned(year, month, day, text) for day in days] or [
        Mentioned(year, month, None, text)
    ]


class Dates:
    """The dates that some notes allow."""

    def __init__(self, sources: Sequence[Note]) -> None:
        """Take the notes; relative times in them count from their own days."""
        self._sources = [_Source.of(note) for note in sources]

    def problem(self, text: str) -> str | None:
        """Return which date of a text follows from no source, in words."""
        dates, rest = _dates_and_rest(text)
        for one in dates:
            if not any(source.allows(one) for source in self._sources):
                return f"the date {one.text!r} follows from no source"
        for word in re.findall(r"[^\W\d_]+", rest.lower()):
            if word in WEEKDAYS and not any(
                source.has_weekday(WEEKDAYS[word]) for source in self._sources
            ):
                return f"{word.capitalize()} follows from no source"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """What one note allows: spans of days, of months and years (by days before and after its own), and what it states."""

    day: date
    stated: Sequence[Mentioned]
    days: Sequence[tuple[int, int]]
    weekdays: frozenset[int]
    months: int
    years: frozenset[int]
    ordinals: frozenset[int]

    @classmethod
    def of(cls, note: Note) -> _Source:
        text, day = note.content.lower().replace("\u2019", "'"), note.when.date()
        words = set(re.findall(r"[^\W\d_]+", text))
        spans = [(0, 0), *(span for name, span in _NAMED_DAYS.items() if name in text)]
        months, years = 0, {day.year}
        if _VAGUE.search(text):
            months = 31
        if _SEASON.search(text):
            years |= {day.year - 1, day.year + 1}
        for match in _UNIT.finditer(text):
            count, unit = _count(match["count"]), match["unit"]
            reach = {"day": count, "week": 7 * count + 7}.get(unit)
            if reach is not None:
                spans.append((-reach, reach))
            elif unit == "month":
                months = max(months, 31 * count + 31)
            else:
                step = count * 10 if unit == "decade" else count
                vague = (
                    range(1, VAGUE + 1) if match["count"] in ("few", "several", "some") else [step]
                )
                years |= {day.year + sign * n for n in vague for sign in (-1, 1)}
        if not _ENGLISH.search(note.content):
            spans.append((-ANY_LANGUAGE, ANY_LANGUAGE))
            years |= {day.year - 1, day.year + 1}
        stated, _ = _dates_and_rest(note.content)
        weekdays = frozenset(WEEKDAYS[word] for word in words & WEEKDAYS.keys()) | {
            _SHORT_DAYS[short] for short in _SHORT_DAY.findall(text)
        }
        ordinals = frozenset(int(number) for number in _ORDINAL.findall(text))
        return cls(
            day=day,
            stated=stated,
            days=spans,
            weekdays=weekdays,
            months=months,
            years=frozenset(years),
            ordinals=ordinals,
        )

    def allows(self, one: Mentioned) -> bool:
        """Return whether a date is stated, or within reach of the words for times."""
        if any(self._is_stated(one, said) for said in self.stated):
            return True
        if one.month is None:
            around = self._days(-self._reach, self._reach)
            return one.year in self.years or any(day.year == one.year for day in around)
        if one.day is None:
            return self._allows_month(one)
        return self._allows_day(one)

    def has_weekday(self, weekday: int) -> bool:
        """Return whether it names a day of the week, or that of a day near to it follows."""
        near = [(first, last) for first, last in self.days if last - first <= 1]
        days = (day for n in {n for span in near for n in span} for day in self._days(n, n))
        return weekday in self.weekdays or weekday in {day.weekday() for day in days}

    @property
    def _reach(self) -> int:
        return max([self.months, *(max(-first, last) for first, last in self.days)])

    def _is_stated(self, one: Mentioned, said: Mentioned) -> bool:
        """Return whether a date is one that the note states; a year it leaves open is that of a year around."""
        if one.month is None:
            return one.year == said.year
        if one.month != said.month or (one.day is not None and one.day != said.day):
            return False
        if said.year is not None:
            return one.year in (said.year, None)
        return one.year is None or abs(one.year - self.day.year) <= 1

    def _allows_month(self, one: Mentioned) -> bool:
        years_away = self.day.month == one.month and (one.year is None or one.year in self.years)
        reach = max(self._reach, 13 if self.weekdays else 0)
        return years_away or any(
            day.month == one.month and one.year in (day.year, None)
            for day in self._days(-reach, reach)
        )

    def _allows_day(self, one: Mentioned) -> bool:
        def is_it(day: date) -> bool:
            return (day.month, day.day) == (one.month, one.day) and one.year in (day.year, None)

        if any(is_it(day) for span in self.days for day in self._days(*span)):
            return True
        if any(is_it(day) and day.weekday() in self.weekdays for day in self._days(-13, 13)):
            return True
        reach = max(31, self._reach)
        return one.day in self.ordinals and any(map(is_it, self._days(-reach, reach)))

    def _days(self, first: int, last: int) -> Iterator[date]:
        """Yield the days from one offset to another, as far as the calendar goes."""
        own = self.day.toordinal()
        days = range(max(own + first, 1), min(own + last, date.max.toordinal()) + 1)
        return map(date.fromordinal, days)


def _count(text: str | None) -> int:
    if text is None or text in ("a", "an", "last", "next", "past", "this"):
        return 1
    if text == "couple of":
        return 2
    return int(text) if text.isdigit() else NUMBERS.get(text, VAGUE)
