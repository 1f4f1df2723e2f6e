"""Documents of a loader or a pipeline in a memory: added, replaced, found by id, removed with their source.

A document that has an id replaces the one of that id. Documents without ids are known by source and text: added again they
change nothing, and what their source does not hold any more is removed. Each is one note, however long, in a thread of its
source. What is needed to know a document again is in `metadata[RECORD]`.
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
from ..progress import Meter, Progress, reporter
from .calls import Call, both

BATCH = 64  # documents stored at once
PAGE = 256  # notes looked up at once
RECORD = "_document"  # of a note's metadata: {"id", "source", "own"}; own: the id was given, not made of the text


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentInput:
    """A document, or a chunk that somebody else made of one."""

    text: str
    id: str | None = None
    source: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class DocumentReport:
    """What adding documents did: their ids in order, and how many notes were new, changed, or removed.

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
        replace: bool = True,
        evolve: bool = False,
        progress: bool | Progress = False,
    ) -> DocumentReport:
        """Add documents, and return what that did. After an interruption the same call goes on where it was.

        Args:
            documents: They are taken from it in batches, so that it may be a loader that yields them.
            replace: Remove what documents without ids brought from the same sources before, and is not in them
                now; False if they are only a part of what their sources hold.
            evolve: Put notes of a conversation, which are constructed, linked and evolve; False puts documents, which
                are found by words and meaning, and which no model reads, links or declares outdated.
            progress: True logs how far it is; a function is called with (documents added, documents in all), of
                which the second is not known before the end if `documents` has no length.

        Raises:
            InvalidInputError: A document cannot be stored, such as one that is longer than
                `MemoryConfig.max_content_chars`; those of earlier batches are.
            ModelUnavailableError: Only with `on_model_error="raise"`; the raw notes are stored.
        """
        report, current, seen = DocumentReport(), dict[str, set[str]](), Counter[str]()
        meter = Meter(reporter(progress), len(documents) if isinstance(documents, Sized) else 0)
        rest = iter(documents)
        while batch := list(islice(rest, BATCH)):
            made = [_note(one, seen, evolve=evolve) for one in batch]
            await self._store(call, made, report)
            if evolve:  # also what an earlier call that was interrupted has left
                await call(self.memory.evolve, namespace=self.namespace)
            for one, item in zip(batch, made, strict=True):
                if one.id is None and one.source is not None:
                    kept = current.setdefault(one.source, set())
                    kept |= set() if item is None else {self._id(item)}
            meter.add(len(batch))
        for source, kept in current.items() if replace else ():
            where = {f"metadata.{RECORD}.source": source, f"metadata.{RECORD}.own": False}
            found = await self._find(call, where)
            report.removed += await self._delete(call, [n for n in found if n.id not in kept])
        return report

    async def _remove(
        self, call: Call, *, ids: Iterable[str] = (), sources: Iterable[str] = ()
    ) -> int:
        """Remove the documents of these ids, and all of these sources, for good; return how many notes that were."""
        notes = list((await self._of(call, ids)).values())
        for source in dict.fromkeys(sources):
            notes += await self._find(call, {f"metadata.{RECORD}.source": source})
        return await self._delete(call, list({note.id: note for note in notes}.values()))

    async def _get(self, call: Call, ids: Iterable[str]) -> list[DocumentInput]:
        """Return the documents of these ids, in this order, with all of their text; unknown ones are left out."""
        found = await self._of(call, ids)
        return [described(note, identity) for identity, note in found.items()]

    add, aadd = both(_add)
    remove, aremove = both(_remove)
    get, aget = both(_get)

    async def _store(
        self, call: Call, made: Sequence[NoteInput | None], report: DocumentReport
    ) -> None:
        items = [item for item in made if item is not None]
        before = {note.id: note for note in await self._find_ids(call, [*map(self._id, items)])}
        stored = await call(self.memory.add_many, items, namespace=self.namespace, evolve=False)
        for note in {note.id: note for note in stored}.values():
            old = before.get(note.id)
            report.added += old is None
            report.changed += old is not None and _said(note) != _said(old)
        report.ids += ["" if item is None else item.metadata[RECORD]["id"] for item in made]

    async def _of(self, call: Call, ids: Iterable[str]) -> dict[str, Note]:
        """Return the notes of documents by the ids of the documents; those that are not there are left out."""
        wanted = {identity: self._key_id(_key(identity)) for identity in ids}
        found = {note.id: note for note in await self._find_ids(call, list(wanted.values()))}
        return {identity: found[i] for identity, i in wanted.items() if i in found}

    async def _find(self, call: Call, where: Mapping[str, Any]) -> list[Note]:
        """Return all notes that meet conditions."""
        notes: list[Note] = []
        after = -1
        while True:
            asked = {**where, "seq": {"$gt": after}}
            page = await call(
                self.memory.get_all, namespace=self.namespace, where=asked, limit=PAGE
            )
            notes += page
            if len(page) < PAGE:
                return notes
            after = page[-1].seq

    async def _find_ids(self, call: Call, ids: Sequence[str]) -> list[Note]:
        found: list[Note] = []
        for start in range(0, len(ids), PAGE):
            where = {"id": {"$in": ids[start : start + PAGE]}}
            found += await call(
                self.memory.get_all, namespace=self.namespace, where=where, limit=PAGE
            )
        return found

    async def _delete(self, call: Call, notes: Iterable[Note]) -> int:
        count = 0
        for note in notes:
            await call(self.memory.delete, note.id, namespace=self.namespace)
            count += 1
        return count

    def _id(self, item: NoteInput) -> str:
        return note_id(self.namespace, item)

    def _key_id(self, key: str) -> str:
        return note_id(self.namespace, NoteInput(content="", key=key))


def described(note: Note, identity: str | None = None) -> DocumentInput:
    """Return the document that a note is of."""
    record = note.metadata.get(RECORD) or {}
    metadata = {name: value for name, value in note.metadata.items() if name != RECORD}
    return DocumentInput(
        text=note.content,
        id=identity or record.get("id"),
        source=record.get("source"),
        metadata=metadata,
    )


def _note(document: DocumentInput, seen: Counter[str], *, evolve: bool) -> NoteInput | None:
    """Return the note of a document; None if the document has no text."""
    if not document.text.strip():
        return None
    identity = document.id
    if identity is None:
        identity = derive("document", document.source, document.text)
        seen[identity] += 1
        if (again := seen[identity]) > 1:  # the same text stands there several times
            identity = derive("document", identity, again)
    record = {"id": identity, "source": document.source, "own": document.id is not None}
    return NoteInput(
        content=document.text,
        key=_key(identity),
        thread=document.source,
        source="import",
        metadata={**_plain(document.metadata), RECORD: record},
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
