"""Notes, calls and decisions as lines of JSON, and back, exactly.

The first line says what the file is, and whose notes follow; then come the notes, oldest first, with their earlier
values, then each call before its decisions. Views and vectors are not written: they are made anew of the rest::

    {"format": "amem-integrations", "version": 2, "namespace": ["ann"]}
    {"note": {"id": …, "rev": …, "content": …, "earlier": […], …}}
    {"call": {"id": …, "by": …, "shown": [[note, rev], …], …}}
    {"decision": {"id": …, "call": …, "note": …, "rev": …, "stage": "construct", "items": […], …}}

A file of several namespaces has all of that for each of them, one after the other.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from .decisions import WRITTEN, Call, Decision
from .errors import InvalidInputError, NamespaceError
from .ids import derive, new_token, note_id
from .kinds import kind_of
from .notes import Namespace, Note, NoteInput, check_namespace
from .plans import adapter_of
from .stored_note import Earlier, StoredNote

FORMAT, VERSION = "amem-integrations", 2
MAX_HEADER = 100_000  # characters of the first line
MAX_SEQ = 2**62  # in the year 2116; what is added next is numbered above all that is stored
PAGE = 64  # notes, or calls, that are read at once
REPEATS = 64  # how often the same words may have been said anew
# Fields of a note that the user gave; the others are made of them and of the decisions.
NOTE = (
    "id", "seq", "content", "recorded_at", "at", "speaker", "source", "origin", "thread", "key", "until", "expires_at",
    "metadata", "rev",
)  # fmt: skip
UNWRITTEN = ("namespace", "token", "phase")  # fields of records that are of one memory only

Line = dict[str, Any]
Record = StoredNote | Call | Decision
Numbered = TypeVar("Numbered", Note, Call, Decision)


def header(namespace: Namespace) -> Line:
    """Return the line before the notes of a namespace."""
    return {"format": FORMAT, "version": VERSION, "namespace": list(namespace)}


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


def read(
    path: str | PathLike[str], namespace: Namespace | None
) -> Iterator[tuple[Namespace, Namespace, list[Record]]]:
    """Yield what a file holds by pages: whose it is by the file and as it is to be, and notes, or calls with their decisions.

    All is to be in `namespace`; None: where it comes from. Ids are those of the file. Notes are numbered (`seq`) as in the
    file, but always upwards, so that none is passed over in reading on after another. No decision has been looked at yet
    in the memory that it is for.

    Raises:
        InvalidInputError: The file is no export, or of another version; the message names the line. What stands before
            it was yielded.
        OSError: The file cannot be read.
    """
    own: Namespace = ()
    last, page = 0, list[Record]()
    try:
        for number, line in _lines(path):
            if not own or "format" in line:
                found = _namespace(path, line)
                if page:
                    yield own, namespace or own, page
                own, last, page = found, 0, []
                continue
            with _damage(path, number):
                value = _value(line, namespace or own, last)
            if isinstance(value, StoredNote) and value.note is not None:
                last = value.note.seq
            if page and _begins_a_page(value, page):
                yield own, namespace or own, page
                page = []
            page.append(value)
    except InvalidInputError:
        if page:
            yield own, namespace or own, page
        raise
    if not own:
        raise _no_export(path)
    yield own, namespace or own, page


def _begins_a_page(record: Record, page: Sequence[Record]) -> bool:
    is_other = isinstance(record, StoredNote) is not isinstance(page[0], StoredNote)
    return is_other or (len(page) >= PAGE and not isinstance(record, Decision))


def is_export(path: Path) -> bool:
    """Return whether a file begins as an export does."""
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        try:
            first = json.loads(file.readline(MAX_HEADER))
        except (ValueError, RecursionError):
            return False
    return isinstance(first, dict) and first.get("format") == FORMAT


@dataclass(frozen=True, slots=True)
class Summary:
    """The result of a first reading of a file.

    Attributes:
        counts: How many notes the file holds of each namespace.
        ids: By the id of each note in the file, the id that the note would have if it had been added to the namespace
            that it is imported into; empty if it is put where it comes from.
    """

    counts: dict[Namespace, int]
    ids: Mapping[str, str]

    def ids_beside(self, namespace: Namespace, stored: Collection[str]) -> dict[str, str]:
        """Return by the id in the file the id that each note gets in a namespace in which some are `stored` already.

        A note keeps its id only if it is stored there, or is the one that its key or words have in that namespace; else
        it gets one of that namespace. A file may say anything, and ids must not reach notes of others.
        """
        ids = {old: old if old in stored else new for old, new in self.ids.items()}
        if len(set(ids.values())) < len(ids):  # two notes of one text: one of them was updated
            ids = {old: old if old in stored else derive("import", namespace, old) for old in ids}
        return ids


def summary(path: str | PathLike[str], into: Namespace | None = None) -> Summary:
    """Return how many notes a file holds, and their ids in the namespace `into` that they are for.

    Raises:
        InvalidInputError: The file is no export, or a line is damaged; the message names the line.
        OSError: The file cannot be read.
    """
    counts, ids = dict[Namespace, int](), dict[str, str]()
    space: Namespace = ()
    for number, line in _lines(path):
        if not space or "format" in line:
            space = _namespace(path, line)
            counts.setdefault(space, 0)
        counts[space] += "note" in line
        if into is not None and "note" in line:
            with _damage(path, number):
                ids[str(line["note"]["id"])] = _own_id(line, into)
    return Summary(counts, ids)


@contextmanager
def _damage(path: str | PathLike[str], number: int) -> Iterator[None]:
    """Translate what a line raises that is not as `line_of` writes it."""
    try:
        yield
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise InvalidInputError(f"line {number} of {path} is damaged: {error}") from error


def _value(line: Line, namespace: Namespace, last: int) -> Record:
    kind = next((name for name in ("note", "call", "decision") if name in line), None)
    if kind is None:
        raise ValueError(f"a line is a note, a call or a decision, not {', '.join(line)}")
    data, token = {**line[kind], "namespace": namespace}, new_token()
    if kind == "call":
        call: Call = adapter_of(Call).validate_python({**data, "token": token})
        return _numbered(call)
    if kind == "decision":
        made = {**data, "token": token, "phase": WRITTEN}
        decision: Decision = adapter_of(Decision).validate_python(made)
        return _numbered(decision)
    note = _numbered(_note(data))
    note = replace(note, seq=max(note.seq, last + 1), rev=note.rev or note.seq)
    earlier = tuple(_read_earlier(data, *each) for each in data.get("earlier", ()))
    thorough = data.get("thorough", 0)
    if (
        not isinstance(thorough, int)
        or max(thorough, note.rev, *(e.seq for e in earlier)) >= MAX_SEQ
    ):
        raise ValueError("thorough, rev and seq are times in nanoseconds")
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


def _numbered(value: Numbered) -> Numbered:
    if value.seq >= MAX_SEQ:
        raise ValueError(f"seq={value.seq} is no time in nanoseconds")
    return value


def _lines(path: str | PathLike[str]) -> Iterator[tuple[int, Line]]:
    with Path(path).open("rb") as file:
        for number, text in enumerate(file, start=1):
            try:
                line = json.loads(text)
            except (ValueError, RecursionError) as error:
                raise InvalidInputError(f"line {number} of {path} is no JSON: {error}") from error
            if not isinstance(line, dict):
                raise InvalidInputError(f"line {number} of {path} is no JSON object")
            yield number, line


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


def _own_id(line: Line, namespace: Namespace) -> str:
    """Return the id that a note would have if it had been added to `namespace` in its first wording, as often as it was said."""
    data = {**line["note"], "namespace": namespace}
    for *_, values in reversed(data.get("earlier", ())):
        data |= values
    note = _note(data)
    item = NoteInput(
        content=note.content, at=note.at, key=note.key, thread=note.thread, speaker=note.speaker
    )
    first = again = note_id(namespace, item)
    for _ in range(REPEATS):
        if again == note.id:
            return again
        again = derive("again", again)
    return first
