"""Pure: what kind of utterance a text is, by its shape first and short word lists second.

*Filler* says nothing worth remembering: greetings, thanks, farewells, bare reactions, emoji. It is told by being nothing
else: every word of it stands in a list, so a text with a name, a number, or any other word is never filler. A *question*
asks and states nothing; in doubt a text is a *statement*. Word lists are in `kind_words.json`; in a language without
one, a text without letters and digits is filler, and one that is nothing but clauses ending in a question mark a question.
"""

# ruff: noqa: RUF001 - marks of other scripts

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Literal

# Read here, since an event loop may be running later.
_WORDS = Path(__file__).with_name("kind_words.json").read_text(encoding="utf-8")
Kind = Literal["statement", "question", "filler"]

_DAYS = "monday tuesday wednesday thursday friday saturday sunday"
_MONTHS = "january february march april may june july august september october november december"
CALENDAR = frozenset([*_DAYS.split(), *(f"{day}s" for day in _DAYS.split()), *_MONTHS.split()])
MOST_CHARS = 2000  # a longer text says something
MOST_FILLER = 300
BARE_WORDS = 3
LEAST_CLAUSE = 3  # words that can state something; fewer call somebody, or point somewhere

LEAST_LETTERS = 3  # of a telling word
STEM = 5  # letters that inflections of a word share, about
ENDINGS = "ings?|ed|es|e|s"  # that tell "moved" from "move"
_ENDING = re.compile(rf"(?<=...)(?:{ENDINGS})$")

_QUESTION_MARKS = "?\uff1f\u061f\u2e2e\u055e\u1367\ua60f\ufe56\u2047\u2048\u2049\u037e"
_SENTENCE = re.compile(
    rf"[^.!。！｡।॥۔…\n{_QUESTION_MARKS}]*(?:[.!。！｡।॥۔…{_QUESTION_MARKS}]+|\n|$)"
)
# A point inside a number or an abbreviation ends no sentence.
_INNER_POINT = re.compile(r"(?<=\w)\.(?=\w)")
_CLAUSE = re.compile(r"[,，、،;；:：—–¿]|\s-\s")
_GREEK = re.compile("[\u0370-\u03ff\u1f00-\u1fff]")
UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0e7f]")
_DIGIT = re.compile(r"\d")
_ASCII_GAP = re.compile(r"[^a-z0-9']+")
_REPEATED = re.compile(r"(\w)\1{2,}")
_LAUGH = r"(?:a?(?:ha){2,}h?|(?:he){2,}|(?:хa|ха){2,}|ه{3,}|ㅋ+|ㅎ+|w{2,}|哈+|呵+)"


@lru_cache(maxsize=4096)
def kind_of(text: str) -> Kind:
    """Return the kind of a text."""
    if len(text) > MOST_CHARS:
        return "statement"
    if _is_filler(text):
        return "filler"
    telling = [one for one in _sentences(text) if not _is_filler(one)]
    return "question" if telling and all(map(_asks, telling)) else "statement"


def is_question(text: str) -> bool:
    """Return whether the last sentence of a text asks something."""
    last = [one for one in _sentences(text[-MOST_CHARS:]) if one.strip()]
    return bool(last) and _has_mark(last[-1])


def _sentences(text: str) -> Iterator[str]:
    held = _INNER_POINT.sub("\u2024", text)
    if _GREEK.search(text):
        held = held.replace(";", "?")
    yield from (one for one in _SENTENCE.findall(held) if one.strip())


def _is_filler(text: str) -> bool:
    """Return whether there is nothing in a text but emoji, marks and words of the lists."""
    if len(text) > MOST_FILLER or _DIGIT.search(text):
        return False
    words = words_of(text)
    if not words:
        return True
    return any(_fillers().fullmatch(_REPEATED.sub(kept, words)) for kept in (r"\1\1", r"\1"))


def says(text: str, phrase: str) -> bool:
    """Return whether a text has all the words of a phrase, one after the other; of one without words it has none."""
    wanted, held = words_of(phrase), words_of(text)
    if not wanted or UNSPACED.search(wanted):
        return bool(wanted) and wanted in held
    return f" {wanted} " in f" {held} "


