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
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Literal

# Read here, since an event loop may be running later.
_FILE = Path(__file__).with_name("kind_words.json")
_WORDS: Mapping[str, Mapping[str, Any]] = json.loads(_FILE.read_text(encoding="utf-8"))
Kind = Literal["statement", "question", "filler"]

# Names of the locale would have each machine embed other texts.
MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
CALENDAR = {name.lower() for name in (*WEEKDAYS, *MONTHS, *(f"{day}s" for day in WEEKDAYS))}
MOST_CHARS = 2000  # a longer text says something
MOST_FILLER = 300
BARE_WORDS = 3
LEAST_CLAUSE = 3  # words that can state something; fewer call somebody, or point somewhere

LEAST_LETTERS = 3  # of a telling word
STEM = 5  # letters that inflections of a word share, about
_ENDING = re.compile(r"(?<=...)(?:ings?|ed|es|e|s)$")  # that tells "moved" from "move"

_QUESTION_MARKS = "?\uff1f\u061f\u2e2e\u055e\u1367\ua60f\ufe56\u2047\u2048\u2049\u037e"
_MARKS = f"。！｡।॥۔…{_QUESTION_MARKS}"
# A point or a mark inside a number or an abbreviation ends no sentence.
_SENTENCE = re.compile(rf"(?:[^.!\n{_MARKS}]|\.(?=\w))*(?:[.!{_MARKS}]+|\n|$)")
_CLAUSE = re.compile(r"[,，、،;；:：—–¿]|\s-\s")
_GREEK = re.compile("[\u0370-\u03ff\u1f00-\u1fff]")
UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0e7f]")
_DIGIT = re.compile(r"\d")
_ASCII_GAP = re.compile(r"[^a-z0-9']+")
_REPEATED = re.compile(r"(\w)\1{2,}")
_LAUGH = re.compile(
    r"(?:a?(?:ha){2,}h?|(?:he){2,}|(?:хa|ха){2,}|ه{3,}|ㅋ+|ㅎ+|w{2,}|哈+|呵+)(?= |$)"
)
_THERE_IS = re.compile(r"\b(?:is|are|was|were) there\b|\bthere (?:is|are|was|were)\b|\bthere's\b")


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
    return any(map(_has_mark, _sentences(text[-MOST_CHARS:])[-1:]))


def _sentences(text: str) -> list[str]:
    if _GREEK.search(text):
        text = text.replace(";", "?")
    return [one for one in _SENTENCE.findall(text) if one.strip()]


def _is_filler(text: str) -> bool:
    """Return whether there is nothing in a text but emoji, marks and words of the lists."""
    if len(text) > MOST_FILLER or _DIGIT.search(text):
        return False
    words = words_of(text)
    return not words or any(_are_fillers(_REPEATED.sub(kept, words)) for kept in (r"\1\1", r"\1"))


def _are_fillers(words: str) -> bool:
    """Return whether words are one filler after the other.

    "Bye bye" is one filler or two: a pattern for all of a text would try two ways for each.
    """
    reached = {0}  # the places where a filler may begin, each of which is looked at once
    for start in range(len(words)):
        for end in _ends_of_fillers(words, start) if start in reached else ():
            reached |= {end, end + 1} if words[end : end + 1] == " " else {end}
    return len(words) in reached


def _ends_of_fillers(words: str, start: int) -> list[int]:
    """Return the places where a filler that begins at a place may end."""
    spaced, unspaced, longest = _fillers()
    laugh = _LAUGH.match(words, start)
    ends = [laugh.end()] if laugh else []
    for end in range(start + 1, min(start + longest, len(words)) + 1):
        phrase, is_whole = words[start:end], words[end : end + 1] in ("", " ")
        if phrase in unspaced or (is_whole and phrase in spaced):
            ends.append(end)
    return ends


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
    """Return whether a sentence asks, and says nothing besides: "Did you know I moved?", "I moved, can you help?"."""
    words = words_of(sentence)
    opens = _found("ask_unmarked", words) or words.endswith(_phrases("end", unspaced=True))
    return bool(_has_mark(sentence) or opens) and not _states(sentence, words)


def _has_mark(sentence: str) -> bool:
    return sentence.rstrip(" \t\"'»”’)!.…\u3000").endswith(tuple(_QUESTION_MARKS))


