"""What rules see in a statement: what it is about, the values it gives, and words that tell of a change.

Only sentences that assert something count: questions, quotes, wishes, jokes, plans and memories of long
ago are left out. Word lists are in `currency_words.json`; English is covered best, German, French, Spanish,
Japanese and Hindi by their most common words.
"""

# ruff: noqa: RUF001 - it reads quotation marks and stops of several languages

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import dropwhile, pairwise, takewhile
from pathlib import Path
from typing import Any
from unicodedata import normalize

import snowballstemmer

from ..calendar_names import DAYS, MONTHS, NUMBERS, any_of

CACHED_READINGS = 4096

# Of a longer text the start is read: more than the embedder reads, and patterns stay fast.
CHARACTERS = 2000

# A longer statement is read in parts of two sentences, so that its words belong together.
WORDS_OF_A_PART = 30

_LISTS: Mapping[str, Any] = json.loads(
    normalize("NFC", Path(__file__).with_name("currency_words.json").read_text(encoding="utf-8"))
)
_KIN = re.compile(
    rf"(?:^|[.!,;:] )(?:and |but |so )?(?:(?:my|our|mein|meine|mon|ma|mi) )?(?:[\w-]+ )?({_LISTS['kin']})\b"
)
_IGNORED = frozenset(_LISTS["ignored"].split())
_EVENTS = frozenset(_LISTS["events"].split("|"))
_MANY = frozenset(_LISTS["many"].split("|"))


def _any(patterns: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(patterns))


_TENTATIVE = _any([*_LISTS["sentences_left_out"]["wish"], *_LISTS["sentences_left_out"]["unsure"]])
_LEFT_OUT = _any(
    pattern
    for group, patterns in _LISTS["sentences_left_out"].items()
    if group not in ("wish", "unsure")
    for pattern in patterns
)
_JOKE = re.compile("|".join(_LISTS["left_out_entirely"]["joke"]))
_CUES = {name: _any(patterns) for name, patterns in _LISTS["cues"].items()}
_SLOTS = {name: _any(patterns) for name, patterns in _LISTS["slots"].items()}

_ADDRESS = re.compile(
    rf"(?:^|(?<=[.!?] ))(?i:{_LISTS['small_talk_words']})(?: so much)?,? [A-Z]\w+\b[,!.]?|, [A-Z]\w+(?=[!?])"
)
_CLAUSE = re.compile(r"(?:[^,;:.!?。、]|(?<=\d)[.:,](?=\d))+")
_DENIAL = re.compile(
    r"\b(?:not|instead of|rather than|isn't|aren't|wasn't|no longer|no more|forget|scrapped|from|left|quit|dumped|ditched|traded(?: in)?|"
    r"sold|closed my|replaces|replaced|switched from|nicht|statt|pas|plus|sino|no se llama|ya no|en vez de|au lieu de)"
    r"((?: [^\s,;:.!?]+){1,4})"
)
_NEW = re.compile(r"\bnew (?:\w+ )?(\w+)(?=[ ,.:;!]|$)")
_LABEL = re.compile(r"\b[A-Za-z][a-z]+ ([A-HJ-Z])\b")
_ENUMERATED = re.compile(
    r"\b(case|chapter|day|episode|exercise|game|invoice|issue|item|lap|lesson|level|note|order|page|part|question"
    r"|round|season|session|step|task|test|ticket|turn|unit|week) #?(\d+)\b",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"[\"“„«][^\"“”„«»]*[\"”“»]|(?<!\w)['‘][^'’]{8,}['’](?!\w)|「[^」]*」")
_SENTENCE = re.compile(r"[^.!?。！？।\n]+(?:[.](?=\w)[^.!?。！？।\n]*)*[.!?。！？।]*")
_WORD = re.compile(r"(?:[^\W\d]|[\u0900-\u0963])+(?:'[^\W\d_]+)*|\d+(?:[.,:]\d+)*")
_TOKEN = re.compile(rf"{_WORD.pattern}|[,.;:!?()]")
_JAPANESE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]+")
_HAN = re.compile(r"[\u3400-\u9fff]{2}|[\u30a0-\u30ff]{2,}")

