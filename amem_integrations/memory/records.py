"""Notes and changes as lines of JSON, and back, exactly.

The first line says what the file is; then come the notes, oldest first, then their changes::

    {"format": "amem-integrations", "version": 1, "namespace": ["ann"]}
    {"note": {"id": …, "content": …, "contexts": […], "links": {…}, …}}
    {"change": {"id": …, "kind": "add", …}}
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ..errors import InvalidInputError
from ..ids import derive, note_id
from ..notes import Change, Namespace, Note, NoteInput

FORMAT, VERSION = "amem-integrations", 1
USERS = ("content", "metadata", "key", "speaker", "thread")  # whatever is in there is no id of ours

_NOTE = TypeAdapter(Note)
_CHANGE = TypeAdapter(Change)
Line = dict[str, Any]


def header(namespace: Namespace) -> Line:
    """Return the first line."""
    return {"format": FORMAT, "version": VERSION, "namespace": list(namespace)}


def note_line(note: Note) -> Line:
    """Return the line of a note."""
    return {"note": _NOTE.dump_python(note, mode="json")}


def change_line(change: Change) -> Line:
    """Return the line of a change."""
    return {"change": _CHANGE.dump_python(change, mode="json")}


def read(path: str | PathLike[str], namespace: Namespace) -> Iterator[Note | Change]:
    """Yield the notes and changes of a file as they are to be in `namespace`.

    In another namespace than the one they came from they get other ids.

    Raises:
        InvalidInputError: The file is no export, or of a later version; the message names the line.
        OSError: The file cannot be read.
    """
    lines = _lines(path)
    origin = _origin(path, next(lines, (1, {})))
    ids: dict[str, str] = {}
    if origin != namespace:
        ids = _other_ids(path, namespace)
    for number, line in lines:
        moved = _moved(line, ids) if ids else line
        try:
            yield _value(moved, namespace)
        except (ValidationError, KeyError, TypeError) as error:
            raise InvalidInputError(f"line {number} of {path} is damaged: {error}") from error


def count(path: str | PathLike[str]) -> int:
    """Return how many notes are in a file.

    Raises:
        InvalidInputError: A line is no JSON object.
        OSError: The file cannot be read.
    """
    return sum("note" in line for _, line in _lines(path))


def _value(line: Line, namespace: Namespace) -> Note | Change:
    if "note" in line:
        return _NOTE.validate_python({**line["note"], "namespace": namespace})
    return _CHANGE.validate_python({**line["change"], "namespace": namespace})


def _lines(path: str | PathLike[str]) -> Iterator[tuple[int, Line]]:
    with Path(path).open(encoding="utf-8") as file:
        for number, text in enumerate(file, start=1):
            try:
                line = json.loads(text)
            except ValueError as error:
                raise InvalidInputError(f"line {number} of {path} is no JSON: {error}") from error
            if not isinstance(line, dict):
                raise InvalidInputError(f"line {number} of {path} is no JSON object")
            yield number, line


def _origin(path: str | PathLike[str], first: tuple[int, Line]) -> Namespace:
    line = first[1]
    if line.get("format") != FORMAT or not isinstance(line.get("version"), int):
        raise InvalidInputError(f"{path} is no export of a memory; `export` makes one")
    if line["version"] > VERSION:
        raise InvalidInputError(
            f"{path} is of version {line['version']}, this version of amem-integrations reads up to "
            f"{VERSION}; install a newer version"
        )
    return tuple(line["namespace"])


def _other_ids(path: str | PathLike[str], namespace: Namespace) -> dict[str, str]:
    """Return by old id the id that each note would have had if it had been added to `namespace`."""
    ids: dict[str, str] = {}
    for _, line in _lines(path):
        if isinstance(told := line.get("note"), dict):
            ids[told["id"]] = _id(told, namespace)
    if len(set(ids.values())) < len(ids):  # two notes of one text: it was updated
        return {old: derive("import", namespace, old) for old in ids}
    return ids


def _id(told: Mapping[str, Any], namespace: Namespace) -> str:
    note = _NOTE.validate_python(told)
    item = NoteInput(
        content=note.content, at=note.at, key=note.key, thread=note.thread, speaker=note.speaker
    )
    return note_id(namespace, item)


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
