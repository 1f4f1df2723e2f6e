"""Finds a note by its id, the start of its id, or its key, and a change by the start of its id."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import TypeVar
from uuid import UUID

from .. import AgenticMemory
from ..errors import InvalidInputError, NoteNotFoundError
from ..notes import Change, Namespace, Note
from .options import format_namespace

T = TypeVar("T", Note, Change)

PAGE = 256

_START = re.compile(r"[0-9a-f-]{4,36}")


def find_note(memory: AgenticMemory, name: str, namespace: Namespace) -> Note:
    """Return the note that a name stands for.

    Raises:
        NoteNotFoundError: There is none.
        InvalidInputError: Several ids start with it.
    """
    if _is_id(name):
        return memory.get(name, namespace=namespace)
    if keyed := memory.get_all(namespace=namespace, where={"key": name}, limit=1):
        return keyed[0]
    notes = all_notes(memory, namespace) if _START.fullmatch(name) else ()
    found = [note for note in notes if note.id.startswith(name)]
    if not found:
        raise NoteNotFoundError(
            f"no note has the id or key {name!r} in namespace {format_namespace(namespace)}; "
            "`amem show` lists the last ones"
        )
    return _only(name, found)


def find_change(memory: AgenticMemory, name: str, namespace: Namespace) -> Change:
    """Return the change whose id starts with a name.

    Raises:
        NoteNotFoundError: There is none.
        InvalidInputError: There are several.
    """
    changes = memory.history(None, namespace=namespace)
    found = [change for change in changes if change.id.startswith(name)]
    if not found:
        raise NoteNotFoundError(
            f"there is no change {name!r} in namespace {format_namespace(namespace)}; "
            "`amem history` lists them"
        )
    return _only(name, found)


def notes_by_id(
    memory: AgenticMemory, ids: Collection[str], namespace: Namespace
) -> dict[str, Note]:
    """Return those of the notes that exist, by id."""
    wanted, found = list(dict.fromkeys(ids)), dict[str, Note]()
    for start in range(0, len(wanted), PAGE):
        where = {"id": {"$in": wanted[start : start + PAGE]}}
        notes = memory.get_all(namespace=namespace, where=where, limit=PAGE)
        found |= {note.id: note for note in notes}
    return found


def all_notes(memory: AgenticMemory, namespace: Namespace) -> Iterator[Note]:
    """Return all notes of a namespace, oldest first."""
    after = -1
    while True:
        where = {"seq": {"$gt": after}}
        page = memory.get_all(namespace=namespace, where=where, limit=PAGE)
        yield from page
        if len(page) < PAGE:
            return
        after = page[-1].seq


def _only(name: str, found: Sequence[T]) -> T:
    if len(found) > 1:
        ids = ", ".join(sorted(each.id for each in found)[:5])
        raise InvalidInputError(f"{name!r} starts {len(found)} ids: {ids}; give more of the id")
    return found[0]


def _is_id(name: str) -> bool:
    try:
        return str(UUID(name)) == name.lower()
    except ValueError:
        return False
