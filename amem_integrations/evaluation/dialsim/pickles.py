"""Reads a pickle or JSON file into dicts, lists and plain values, and into nothing else.

The data set is published as pickles. A pickle is a program: loaded as usual, it can run anything. Here it may
build Python's containers, and is refused as soon as it names anything else.
"""

from __future__ import annotations

import builtins
import collections
import json
import pickle
from pathlib import Path
from typing import Any

from ...errors import InvalidInputError

_ALLOWED = {
    ("builtins", "dict"): dict,
    ("builtins", "list"): list,
    ("builtins", "set"): builtins.set,
    ("builtins", "frozenset"): frozenset,
    ("builtins", "tuple"): tuple,
    ("collections", "OrderedDict"): collections.OrderedDict,
    ("collections", "defaultdict"): collections.defaultdict,
}
_OLD_NAMES = {"__builtin__": "builtins"}  # of Python 2, and of protocols 0 to 2


class Forbidden(pickle.UnpicklingError):
    """A pickle names something that is not a container."""


class ContainerUnpickler(pickle.Unpickler):
    """Builds containers of plain values; anything else is an error before it is even imported."""

    def find_class(self, module: str, name: str) -> Any:  # noqa: ANN401 - as in the base class
        """Return a container type.

        Raises:
            Forbidden: The name is of something else.
        """
        try:
            return _ALLOWED[_OLD_NAMES.get(module, module), name]
        except KeyError:
            raise Forbidden(f"{module}.{name}") from None


def read(path: Path) -> Any:  # noqa: ANN401 - whatever the file holds
    """Return the contents of a JSON file or a pickle; its first bytes decide which it is.

    Raises:
        InvalidInputError: It is neither, or a pickle that would build more than containers.
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        start = file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n")  # 64: more than any indentation
    return _json(path) if start[:1] in {b"{", b"["} else _pickled(path)


def _json(path: Path) -> Any:  # noqa: ANN401
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"{str(path)!r} is not a JSON file: {error}") from error


def _pickled(path: Path) -> Any:  # noqa: ANN401
    try:
        with path.open("rb") as file:
            return ContainerUnpickler(file).load()
    except Forbidden as error:
        raise InvalidInputError(
            f"{str(path)!r} is a pickle that builds {error}, and so could run code: it was not loaded. "
            "If you trust who made it, write it as JSON yourself and give that file"
        ) from error
    except OSError:
        raise
    except Exception as error:  # a broken pickle can end in nearly any error, as its docs say
        raise InvalidInputError(
            f"{str(path)!r} is neither a JSON file nor a whole pickle: {error!r}"
        ) from error
