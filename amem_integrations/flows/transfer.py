"""Transfer: a memory as a file, and back, exactly.

The first line of a file says what it is, and whose notes follow; then come the notes, oldest first, with their earlier
values, then each call before its decisions. Views and vectors are not written: they are made anew of the rest::

    {"format": "amem-integrations", "version": 2, "namespace": ["ann"]}
    {"note": {"id": …, "rev": …, "content": …, "earlier": […], …}}
    {"call": {"id": …, "by": …, "shown": [[note, rev], …], …}}
    {"decision": {"id": …, "call": …, "note": …, "rev": …, "stage": "construct", "items": […], …}}

A file of several namespaces has all of that for each of them, one after the other.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby
from os import PathLike
from pathlib import Path
from typing import Any, TextIO

from ..decisions import WRITTEN, Call, Decision, Item, Source, form_id, slot_id
from ..errors import InvalidInputError, NamespaceError
from ..fetch import note_pages
from ..ids import derive, new_token
from ..ids import note_id as id_of
from ..journal.commit import commit
from ..journal.fold import changed_fields
from ..journal.insertion import restore
from ..journal.projection import project
from ..journal.writer import Writer, as_it_is
from ..kinds import Kind, kind_of
from ..notes import Namespace, Note, NoteInput, Relation, check_namespace
from ..plans import adapter_of
from ..ports import RecordQuery
from ..runtime import Meter, Progress, Runtime, reporter, resolve
from ..stored_note import Earlier, StoredNote
from .writing import writing

FORMAT, VERSION = "amem-integrations", 2
MAX_HEADER = 100_000  # characters of the first line
MAX_SEQ = 2**62  # in the year 2116; what is added next is numbered above all that is stored
PAGE = 64  # notes, or calls, that are read and written at once
# Fields of a note that the user gave; the others are made of them and of the decisions.
NOTE = (
    "id", "seq", "content", "recorded_at", "at", "speaker", "source", "origin", "thread", "key", "until", "expires_at",
    "metadata", "rev",
)  # fmt: skip
UNWRITTEN = ("namespace", "token", "phase")  # fields of records that are of one memory only

Line = dict[str, Any]
Record = StoredNote | Call | Decision


async def export(
    runtime: Runtime, path: str | PathLike[str], *, namespace: Sequence[str] | None = None
) -> int:
    """Write a namespace, or all of them, to a file: notes, what was decided about them, and so their history.

    The file is there whole or not at all. Of all namespaces the file also says what models have cost; of one it does
    not: that was paid by this memory, and does not count against the limits of another.

    Args:
        path: The file.
        namespace: Whose memory; None writes all namespaces.

    Returns:
        The number of notes.

    Raises:
        OSError: The file cannot be written.
    """
    spaces = (
        await resolve(runtime.store.namespaces(recorded=True))
        if namespace is None
        else [check_namespace(namespace)]
    )
    alive: set[str] = set()
    with whole_file(path) as file:

        def write(line: Line) -> None:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")

        for space in spaces:
            write({"format": FORMAT, "version": VERSION, "namespace": [*space]})
            async with writing(runtime, space) as writer:
                async for page in note_pages(runtime.store, space):
                    stored = await writer.notes([note.id for note in page])
                    for one in sorted(stored.values(), key=_seq_of):
                        if not one.is_deleted:
                            alive.add(one.id)
                            write(line_of(one))
                for record in await _records(writer, alive, with_costs=namespace is None):
                    write(line_of(record))
    return len(alive)


@contextmanager
def whole_file(path: str | PathLike[str]) -> Iterator[TextIO]:
    """Open a file that is there whole in the end, or stays as it was; an error names the file, not the draft beside it."""
    draft = Path(f"{path}.tmp")
    try:
        with draft.open("w", encoding="utf-8") as file:
            yield file
        draft.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error
    finally:
        draft.unlink(missing_ok=True)


def _seq_of(stored: StoredNote) -> int:
    return stored.note.seq if stored.note else 0


async def _records(writer: Writer, alive: set[str], *, with_costs: bool) -> list[Call | Decision]:
    """Return the calls of a namespace, oldest first, each before its decisions about what is there."""
    found = await writer.find_records(RecordQuery())
    decisions: dict[str, list[Decision]] = {}
    for one in found.values():
        if isinstance(one, Decision) and (one.shows or (one.void and one.note in alive)):
            decisions.setdefault(one.call, []).append(one)
    records: list[Call | Decision] = []
    calls = [one for one in found.values() if isinstance(one, Call)]
    for call in sorted(calls, key=lambda one: (one.seq, one.id)):
        if with_costs or call.id in decisions:
            shown = tuple(source for source in call.shown if source.id in alive)
            records.append(replace(call, shown=shown, data=call.data if with_costs else {}))
        records += sorted(decisions.get(call.id, ()), key=lambda one: (one.seq, one.id))
    return records


async def import_(
    runtime: Runtime,
    path: str | PathLike[str],
    *,
    namespace: Sequence[str] | None = None,
    progress: bool | Progress = False,
) -> int:
    """Add what `export` wrote, and return the number of notes of the file that are stored now.

    Notes that are there already stay as they are, so doing it again, or going on after an interruption,
    is safe. A note that was deleted here is added again, with what was decided about it. A link to a note that is
    neither in the file nor stored is dropped.

    Args:
        path: The file.
        namespace: Whose memory; the file has to be of one namespace, and notes that come from another one get ids of
            this one. None puts everything where it comes from, with what models have cost.
        progress: True logs how far it is; a function is called with (notes read, notes in the file).

    Raises:
        InvalidInputError: The file is no export, a line is damaged, or the file is of several namespaces where one is
            given; nothing is imported.
        NamespaceError: The namespace is malformed.
        StoreError: The store refused, such as an id in the file that a note of another namespace has.
        OSError: The file cannot be read.
        ModelUnavailableError: The embedder failed; import again to go on.
    """
    given = None if namespace is None else check_namespace(namespace)
    counts, ids = Counter[Namespace](), dict[str, str]()
    for own, one in _read(path, given):
        counts[own] += isinstance(one, StoredNote)
        if isinstance(one, StoredNote) and given not in (None, own):
            ids[one.id] = _id_in(given, one)
    if given is not None and len(counts) > 1:
        raise InvalidInputError(
            f"{path} holds {len(counts)} namespaces; import it without a namespace"
        )
    if len(set(ids.values())) < len(ids):  # two notes of one text: one of them was updated
        ids = {old: derive("import", given, old) for old in ids}
    meter = Meter(reporter(progress), counts.total())
    imports: dict[Namespace, _Import] = {}
    for own, page in _pages(_read(path, given)):
        if own not in imports:
            imports[own] = _Import(runtime, own, given or own, ids, with_costs=given is None)
        await imports[own].put(page)
    for done in imports.values():
        await done.embed(meter)
    return meter.done


@dataclass(slots=True)
class _Import:
    """Puts what a file holds of one namespace into the memory, a page at a time.

    Attributes:
        in_file: Whose notes they are by the file.
        space: Whose they are to be.
        ids: The ids that notes get, by those in the file; others stay.
        revs: The rev in the file and the rev here of each note that is here as the file has it, by the id in the file.
        here: The ids of the notes of the file, in order.
        stale: The ids of notes that have no vector of what they are now.
    """

    runtime: Runtime
    in_file: Namespace
    space: Namespace
    ids: Mapping[str, str]
    with_costs: bool
    revs: dict[str, tuple[int, int]] = field(default_factory=dict)
    here: list[str] = field(default_factory=list)
    stale: set[str] = field(default_factory=set)

    async def put(self, page: Sequence[Record]) -> None:
        """Write a page of notes, or of calls with all of their decisions."""
        notes = [one for one in page if isinstance(one, StoredNote)]
        calls = {one.id: one for one in page if isinstance(one, Call)}
        decisions: dict[str, list[Decision]] = {key: [] for key in calls}
        for one in page:
            if isinstance(one, Decision) and one.call in calls:
                decisions[one.call].append(one)
        async with writing(self.runtime, self.space) as writer:
            bare = replace(writer, embed=as_it_is)  # in the end each note is embedded once
            if notes:
                await self._put_notes(bare, notes)
            elif calls:
                await self._put_calls(bare, calls, decisions)

    async def embed(self, meter: Meter) -> None:
        """Give all notes their vectors."""
        for start in range(0, len(self.here), PAGE):
            page = self.here[start : start + PAGE]
            if stale := self.stale.intersection(page):
                async with writing(self.runtime, self.space, despite=()) as writer:
                    await project(writer, stale)
            meter.add(len(page))

    async def _put_notes(self, writer: Writer, notes: Sequence[StoredNote]) -> None:
        seqs = [(one.rev, _seq_of(one), one.thorough) for one in notes]
        seqs += [(earlier.seq, 0, 0) for one in notes for earlier in one.earlier]
        self.runtime.clock.start_above(max(map(max, seqs)))
        made = {self._id(one.id): (one, self._moved_note(one)) for one in notes}
        known = await writer.notes(made)
        missing = frozenset(made.keys() - known.keys())
        old = await writer.decisions(RecordQuery(about=missing)) if missing else {}
        for note_id in {one.note for one in old.values()} & missing:
            # The note was deleted here, and so was what had been decided about its wording.
            was, new = made[note_id]
            made[note_id] = was, replace(new, rev=writer.new_seq())
        stands = await restore(writer, [new for _, new in made.values()], known)
        for note_id, (was, _) in made.items():
            stored = stands.get(note_id)
            if stored is None or stored.note is None:
                continue
            if stored.rev == was.rev or _is_as(stored, self._moved_note(was)):
                self.revs[was.id] = was.rev, stored.rev
            if not stored.embedded:
                self.stale.add(note_id)
        self.here += made

    async def _put_calls(
        self,
        writer: Writer,
        calls: Mapping[str, Call],
        decisions: Mapping[str, Sequence[Decision]],
    ) -> None:
        every = [one for made in decisions.values() for one in made]
        self.runtime.clock.start_above(
            max([one.seq for one in calls.values()] + [one.seq for one in every])
        )
        named = {end for one in every for item in one.items for end in (item.to, item.other)}
        named |= {source.id for call in calls.values() for source in call.shown}
        there = await writer.notes({self._id(one) for one in named} - {""})
        moved: list[tuple[Call, list[Decision]]] = []
        for key, call in calls.items():
            mine = [one for one in decisions[key] if one.note in self.revs or one.stage == "form"]
            made = [one for one in (self._moved(each, there) for each in mine) if one is not None]
            moved.append((self._moved_call(call, there), made))
        made_ids = {one.id for _, made in moved for one in made}
        stored = await writer.records(made_ids.union(call.id for call, _ in moved))
        for call, made in moved:
            same = stored.get(call.id)
            if not made and same is None and self.with_costs:
                await writer.insert_records([call])
            if all(one.id in stored for one in made):
                continue
            if isinstance(same, Call) and not set(call.shown) <= set(same.shown):
                # A note that the call was shown is not known here any more, or has another rev.
                again = replace(call, id=derive("import", call.id, call.shown), data={})
                await commit(writer, again, [replace(one, call=again.id) for one in made])
            else:
                await commit(writer, call, made)
            self.stale.update(note_id for one in made for note_id in one.about)

    def _id(self, note_id: str) -> str:
        """Return the id here of a note; one that is not in the file gets one, where the file is of another namespace."""
        if note_id in self.ids or self.in_file == self.space or not note_id:
            return self.ids.get(note_id, note_id)
        return derive("import", self.space, note_id)

    def _source(self, source: Source) -> Source:
        was, now = self.revs.get(source.id, (0, 0))
        return Source(self._id(source.id), now if source.rev == was else source.rev)

    def _moved_note(self, stored: StoredNote) -> StoredNote:
        note_id = self._id(stored.id)
        note = stored.note and replace(stored.note, id=note_id)
        return replace(stored, id=note_id, note=note)

    def _moved_call(self, call: Call, there: Mapping[str, StoredNote]) -> Call:
        is_same = self.in_file == self.space
        # A note that nobody knows any more would count as deleted thoroughly.
        shown = {self._source(one) for one in call.shown if self._id(one.id) in there}
        return replace(
            call,
            id=call.id if is_same else derive("import", self.space, call.id),
            shown=tuple(sorted(shown)),
            data=call.data if self.with_costs else {},
        )

    def _moved(self, decision: Decision, there: Mapping[str, StoredNote]) -> Decision | None:
        """Return a decision as it is here: about these notes and wordings, and nothing that is not there."""
        old, is_same = decision, self.in_file == self.space
        note, rev = self._source(Source(old.note, old.rev))
        if old.stage == "form" and not is_same:
            names = [item.data.get("form") for item in old.items]
            if not names or not isinstance(names[0], str):
                return None
            note = form_id(self.space, names[0])
        items = [self._moved_item(item) for item in old.items]
        kept = [one for one in items if old.stage == "form" or _is_between(one, there)]
        sources = tuple(map(self._source, old.sources))
        made_id = old.id
        if old.id == slot_id(old.note, old.stage, old.rev, old.attempt):
            made_id = slot_id(note, old.stage, rev, old.attempt)
        elif not is_same or sources != old.sources:
            made_id = derive("import", self.space, old.id, sources)
        return replace(
            old,
            id=made_id,
            call=old.call if is_same else derive("import", self.space, old.call),
            note=note,
            rev=rev,
            items=tuple(kept),
            about=tuple(sorted(map(self._id, old.about))),
            sources=sources,
        )

    def _moved_item(self, item: Item) -> Item:
        sources = tuple(map(self._source, item.sources))
        return replace(item, to=self._id(item.to), other=self._id(item.other), sources=sources)


def _is_as(stored: StoredNote, wanted: StoredNote) -> bool:
    """Return whether a note is as the file has it, but for its rev: it was deleted here, and added again by an import."""
    if stored.note is None or wanted.note is None or stored.earlier != wanted.earlier:
        return False
    return set(changed_fields(stored.note, wanted.note)) <= {"rev"}


def _is_between(item: Item, there: Mapping[str, StoredNote]) -> bool:
    """Return whether the notes that an item is about are there."""
    ends = [there.get(end) for end in (item.to, item.other) if end]
    return all(end is not None and not end.is_deleted for end in ends)


def line_of(record: Record) -> Line:
    """Return the line of a note that is not deleted, of a call or of a decision."""
    if not isinstance(record, StoredNote):
        name, values = type(record).__name__.lower(), _plain(record)
        return {name: {key: value for key, value in values.items() if key not in UNWRITTEN}}
    if record.note is None:
        raise ValueError(f"note {record.id!r} is deleted")
    given = _plain(record.note)
    note = {name: given[name] for name in NOTE if given[name] is not None}
    if record.thorough:
        note["thorough"] = record.thorough
    if record.earlier:
        note["earlier"] = [
            [each.token, each.seq, each.rev, _earlier(record.note, each.values)]
            for each in record.earlier
        ]
    return {"note": note}


def _earlier(note: Note, values: Mapping[str, Any]) -> Line:
    """Return earlier values of a note's fields as JSON values."""
    given = _plain(replace(note, **values))
    return {name: given[name] for name in values}


