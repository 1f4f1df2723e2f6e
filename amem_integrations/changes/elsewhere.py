"""Pure: from which notes the words of each text on a note may come.

A text has its words from the notes that were shown to the model when it wrote that text, not from those that were
shown when it wrote another one on the same note.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ..notes import Change, Note
from .edits import ENTRY, LINK, SUPERSEDED
from .quote_matching import Fragments, own_words
from .undo import fields_of

ALL = ""  # stands for all texts on a note


class Elsewhere:
    """What each text on a note can have from that note and from others.

    A text is named by the change that made it, a relation and its reason by the target of the link.
    """

    def __init__(self) -> None:
        """Start without any note."""
        self._ids: defaultdict[str, defaultdict[str, set[str]]]
        self._ids = defaultdict(lambda: defaultdict(set))
        self._known: dict[frozenset[str], Fragments] = {}
        self.notes: Mapping[str, Note] = {}  # to be set before `words` is asked

    def add(self, made: Change, others: Collection[str]) -> None:
        """Take up that what a change wrote on its note may have words from others."""
        for text in _texts_of(made):
            self._ids[made.note_id][text] |= {made.note_id, *others}

    def add_all(self, note_id: str, others: Collection[str]) -> None:
        """Take up that all on a note may have words from others."""
        self._ids[note_id][ALL] |= {note_id, *others}

    def note_ids(self) -> set[str]:
        """Return the notes of which something is known."""
        return set(self._ids)

    def named(self) -> set[str]:
        """Return all notes that the words may come from."""
        return {i for texts in self._ids.values() for ids in texts.values() for i in ids}

    def words(self, note_id: str, text: str = ALL) -> Fragments | None:
        """Return the words for a text on a note; None: nothing was said of it."""
        texts: Mapping[str, set[str]] = self._ids.get(note_id, {})
        if (named := texts.get(ALL, texts.get(text))) is None:
            return None
        ids = frozenset(self.notes.keys() & named)
        if ids not in self._known:
            said = (part for i in ids for part in own_words(self.notes[i]))
            self._known[ids] = Fragments(said)
        return self._known[ids]


def _texts_of(made: Change) -> Iterator[str]:
    yield made.id
    for name, step in fields_of(made).items():
        if name.startswith((ENTRY, LINK)):
            yield name.partition(":")[2]
        elif name.startswith(SUPERSEDED) and step["after"]:
            yield step["after"]["change"]


def text_named(part: Mapping[str, Any], name: str) -> str | None:
    """Return which text a part of the data of a record is about, as `Elsewhere` names it; None: it does not say."""
    if name.startswith(LINK):
        return name.removeprefix(LINK)
    return part.get("change") or part.get("target")
