"""Documents: what a loader or a pipeline gives is added, found by id, and removed with its source."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from .errors import InvalidInputError
from .filters import check_names
from .ids import derive, note_id
from .memory import AgenticMemory
from .notes import Note, NoteInput, check_namespace, storable
from .runtime import GIVEN_UP, Meter, Progress

BATCH = 64  # documents stored at once
PAGE = 64  # notes of a listing: most callers want a few
RECORD = "_document"  # of a note's metadata: {"id", "source"}


def notes_of(
    memory: AgenticMemory, namespace: Sequence[str], where: Mapping[str, Any]
) -> Iterator[Note]:
    """Yield the notes of a namespace that meet conditions, in the order in which they were first stored."""
    after, more = -1, True
    while more:
        further = {**where, "seq": {"$gt": after}}
        page = memory.get_all(namespace=namespace, where=further, limit=PAGE)
        yield from page
        after, more = page[-1].seq if page else after, len(page) == PAGE


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

        In a thread that nobody waits for any more (see `in_thread`) it ends after a batch.

        Args:
            documents: They are taken from it in batches, so that it may be a loader that yields them.
            replace: Remove what their sources held before and is not among them now.
            evolve: Put notes of a conversation, which are constructed, linked and evolve; False puts documents, which
                are found by words and meaning, and which no model reads, links or declares outdated.
            progress: True logs how far it is; a function is called with (documents added, documents in all), of
                which the second is not known before the end if `documents` has no length.

        Raises:
            InvalidInputError: A document cannot be stored, such as one that is longer than
                `MemoryConfig.max_content_chars`, or has metadata named `_document`; those of earlier batches are.
            ModelUnavailableError: Only with `on_model_error="raise"`; the raw notes are stored.
        """
        report, seen, stays = DocumentReport(), Counter[str](), set[str]()
        sources = set[str | None]()
        meter = Meter(progress, len(documents) if isinstance(documents, Sized) else 0)
        rest = iter(documents)
        while batch := list(islice(rest, BATCH)):
            if GIVEN_UP.get().is_set():
                return report
            made = [_note(one, seen, evolve=evolve) for one in batch]
            items = [item for item in made if item is not None]
            before = {note.id: note for note in self._of(item.key for item in items)}
            notes = self.memory.add_many(items, namespace=self.namespace, evolve=evolve)
            stored = {note.id: note for note in notes}
            same = (_given(note) == _given(stored[i]) for i, note in before.items())
            report.added += len(stored.keys() - before.keys())
            report.changed += len(before) - sum(same)
            stays |= stored.keys()
            sources |= {one.source for one in batch}
            report.ids += ["" if item is None else item.metadata[RECORD]["id"] for item in made]
            meter.add(len(batch))
        if replace:
            held = self.held(sources)
            report.removed = self._delete(note for note in held if note.id not in stays)
        return report

    def remove(self, *, ids: Iterable[str] = (), sources: Iterable[str] = ()) -> int:
        """Remove the documents of these ids, and all of these sources, for good; return how many that were.

        Raises:
            InvalidInputError: `ids` or `sources` is a single text.
        """
        for name, given in (("ids", ids), ("sources", sources)):
            if isinstance(given, str):
                raise InvalidInputError(f"{name}={given!r} must be a list, such as [{given!r}]")
        # Documents that a failed call has begun to delete are not found again: the write of nothing finishes their removal.
        self.memory.add_many([], namespace=self.namespace)
        return self._delete([*self._of(map(_key, ids)), *self.held(sources)])

    def get(self, ids: Iterable[str]) -> list[DocumentInput]:
        """Return the documents of these ids, in this order, with all of their text; unknown ones are left out."""
        wanted = [storable(one) for one in ids]
        found = {one.id: one for one in map(described, self._of(map(_key, wanted)))}
        return [found[one] for one in wanted if one in found]

    def held(self, sources: Iterable[str | None]) -> list[Note]:
        """Return the notes of all documents of some sources."""
        named = sorted({storable(source) for source in sources if source is not None})
        return self._find({f"metadata.{RECORD}.source": {"$in": named}})

    def _of(self, keys: Iterable[str | None]) -> list[Note]:
        items = [NoteInput(content="", key=key) for key in keys]
        return self._find({"id": {"$in": [note_id(self.namespace, item) for item in items]}})

    def _find(self, where: Mapping[str, Any]) -> list[Note]:
        return list(notes_of(self.memory, self.namespace, where))

    def _delete(self, notes: Iterable[Note]) -> int:
        gone = {note.id for note in notes}
        for one in gone:
            self.memory.delete(one, namespace=self.namespace)
        return len(gone)


def described(note: Note) -> DocumentInput:
    """Return the document that a note is of, its metadata as they were given; without an id if the note is of none."""
    metadata = dict(note.metadata)
    record = metadata.get(RECORD)
    if not isinstance(record, dict) or note.key != _key(str(record.get("id"))):
        return DocumentInput(text=note.content, metadata=metadata)
    del metadata[RECORD]
    return DocumentInput(text=note.content, **record, metadata=metadata)


def _given(note: Note) -> object:
    return described(note), note.origin


def _note(document: DocumentInput, seen: Counter[str], *, evolve: bool) -> NoteInput | None:
    """Return the note of a document; None if the document has no text."""
    if not storable(document.text).strip():
        return None
    check_names(document.metadata, RECORD)
    # What is no JSON, such as a path or a date, becomes its text.
    metadata = json.loads(json.dumps(dict(document.metadata), default=str), parse_constant=str)
    identity = document.id
    if not identity:  # some loaders have "" where there is none
        identity = derive("document", document.source, document.text, sorted(metadata.items()))
        seen[identity] += 1  # the same text may stand there several times
        identity = identity if seen[identity] == 1 else derive("document", identity, seen[identity])
    return NoteInput(
        content=document.text,
        key=_key(identity),
        thread=document.source,
        source="import",
        metadata={**metadata, RECORD: {"id": identity, "source": document.source}},
        origin="conversation" if evolve else "document",
    )


def _key(identity: str) -> str:
    return json.dumps(["document", storable(identity)], ensure_ascii=False)
