"""Documents of a loader or a pipeline in a memory: added, replaced, found by id, removed with their source.

A document that has an id replaces the one of that id; one without is known by its source, text and metadata, and added again
changes nothing. Nothing else is removed, unless `replace=True` asks for it. Each is one note, however long, in a thread of
its source. What is needed to know a document again is in `metadata[RECORD]`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from ..ids import derive, note_id
from ..memory import AgenticMemory
from ..notes import Note, NoteInput, check_namespace
from ..runtime import Meter, Progress, reporter

BATCH = 64  # documents stored at once
PAGE = 256  # notes looked up at once
RECORD = "_document"  # of a note's metadata: {"id", "source"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentInput:
    """A document, or a chunk that somebody else made of one."""

    text: str
    id: str | None = None
    source: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class DocumentReport:
    """The result of adding documents: their ids in order, and how many notes were new, changed, or removed.

    A document without text is not stored, and has the id "".
    """

    ids: list[str] = field(default_factory=list)
    added: int = 0
    changed: int = 0
    removed: int = 0


class Documents:
    """The documents in one namespace of a memory."""

    def __init__(self, memory: AgenticMemory, namespace: Sequence[str]) -> None:
        """Take a memory and whose documents they are.

        Raises:
            NamespaceError: The namespace is not a non-empty tuple of strings.
        """
        self.memory, self.namespace = memory, check_namespace(namespace)

    def add(
        self,
        documents: Iterable[DocumentInput],
        *,
        replace: bool = False,
        evolve: bool = False,
        progress: bool | Progress = False,
    ) -> DocumentReport:
        """Add documents, and return what that did. After an interruption the same call goes on where it was.

        Args:
            documents: They are taken from it in batches, so that it may be a loader that yields them.
            replace: Remove what their sources held before and is not among them now.
            evolve: Put notes of a conversation, which are constructed, linked and evolve; False puts documents, which
                are found by words and meaning, and which no model reads, links or declares outdated.
            progress: True logs how far it is; a function is called with (documents added, documents in all), of
                which the second is not known before the end if `documents` has no length.

        Raises:
            InvalidInputError: A document cannot be stored, such as one that is longer than
                `MemoryConfig.max_content_chars`; those of earlier batches are.
            ModelUnavailableError: Only with `on_model_error="raise"`; the raw notes are stored.
        """
        report, seen, sources = DocumentReport(), Counter[str](), dict[str, str | None]()
        meter = Meter(reporter(progress), len(documents) if isinstance(documents, Sized) else 0)
        rest = iter(documents)
        while batch := list(islice(rest, BATCH)):
            made = [_note(one, seen, evolve=evolve) for one in batch]
            items = [item for item in made if item is not None]
            before = {note.id: note for note in self._of(item.key for item in items)}
            stored = self.memory.add_many(items, namespace=self.namespace, evolve=evolve)
            for note in {note.id: note for note in stored}.values():
                old = before.get(note.id)
                report.added += old is None
                report.changed += old is not None and _said(note) != _said(old)
                sources[note.id] = note.metadata[RECORD]["source"]
            report.ids += ["" if item is None else item.metadata[RECORD]["id"] for item in made]
            meter.add(len(batch))
        if replace:
            held = self.held(sources.values())
            report.removed = self._delete(note for note in held if note.id not in sources)
        return report

    def remove(self, *, ids: Iterable[str] = (), sources: Iterable[str] = ()) -> int:
        """Remove the documents of these ids, and all of these sources, for good; return how many that were."""
        return self._delete([*self._of(map(_key, ids)), *self.held(sources)])

    def get(self, ids: Iterable[str]) -> list[DocumentInput]:
        """Return the documents of these ids, in this order, with all of their text; unknown ones are left out."""
        wanted = list(ids)
        found = {one.id: one for one in map(described, self._of(map(_key, wanted)))}
        return [found[one] for one in wanted if one in found]

    def held(self, sources: Iterable[str | None]) -> list[Note]:
        """Return the notes of all documents of some sources."""
        named = sorted({source for source in sources if source is not None})
        return self._find({f"metadata.{RECORD}.source": {"$in": named}})

    def _of(self, keys: Iterable[str | None]) -> list[Note]:
        items = [NoteInput(content="", key=key) for key in keys]
        return self._find({"id": {"$in": [note_id(self.namespace, item) for item in items]}})

    def _find(self, where: Mapping[str, Any]) -> list[Note]:
        found, page = list[Note](), None
        while page is None or len(page) == PAGE:
            further = {**where, "seq": {"$gt": found[-1].seq if found else -1}}
            page = self.memory.get_all(namespace=self.namespace, where=further, limit=PAGE)
            found += page
        return found

    def _delete(self, notes: Iterable[Note]) -> int:
        gone = {note.id for note in notes}
        for one in gone:
            self.memory.delete(one, namespace=self.namespace)
        return len(gone)


def described(note: Note) -> DocumentInput:
    """Return the document that a note is of, its metadata as they were given."""
    metadata = dict(note.metadata)
    return DocumentInput(text=note.content, **metadata.pop(RECORD, {}), metadata=metadata)


def _note(document: DocumentInput, seen: Counter[str], *, evolve: bool) -> NoteInput | None:
    """Return the note of a document; None if the document has no text."""
    if not document.text.strip():
        return None
    # What is no JSON, such as a path or a date, becomes its text.
    metadata = json.loads(json.dumps(dict(document.metadata), default=str), parse_constant=str)
    identity = document.id
    if identity is None:
        identity = derive("document", document.source, document.text, sorted(metadata.items()))
        seen[identity] += 1
        if (again := seen[identity]) > 1:  # the same text stands there several times
            identity = derive("document", identity, again)
    return NoteInput(
        content=document.text,
        key=_key(identity),
        thread=document.source,
        source="import",
        metadata={**metadata, RECORD: {"id": identity, "source": document.source}},
        origin="conversation" if evolve else "document",
    )


def _said(note: Note) -> tuple[object, ...]:
    """Return what a document changes of a note."""
    return note.content, note.metadata, note.origin


def _key(identity: str) -> str:
    return json.dumps(["document", identity], ensure_ascii=False)
