"""Reads a JSON document of any size value by value; one value is in memory at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, TextIO

from ..errors import InvalidInputError

CHUNK = 1 << 16  # characters read at once; more for a value that is longer
_TRUNCATED = 16  # an error that close to the end of what was read may be a word that goes on
_CUT = ("", ".", "e", "E", "e+", "E+", "e-", "E-")  # may follow a number that goes on, unread
_SPACE = " \t\n\r"


class JsonStream:
    """The values of an open file, which errors call `name`."""

    def __init__(self, file: TextIO, name: str) -> None:
        """Read nothing yet."""
        self._file, self._name = file, name
        self._decoder = json.JSONDecoder()
        self._text, self._at, self._before = "", 0, 0

    def entries(self) -> Iterator[tuple[str | None, int, Any]]:
        """Yield each value of the document as (field, number in its list from 1, value).

        The items of a list that is the document, or a field of it, are values of their own; any other field is
        one, with number 0.

        Raises:
            InvalidInputError: It is no JSON document; the message says at which character.
        """
        start = self._next()
        if start == "[":
            yield from ((None, number, value) for number, value in self._items())
        elif start == "{":
            yield from self._fields()
        else:
            yield None, 0, self._value()
        if self._next():
            raise self._error("there is more after the end of the document")

    def _fields(self) -> Iterator[tuple[str | None, int, Any]]:
        self._at += 1
        while self._next() != "}":
            name = self._value()
            if not isinstance(name, str) or self._next() != ":":
                raise self._error("expected a field and ':'")
            self._at += 1
            if self._next() == "[":
                yield from ((name, number, value) for number, value in self._items())
            else:
                yield name, 0, self._value()
            self._separator("}")
        self._at += 1

    def _items(self) -> Iterator[tuple[int, Any]]:
        self._at += 1
        number = 0
        while self._next() != "]":
            number += 1
            yield number, self._value()
            self._separator("]")
        self._at += 1

    def _separator(self, end: str) -> None:
        """Pass the comma before another value."""
        found = self._next()
        if found == ",":
            self._at += 1
            if self._next() == end:
                raise self._error("expected a value after ','")
        elif found != end:
            raise self._error(f"expected ',' or {end!r}")

    def _next(self) -> str:
        """Return the next character that is no space, without passing it; nothing at the end."""
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in _SPACE:
                    return self._text[self._at]
                self._at += 1
            if not self._fill():
                return ""

    def _value(self) -> Any:  # noqa: ANN401 - JSON
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                wrong = self._error(error.msg, error.pos)
                goes_on = error.msg.startswith("Unterminated string")
                if not goes_on and error.pos < len(self._text) - _TRUNCATED:
                    raise wrong from error
                if not self._fill():
                    raise wrong from error
            except (ValueError, RecursionError) as error:  # too many digits, or lists in lists
                raise self._error(str(error)) from error
            else:
                cut = isinstance(value, int | float) and self._text[end : end + 3] in _CUT
                if not (cut and self._fill()):
                    self._at = end
                    return value

    def _fill(self) -> bool:
        more = self._file.read(max(CHUNK, len(self._text) - self._at))
        self._before += self._at
        self._text, self._at = self._text[self._at :] + more, 0
        return bool(more)

    def _error(self, reason: str, at: int | None = None) -> InvalidInputError:
        place = self._before + (self._at if at is None else at) + 1
        return InvalidInputError(f"{self._name} is not JSON: {reason} (character {place})")