def _plain(record: Note | Call | Decision) -> Line:
    values: Line = adapter_of(type(record)).dump_python(record, mode="json")  # type: ignore[arg-type]
    return values


def is_export(path: Path) -> bool:
    """Return whether a file begins as an export does."""
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        try:
            first = json.loads(file.readline(MAX_HEADER))
        except (ValueError, RecursionError):
            return False
    return isinstance(first, dict) and first.get("format") == FORMAT


def _read(path: str | PathLike[str], into: Namespace | None) -> Iterator[tuple[Namespace, Record]]:
    """Yield all that a file holds, each with the namespace that the file names.

    All is to be in the namespace `into`; None: where it comes from. Ids are those of the file. Notes are numbered (`seq`)
    as in the file, but always upwards, so that none is passed over in reading on after another. No decision has been
    looked at yet in the memory that it is for.

    Raises:
        InvalidInputError: The file is no export, or of another version, or a line is damaged; the message names the line.
        OSError: The file cannot be read.
    """
    own, last = Namespace(), 0
    with Path(path).open("rb") as file:
        for number, text in enumerate(file, start=1):
            try:
                line = json.loads(text)
                if not isinstance(line, dict):
                    raise TypeError("it is no JSON object")  # noqa: TRY301
                if not own or "format" in line:
                    own, last = _namespace(path, line), 0
                    continue
                record = _value(line, into or own, last)
            except InvalidInputError:
                raise
            except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
                raise InvalidInputError(f"line {number} of {path} is damaged: {error}") from error
            if isinstance(record, StoredNote) and record.note is not None:
                last = record.note.seq
            yield own, record
    if not own:
        raise _no_export(path)


