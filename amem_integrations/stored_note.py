"""A note as it is stored: the user's words and the view of what was decided, with what keeps writers apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator

from .notes import Namespace, Note

Vector = NDArray[np.float32]


class Purge(NamedTuple):
    """A purge that a delete or a correction still owes: all that was made of wordings up to `rev` is to go."""

    rev: int
    deleted: bool


def _with_times(values: Any) -> Any:  # noqa: ANN401 - checked by pydantic next
    """Return the fields of a note with the times that JSON has as text."""
    return {
        name: datetime.fromisoformat(value)
        if name in ("at", "until", "expires_at") and isinstance(value, str)
        else value
        for name, value in values.items()
    }


class Earlier(NamedTuple):
    """Earlier values of a note's fields, and the token of the write that replaced them."""

    token: str
    seq: int
    rev: int
    values: Annotated[Mapping[str, Any], BeforeValidator(_with_times)]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredNote:
    """A note as it is stored: the note with its view, and what keeps writers from harming each other.

    Attributes:
        id: The id of the note, and of its point.
        namespace: Whose memory.
        token: New with every write.
        rev: The seq of the present wording; it never falls, also not where an id is deleted and added again.
        note: The note with its view; None in a tombstone.
        deleted_at: The seq of a tombstone.
        purge: What was made of earlier wordings and is still to go; None: nothing.
        thorough: The rev up to which every call that was shown the note is void. It is never cleared, or the late
            answers of such calls would come back.
        supersedes: The ids of the notes whose place the note takes.
        earlier: The newest earlier values, oldest first.
        vectors: A float32 array [passages, dimensions] of unit-length rows; None: the note has none, or they were not
            read.
        embedded: The hash of the texts that the note's vectors stand for; empty without vectors.
    """

    __pydantic_config__ = {"arbitrary_types_allowed": True}  # noqa: RUF012 - arrays of vectors

    id: str
    namespace: Namespace
    token: str
    rev: int
    note: Note | None = None
    deleted_at: int = 0
    purge: Purge | None = None
    thorough: int = 0
    supersedes: tuple[str, ...] = ()
    earlier: tuple[Earlier, ...] = ()
    vectors: Vector | None = field(default=None, compare=False, repr=False)
    embedded: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        """Give the note its rev."""
        if self.note is not None and self.note.rev != self.rev:
            object.__setattr__(self, "note", replace(self.note, rev=self.rev))

    @property
    def is_deleted(self) -> bool:
        """Whether the point is a tombstone."""
        return self.note is None

    @property
    def has_vectors(self) -> bool:
        """Whether the note has vectors, here or where it is stored."""
        return self.vectors is not None or bool(self.embedded)

    def is_expired(self, time: datetime) -> bool:
        """Return whether the note is there, and not to be found any more at a time."""
        return self.note is not None and self.note.is_expired(time)

    def is_gone(self, time: datetime) -> bool:
        """Return whether the note counts as gone: it was deleted, or has expired."""
        return self.is_deleted or self.is_expired(time)

    def tombstone(self, token: str, seq: int, *, thorough: bool) -> StoredNote:
        """Return the tombstone of the note: no text, no vector."""
        return StoredNote(
            id=self.id,
            namespace=self.namespace,
            token=token,
            rev=self.rev,
            deleted_at=seq,
            purge=Purge(self.rev, deleted=True),
            thorough=self.rev if thorough else self.thorough,
        )

    def was_written_by(self, token: str) -> bool:
        """Return whether the write with this token was applied, whatever was written since."""
        return self.token == token or any(values.token == token for values in self.earlier)
