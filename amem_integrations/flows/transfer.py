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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import groupby
from operator import itemgetter
from os import PathLike
from pathlib import Path
from shutil import copymode
from typing import Any, TextIO

from ..decisions import WRITTEN, Call, Decision, form_id, slot_id
from ..embedding import with_vectors_anew
from ..errors import InvalidInputError
from ..fetch import recorded_namespaces
from ..ids import derive, new_token
from ..ids import note_id as id_of
from ..journal.commit import commit
from ..journal.fold import VIEW_FIELDS, changed_fields
from ..journal.projection import project
from ..journal.writer import Writer, as_it_is, restore
from ..notes import Namespace, Note, NoteInput, Wording, check_namespace
from ..plans import adapter_of, check_item
from ..ports import NoteQuery, RecordQuery
from ..runtime import Meter, Progress, Runtime, resolve
from ..stored_note import StoredNote
from ..stores.payloads import check_uuid, encode_note, encode_record
from .writing import writing

FORMAT, VERSION = "amem-integrations", 2
BEGINNING = f'{{"format": "{FORMAT}", '
NO_EXPORT = "it is no export of a memory; `export` makes one"
MAX_SEQ = 2**62  # in the year 2116; what is added next is numbered above all that is stored
PAGE = 64  # notes, or calls, that are read and written at once
# Fields of a note that the user gave; the others are made of them and of the decisions.
NOTE = {one.name for one in fields(Note)} - VIEW_FIELDS - {"namespace"}
OF_STORED = {"id", "namespace", "token", "rev", "thorough", "earlier"}
# Fields of calls and decisions that are not written.
OF_ONE_MEMORY = {"namespace", "token", "phase"}

# The errors of a line that holds something else.
NOT_READ = (KeyError, TypeError, AttributeError, ValueError, RecursionError)

Line = dict[str, Any]
Told = StoredNote | Call | Decision  # by a line of a file


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
    spaces = await recorded_namespaces(runtime.store, namespace)
    alive: set[str] = set()
    with whole_file(path) as file:

        def write(line: Line) -> None:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")

        for space in spaces:
            write({"format": FORMAT, "version": VERSION, "namespace": [*space]})
            async with writing(runtime, space) as writer:
                notes = await writer.find_notes(NoteQuery(alive=True))
                alive |= notes.keys()
                lines = [_note_line(stored) for stored in notes.values()]
                for line in sorted(lines, key=lambda one: (one["seq"], one["id"])):
                    write({"note": line})
                for record in await _records(writer, alive, with_costs=namespace is None):
                    kind: Any = type(record)
                    made = adapter_of(kind).dump_python(record, mode="json", exclude=OF_ONE_MEMORY)
                    write({kind.__name__.lower(): made})
        if not spaces:  # a file of no namespace is an export as well
            write({"format": FORMAT, "version": VERSION, "namespace": None})
    return len(alive)


@contextmanager
def whole_file(path: str | PathLike[str]) -> Iterator[TextIO]:
    """Open a file that is there whole in the end, or stays as it was; an error names the file, not the draft beside it.

    Of a link it is the file where it leads. A pipe or a device is written to. Whoever may read it is as before.
    """
    goal = Path(path)
    if goal.exists() and not goal.is_file():
        with goal.open("w", encoding="utf-8") as file:
            yield file
        return
    goal = goal.resolve()
    draft = Path(f"{goal}.{new_token()}.tmp")  # no file of somebody else has this name
    try:
        draft.touch()
        if goal.exists():
            copymode(goal, draft)
        with draft.open("w", encoding="utf-8") as file:
            yield file
        draft.replace(goal)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error
    finally:
        draft.unlink(missing_ok=True)


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
            records.append(replace(call, shown=shown, cost=call.cost if with_costs else ()))
        records += sorted(decisions.get(call.id, ()), key=lambda one: (one.seq, one.id))
    return records