def words_of(text: str) -> str:
    """Return the words of a text in lower case, with one space between; marks and emoji are left out."""
    if text.isascii():
        words = _ASCII_GAP.sub(" ", text.lower()).split()
        return " ".join([word for word in words if word != "'"] if "'" in words else words)
    plain = unicodedata.normalize("NFKC", text).casefold().replace("\u2019", "'")
    kept = "".join(
        char if char == "'" or unicodedata.category(char)[0] in "LMN" else " " for char in plain
    )
    # Marks alone, such as the selector of an emoji, are no word.
    return " ".join(word for word in kept.split() if any(map(str.isalnum, word)))


def is_bare(text: str) -> bool:
    """Return whether a text has so few words that as a reply it says nothing without the question: "Yes, I do."."""
    return len(words_of(text).split()) <= BARE_WORDS


def _asks(sentence: str) -> bool:
    words = words_of(sentence)
    if _has_mark(sentence):
        return not _states(sentence, words)
    opens = _opening("ask_unmarked").match(words) or _unspaced("end", r"$").search(words)
    return bool(opens) and not _states(sentence, words)


def _has_mark(sentence: str) -> bool:
    return sentence.rstrip(" \t\"'»”’)!.…\u3000").endswith(tuple(_QUESTION_MARKS)) or (
        bool(_GREEK.search(sentence)) and sentence.rstrip().endswith(";")
    )


def _states(sentence: str, words: str) -> bool:
    """Return whether a question also says something: "Did you know I moved?", "I moved, can you help?"."""
    told = _opening("told").match(words)
    if told and not _opening("ask").match(words[told.end() :].lstrip()):
        return number_of_words(words[told.end() :]) >= LEAST_CLAUSE - 1
    asked = _unspaced("ask", "").search(words)
    if _unspaced("told", "").search(words) and not asked:
        return True
    if _anywhere("reason").search(words):
        return True
    return _clauses_state([clause for one in _CLAUSE.split(sentence) if (clause := words_of(one))])


def _clauses_state(clauses: list[str]) -> bool:
    """Return whether a clause of a question is no question: the last of them asks, if no other does."""
    if len(clauses) > 1 and _anywhere("tag").fullmatch(clauses[-1]):
        return _anywhere("subject").search(" ".join(clauses)) is not None
    asked = False
    for number, clause in enumerate(clauses):
        asks = _opening("ask").match(clause) or _unspaced("ask", "").search(clause)
        subject = _opening("subject").match(clause)
        if asked:
            if subject or (number and _opening("relative").match(clause)):
                return number_of_words(clause) >= LEAST_CLAUSE
        elif asks:
            asked = True
        elif number == len(clauses) - 1:
            return bool(subject) and number == 0
        elif number_of_words(clause) >= LEAST_CLAUSE and not _opening("if").match(clause):
            return True
    return False


def points_back(text: str) -> bool:
    """Return whether a question can only be understood by what was said before.

    Such a question has a pronoun and no name, goes on with a word like "and", or is made of nothing but question words.
    """
    words = words_of(text[:MOST_CHARS])
    if not words or kind_of(text) == "filler":
        return False
    own = _language(words)
    if own.more.match(words) or own.is_empty(words):
        return True
    return own.points(words) and not (own.tells_names and _has_name(text, own))


def _has_name(text: str, language: _Language) -> bool:
    """Return whether a word after the first has a capital, and is neither a weekday nor a month."""
    later = [word for sentence in _sentences(text) for word in sentence.split()[1:]]
    names = [words_of(word) for word in later if word.strip("\"'(«“¿¡")[:1].isupper()]
    return any(len(n) > 1 and n not in language.words and n not in CALENDAR for n in names)


