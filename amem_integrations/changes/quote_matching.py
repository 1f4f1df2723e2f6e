"""Pure: whether a text quotes another one that is gone, and which texts of a record a model wrote."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from ..kinds import DERIVED
from ..notes import RELATIONS, ContextEntry, Note
from ..prompts import PROMPT_TEXTS

# Where the words of a model stand in the data of a record.
WRITTEN = frozenset({"text", "keywords", "tags", "reason", "relation"})
# A quote may have been cut in the middle of a word; shorter runs are common to many words.
RUN = 6
# Scripts that do not part words by spaces: Thai to Burmese, Khmer, kana to CJK, Hangul, their extensions.
_UNSPACED = (
    (0x0E00, 0x109F),
    (0x1780, 0x17FF),
    (0x3040, 0x9FFF),
    (0xAC00, 0xD7AF),
    (0x20000, 0x3FFFF),
)
_PAIR = 2
_ASCII_WORD = re.compile("[a-z0-9]+")


class Fragments:
    """The words of a text, and the runs of characters that long words are made of."""

    def __init__(self, texts: Iterable[str]) -> None:
        """Take texts apart."""
        self._words: set[str] = set()
        self._runs: set[str] = set()
        for text in texts:
            for word in _words(text):
                self._words.add(word)
                self._runs.update(word[i : i + RUN] for i in range(len(word) - RUN + 1))

    def __bool__(self) -> bool:
        """Return whether there is any word."""
        return bool(self._words)

    def minus(self, other: Fragments) -> Fragments:
        """Return what is not in the other text."""
        rest = Fragments(())
        rest._words = self._words - other._words
        rest._runs = self._runs - other._runs
        return rest

    def shares(self, other: Fragments) -> bool:
        """Return whether the texts share a word or a run of characters."""
        return not (self._words.isdisjoint(other._words) and self._runs.isdisjoint(other._runs))


def texts_of(note: Note) -> tuple[str, str]:
    """Return what a note says. What a model made of it goes with the note, and is not looked for elsewhere."""
    return note.content, note.speaker or ""


def own_words(note: Note) -> tuple[str, ...]:
    """Return what a note says that is its own; all words of a derived note are those of others."""
    return () if note.kind in DERIVED else texts_of(note)


def said_by_others(note: Note) -> tuple[str, ...]:
    """Return what a derived note says: its own entry tells who wrote it, and so of which notes."""
    return texts_of(note) if note.kind in DERIVED else ()


def texts_in(entry: ContextEntry) -> tuple[str, ...]:
    """Return the texts of a context entry."""
    return (entry.text, *entry.keywords, *entry.tags)


def is_quote(text: str, gone: Fragments, elsewhere: Fragments) -> bool:
    """Return whether a text shares something with `gone` that it cannot have from elsewhere."""
    shared = Fragments([text]).minus(elsewhere)
    return bool(shared) and shared.shares(gone)


def _words(text: str) -> Iterable[str]:
    """Yield words: letters, digits and their marks in a row; in unspaced scripts every two neighbours."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    if plain.isascii():
        yield from _ASCII_WORD.findall(plain)
        return
    for (is_word, is_unspaced), characters in groupby(plain, key=_kind):
        word = "".join(characters)
        if is_word and not is_unspaced:
            yield word
        elif is_word:
            yield from (word[i : i + _PAIR] for i in range(max(1, len(word) - _PAIR + 1)))


def _kind(character: str) -> tuple[bool, bool]:
    """Return whether a character is part of a word, and of one in an unspaced script."""
    return _is_part_of_word(character), _is_unspaced(character)


def _is_part_of_word(character: str) -> bool:
    return unicodedata.category(character)[0] in "LNM"


def _is_unspaced(character: str) -> bool:
    code = ord(character)
    return code >= _UNSPACED[0][0] and any(first <= code <= last for first, last in _UNSPACED)


def written_texts(value: Any, name: str = "") -> Iterable[str]:  # noqa: ANN401 - JSON values
    """Yield the texts of a record that a model wrote."""
    if isinstance(value, str):
        if name in WRITTEN and value:
            yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from written_texts(inner, key)
    elif isinstance(value, Sequence):
        for inner in value:
            yield from written_texts(inner, name)


def without_quotes_in(value: Any, goes: Callable[[str], bool], name: str = "") -> Any:  # noqa: ANN401 - JSON values
    """Return the data of a record without the texts of a model that have to go."""
    if isinstance(value, str):
        return "" if name in WRITTEN and value not in RELATIONS and goes(value) else value
    if isinstance(value, Mapping):
        return {key: without_quotes_in(inner, goes, key) for key, inner in value.items()}
    if isinstance(value, Sequence):
        kept = [without_quotes_in(inner, goes, name) for inner in value]
        return [inner for inner in kept if inner != ""] if name in ("keywords", "tags") else kept
    return value


FROM_PROMPTS = Fragments(PROMPT_TEXTS)  # anybody may have these words
