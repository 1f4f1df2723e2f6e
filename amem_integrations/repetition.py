"""Pure: whether two texts say the same, as far as words can tell. In doubt they do not.

Vectors of texts that differ in one number, name or negation are nearly the same, so a cosine alone takes for a
repetition what says something else. The words that these checks know are English; of texts in other languages only
equal ones pass.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from pathlib import Path
from typing import Any

from .notes import Note

_WORD = re.compile(r"[+-]?\d+(?:[.,:/-]\d+)*|[^\W\d_]+(?:'[^\W\d_]+)*")
_SUFFIX = re.compile(r"(?:ies|ied|ing|ed|es|s|e|y)$")
_APOSTROPHES = dict.fromkeys(
    map(ord, "\N{RIGHT SINGLE QUOTATION MARK}\N{LEFT SINGLE QUOTATION MARK}`"), "'"
)
_LONG = 4  # characters that are left of a word without its suffix


def _stem(word: str) -> str:
    short = _SUFFIX.sub("", word)
    return short if len(short) >= _LONG else word


_FILE = Path(__file__).with_name("repetition_words.json")
_LISTS: dict[str, Any] = json.loads(_FILE.read_text(encoding="utf-8"))
WORDS = {name: frozenset(text.split()) for name, text in _LISTS.items() if isinstance(text, str)}
_COUNTED = "zero one two three four five six seven eight nine ten eleven twelve"
NUMBERS = {word: str(number) for number, word in enumerate(_COUNTED.split())}
PERSONS = {word: person for person, text in _LISTS["persons"].items() for word in text.split()}
FUNCTION = WORDS["function"] | PERSONS.keys()
_BORDERS = ("prepositions", "joins", "articles")  # of phrases
SYNONYMS = [frozenset(map(_stem, words.split())) for words in _LISTS["synonyms"]]


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
    return text_difference(one.content, other.content) is None


def voice(note: Note) -> Hashable:
    """Return who says a note: speaker and source, and of what was imported also from where."""
    place = repr(sorted(note.metadata.items())) if note.source == "import" else None
    return note.speaker, note.source, place


def text_difference(one: str, other: str) -> str | None:
    """Return what tells two texts apart, None if it may be nothing but their wording."""
    if is_equal(one, other):
        return None
    if not (_is_english(one) and _is_english(other)):
        return "they are worded differently, and not in English"
    first, second = _words(one), _words(other)
    views = (what for what, view in _VIEWS.items() if view(first) != view(second))
    what = next(views, None) or _difference_in_form(one, other) or _contrast(first, second)
    return None if what is None else f"they differ in {what}"


def _difference_in_form(one: str, other: str) -> str | None:
    if _signs(one) != _signs(other):
        return "signs"
    if sorted(_names(one, other)) != sorted(_names(other, one)):
        return "names"
    return None if _is_same_order(one, other) else "the order of words"


def is_equal(one: str, other: str) -> bool:
    """Return whether two texts are the same but for case, spaces and a full stop."""
    return normal(one) == normal(other) and _names(one, other) == _names(other, one)


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
            found.append(NUMBERS.get(word, word))
    return tuple(found)


def _is_english(text: str) -> bool:
    words = _words(text)
    letters = all(ord(c) < 0x250 or not c.isalpha() for c in text)  # noqa: PLR2004 - Latin
    return letters and (not WORDS["english"].isdisjoint(words) or "I" in text.split())


def _among(name: str) -> Callable[[Sequence[str]], object]:
    return lambda text: sorted(word for word in text if word in WORDS[name])


def _persons(words: Sequence[str]) -> list[str]:
    found = [PERSONS[word] for word in words if word in PERSONS]
    return [p for n, p in enumerate(found) if n == 0 or p != found[n - 1]]


def _canonical(word: str) -> str:
    stem = _stem(word)
    return next((min(group) for group in SYNONYMS if stem in group), stem)


_VIEWS: dict[str, Callable[[Sequence[str]], object]] = {
    "numbers": lambda words: sorted(word for word in words if word[-1].isdigit()),
    "amounts": _among("amounts"),
    "dates": _among("dates"),
    "negation": _among("negations"),
    "certainty": _among("hedges"),
    "persons": lambda words: sorted(_persons(words)),
    "tense": lambda words: not WORDS["past"].isdisjoint(words),
}


def _signs(text: str) -> list[str]:
    return sorted(c for c in text if unicodedata.category(c)[0] == "S" or c in "%#@&/?")


def _names(text: str, other: str) -> list[str]:
    """Return the capitalised words in order, without those that stand in lower case in either text."""
    lower = {word for word in re.findall(r"[^\W\d_]+", f"{text} {other}") if word.islower()}
    found = re.findall(r"[^\W\d_]+", text)
    return [
        word.casefold()
        for word in found
        if word[0].isupper() and word.lower() not in lower and word.lower() not in FUNCTION
    ]


def _is_same_order(one: str, other: str) -> bool:
    """Return whether texts have what they share in one order, or consist of the same phrases in another order.

    "On Fridays I swim" and "I swim on Fridays" are the same; "Ann called Bob" and "Bob called Ann" are not.
    """
    first, second = ([_canonical(w) for w in _words(t) if w not in FUNCTION] for t in (one, other))
    shared = Counter(first) & Counter(second)
    first, second = ([word for word in text if word in shared] for text in (first, second))
    if first == second and _persons(_words(one)) == _persons(_words(other)):
        return True
    return _phrases(one) == _phrases(other)


def _phrases(text: str) -> list[tuple[str, ...]]:
    """Return the phrases of a text, sorted: parts between commas, prepositions, persons and articles."""
    phrases: list[list[str]] = []
    for part in re.split(r"[,;:.!]\s", text):
        phrases.append([])
        for word in _words(part):
            if word in PERSONS or any(word in WORDS[name] for name in _BORDERS):
                phrases.append([])
            if word in PERSONS:
                phrases[-1].append(PERSONS[word])
            elif word in WORDS["prepositions"] or word not in FUNCTION:
                phrases[-1].append(_canonical(word))
    return sorted(tuple(phrase) for phrase in phrases if phrase)


def _contrast(one: Sequence[str], other: Sequence[str]) -> str | None:
    """Return the words that stand against each other where all the rest is the same, or a tense."""
    first = [word for word in one if word not in FUNCTION]
    second = [word for word in other if word not in FUNCTION]
    steps = SequenceMatcher(None, first, second, autojunk=False).get_opcodes()
    changed = [step for step in steps if step[0] != "equal"]
    for kind, a, b, c, d in changed:
        if kind != "replace":
            continue
        pairs = list(zip(first[a:b], second[c:d], strict=False))
        if any(_stem(x) == _stem(y) and _is_past(x) != _is_past(y) for x, y in pairs):
            return "tense"
        if len(changed) == 1 and not all(_canonical(x) == _canonical(y) for x, y in pairs):
            return f"{' '.join(first[a:b])!r} and {' '.join(second[c:d])!r}"
    return None


def _is_past(word: str) -> bool:
    return word.endswith("ed")
