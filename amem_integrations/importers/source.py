"""The sources that importers read, and the values that they yield.

JSON and JSON lines are read value by value; only rows in hand are all in memory. Of a zip file the `conversations*.json` in
it are read.
"""

from __future__ import annotations

import json
import re
import zlib
from codecs import BOM_UTF8
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from lzma import LZMAError
from os import PathLike
from pathlib import Path
from typing import IO, Any, NamedTuple
from zipfile import BadZipFile, ZipFile, is_zipfile

import ijson

from ..errors import InvalidInputError
from ..ids import parse_time
from ..notes import Namespace, NoteInput, storable

MAX_LINE = 1_000_000  # bytes in which a file of JSON lines has two of them
LINE = "line"  # stands for the field of a value that has a line of its own

Rows = Iterable[Mapping[str, Any]]


class Skipped(NamedTuple):
    """A part of the source that an importer left out: the reason, and the place."""

    reason: str
    where: str


# The namespace is () where the source does not say whose a note is.
Found = tuple[Namespace, NoteInput]


class Format(NamedTuple):
    """A format: how a source is read, and whether a value of a source is of the format."""

    read: Callable[[Source], Iterator[Found | Skipped]]
    recognises: Callable[[Record], bool]


def having(*names: str) -> Callable[[Collection[str]], bool]:
    """Return a function that tells whether an object has all of these fields."""
    return lambda fields: all(name in fields for name in names)


class Record(dict[str, Any]):
    """A value of a source: the fields of a JSON object; `content` for a text, none for another value.

    Attributes:
        value: What the source holds.
        where: The place that errors name, such as `export.json, results 3`.
        field: The field of the document that holds the value, alone or in a list; empty for the document itself.
        number: The number of the value in its list, from 1; 0 if the value is in no list.
    """

    def __init__(self, value: object, where: str, field: str = "", number: int = 0) -> None:
        fields = {"content": value} if isinstance(value, str) else value
        super().__init__(fields if isinstance(fields, Mapping) else {})
        self.value, self.field, self.number = value, field, number
        place = f", {field or 'item'} {number or ''}".rstrip() if field or number else ""
        self.where = where + place

    def inner(self, name: str) -> Record:
        """Return the object in a field; an empty one if there is none."""
        return Record(self.get(name), self.where)

    def objects(self, name: str) -> list[Record]:
        """Return the objects in a list; nothing if the field holds no list."""
        values = self[name] if isinstance(self.get(name), list) else ()
        return [Record(value, self.where) for value in values if isinstance(value, Mapping)]

    def text(self, *names: str) -> str | None:
        """Return the first of these fields that holds text, stripped."""
        texts = (self[name].strip() for name in names if isinstance(self.get(name), str))
        return next(filter(None, texts), None)

    def label(self, *names: str) -> str | None:
        """Return the first of these fields that holds an id, as text."""
        labels = (storable(str(self[name])) for name in names if self.get(name) is not None)
        return next((label for label in labels if label.strip()), None)

    def time(self, *names: str) -> datetime | None:
        """Return the first of these fields that is there, as a time: ISO 8601 text, or seconds since 1970.

        Raises:
            InvalidInputError: The field holds neither.
        """
        value = next((self[name] for name in names if self.get(name)), None)
        try:
            if isinstance(value, int | float):
                return datetime.fromtimestamp(value, UTC)
            return None if value is None else parse_time(str(value))
        except (ValueError, OverflowError, OSError) as error:
            raise InvalidInputError(
                f"{self.where}: {value!r} is not a time (2026-05-08)"
            ) from error

    def rest(self, known: Iterable[str]) -> dict[str, Any]:
        """Return the metadata of the object, and every field that a note has no place for."""
        rest = {name: self[name] for name in self if name not in known and self[name] is not None}
        given = rest.pop("metadata") if isinstance(self.get("metadata"), Mapping) else {}
        return {**rest, **given}

    def attempt(self, convert: Callable[[Record], Iterable[Any]]) -> list[Any]:
        """Return all notes and skipped parts that a function makes of the object; an object that cannot be read is one skipped part."""
        try:
            return list(convert(self))
        except InvalidInputError as error:
            return [Skipped("cannot be read", str(error))]


