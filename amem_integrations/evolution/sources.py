"""Sources: the wordings of which a text was made, found when the text is written, by words that it shares with shown texts.

The sources of a text are its own notes, and each text in front of the model with which it shares a telling word that
its own notes do not have. A text that was made of others itself brings its sources along. So nobody has to compare words
later, when a note is deleted; `docs/adr/0022-sources-of-a-text.md` says what this takes and what it leaves.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain

from .. import texts
from ..kinds import telling_words, words_of
from ..notes import ContextEntry, Note, Wording
from ..plans import ANSWERS, FOLLOWS, REPEATS
from ..repetition import PERSONS, WORDS

# Words that say little of what a text is about, whoever says them.
_LISTS = (WORDS[name] for name in ("common", "function", "prepositions"))
COMMON = telling_words(" ".join(PERSONS.keys() | set().union(*_LISTS)))
# A number, or a word with one: "zanzibar4711" is not "zanzibar12". In a script without spaces it is a part of a word.
# A long word without a number is not looked through again from each of its letters.
_LETTER = r"[^\W\u3040-\U0010ffff]"
_CODE = re.compile(rf"(?:(?<!{_LETTER}){_LETTER}*)?\d{_LETTER}*")
LEAST_CODE = 3  # characters; "2 cups" are no secret
RUN = 4  # words in a row that are a quote, however common each of them is
Mark = str | tuple[str, ...]  # by which a text is known again: a telling word, or a run of words

# The relations that prompts explain and rules give.
EXPLAINED = set(map(words_of, (
    ANSWERS, FOLLOWS, REPEATS, "continues", "explains", "results_from", "same_event", "same_subject", "possibly_same",
    "same_topic", "related",
)))  # fmt: skip


class SourceFinder:
    """Knows the texts that stood in front of a model, and finds those of which another one was made."""

    def __init__(self) -> None:
        self._notes: dict[Wording, Note] = {}
        self._entries: dict[Wording, Sequence[ContextEntry]] = {}
        self._names: frozenset[Mark] = frozenset()

    def show(self, notes: Iterable[Note], *, contexts: bool = True) -> SourceFinder:
        """Take the contents of notes, and their contexts too unless the model was shown the contents only."""
        for note in notes:
            wording = Wording(note.id, note.rev)
            self._notes[wording] = note
            self._names |= _marks_of(note.speaker or "")
            if contexts:
                self._entries.setdefault(wording, note.contexts)
        return self

    def sources_of(self, words: Iterable[str], own: Iterable[Note]) -> tuple[Wording, ...]:
        """Return the wordings that a text was made of which is about its own notes, sorted.

        A word is looked for in the contents of its own notes, then in their contexts, then in other contents, then in
        other contexts. Names of speakers tell nothing: in a conversation nearly every text has them.
        """
        notes = list(own)
        found = {Wording(note.id, note.rev) for note in notes}
        left = _marks_of(" ".join(words)) - COMMON - self._names
        left = left.difference(*map(_said_in, notes))
        for entry in chain.from_iterable(note.contexts for note in notes) if left else ():
            if shared := left & _written_in(entry):
                found.update(entry.sources)
                left -= shared
        said = {one: left & _said_in(note) for one, note in self._notes.items()} if left else {}
        found.update(one for one, shared in said.items() if shared)
        left = left.difference(*said.values())
        for wording, entries in self._entries.items() if left else ():
            for entry in entries:
                if not left.isdisjoint(_written_in(entry)):
                    found.update([wording, *entry.sources])
        return tuple(sorted(found))

    def quotes(self, relation: str) -> bool:
        """Return whether a relation has a telling word of a shown text; a relation that prompts explain has none."""
        said = words_of(relation)
        if said in EXPLAINED or not (words := _telling(said.split()) - COMMON - self._names):
            return False
        entries = chain.from_iterable(self._entries.values())
        shown = chain(map(_said_in, self._notes.values()), map(_written_in, entries))
        return any(not words.isdisjoint(marks) for marks in shown)


def _said_in(note: Note) -> frozenset[Mark]:
    """Return the marks of a content; the day of a note is no secret of another one."""
    return _marks_of(f"{texts.weekday(note.when)} {texts.day(note.when)}") | _marks_of(note.content)


def _written_in(entry: ContextEntry) -> frozenset[Mark]:
    return _marks_of(" ".join((entry.text, *entry.keywords, *entry.tags)))


@lru_cache(maxsize=1024)  # many texts are shown again and again while a batch is linked
def _marks_of(text: str) -> frozenset[Mark]:
    """Return the marks of a text: its telling words, and its runs of any words."""
    words = words_of(text).split()
    return _telling(words).union(zip(*(words[n:] for n in range(RUN)), strict=False))


def _telling(words: Iterable[str]) -> frozenset[Mark]:
    """Return the stems of telling words; what has a digit, such as a number or a code, is no other one for its beginning."""
    return frozenset[Mark]().union(*map(_stems, words))


@lru_cache(maxsize=4096)
def _stems(word: str) -> frozenset[str]:
    codes = frozenset(code for code in _CODE.findall(word) if len(code) >= LEAST_CODE)
    return codes | telling_words(_CODE.sub(" ", word) if codes else word)
