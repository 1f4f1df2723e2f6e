"""Where an importer reads from: a file, a collection of Qdrant, or rows that a program has in hand.

JSON and JSON lines are read value by value, a database row by row, a collection page by page; only rows in hand
are all in memory. A zip file is read as the `conversations*.json` in it.
"""

from __future__ import annotations

import io
import json
import sqlite3
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from os import PathLike, fspath
from pathlib import Path
from typing import Any, TextIO
from zipfile import BadZipFile, ZipFile, is_zipfile

from ..errors import InvalidInputError
from .json_stream import JsonStream
from .qdrant_points import is_collection, points

LINES = {".jsonl", ".ndjson"}
MAX_LINE = 1_000_000  # characters of a first line that may be one of JSON lines
SAMPLE = 20  # values that are looked at to recognise a format
# The columns by which a table of a database is known to hold messages: LangChain's, LlamaIndex's.
TABLES = ({"session_id", "message"}, {"key", "role", "data"})

Rows = Iterable[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Entry:
    """A value of a source: in a list called `field` (None: the document itself) its number, from 1; else 0."""

    source: str
    field: str | None
    number: int
    value: Any
    noun: str = ""

    def place(self, noun: str = "item") -> str:
        """Return where it stands, such as `export.json, memory 3`."""
        return f"{self.source}, {self.noun or noun} {self.number or self.field}"


class Source:
    """A file, a collection of Qdrant, or rows; it can be read again and again.

    Attributes:
        name: What errors call it.
        thread: The thread that the caller gave for what names none.
    """

    def __init__(
        self,
        given: str | PathLike[str] | Rows,
        *,
        thread: str | None = None,
        api_key: str | None = None,
    ) -> None:
        """Take a path, the URL or folder of a collection, or rows; nothing is read yet."""
        self.thread, self._api_key = thread, api_key
        self._rows: list[Mapping[str, Any]] | None = None
        if isinstance(given, str | PathLike):
            self.name = fspath(given)
        else:
            self.name, self._rows = "rows", list(given)

    @property
    def path(self) -> Path:
        """The path of a file."""
        return Path(self.name)

    @property
    def chat_thread(self) -> str | None:
        """The thread of messages that name none: the caller's, else the name of the file; rows have none."""
        return self.thread or (self.path.stem if self._rows is None else None)

    @property
    def is_lines(self) -> bool:
        """Whether it is a file with a JSON value on each line."""
        if self._rows is not None or is_collection(self.name) or self._is_database():
            return False
        if self.path.suffix in LINES:
            return True
        if is_zipfile(self.path):
            return False
        with self._open() as file:
            try:
                first = json.loads(file.readline(MAX_LINE))
            except (ValueError, RecursionError):
                return False
            return isinstance(first, Mapping | str) and any(line.strip() for line in file)

    def entries(self) -> Generator[Entry, None, None]:
        """Yield every value.

        Raises:
            InvalidInputError: It cannot be read as what it seems to be; the message names the place.
            OSError: There is no such file.
            StoreUnavailableError: The server of the collection does not answer.
        """
        if self._rows is not None:
            for number, row in enumerate(self._rows, start=1):
                yield Entry(self.name, None, number, row)
        elif is_collection(self.name):
            for number, point in enumerate(points(self.name, self._api_key), start=1):
                yield Entry(self.name, None, number, point)
        elif self._is_database():
            yield from self._tables()
        elif self.is_lines:
            yield from self.lines()
        elif is_zipfile(self.path):
            yield from self._zipped()
        else:
            with self._open() as file:
                yield from self._document(file, self.name)

    def lines(self) -> Generator[Entry, None, None]:
        """Yield the value of each line of a file that is not blank.

        Raises:
            InvalidInputError: A line is not JSON.
        """
        if self._rows is not None:
            yield from self.entries()
            return
        with self._open() as file:
            for number, line in enumerate(file, start=1):
                if not line.strip():
                    continue
                try:
                    value = json.loads(line)
                except (ValueError, RecursionError) as error:
                    raise InvalidInputError(
                        f"{self.name}, line {number} is not JSON: {error}"
                    ) from error
                yield Entry(self.name, None, number, value, "line")

    def sample(self) -> list[Entry]:
        """Return the first values."""
        with closing(self.entries()) as entries:
            return list(islice(entries, SAMPLE))

    @contextmanager
    def _open(self) -> Iterator[TextIO]:
        try:
            # Only "\n" ends a line: a text may hold another kind of line separator.
            with self.path.open(encoding="utf-8-sig", newline="\n") as file:
                yield file
        except UnicodeDecodeError as error:
            raise InvalidInputError(
                f"{self.name} is not a text file in UTF-8: {error.reason}"
            ) from error

    def _document(self, file: TextIO, name: str) -> Iterator[Entry]:
        for field, number, value in JsonStream(file, name).entries():
            yield Entry(name, field, number, value)

    def _zipped(self) -> Iterator[Entry]:
        try:
            with ZipFile(self.path) as archive:
                wanted = sorted(n for n in archive.namelist() if _is_conversations(n))
                if not wanted:
                    raise InvalidInputError(f"{self.name} holds no conversations.json")
                for member in wanted:
                    with archive.open(member) as raw, io.TextIOWrapper(raw, "utf-8-sig") as file:
                        yield from self._document(file, f"{self.name}/{member}")
        except (BadZipFile, UnicodeDecodeError) as error:
            raise InvalidInputError(f"{self.name} is a damaged zip file: {error}") from error

    def _is_database(self) -> bool:
        try:
            with self.path.open("rb") as file:
                return file.read(16) == b"SQLite format 3\0"
        except IsADirectoryError as error:
            raise InvalidInputError(
                f"{self.name} is a folder; give a file, or a collection of Qdrant as "
                "<folder>/collection/<name>"
            ) from error

    def _tables(self) -> Iterator[Entry]:
        """Yield the rows of all tables with the columns of messages, in the order they were written."""
        uri = f"{self.path.absolute().as_uri()}?mode=ro"
        try:
            with closing(sqlite3.connect(uri, uri=True)) as base:
                base.row_factory = sqlite3.Row
                for table in _message_tables(base):
                    rows = base.execute(f'SELECT * FROM "{table}" ORDER BY rowid')  # noqa: S608
                    for number, row in enumerate(rows, start=1):
                        yield Entry(self.name, table, number, dict(row), f"{table} row")
        except sqlite3.Error as error:
            raise InvalidInputError(f"{self.name} cannot be read as a database: {error}") from error


def _is_conversations(member: str) -> bool:
    name = member.rpartition("/")[2]
    return name.startswith("conversations") and name.endswith(".json")


def _message_tables(base: sqlite3.Connection) -> list[str]:
    names = [row[0] for row in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    found = []
    for name in names:
        quoted = name.replace('"', '""')
        columns = {row[1] for row in base.execute(f'PRAGMA table_info("{quoted}")')}
        if any(wanted <= columns for wanted in TABLES):
            found.append(quoted)
    return found