class Source:
    """A file, or rows; a source can be read again and again.

    Attributes:
        name: What errors call the source.
        thread: The thread that the caller gave for what names none.
        chat_thread: The thread of messages that name none: the caller's, else the name of the file; rows have none.
    """

    def __init__(self, given: str | PathLike[str] | Rows, *, thread: str | None = None) -> None:
        """Take a path, or rows; nothing is read yet."""
        self._path = Path(given) if isinstance(given, str | PathLike) else None
        self._rows = () if isinstance(given, str | PathLike) else tuple(given)
        self.name = str(self._path or "rows")
        self.thread = thread
        self.chat_thread = thread or (self._path.stem if self._path else None)

    def entries(self, *, lines: bool = False) -> Iterator[Record]:
        """Yield every value; with `lines`, a text file has a value on each line, whatever the file looks like.

        Raises:
            InvalidInputError: The source cannot be read as what it seems to be; the message names the place.
            OSError: There is no such file, or the path is that of a folder.
        """
        for number, row in enumerate(self._rows, start=1):
            yield Record(row, self.name, number=number)
        if self._path is None:
            return
        with self._path.open("rb") as file:
            if is_zipfile(file):
                yield from _zipped(file, self.name)
            else:
                read = _lines if lines or _has_lines(file, self.name) else _document
                file.seek(0)
                yield from read(file, self.name)


def _has_lines(file: IO[bytes], name: str) -> bool:
    """Return whether a file has a JSON value on each line: by its name, or its first two lines."""
    file.seek(0)
    # The spaces are looked through once, however many lines they make.
    start = re.match(rb'(\xef\xbb\xbf)?\s*(\{.*\}|".*")[^\S\n]*+\n\s*+["{]', file.read(MAX_LINE))
    return start is not None or name.endswith((".jsonl", ".ndjson"))


def _lines(file: IO[bytes], name: str) -> Iterator[Record]:
    """Yield the value of each line that is not blank; of a line that is not JSON an `InvalidInputError` that says so."""
    for number, line in enumerate(file, start=1):
        if line.strip():
            try:
                value: object = parsed(line, f"{name}, line {number}")
            except InvalidInputError as error:
                value = error
            yield Record(value, name, LINE, number)


def _zipped(file: IO[bytes], name: str) -> Iterator[Record]:
    """Yield the values of the conversations in a zip file."""
    try:
        with ZipFile(file) as archive:
            matches = re.compile(r"(.*/)?conversations[^/]*\.json").fullmatch
            members = [member for member in sorted(archive.namelist()) if matches(member)]
            if not members:
                raise InvalidInputError(f"{name} holds no conversations.json")
            for member in members:
                with archive.open(member) as document:
                    yield from _document(document, f"{name}/{member}")
    # A file that has a password is a `RuntimeError`, and a stream of bzip2 that is damaged an `OSError`.
    except (BadZipFile, EOFError, LZMAError, OSError, RuntimeError, zlib.error) as error:
        raise InvalidInputError(f"{name} cannot be unpacked: {error}") from error


def parsed(text: object, where: str) -> Any:  # noqa: ANN401 - JSON
    """Return the value that is written in a text as JSON, or the value itself if it is no text.

    Raises:
        InvalidInputError: The text is not JSON.
    """
    try:
        return json.loads(text) if isinstance(text, str | bytes) else text
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"{where} is not JSON: {error}") from error


def _document(file: IO[bytes], name: str) -> Iterator[Record]:
    """Yield the values of a JSON document; one value is in memory at a time.

    The items of a list that is the document, or a field of the document, are values of their own; any other field is
    one, with number 0.
    """
    file.seek(3 if file.read(3) == BOM_UTF8 else 0)
    try:
        events = ijson.basic_parse(file)
        first = next(events)
        for field, event, given in _fields(events) if first[0] == "start_map" else [("", *first)]:
            if event == "start_array":
                for number, value in enumerate(_values(events), start=1):
                    yield Record(value, name, field, number)
            else:
                yield Record(_value(event, given, events), name, field)
        list(events)  # raises an error if there is more after the end
    # For Python only, halves of surrogate pairs, written as three bytes each, are no UTF-8, and integers can be too long.
    except (ijson.JSONError, RecursionError, SystemError, ValueError) as error:
        reason = " ".join(str(error.__cause__ or error).partition("(right here)")[0].split())
        raise InvalidInputError(f"{name} is not JSON: {reason}") from error


_Events = Iterator[tuple[str, Any]]


def _fields(events: _Events) -> Iterator[tuple[str, str, Any]]:
    """Return the name and the first event of each field of an object up to its end."""
    return ((name, *next(events)) for _, name in iter(events.__next__, ("end_map", None)))


def _values(events: _Events) -> Iterator[Any]:
    """Return the values of a list up to its end."""
    return (
        _value(event, given, events) for event, given in iter(events.__next__, ("end_array", None))
    )


def _value(event: str, given: Any, events: _Events) -> Any:  # noqa: ANN401 - JSON
    """Return the value that begins with an event."""
    if event == "start_map":
        return {name: _value(kind, first, events) for name, kind, first in _fields(events)}
    if event == "start_array":
        return list(_values(events))
    return float(given) if isinstance(given, Decimal) else given
