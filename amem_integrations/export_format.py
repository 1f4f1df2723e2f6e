"""Notes and changes as lines of JSON, and back, exactly.

The first line says what the file is, and whose notes follow; then come the notes, oldest first, then their changes::

    {"format": "amem-integrations", "version": 1, "namespace": ["ann"]}
    {"note": {"id": …, "content": …, "contexts": […], "links": {…}, …}}
    {"change": {"id": …, "kind": "add", …}}

A file of several namespaces has all of that for each of them, one after the other.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from .errors import InvalidInputError, NamespaceError
from .ids import derive, note_id
from .kinds import kind_of
from .notes import Change, Namespace, Note, NoteInput, check_namespace
from .plans import adapter_of

FORMAT, VERSION = "amem-integrations", 1
MAX_SEQ = 2**62  # in the year 2116; what is added next is numbered above all that is stored
# What is in there is no id of ours.
USERS = ("content", "rest", "metadata", "key", "speaker", "thread")
REPEATS = 64  # how often the same words may have been said anew

Line = dict[str, Any]


def header(namespace: Namespace) -> Line:
    """Return the line before the notes of a namespace."""
    return {"format": FORMAT, "version": VERSION, "namespace": list(namespace)}


def note_line(note: Note) -> Line:
    """Return the line of a note."""
    return {"note": adapter_of(Note).dump_python(note, mode="json")}


def change_line(change: Change) -> Line:
    """Return the line of a change."""
    return {"change": adapter_of(Change).dump_python(change, mode="json")}


def read(
    path: str | PathLike[str], namespace: Namespace | None, stored: Collection[str] = ()
) -> Iterator[Note | Change]:
    """Yield the notes and changes of a file as they are to be in `namespace`; None: where they come from.

    Where they come from, notes keep their ids. They are numbered (`seq`) as in the file, but always upwards, so that none is passed over in reading on after
    another. In a given namespace a note keeps its id only if it is the one that its key or words have in this namespace, or one of those that
    are `stored` there; else it gets one of this namespace. A file may say anything, and ids must not reach
    notes of others.

    Raises:
        InvalidInputError: The file is no export, or of a later version; the message names the line.
        OSError: The file cannot be read.
    """
    lines = _lines(path)
    space = _namespace(path, next(lines, (1, {}))[1], namespace)
    ids = {} if namespace is None else _ids(path, namespace, stored)
    last = {Note: 0, Change: 0}
    for number, line in lines:
        if "format" in line:
            space, last = _namespace(path, line, namespace), {Note: 0, Change: 0}
            continue
        try:
            value = _value(_moved(line, ids), space)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise InvalidInputError(f"line {number} of {path} is damaged: {error}") from error
        last[type(value)] = max(value.seq, last[type(value)] + 1)
        yield replace(value, seq=last[type(value)])


def note_ids(path: str | PathLike[str]) -> list[str]:
    """Return the ids of the notes in a file, as they stand there.

    Raises:
        InvalidInputError: A line is no JSON object.
        OSError: The file cannot be read.
    """
    return [str(data.get("id")) for _, data in _notes(path)]


def counts(path: str | PathLike[str]) -> dict[Namespace, int]:
    """Return how many notes a file holds of each namespace.

    Raises:
        InvalidInputError: The file is no export; the message names the line.
        OSError: The file cannot be read.
    """
    found: dict[Namespace, int] = {}
    space: Namespace = ()
    for _, line in _lines(path):
        if not space or "format" in line:
            space = _namespace(path, line, None)
            found.setdefault(space, 0)
        found[space] += "note" in line
    return found


def _value(line: Line, namespace: Namespace) -> Note | Change:
    value: Note | Change
    if "note" in line:
        data = {"kind": kind_of(str(line["note"]["content"])), **line["note"]}
        value = adapter_of(Note).validate_python({**data, "namespace": namespace})
    else:
        value = adapter_of(Change).validate_python({**line["change"], "namespace": namespace})
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


def _namespace(path: str | PathLike[str], line: Line, namespace: Namespace | None) -> Namespace:
    """Return whose notes follow this line, which begins them, if they are for no given namespace."""
    if line.get("format") != FORMAT or not isinstance(line.get("version"), int):
        raise InvalidInputError(f"{path} is no export of a memory; `export` makes one")
    if line["version"] > VERSION:
        raise InvalidInputError(
            f"{path} is of version {line['version']}, this version of amem-integrations reads up to "
            f"{VERSION}; install a newer version"
        )
    try:
        return check_namespace(line.get("namespace")) if namespace is None else namespace
    except NamespaceError as error:
        raise InvalidInputError(f"{path} does not say whose notes it holds: {error}") from error


def _notes(path: str | PathLike[str]) -> Iterator[tuple[int, Line]]:
    for number, line in _lines(path):
        if isinstance(data := line.get("note"), dict):
            yield number, data


def _ids(
    path: str | PathLike[str], namespace: Namespace, stored: Collection[str]
) -> dict[str, str]:
    """Return by the id in the file the id that each note has in `namespace`."""
    ids: dict[str, str] = {}
    chunks: list[Line] = []
    for number, data in _notes(path):
        old = str(data.get("id"))
        if data.get("chunk_of"):
            chunks.append(data)
            continue
        try:
            ids[old] = old if old in stored else _own_id(data, namespace)
        except ValidationError as error:
            raise InvalidInputError(f"line {number} of {path} is damaged: {error}") from error
    if len(set(ids.values())) < len(ids):  # two notes of one text: one of them was updated
        ids = {old: old if old in stored else derive("import", namespace, old) for old in ids}
    for data in chunks:
        old = str(data["chunk_of"])
        whole = ids.get(old, old)
        ids[str(data["id"])] = derive("chunk", whole, data.get("chunk"))
    return ids


def _own_id(data: Line, namespace: Namespace) -> str:
    """Return the id that a note would have if it had been added to `namespace`, as often as it was said."""
    note = adapter_of(Note).validate_python({**data, "namespace": namespace})
    item = NoteInput(
        content=note.content, at=note.at, key=note.key, thread=note.thread, speaker=note.speaker
    )
    first = again = note_id(namespace, item)
    for _ in range(REPEATS):
        if again == note.id:
            return again
        again = derive("again", again)
    return first


def _moved(value: Any, ids: Mapping[str, str]) -> Any:  # noqa: ANN401 - any JSON value
    """Return a JSON value with every id replaced, but not what the user wrote."""
    if isinstance(value, str):
        field, colon, rest = value.partition(":")  # the history names a field `link:<id>`
        return f"{field}:{ids.get(rest, rest)}" if colon else ids.get(value, value)
    if isinstance(value, list):
        return [_moved(item, ids) for item in value]
    if isinstance(value, dict):
        return {
            _moved(name, ids): item if name in USERS else _moved(item, ids)
            for name, item in value.items()
        }
    return value