def _note_line(stored: StoredNote) -> Line:
    """Return the fields of the line of a note: those that the user gave, and the earlier values."""
    wanted: Any = {"note": NOTE, "thorough": True, "earlier": True}
    told = adapter_of(StoredNote).dump_python(stored, mode="json", include=wanted)
    values = {**told.pop("note"), **told}
    return {name: value for name, value in values.items() if value not in (None, 0, [])}


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
        InvalidInputError: The file is no export, a line is damaged or cannot be stored, or the file is of several
            namespaces where one is given; nothing is imported.
        NamespaceError: The namespace is malformed.
        StoreError: The store refused, such as an id in the file that a note of another namespace has.
        OSError: The file cannot be read.
        ModelUnavailableError: The embedder failed; import again to go on.
    """
    given = None if namespace is None else check_namespace(namespace)
    count, ids = look_through(path, given)
    meter = Meter(progress, count)
    try:
        for own, records in groupby(_read(path, given), key=itemgetter(0)):
            one = _Import(runtime, own, given or own, ids, with_costs=given is None)
            await one.put((record for _, record in records), meter)
    finally:
        runtime.clock.start_above(await resolve(runtime.store.last_seq()))
    return meter.done


def look_through(
    path: str | PathLike[str], into: Namespace | None
) -> tuple[int, Mapping[str, str]]:
    """Read and check all of a file that is to be imported into a namespace, or (None) where everything comes from.

    Return the number of its notes and, by the id in the file, the ids that they get in another namespace.

    Raises:
        InvalidInputError: See `import_`.
        OSError: The file cannot be read.
    """
    spaces, count, ids, taken = set[Namespace](), 0, dict[str, str](), set[str]()
    for own, one in _read(path, into):
        spaces.add(own)
        if isinstance(one, StoredNote):
            count += 1
            if into not in (None, own) and one.id not in ids:
                note_id = _id_in(into, one)
                # A text that was said again after a correction has the next id, as `add` gives it.
                while note_id in taken:
                    note_id = derive("again", note_id)
                ids[one.id] = note_id
                taken.add(note_id)
    if into is not None and len(spaces) > 1:
        raise InvalidInputError(
            f"{path} holds {len(spaces)} namespaces; import it without a namespace"
        )
    return count, ids


def _id_in(namespace: Namespace | None, stored: StoredNote) -> str:
    """Return the id that a note would have if it had been added to a namespace in its first wording."""
    note: Any = stored.note
    for earlier in reversed(stored.earlier):
        note = replace(note, **earlier.values)
    named = ("content", "at", "key", "thread", "speaker")
    return id_of(namespace or (), NoteInput(**{name: getattr(note, name) for name in named}))


def is_export(path: Path) -> bool:
    """Return whether a file begins as an export does."""
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        return file.read(len(BEGINNING)) == BEGINNING


def _read(path: str | PathLike[str], into: Namespace | None) -> Iterator[tuple[Namespace, Told]]:
    """Yield all that a file holds, each with the namespace that the file names.

    All is to be in the namespace `into`; None: where it comes from. Ids are those of the file. Notes are numbered (`seq`)
    as in the file, but always upwards, so that none is passed over in reading on after another. No decision has been
    looked at yet in the memory that it is for.

    Raises:
        InvalidInputError: The file is no export, or of another version, or a line is damaged or cannot be stored; the
            message names the line.
        OSError: The file cannot be read.
    """
    own, last = None, 0
    with Path(path).open("rb") as file:
        for number, text in enumerate(file, start=1):
            try:
                line = dict(json.loads(text))
                if not own or "format" in line:
                    own, last = _namespace(line), 0
                    continue
                record = _record(line, into or own, last)
            except NOT_READ as error:
                raise InvalidInputError(f"line {number} of {path} is damaged: {error}") from error
            if isinstance(record, StoredNote) and record.note is not None:
                last = record.note.seq
            yield own, record
    if own is None:
        raise InvalidInputError(f"{path} is damaged: {NO_EXPORT}")


def _namespace(line: Line) -> Namespace:
    """Return the namespace whose notes follow this line; an empty one in the export of an empty memory."""
    if line.get("format") != FORMAT:
        raise ValueError(NO_EXPORT)
    if (version := line["version"]) != VERSION:
        other = "newer" if version > VERSION else "older"
        raise ValueError(
            f"it is of version {version}, this version of amem-integrations reads version {VERSION}; "
            f"import it with the {other} version that wrote it"
        )
    return Namespace() if line["namespace"] is None else check_namespace(line["namespace"])


def _record(line: Line, namespace: Namespace, last: int) -> Told:
    """Return the note, call or decision of a line, which can be stored; `last` is the seq of the note before."""
    kind = next((name for name in ("note", "call", "decision") if name in line), None)
    if kind is None:
        raise ValueError(f"a line is a note, a call or a decision, not {', '.join(line)}")
    data = {**line[kind], "namespace": namespace, "token": new_token(), "phase": WRITTEN}
    one: Any = Call if kind == "call" else Decision
    record = _stored_note(data, last) if kind == "note" else adapter_of(one).validate_python(data)
    if isinstance(record, Decision):
        for note_id in (*record.about, *(source.id for source in record.sources)):
            check_uuid(note_id, "the id of a note")
        for item in record.items:
            check_item(item, strict=True)
    shown = record.shown if isinstance(record, Call) else ()
    for source in shown:
        check_uuid(source.id, "the id of a source")
    payload = encode_note(record) if isinstance(record, StoredNote) else encode_record(record)
    newest = max(payload["seq"], payload.get("last", 0), *(source.rev for source in shown))
    if newest >= MAX_SEQ:
        raise ValueError(f"there are no times in nanoseconds such as {newest}")
    return record


def _stored_note(data: Line, last: int) -> StoredNote:
    """Return a note with what the user gave, and nothing that was made of it."""
    said = {name: value for name, value in data.items() if name in {*NOTE, "namespace"}}
    own = {name: value for name, value in data.items() if name in OF_STORED}
    stored: Any = adapter_of(StoredNote).validate_python({"rev": data["seq"], **own, "note": said})
    earlier = []
    for each in stored.earlier:
        if unknown := each.values.keys() - NOTE:
            raise ValueError(f"a note has no {', '.join(sorted(unknown))}")
        was = adapter_of(Note).validate_python({**said, **each.values})
        earlier.append(each._replace(values={name: getattr(was, name) for name in each.values}))
    note = replace(stored.note, seq=max(stored.note.seq, last + 1))
    made: StoredNote = replace(stored, note=note, earlier=tuple(earlier))
    return made


def _pages(records: Iterable[Told]) -> Iterator[list[Told]]:
    """Yield by pages notes, or calls with all of their decisions."""
    page = list[Told]()
    for record in records:
        is_full = len(page) >= PAGE and not isinstance(record, Decision)
        if is_full or (page and isinstance(page[0], StoredNote) != isinstance(record, StoredNote)):
            yield page
            page = []
        page.append(record)
    yield page


@dataclass(slots=True)
class _Import:
    """Puts what a file holds of one namespace into the memory, a page at a time: notes, what was decided about them, vectors.

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

    async def put(self, records: Iterable[Told], meter: Meter) -> None:
        """Write notes, and calls with their decisions, in the order of the file; then give the notes their vectors."""
        for page in _pages(records):
            notes = [one for one in page if isinstance(one, StoredNote)]
            async with writing(self.runtime, self.space) as writer:
                bare = replace(writer, embed=as_it_is)  # in the end each note is embedded once
                await (self._put_notes(bare, notes) if notes else self._put_calls(bare, page))
        embed = partial(with_vectors_anew, self.runtime.embedder)
        for start in range(0, len(self.here), PAGE):
            ids = self.here[start : start + PAGE]
            async with writing(self.runtime, self.space) as writer:
                await project(replace(writer, embed=embed), self.stale.intersection(ids))
            meter.add(len(ids))

    async def _put_notes(self, writer: Writer, notes: Sequence[StoredNote]) -> None:
        moved_to = dict[str, StoredNote]()  # of a note told twice the last
        for one in notes:
            note_id = self._id(one.id)
            moved_to[one.id] = replace(
                one, id=note_id, note=one.note and replace(one.note, id=note_id)
            )
        made = {new.id: new for new in moved_to.values()}
        known = await writer.notes(made)
        missing = frozenset(made.keys() - known.keys())
        old = await writer.decisions(RecordQuery(about=missing)) if missing else {}
        # A note that was deleted here has another rev, for so was what had been decided about its wording.
        again = {one.note for one in old.values()} & missing
        renewed = {i: replace(made[i], rev=writer.new_seq()) for i in again}
        stands = await restore(writer, [*(made | renewed).values()], known)
        for id_in_file, moved in moved_to.items():
            stored = stands.get(moved.id)
            if stored is None or stored.note is None:
                continue
            if stored.rev == moved.rev or _is_as(stored, moved):
                self.revs[id_in_file] = moved.rev, stored.rev
            if not stored.embedded:
                self.stale.add(moved.id)
        self.here += made

    async def _put_calls(self, writer: Writer, page: Sequence[Told]) -> None:
        calls = {one.id: one for one in page if isinstance(one, Call)}
        decisions = [one for one in page if isinstance(one, Decision) and one.call in calls]
        named = {end for one in decisions for end in one.about}
        named |= {source.id for call in calls.values() for source in call.shown}
        there = await writer.notes(map(self._id, named))
        alive = {"", *(key for key, stored in there.items() if not stored.is_deleted)}
        moved: dict[str, list[Decision]] = {key: [] for key in calls}
        for one in decisions:
            if one.note in self.revs or one.stage == "form":
                moved[one.call].append(self._moved_decision(one, alive))
        wanted = {one.id for made in moved.values() for one in made}
        stored = await writer.records(wanted.union(map(self._id, calls)))
        for key, made in moved.items():
            call = replace(calls[key], id=self._id(key))
            # A note that nobody knows any more would count as deleted thoroughly.
            shown = {self._source(one) for one in call.shown if self._id(one.id) in there}
            call = replace(
                call, shown=tuple(sorted(shown)), cost=call.cost if self.with_costs else ()
            )
            if not made and self.with_costs:
                await writer.insert_records([call])
            if all(one.id in stored for one in made):
                continue
            same = stored.get(call.id)
            if isinstance(same, Call) and not shown <= set(same.shown):
                # A note that the call was shown is not known here any more, or has another rev.
                call = replace(call, id=derive("import", call.id, call.shown), cost=())
            await commit(writer, call, [replace(one, call=call.id) for one in made])
            self.stale.update(note_id for one in made for note_id in one.about)

    def _id(self, old: str) -> str:
        """Return the id here of a note or record; what is not in the file gets one, where the file is of another namespace."""
        if old in self.ids or self.in_file == self.space or not old:
            return self.ids.get(old, old)
        return derive("import", self.space, old)

    def _source(self, source: Wording) -> Wording:
        was, now = self.revs.get(source.id, (0, 0))
        return Wording(self._id(source.id), now if source.rev == was else source.rev)

    def _moved_decision(self, old: Decision, alive: set[str]) -> Decision:
        """Return a decision as it is here: about these notes and wordings, and nothing that is not there."""
        note, rev = self._source(Wording(old.note, old.rev))
        if names := [item.data["form"] for item in old.items if "form" in item.data]:
            note = form_id(self.space, names[0])
        sources = tuple(map(self._source, old.sources))
        if old.id == slot_id(old.note, old.stage, old.rev, old.attempt):
            made_id = slot_id(note, old.stage, rev, old.attempt)
        else:
            made_id = self._id(old.id)
            made_id = made_id if sources == old.sources else derive("import", made_id, sources)
        items = [
            replace(
                item,
                to=self._id(item.to),
                other=self._id(item.other),
                sources=tuple(map(self._source, item.sources)),
            )
            for item in old.items
        ]
        return replace(
            old,
            id=made_id,
            call=self._id(old.call),
            note=note,
            rev=rev,
            items=tuple(i for i in items if old.stage == "form" or {i.to, i.other} <= alive),
            about=tuple(map(self._id, old.about)),
            sources=sources,
        )


def _is_as(stored: StoredNote, wanted: StoredNote) -> bool:
    """Return whether a note is as the file has it, but for its rev: it was deleted here, and added again by an import."""
    if stored.note is None or wanted.note is None or stored.earlier != wanted.earlier:
        return False
    return set(changed_fields(stored.note, wanted.note)) <= {"rev"}
