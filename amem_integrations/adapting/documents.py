"""Documents of a loader or a pipeline in a memory: added, replaced, found by id, removed with their source.

A document that has an id replaces the one of that id. Documents without ids are known by source and text: added again they
change nothing, and what their source does not hold any more is removed. Each is a note, or several if it is long, in a
thread of its source. What is needed to know it again is in `metadata[RECORD]`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from ..chunks import sections
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
        evolve: bool = True,
        progress: bool | Progress = False,
    ) -> DocumentReport:
        """Add documents, and return what that did. After an interruption the same call goes on where it was.

        Args:
            documents: They are taken from it in batches, so that it may be a loader that yields them.
            replace: Remove what documents without ids brought from the same sources before, and is not in them
                now; False if they are only a part of what their sources hold.
            evolve: Construct, link and evolve; False leaves that to `AgenticMemory.evolve()`.
            progress: True logs how far it is; a function is called with (documents added, documents in all), of
                which the second is not known before the end if `documents` has no length.

        Raises:
            InvalidInputError: A document cannot be stored; those of earlier batches are.
            ModelUnavailableError: Only with `on_model_error="raise"`; the raw notes are stored.
        """
        report, current, seen = DocumentReport(), dict[str, set[str]](), Counter[str]()
        meter = Meter(reporter(progress), len(documents) if isinstance(documents, Sized) else 0)
        rest = iter(documents)
        while batch := list(islice(rest, BATCH)):
            made = [_notes(one, seen, self.memory.config.max_content_chars) for one in batch]
            await self._store(call, made, report)
            if evolve:  # also what an earlier call that was interrupted has left
                await call(self.memory.evolve, namespace=self.namespace)
            for one, items in zip(batch, made, strict=True):
                if one.id is None and one.source is not None:
                    current.setdefault(one.source, set()).update(map(self._id, items))
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
        found = await self._of(call, list(ids))
        notes = [note for parts in found.values() for note in parts]
        for source in dict.fromkeys(sources):
            notes += await self._find(call, {f"metadata.{RECORD}.source": source})
        return await self._delete(call, list({note.id: note for note in notes}.values()))

    async def _get(self, call: Call, ids: Iterable[str]) -> list[DocumentInput]:
        """Return the documents of these ids, in this order, with all of their text; unknown ones are left out."""
        found = await self._of(call, list(dict.fromkeys(ids)))
        documents = []
        for identity, notes in found.items():
            chunks = [note for whole in notes for note in await self._whole(call, whole)]
            text = "".join(chunk.content for chunk in chunks)
            documents.append(described(notes[0], text, identity))
        return documents

    add, aadd = both(_add)
    remove, aremove = both(_remove)
    get, aget = both(_get)

    async def _store(
        self, call: Call, made: Sequence[list[NoteInput]], report: DocumentReport
    ) -> None:
        items = [item for notes in made for item in notes]
        # The section after the last is there if a text was longer before.
        after = [(str(notes[0].key), len(notes)) for notes in made if notes]
        next_ids = [self._key_id(_section(*one)) for one in after]
        wanted = [*map(self._id, items), *next_ids]
        before = {note.id: note for note in await self._find_ids(call, wanted)}
        stored = await call(self.memory.add_many, items, namespace=self.namespace, evolve=False)
        for note in {note.id: note for note in stored}.values():
            old = before.get(note.id)
            report.added += old is None
            report.changed += old is not None and note.revision != old.revision
        for (key, start), next_id in zip(after, next_ids, strict=True):
            if next_id in before:
                longer = await self._sections(call, [key], start)
                report.removed += await self._delete(call, longer[key])
        report.ids += [items[0].metadata[RECORD]["id"] if items else "" for items in made]

    async def _of(self, call: Call, ids: Sequence[str]) -> dict[str, list[Note]]:
        """Return the notes of documents, section by section; those that are not there are left out."""
        keys = {identity: _key(identity) for identity in ids}
        found = await self._sections(call, list(keys.values()))
        return {identity: found[key] for identity, key in keys.items() if found[key]}

    async def _sections(
        self, call: Call, keys: Sequence[str], start: int = 0
    ) -> dict[str, list[Note]]:
        """Return the notes of each key, from the section `start` on."""
        found: dict[str, list[Note]] = {key: [] for key in keys}
        rest = list(found)
        while rest:
            wanted = {self._key_id(_section(key, start)): key for key in rest}
            notes = await self._find_ids(call, list(wanted))
            for note in notes:
                found[wanted[note.id]].append(note)
            rest = [wanted[note.id] for note in notes]
            start += 1
        return found

    async def _whole(self, call: Call, note: Note) -> list[Note]:
        if note.chunk != 1:
            return [note]
        others = await self._find(call, {"chunk_of": note.id})
        return [note, *sorted(others, key=lambda one: one.chunk)]

    async def _find(self, call: Call, where: Mapping[str, Any]) -> list[Note]:
        """Return all notes that meet conditions, but not the later chunks of a text unless these are asked for."""
        notes: list[Note] = []
        after = -1
        while True:
            asked = {**where, "seq": {"$gt": after}}
            page = await call(
                self.memory.get_all, namespace=self.namespace, where=asked, limit=PAGE
            )
            notes += (note for note in page if note.chunk <= 1 or "chunk_of" in where)
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


def described(note: Note, text: str | None = None, identity: str | None = None) -> DocumentInput:
    """Return the document that a note is of, with the note's text or a given one."""
    record = note.metadata.get(RECORD) or {}
    metadata = {name: value for name, value in note.metadata.items() if name != RECORD}
    return DocumentInput(
        text=note.content if text is None else text,
        id=identity or record.get("id"),
        source=record.get("source"),
        metadata=metadata,
    )


def _notes(document: DocumentInput, seen: Counter[str], max_chars: int) -> list[NoteInput]:
    """Return the notes of a document; none if it has no text."""
    if not document.text.strip():
        return []
    identity = document.id
    if identity is None:
        identity = derive("document", document.source, document.text)
        seen[identity] += 1
        if (again := seen[identity]) > 1:  # the same text stands there several times
            identity = derive("document", identity, again)
    record = {"id": identity, "source": document.source, "own": document.id is not None}
    item = NoteInput(
        content=document.text,
        key=_key(identity),
        thread=document.source,
        source="import",
        metadata={**_plain(document.metadata), RECORD: record},
    )
    return sections(item, max_chars)


def _key(identity: str) -> str:
    return json.dumps(["document", identity], ensure_ascii=False)


def _section(key: str, number: int) -> str:
    """Return the key of a section of a text, as `sections` makes it."""
    return f"{key}#{number}" if number else key


def _plain(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return metadata as JSON; what is no JSON, such as a path or a date, becomes its text."""
    text = json.dumps(dict(metadata), default=str)
    plain: dict[str, Any] = json.loads(text, parse_constant=str)
    return plain