_SMALL = {name: str(number) for name, number in NUMBERS.items() if number > 1}  # "one" is no value


_MONTH = rf"(?:{any_of(MONTHS)})"
_CLOCK = rf"(?:\d{{1,2}}(?:[:.h]\d{{2}})?|{any_of(NUMBERS)})"
_AFTER_CLOCK = r"(?=[.!?,;)]*(?:$|\s(?:on|and|every|sharp|in|to|today|tomorrow|for|with|or|each|daily|instead|until|now|this|next|because|as|from|at|so|but|since)\b|[.!?,;)]+\s))"
# In the order in which they are looked for: what is found is not looked at again.
_VALUES = {
    "email": r"[\w.+-]+@[\w.-]+\w",
    "date": (
        rf"\b{_MONTH}\.? \d{{1,2}}(?:st|nd|rd|th)?\b(?!:)|"
        rf"\b\d{{1,2}}(?:st|nd|rd|th|\.)? (?:of |de )?{_MONTH}\b|"
        r"\b\d{1,2}(?:st|nd|rd|th)\b|\b\d{4}-\d\d-\d\d\b"
    ),
    "time": (
        r"\b\d{1,2}:\d{2}\b|\b\d{1,2}(?:[.:]\d{2})?\s?(?:am|pm|a\.m\.|p\.m\.|uhr|h|o'clock)\b|"
        rf"\b(?:half|quarter) (?:past|to) {_CLOCK}\b|\bnoon\b|\bmidnight\b|"
        rf"\b(?:at|around|by|before|until|starts?) {_CLOCK}\b{_AFTER_CLOCK}|\ba las \w+"
    ),
    "code": r"\b[a-z]+\d\w*|\b\d+[a-fx]\b",
    "ordinal": r"\b(?:third|fourth|fifth|sixth|seventh|eighth|ninth|tenth)\b",
    "day": rf"\b(?:{any_of(DAYS)})\b",
    "month": rf"\b{_MONTH}\b",
    "number": rf"[-+]?\d[\d,.:/-]*(?: \d[\d ]*)?\d|\d|(?<![-\w])(?:{any_of(_SMALL)})(?![-\w])",
}
_UNIT = re.compile(
    r" ?-?(km|k|kg|kilo(?:gram)?s?|g|gram(?:me)?s?|mg|ml|cl|l|lit(?:re|er)s?|miles?|met(?:re|er)s?|m|cm|euros?|€|pounds?|£|"
    r"dollars?|\$|percent|%|units?|people|guests?|persons?|hours?|minutes?|min|days?|weeks?|months?|years?|times|grand|"
    r"degrees|pages|megabit|mbit|points?)(?![^\W_])"
)
_VALUE_PATTERNS = {kind: re.compile(rf"(?i:{pattern})") for kind, pattern in _VALUES.items()}
_FIRST_PERSON = re.compile(
    r"\b(?:i|my|mine|me|ich|meine?[rnm]?|je|j'|mon|ma|mes|yo|mi|vivo|trabajo)\b|मैं|मेर"
)
_SPEAKER_FIRST = re.compile(
    r"(?:i|my|mine|we|our|ours|us|ich|mein\w*|wir|unsere?|je|j'|mon|ma|nous|yo|mi|nuestr[oa])\b"
)
_PART = re.compile(r"\d+|[^\W\d_]+")
_NO_PART = frozenset(
    ("at", "around", "by", "before", "until", "start", "starts", "of", "de", "st", "nd", "rd", "th")
)
_NAME = re.compile(r"(?<![.!?\"“] )(?<!^)\b[A-ZÄÖÜÉÓÁ][\w-]*")