def _pages(
    records: Iterable[tuple[Namespace, Record]],
) -> Iterator[tuple[Namespace, list[Record]]]:
    """Yield by pages notes of one namespace, or calls with all of their decisions."""
    by_kind = groupby(records, key=lambda one: (one[0], isinstance(one[1], StoredNote)))
    for (own, _), group in by_kind:
        page = list[Record]()
        for _, record in group:
            if len(page) >= PAGE and not isinstance(record, Decision):
                yield own, page
                page = []
            page.append(record)
        yield own, page


def _value(line: Line, namespace: Namespace, last: int) -> Record:
    kind = next((name for name in ("note", "call", "decision") if name in line), None)
    if kind is None:
        raise ValueError(f"a line is a note, a call or a decision, not {', '.join(line)}")
    data, token = {**line[kind], "namespace": namespace}, new_token()
    if kind == "call":
        call: Call = adapter_of(Call).validate_python({**data, "token": token})
        _check_seqs(call.seq, *(source.rev for source in call.shown))
        return call
    if kind == "decision":
        made = {**data, "token": token, "phase": WRITTEN}
        decision: Decision = adapter_of(Decision).validate_python(made)
        _check_items(decision)
        return decision
    note = _note(data)
    note = replace(note, seq=max(note.seq, last + 1), rev=note.rev or note.seq)
    earlier = tuple(_read_earlier(data, *each) for each in data.get("earlier", ()))
    thorough = data.get("thorough", 0)
    _check_seqs(note.seq, note.rev, thorough, *(each.seq for each in earlier))
    return StoredNote(
        id=note.id,
        namespace=namespace,
        token=token,
        rev=note.rev,
        note=note,
        thorough=thorough,
        earlier=earlier,
    )


