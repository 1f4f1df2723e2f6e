"""Documents of a loader or a pipeline in a memory: added, replaced, found by id, removed with their source.

A document that has an id replaces the one of that id; one without is known by its source, text and metadata, and added again
changes nothing. Nothing else is removed, unless `replace=True` asks for it. Each is one note, however long, in a thread of
its source. What is needed to know a document again is in `metadata[RECORD]`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from ..ids import derive, note_id
from ..memory import AgenticMemory
from ..notes import Note, NoteInput, check_namespace
from ..runtime import Meter, Progress, reporter
from .twins import Call, both

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
    """The documents in one namespace of a memory; each method has an asynchronous twin."""

    def __init__(self, memory: AgenticMemory, namespace: Sequence[str]) -> None:
        """Take a memory and whose documents they are.

        Raises:
            NamespaceError: The namespace is not a non-empty tuple of strings.
        """
        self.memory, self.namespace = memory, check_namespace(namespace)

    async def _add(  # noqa: D417 - `call` is no argument of the method
        self,
        call: Call,
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
        report, seen, kept = DocumentReport(), Counter[str](), dict[str, set[str]]()
        meter = Meter(reporter(progress), len(documents) if isinstance(documents, Sized) else 0)
        rest = iter(documents)
        while batch := list(islice(rest, BATCH)):
            made = [_note(one, seen, evolve=evolve) for one in batch]
            items = [item for item in made if item is not None]
            ids = [note_id(self.namespace, item) for item in items]
            before = {note.id: note for note in await self._find(call, {"id": {"$in": ids}})}
            stored = await call(
                self.memory.add_many, items, namespace=self.namespace, evolve=evolve
            )
            for note in {note.id: note for note in stored}.values():
                old = before.get(note.id)
                report.added += old is None
                report.changed += old is not None and _said(note) != _said(old)
                kept.setdefault(note.metadata[RECORD]["source"], set()).add(note.id)
            report.ids += ["" if item is None else item.metadata[RECORD]["id"] for item in made]
            meter.add(len(batch))
        if replace:
            held = {note.id for note in await self.held(call, kept)}
            report.removed = await self._delete(call, held.difference(*kept.values()))
        return report

    async def _remove(
        self, call: Call, *, ids: Iterable[str] = (), sources: Iterable[str] = ()
    ) -> int:
        """Remove the documents of these ids, and all of these sources, for good; return how many that were."""
        gone = [*await self._of(call, ids), *await self.held(call, sources)]
        return await self._delete(call, {note.id for note in gone})

    async def _get(self, call: Call, ids: Iterable[str]) -> list[DocumentInput]:
        """Return the documents of these ids, in this order, with all of their text; unknown ones are left out."""
        wanted = list(ids)
        found = {described(note).id: note for note in await self._of(call, wanted)}
        return [described(found[one]) for one in wanted if one in found]

    add, aadd = both(_add)
    remove, aremove = both(_remove)
    get, aget = both(_get)

    async def held(self, call: Call, sources: Iterable[str | None]) -> list[Note]:
        """Return the notes of all documents of some sources, in a flow of an adapter."""
        named = sorted(source for source in sources if source is not None)
        return await self._find(call, {f"metadata.{RECORD}.source": {"$in": named}})

    async def _of(self, call: Call, ids: Iterable[str]) -> list[Note]:
        items = [NoteInput(content="", key=_key(identity)) for identity in ids]
        wanted = [note_id(self.namespace, item) for item in items]
        return await self._find(call, {"id": {"$in": wanted}})

    async def _find(self, call: Call, where: Mapping[str, Any]) -> list[Note]:
        found: list[Note] = []
        while True:
            further = {**where, "seq": {"$gt": found[-1].seq if found else -1}}
            page = await call(
                self.memory.get_all, namespace=self.namespace, where=further, limit=PAGE
            )
            found += page
            if len(page) < PAGE:
                return found

    async def _delete(self, call: Call, ids: Collection[str]) -> int:
        for one in ids:
            await call(self.memory.delete, one, namespace=self.namespace)
        return len(ids)


def described(note: Note) -> DocumentInput:
    """Return the document that a note is of, its metadata as they were given."""
    metadata = dict(note.metadata)
    return DocumentInput(text=note.content, **metadata.pop(RECORD, {}), metadata=metadata)


def _note(document: DocumentInput, seen: Counter[str], *, evolve: bool) -> NoteInput | None:
    """Return the note of a document; None if the document has no text."""
    if not document.text.strip():
        return None
    metadata = _plain(document.metadata)
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


def _plain(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return metadata as JSON; what is no JSON, such as a path or a date, becomes its text."""
    text = json.dumps(dict(metadata), default=str)
    plain: dict[str, Any] = json.loads(text, parse_constant=str)
    return plain
