"""Naming a note on the command line: by its id, the start of its id, or its key."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeVar
from uuid import UUID

from ..errors import InvalidInputError, NoteNotFoundError
from ..memory import AgenticMemory
from ..notes import Namespace, Note
from .namespaces import format_namespace
from .work import scan

T = TypeVar("T")

_START = re.compile(r"[0-9a-f-]{4,36}")


def find_note(memory: AgenticMemory, name: str, namespace: Namespace) -> Note:
    """Return the note that is meant.

    Raises:
        NoteNotFoundError: There is none.
        InvalidInputError: Several ids start like this.
    """
    if _is_id(name):
        return memory.get(name, namespace=namespace)
    if keyed := memory.get_all(namespace=namespace, where={"key": name}, limit=1):
        return keyed[0]
    found = []
    if _START.fullmatch(name):
        found = [note for note in scan(memory, namespace) if note.id.startswith(name)]
    if not found:
        raise NoteNotFoundError(
            f"no note has the id or key {name!r} in namespace {format_namespace(namespace)}; "
            "`amem show` lists the last ones"
        )
    return one(name, found, [note.id for note in found])


def one(name: str, found: Sequence[T], ids: Sequence[str]) -> T:
    """Return the only one found.

    Raises:
        InvalidInputError: There are several.
    """
    if len(found) > 1:
        raise InvalidInputError(f"{name!r} starts {len(found)} ids: {', '.join(sorted(ids)[:5])}")
    return found[0]


def _is_id(name: str) -> bool:
    try:
        return str(UUID(name)) == name.lower()
    except ValueError:
        return False
