"""Pure: whether a text quotes another one that is gone, and which texts of a record a model wrote."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any

from ..kinds import FORM, function_words
from ..notes import RELATIONS, ContextEntry, Note
from ..prompts import PROMPT_TEXTS

# Where the words of a model stand in the data of a record.
WRITTEN = frozenset({"text", "keywords", "tags", "reason", "relation"})
# A quote may have been cut in the middle of a word; shorter runs are common to many words.
RUN = 6
TELLING = 4  # letters; shorter words stand next to each other by chance
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
    """The words of a text, and its runs: parts of long words, and two telling words next to each other."""

    def __init__(self, texts: Iterable[str]) -> None:
        """Take texts apart."""
        self._words: set[str] = set()
        self._runs: set[str] = set()
        for text in texts:
            words = list(_words(text))
            for word in words:
                self._words.add(word)
                self._runs.update(word[i : i + RUN] for i in range(len(word) - RUN + 1))
            self._runs.update(
                f"{one} {other}" for one, other in pairwise(words) if _tells(one) and _tells(other)
            )

    def __bool__(self) -> bool:
        """Return whether there is any word or run."""
        return bool(self._words or self._runs)

    def minus(self, other: Fragments) -> Fragments:
        """Return what is not in the other text."""
        rest = Fragments(())
        rest._words = self._words - other._words
        rest._runs = self._runs - other._runs
        return rest

    def shares(self, other: Fragments) -> bool:
        """Return whether the texts share a word or a run of characters."""
        return not (self._words.isdisjoint(other._words) and self._runs.isdisjoint(other._runs))


def texts_of(note: Note) -> tuple[str, ...]:
    """Return what a note says, with all else that a model is shown of it and that the user chose.

    What a model made of it goes with the note, and is not looked for elsewhere.
    """
    return note.content, note.speaker or "", note.thread or "", note.key or ""


def own_words(note: Note) -> tuple[str, ...]:
    """Return what a note says that is its own; all words of a form are those of others."""
    return () if note.kind == FORM else texts_of(note)


def texts_in(entry: ContextEntry) -> tuple[str, ...]:
    """Return the texts of a context entry."""
    return (entry.text, *entry.keywords, *entry.tags)


def is_quote(text: str, gone: Fragments, elsewhere: Fragments) -> bool:
    """Return whether a text shares something with `gone` that it cannot have from elsewhere."""
    return Fragments([text]).minus(elsewhere).shares(gone)


def _tells(word: str) -> bool:
    """Return whether a word says something together with the next: in "blue horse" and "12 34", not in "in the"."""
    if any(map(str.isdigit, word)) or _kind(word[0])[1]:
        return True
    return len(word) >= TELLING and word not in function_words()


def _words(text: str) -> Iterable[str]:
    """Yield words: letters, digits and their marks in a row; in unspaced scripts and of emoji every two neighbours."""
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
    """Return whether a character is part of a word, and of one in an unspaced script; emoji are like that."""
    category, code = unicodedata.category(character), ord(character)
    if category == "So":
        return True, True
    is_unspaced = code >= _UNSPACED[0][0] and any(a <= code <= b for a, b in _UNSPACED)
    return category[0] in "LNM", is_unspaced


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


def without_quotes_in(
    value: Any,  # noqa: ANN401 - JSON values
    goes: Callable[[str], bool],
    name: str = "",
    *,
    of: Callable[[Mapping[str, Any], str], Callable[[str], bool] | None] = lambda _part, _name: (
        None
    ),
) -> Any:  # noqa: ANN401 - JSON values
    """Return the data of a record without the texts of a model that have to go.

    `of` gives another test for a part of the data and the name that it stands under.
    """
    if isinstance(value, str):
        return "" if name in WRITTEN and value not in RELATIONS and goes(value) else value
    if isinstance(value, Mapping):
        goes = of(value, name) or goes
        return {key: without_quotes_in(inner, goes, key, of=of) for key, inner in value.items()}
    if isinstance(value, Sequence):
        kept = [without_quotes_in(inner, goes, name, of=of) for inner in value]
        return [inner for inner in kept if inner != ""] if name in ("keywords", "tags") else kept
    return value


FROM_PROMPTS = Fragments(PROMPT_TEXTS)  # anybody may have these words
