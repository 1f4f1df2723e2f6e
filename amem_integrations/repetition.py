"""Pure: whether two texts say the same, as far as words can tell. In doubt they do not.

Vectors of texts that differ in one number, name or negation are nearly the same, so a cosine would take for a repetition
what says something else. Texts say the same here if they have the same phrases, in any order: the words that tell
nothing by themselves are left out, and a few synonyms are one word. The word lists are English; of texts in other
languages only equal ones pass.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Hashable
from functools import lru_cache
from pathlib import Path
from typing import Any

from .notes import Note

_WORD = re.compile(r"[+-]?\d+(?:[.,:/-]\d+)*|[^\W\d_]+(?:'[^\W\d_]+)*")
_PART = re.compile(r"[,;:.!]\s")
_APOSTROPHES = dict.fromkeys(
    map(ord, "\N{RIGHT SINGLE QUOTATION MARK}\N{LEFT SINGLE QUOTATION MARK}`"), "'"
)

_FILE = Path(__file__).with_name("repetition_words.json")
_LISTS: dict[str, Any] = json.loads(_FILE.read_text(encoding="utf-8"))
WORDS = {name: frozenset(text.split()) for name, text in _LISTS.items() if isinstance(text, str)}
_COUNTED = "zero one two three four five six seven eight nine ten eleven twelve"
PERSONS = {word: person for person, text in _LISTS["persons"].items() for word in text.split()}
BORDERS = PERSONS.keys() | WORDS["prepositions"] | WORDS["joins"] | WORDS["articles"]  # of phrases
# By a word the one that stands for the word.
SAME = {word: str(number) for number, word in enumerate(_COUNTED.split())} | PERSONS
SAME |= {word: group.split()[0] for group in _LISTS["synonyms"] for word in group.split()}


def says_same(one: Note, other: Note) -> bool:
    """Return whether nothing in the words of two notes tells what they say apart.

    One speaker says them, and on another day without a word such as "yesterday".
    """
    if voice(one) != voice(other) or one.passages or other.passages:
        return False
    if one.when.date() != other.when.date() and not WORDS["relative"].isdisjoint(
        _words(one.content)
    ):
        return False
    return is_reworded(one.content, other.content)


def voice(note: Note) -> Hashable:
    """Return who says a note: speaker and source, and of what was imported also from where."""
    place = repr(sorted(note.metadata.items())) if note.source == "import" else None
    return note.speaker, note.source, place


def is_reworded(one: str, other: str) -> bool:
    """Return whether two texts differ in nothing but their wording."""
    if normal(one) == normal(other):
        return True
    if not (_is_english(one) and _is_english(other)):
        return False
    return _signs(one) == _signs(other) and _phrases(one) == _phrases(other)


def normal(text: str) -> str:
    """Return a text without what makes no difference: case, marks of quotation, spaces and a full stop."""
    plain = unicodedata.normalize("NFKC", text).translate(_APOSTROPHES)
    return " ".join(plain.casefold().split()).rstrip(".! ")


@lru_cache(maxsize=4096)
def _words(text: str) -> tuple[str, ...]:
    plain = unicodedata.normalize("NFKC", text).translate(_APOSTROPHES).casefold()
    found: list[str] = []
    for word in _WORD.findall(plain):
        if word.endswith("n't") or word == "cannot":
            found.append("not")
        elif "'" in word and word not in PERSONS:
            found += word.replace("'", " '").split()
        else:
            found.append(word)
    return tuple(found)


def _is_english(text: str) -> bool:
    letters = all(ord(c) < 0x250 or not c.isalpha() for c in text)  # noqa: PLR2004 - Latin
    return letters and (not WORDS["english"].isdisjoint(_words(text)) or "I" in text.split())


def _signs(text: str) -> list[str]:
    return sorted(c for c in text if unicodedata.category(c)[0] == "S" or c in "%#@&/?")


def _phrases(text: str) -> list[tuple[str, ...]]:
    """Return the phrases of a text, sorted: parts between commas, prepositions, persons and articles.

    "On Fridays I swim" and "I swim on Fridays" have the same; "Ann called Bob" and "Bob called Ann" have not.
    """
    phrases: list[list[str]] = []
    for part in _PART.split(text):
        phrases.append([])
        for word in _words(part):
            if word in BORDERS:
                phrases.append([])
            if word not in WORDS["function"] or word in PERSONS or word in WORDS["prepositions"]:
                phrases[-1].append(SAME.get(word, word))
    return sorted(tuple(phrase) for phrase in phrases if phrase)