def _note(data: Line) -> Note:
    """Return a note with what the user gave, and nothing that was made of it."""
    given = {name: data[name] for name in (*NOTE, "namespace") if name in data}
    note: Note = adapter_of(Note).validate_python(given)
    return replace(note, kind=kind_of(note.content))


def _read_earlier(data: Line, token: str, seq: int, rev: int, values: Line) -> Earlier:
    if not isinstance(token, str) or not isinstance(seq, int) or not isinstance(rev, int):
        raise TypeError("an earlier value has a token, a seq, a rev and values by name")
    if unknown := values.keys() - set(NOTE):
        raise ValueError(f"a note has no {', '.join(sorted(unknown))}")
    note = _note({**data, **values})
    return Earlier(token, seq, rev, {name: getattr(note, name) for name in values})


@dataclass(frozen=True, slots=True, kw_only=True)
class _ItemData:
    """What views are made of, among the data of an item."""

    kind: Kind = "statement"
    keywords: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    until: str = ""
    relation: str = ""
    strength: float = 1.0
    before: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verdict(_ItemData):
    """The same of a supersession."""

    relation: Relation = "updates"


def _check_items(decision: Decision) -> None:
    """Raise `ValueError` if the items of a decision make a view that cannot be read."""
    sources = [*decision.sources, *(one for item in decision.items for one in item.sources)]
    flips = [flip.seq for item in decision.items for flip in item.log]
    _check_seqs(decision.seq, decision.rev, *(one.rev for one in sources), *flips)
    for item in decision.items:
        kind = _Verdict if item.kind == "supersession" else _ItemData
        data = adapter_of(kind).validate_json(json.dumps(dict(item.data)), strict=True)
        if item.kind == "relink" and "strength" not in item.data:
            raise ValueError("a change of a link has a strength")
        if data.until:
            datetime.fromisoformat(data.until)


