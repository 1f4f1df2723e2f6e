"""Of which wordings a text was made: found when the text is written, by the words that it shares with what was shown.

The sources of a text are its own notes, and each text in front of the model with which it shares a telling word that
its own notes do not have. A text that was made of others itself brings its sources along. So nobody has to compare words
later, when a note is deleted; `docs/adr/0022-sources-of-a-text.md` says what this takes and what it leaves.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

from .. import texts
from ..decisions import Source
from ..kinds import telling_words
from ..notes import Note

# A number is known by all its digits, also within a word: "zanzibar4711" is not "zanzibar12".
_NUMBER = re.compile(r"\d{3,}")


class SourceFinder:
    """Knows the texts that stood in front of a model, and finds those of which another one was made."""

    def __init__(self) -> None:
        self._by_word: defaultdict[str, set[Source]] = defaultdict(set)
        self._words: dict[Source, frozenset[str]] = {}
        self._names: set[str] = set()

    def show(self, notes: Iterable[Note], *, contexts: bool = True) -> SourceFinder:
        """Take the contents of notes, and their contexts too unless the model was shown the contents only."""
        for note in notes:
            wording = Source(note.id, note.rev)
            self._names |= telling_words(note.speaker or "")
            if wording not in self._words:
                self._index(self._words_of(note), [wording])
            for entry in note.contexts if contexts else ():
                words = _telling(" ".join((entry.text, *entry.keywords, *entry.tags)))
                self._index(words, [wording, *(Source(*each) for each in entry.sources)])
        return self

    def sources_of(self, words: Iterable[str], own: Iterable[Note]) -> tuple[Source, ...]:
        """Return the wordings that a text was made of which is about its own notes, sorted.

        Names of speakers tell nothing: in a conversation nearly every text has them.
        """
        notes = list(own)
        known = self._names.union(*map(self._words_of, notes))
        found = {Source(note.id, note.rev) for note in notes}
        for word in _telling(" ".join(words)) - known:
            found |= self._by_word.get(word, set())
        return tuple(sorted(found))

    def _index(self, words: Iterable[str], sources: Iterable[Source]) -> None:
        for word in words:
            self._by_word[word].update(sources)

    def _words_of(self, note: Note) -> frozenset[str]:
        """Return the telling words of a content; the day of a note is no secret of another one."""
        wording = Source(note.id, note.rev)
        if wording not in self._words:
            when = f"{texts.weekday(note.when)} {texts.day(note.when)}"
            self._words[wording] = _telling(f"{note.content} {when}")
        return self._words[wording]


def _telling(text: str) -> frozenset[str]:
    return telling_words(text) | frozenset(_NUMBER.findall(text))