def _states(sentence: str, words: str) -> bool:
    """Return whether a question also says something, in words of its own or a clause."""
    if told := _found("told", words):
        rest = f"{words[: told.start()]}{words[told.end() :]}".strip()
        if not _found("ask", rest):
            return number_of_words(rest) >= LEAST_CLAUSE - 1
    if any(f" {reason} " in f" {words} " for reason in _phrases("reason", unspaced=False)):
        return True
    clauses = [clause for one in _CLAUSE.split(sentence) if (clause := words_of(one))]
    if len(clauses) > 1 and clauses[-1] in _phrases("tag", unspaced=False):
        return any(_found("subject", clause) for clause in clauses)
    asking = [bool(_found("ask", clause)) for clause in clauses]
    if asking == [False]:  # "I moved to Rome?"
        return number_of_words(words) >= LEAST_CLAUSE and bool(_found("subject", words))
    # The last clause asks, if no other does.
    first = asking.index(True) if True in asking else len(clauses) - 1
    return any(
        number_of_words(clause) >= LEAST_CLAUSE
        and (_found("subject", clause) if number > first else not _found("if", clause))
        for number, clause in enumerate(clauses)
        if number != first
    )


def points_back(text: str) -> bool:
    """Return whether a question can only be understood by what was said before.

    Such a question has a pronoun and no name, goes on with a word like "and", or is made of nothing but question words.
    """
    words = words_of(text[:MOST_CHARS])
    if not words or kind_of(text) == "filler":
        return False
    # The language of which the text has most words; the first one, English, in doubt.
    own = max(_languages(), key=lambda one: len(one.held(words, one.words)))
    if f"{words} ".startswith(own.more) or (
        not own.unspaced and own.asking.issuperset(words.split())
    ):
        return True
    points = own.held(_THERE_IS.sub(" ", words), own.points)
    names = {name for sentence in _sentences(text) for name in names_in(sentence)} - CALENDAR
    return bool(points) and not (own.tells_names and names)


def names_in(text: str) -> list[str]:
    """Return the words with a capital, after the first one, that are no function words."""
    names = [words_of(word) for word in text.split()[1:] if word.strip("\"'(«“¿¡")[:1].isupper()]
    return [name for name in names if len(name) > 1 and name not in function_words()]


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
        self.more = tuple(phrase if self.unspaced else f"{phrase} " for phrase in lists["more"])

        def words(*keys: str) -> frozenset[str]:
            return frozenset(" ".join(p for key in keys for p in lists.get(key, ())).split())

        self.words, self.points = words(*lists), words("points")
        self.asking = words("ask", "small", "lead", "points")

    def held(self, words: str, known: frozenset[str]) -> set[str]:
        """Return those of the known words that a text has."""
        if self.unspaced:
            return {word for word in known if word in words}
        return set(known.intersection(words.split()))


@cache
def _languages() -> tuple[_Language, ...]:
    return tuple(_Language(name, fields) for name, fields in _WORDS.items())


@cache
def function_words() -> frozenset[str]:
    """Return words that questions are made of in any language, whatever they are about."""
    fields = ("lead", "ask", "ask_unmarked", "told", "subject", "reason", "if", "small")
    return frozenset(" ".join(p for f in fields for p in _phrases(f, unspaced=False)).split())


@cache
def _phrases(field: str, *, unspaced: bool) -> tuple[str, ...]:
    """Return the phrases of all languages, the longest first, as `words_of` gives them."""
    some = [one for one in _WORDS.values() if one.get("unspaced", False) is unspaced]
    phrases = {words_of(phrase) for one in some for phrase in one.get(field, ())}
    return tuple(sorted(phrases, key=len, reverse=True))


@cache
def _fillers() -> tuple[frozenset[str], frozenset[str], int]:
    """Return the fillers of languages with spaces between words, those of others, and the length of the longest."""
    spaced, unspaced = (frozenset(_phrases("filler", unspaced=one)) for one in (False, True))
    return spaced, unspaced, max(map(len, spaced | unspaced))


@cache
def _pattern(field: str) -> re.Pattern[str]:
    lead, spaced, unspaced = (
        "|".join(map(re.escape, _phrases(name, unspaced=one)))
        for name, one in (("lead", False), (field, False), (field, True))
    )
    return re.compile(rf"^(?:(?:{lead}) )*(?:{spaced})(?= |$)" + (unspaced and f"|{unspaced}"))


def _found(field: str, words: str) -> re.Match[str] | None:
    """Return a phrase at the start of a text, after words like "so" and "hey"; without spaces between words, anywhere."""
    return _pattern(field).search(words)


@lru_cache(maxsize=4096)
def telling_words(text: str) -> frozenset[str]:
    """Return the stems of the words of a text that are no function words, as far as their first letters tell."""
    small = function_words()
    words = [word.removesuffix("'s") for word in words_of(text).split() if word not in small]
    return frozenset(part for word in words if word not in small for part in _pieces(word) if part)


def _pieces(word: str) -> list[str]:
    """Return the beginning of a word; of a script without spaces, every two characters."""
    if word[:1] >= "\u3040":  # kana, Han and Hangul begin here
        return [word[n : n + 2] for n in range(max(len(word) - 1, 1))]
    return [_ENDING.sub("", word)[:STEM]] if len(word) >= LEAST_LETTERS else []