_stemmer = snowballstemmer.stemmer("english")
_stemming = threading.Lock()  # a Snowball stemmer keeps its word in itself


@dataclass(frozen=True)
class Reading:
    """What a statement asserts, as far as rules can tell.

    Attributes:
        topic: Stems of what it speaks of, in order, without values, names of days, and common words.
        before: For each stem the one right before it: "design" for "team" in "the design team".
        values: By type (time, date, day, month, number, email, name) what it gives.
        cues: Kinds of words it has that tell of a change (`changed`, `ended`, `added`, …), each with the
            stems of the clauses that they are in.
        renewed: Stems of what it calls new: "number" in "my new number".
        labels: What tells things of one name apart: "B" in "project B", "lesson 7".
        denied: Stems and numbers that it says are not so, or no longer ("not 300", "instead of the bus").
        slots: Properties of a person that it gives which have one value at a time (`home`, `job`, …).
        kin: Relatives and friends that it speaks of.
        first_person: Whether it says "I" or "my".
        event: Whether it tells what happened, not what is so.
        many: Whether it is of a kind that does not exclude others, such as likes.
        subject: The stems up to the first common word: "grant", "proposal" in "Grant proposal is due".
        anchor: The stem it starts with, which is mostly its subject; None where it is the speaker.
    """

    topic: tuple[str, ...]
    before: Mapping[str, str]
    values: Mapping[str, frozenset[str]]
    cues: Mapping[str, frozenset[str]]
    renewed: frozenset[str]
    labels: frozenset[str]
    denied: frozenset[str]
    slots: frozenset[str]
    kin: frozenset[str]
    first_person: bool
    event: bool
    many: bool
    subject: tuple[str, ...]
    anchor: str | None

    @property
    def adds(self) -> bool:
        """Whether it says that it comes on top: "also", "another", "a second"."""
        return "added" in self.cues

    @property
    def names(self) -> frozenset[str]:
        """Stems of the capitalised words within its sentences."""
        return self.values.get("name", frozenset())


@lru_cache(maxsize=CACHED_READINGS)
def read(content: str, *, tentative: bool = False) -> tuple[Reading, ...]:
    """Return what a statement asserts, a long one part by part; () if nothing, as a question or a joke.

    With `tentative` wishes and plans are read too.
    """
    sentences = _asserted(content, tentative=tentative)
    if sum(len(sentence.split()) for sentence in sentences) <= WORDS_OF_A_PART:
        return (_read(" ".join(sentences)),) if sentences else ()
    return tuple(_read(" ".join(pair)) for pair in pairwise(sentences)) or (_read(sentences[0]),)


def _read(text: str) -> Reading:
    lowered = text.lower()
    values, rest = _values(text)
    stems = _stems(rest)
    topic = [stem for stem in stems if stem] + _japanese(lowered)
    words = {word.removesuffix("'s") for word in _WORD.findall(lowered.replace("had to", ""))}
    return Reading(
        topic=tuple(dict.fromkeys(topic)),
        before={after: first for first, after in pairwise(stems) if first and after},
        values=values,
        cues=_cues(lowered),
        renewed=frozenset(_stem(found[1]) for found in _NEW.finditer(lowered)) - {""},
        labels=frozenset(
            [*_LABEL.findall(text), *map(" ".join, _ENUMERATED.findall(text.lower()))]
        ),
        denied=frozenset(stem for found in _DENIAL.finditer(lowered) for stem in _denied(found[1])),
        slots=frozenset(name for name, pattern in _SLOTS.items() if pattern.search(lowered)),
        kin=frozenset(_KIN.findall(lowered)),
        first_person=bool(_FIRST_PERSON.search(lowered)),
        event=bool(words & _EVENTS),
        many=bool(words & _MANY),
        subject=tuple(takewhile(bool, dropwhile(lambda stem: not stem, stems))),
        anchor=None if _SPEAKER_FIRST.match(lowered) or not topic else topic[0],
    )