def _check_seqs(*seqs: int) -> None:
    if not all(isinstance(seq, int) and seq < MAX_SEQ for seq in seqs):
        raise ValueError(f"{seqs} are no times in nanoseconds")


def _no_export(path: str | PathLike[str]) -> InvalidInputError:
    return InvalidInputError(f"{path} is no export of a memory; `export` makes one")


def _namespace(path: str | PathLike[str], line: Line) -> Namespace:
    """Return whose notes follow this line, which begins them."""
    version = line.get("version")
    if line.get("format") != FORMAT or not isinstance(version, int):
        raise _no_export(path)
    if version != VERSION:
        other = "newer" if version > VERSION else "older"
        raise InvalidInputError(
            f"{path} is of version {version}, this version of amem-integrations reads version "
            f"{VERSION}; import it with the {other} version that wrote it"
        )
    try:
        return check_namespace(line.get("namespace"))
    except NamespaceError as error:
        raise InvalidInputError(f"{path} does not say whose notes it holds: {error}") from error


def _id_in(namespace: Namespace | None, stored: StoredNote) -> str:
    """Return the id that a note would have if it had been added to a namespace in its first wording."""
    note: Any = stored.note
    for earlier in reversed(stored.earlier):
        note = replace(note, **earlier.values)
    named = ("content", "at", "key", "thread", "speaker")
    return id_of(namespace or (), NoteInput(**{name: getattr(note, name) for name in named}))