def number_of_words(text: str) -> int:
    """Return the number of words of a text; two characters of a script without spaces are about one."""
    return max(len(text.split()), len(UNSPACED.findall(text)) // 2)


class _Language:
    """The words of one language that tell whether a question points back."""

    def __init__(self, name: str, fields: Mapping[str, Any]) -> None:
        self.unspaced = bool(fields.get("unspaced", False))
        self.tells_names = name != "de"  # where every noun has a capital, a capital tells nothing
        lists = {
            key: tuple(map(words_of, value)) for key, value in fields.items() if key != "unspaced"
        }
        self._points = frozenset(lists["points"])
        self.words = frozenset(
            word for field in lists.values() for p in field for word in p.split()
        )
        gap = "" if self.unspaced else r"(?= |$)"
        self.more = re.compile(rf"(?:{'|'.join(map(re.escape, lists['more']))}){gap}")
        asking = (
            word
            for field in ("ask", "small", "lead")
            for p in lists.get(field, ())
            for word in p.split()
        )
        self._asking = frozenset(asking) | self._points

    def points(self, words: str) -> bool:
        """Return whether a word of a text points to something that is not named in the text."""
        if self.unspaced:
            return any(point in words for point in self._points)
        told = _THERE_IS.sub(" ", words)
        return not self._points.isdisjoint(told.split())

    def is_empty(self, words: str) -> bool:
        """Return whether a text has none but question words."""
        return not self.unspaced and self._asking.issuperset(words.split())

    def share(self, words: str) -> int:
        """Return how many words of a text belong to the language."""
        if self.unspaced:
            return sum(word in words for word in self.words)
        return sum(word in self.words for word in words.split())


_THERE_IS = re.compile(r"\b(?:is|are|was|were) there\b|\bthere (?:is|are|was|were)\b|\bthere's\b")


@cache
def _languages() -> tuple[_Language, ...]:
    return tuple(_Language(name, fields) for name, fields in json.loads(_WORDS).items())


def _language(words: str) -> _Language:
    """Return the language of which a text has most words; the first one, English, in doubt."""
    return max(_languages(), key=lambda language: language.share(words))


@cache
def function_words() -> frozenset[str]:
    """Return words that questions are made of in any language, whatever they are about."""
    fields = ("lead", "ask", "ask_unmarked", "told", "subject", "reason", "if", "small")
    phrases = (re.sub(r"\\(.)", r"\1", p) for one in fields for p in _lists(one, unspaced=False))
    return frozenset(word for phrase in phrases for word in phrase.split())


@cache
def _lists(field: str, *, unspaced: bool) -> tuple[str, ...]:
    """Return the phrases of all languages, the longest first, as `words_of` gives them."""
    languages = [
        one for one in json.loads(_WORDS).values() if one.get("unspaced", False) is unspaced
    ]
    phrases = {words_of(phrase) for one in languages for phrase in one.get(field, ())}
    return tuple(sorted(map(re.escape, phrases), key=len, reverse=True))


@cache
def _fillers() -> re.Pattern[str]:
    spaced, unspaced = (_lists("filler", unspaced=one) for one in (False, True))
    unit = rf"(?:(?:{'|'.join([*spaced, _LAUGH])})(?= |$)|{'|'.join(unspaced)})"
    return re.compile(rf"{unit}(?: ?{unit})*")


@cache
def _opening(field: str) -> re.Pattern[str]:
    """Return a pattern of the phrases of languages with spaces at the start, after words like "so" and "hey"."""
    lead, phrases = ("|".join(_lists(one, unspaced=False)) for one in ("lead", field))
    return re.compile(rf"(?:(?:{lead}) )*(?:{phrases})(?= |$)")


@cache
def _anywhere(field: str) -> re.Pattern[str]:
    return re.compile(rf"(?:^| )(?:{'|'.join(_lists(field, unspaced=False))})(?= |$)")


@cache
def _unspaced(field: str, end: str) -> re.Pattern[str]:
    """Return a pattern of the phrases of languages without spaces, anywhere or at the end."""
    return re.compile(rf"(?:{'|'.join(_lists(field, unspaced=True))}){end}")


def telling_words(text: str) -> frozenset[str]:
    """Return the stems of the words of a text that are no function words, as far as their first letters tell."""
    small = function_words()
    words = [word.removesuffix("'s") for word in words_of(text).split() if word not in small]
    return frozenset(
        piece for word in words if word not in small for piece in _pieces(word) if piece
    )


def _pieces(word: str) -> list[str]:
    """Return the beginning of a word; of a script without spaces, every two characters."""
    if ord(word[0]) >= 0x3040:  # noqa: PLR2004 - kana, Han and Hangul begin here
        return [word[n : n + 2] for n in range(max(len(word) - 1, 1))]
    return [_ENDING.sub("", word)[:STEM]] if len(word) >= LEAST_LETTERS else []