def _cues(lowered: str) -> dict[str, frozenset[str]]:
    """Return the cues of a text, each with the stems of the clauses that it is in."""
    cues = {}
    clauses = [(found.start(), found.end()) for found in _CLAUSE.finditer(lowered)]
    for name, pattern in _CUES.items():
        found = [match.span() for match in pattern.finditer(lowered)]
        if found:
            near = " , ".join(
                lowered[start:end]
                for start, end in clauses
                if any(start < last and first < end for first, last in found)
            )
            cues[name] = frozenset(_stems(near)) - {""} | frozenset(_japanese(near))
    return cues


def _stems(text: str) -> list[str]:
    """Return the stem of each word of a text, "" for common words and for what separates clauses."""
    tokens = _TOKEN.findall(text)
    return ["" if token[0] in ",.;:!?" or token[0].isdigit() else _stem(token) for token in tokens]


def _denied(text: str) -> list[str]:
    stems = [stem for stem in _stems(text) if stem]
    return [*stems, *re.findall(r"\d+(?::\d+)?", text)]


def _asserted(content: str, *, tentative: bool) -> list[str]:
    """Return the sentences of a statement that assert something, without quotes."""
    text = normalize("NFC", content[:CHARACTERS]).replace("’", "'")
    if _JOKE.search(text.lower()):
        return []
    text = _ADDRESS.sub(" ", _QUOTED.sub(" … ", text))
    sentences = (found[0].strip() for found in _SENTENCE.finditer(text))
    return [
        sentence
        for sentence in sentences
        if sentence
        and not sentence.endswith(("?", "？"))
        and not _LEFT_OUT.search(sentence.lower())
        and (tentative or not _TENTATIVE.search(sentence.lower()))
    ]


def _values(text: str) -> tuple[dict[str, frozenset[str]], str]:
    """Return the values of a text by type, and the text in lower case without all but the names."""
    rest, values = text, dict[str, frozenset[str]]()
    for kind, pattern in _VALUE_PATTERNS.items():
        if kind == "number":
            rest = _numbers(rest, pattern, values)
            continue
        found = {_canonical(kind, match[0].lower()) for match in pattern.finditer(rest)}
        rest = pattern.sub(" ", rest) if found else rest
        if found:
            values[kind] = frozenset(found)
    names = {_stem(found[0].lower()) for found in _NAME.finditer(rest)} - {""}
    if names:
        values["name"] = frozenset(names)
    return values, rest.lower()


def _numbers(text: str, pattern: re.Pattern[str], values: dict[str, frozenset[str]]) -> str:
    """Enter the numbers of a text by unit (`number km`), and return the text without them."""

    def enter(match: re.Match[str]) -> str:
        unit = _UNIT.match(text, match.end())
        kind = f"number {unit[1].rstrip('s')}" if unit else "number"
        number = _canonical("number", match[0].lower())
        values[kind] = values.get(kind, frozenset()) | {number}
        return " "

    return pattern.sub(enter, text)


def _canonical(kind: str, value: str) -> str:
    if kind in ("day", "email"):
        return str(DAYS.get(value, value))
    words = [word for word in _PART.findall(value) if word not in _NO_PART]
    words = [str(NUMBERS.get(word, word)) for word in words]
    if kind == "number":
        return "".join(words)
    if kind == "time" and words and words[0].isdigit():
        half_day = [
            str(int(words[0]) % 12),
            *(word for word in words[1:] if word.isdigit() and int(word)),
        ]
        return ":".join(half_day)
    return " ".join(sorted(word[:3] for word in words))


def _stem(word: str) -> str:
    word = word.removesuffix("'s").removesuffix("'")
    if word in _IGNORED or (len(word) == 1 and word.isascii()) or "'" in word:
        return ""
    with _stemming:
        return str(_stemmer.stemWord(word))


def _japanese(text: str) -> list[str]:
    return [pair[0] for run in _JAPANESE.finditer(text) for pair in _HAN.finditer(run[0])]
