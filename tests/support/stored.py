"""Short ways to make notes, changes and vectors."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import numpy as np

from amem_integrations.notes import Change, ContextEntry, Link, Namespace, Note, Supersession
from amem_integrations.ports import Indexed, Vector

DIMENSIONS = 4
# The metadata that conditions compare by `$gt` and the like.
METADATA_INDEXES = {"n": "float", "when": "datetime"}
ANN: Namespace = ("ann",)
BOB: Namespace = ("bob",)
NOW = datetime(2026, 5, 8, 12, 30, 15, 123456, tzinfo=UTC)
# Nanoseconds, long past; a double cannot tell neighbours apart here.
SEQ = 1_700_000_000_000_000_000


def note_id(name: str) -> str:
    """Return the id of the note called `name`."""
    return str(uuid5(NAMESPACE_URL, name))


def note(name: str, **fields: Any) -> Note:
    """Return a note of Ann's called `name`, with its own id; `number` places it in the order."""
    number = fields.pop("number", 0)
    given = {
        "id": note_id(name),
        "seq": SEQ + number,
        "namespace": ANN,
        "content": f"this is {name}",
        "recorded_at": NOW + timedelta(seconds=number),
    }
    return Note(**{**given, **fields})


def item(
    name: str,
    vector: Sequence[float] | None = None,
    text: str | None = None,
    **fields: Any,
) -> Indexed:
    """Return a note with what it is searched by."""
    return Indexed(
        note=note(name, **fields),
        vector=None if vector is None else unit(*vector),
        text=text,
    )


def unit(*numbers: float) -> Vector:
    """Return the vector of length 1 in this direction."""
    vector = np.zeros(DIMENSIONS, dtype=np.float32)
    vector[: len(numbers)] = numbers
    return vector / np.float32(np.linalg.norm(vector))


def change(name: str, about: str, **fields: Any) -> Change:
    """Return a change called `name` about the note called `about`."""
    number = fields.pop("number", 0)
    given = {
        "id": note_id(f"change {name}"),
        "seq": SEQ + number,
        "op": f"op {name}",
        "kind": "add",
        "namespace": ANN,
        "note_id": note_id(about),
        "cause": None,
        "model": None,
        "recorded_at": NOW,
    }
    return Change(**{**given, **fields})


def entry(cause: str, **fields: Any) -> ContextEntry:
    """Return a context entry caused by the note called `cause`."""
    given = {
        "text": f"because of {cause}",
        "keywords": ("pottery", "clay"),
        "tags": ("craft",),
        "cause": note_id(cause),
        "model": "a model",
        "change": "change-1",
        "at": NOW,
        "recorded_at": NOW,
    }
    return ContextEntry(**{**given, **fields})


def link(**fields: Any) -> Link:
    """Return a link."""
    given = {
        "relation": "same event",
        "reason": "both are about the class",
        "strength": 0.1,
        "direction": "out",
        "created": NOW,
    }
    return Link(**{**given, **fields})


def supersession(**fields: Any) -> Supersession:
    """Return why a note is superseded."""
    given: dict[str, Any] = {
        "relation": "updates",
        "reason": "the wedding was moved",
        "model": "rules",
        "change": "change-3",
        "since": NOW,
        "recorded_at": NOW,
    }
    return Supersession(**{**given, **fields})


def full_note(name: str, **fields: Any) -> Note:
    """Return a note with something in every field, awkward where it can be."""
    awkward = {
        "content": 'Zoë said: "naïve 東京 🏺"\n\tline two \\u0000',
        "at": datetime(2023, 5, 7, 9, 0, tzinfo=UTC),
        "speaker": "007",
        "source": "import",
        "kind": "question",
        "sources": (note_id("s"), note_id("x")),
        "thread": "1e3",
        "key": "",
        "contexts": (
            entry(name), entry("another", keywords=(), tags=("2023-05-08",)),
        ),
        "links": {note_id("x"): link(), note_id("y"): link(strength=1.0, direction="in")},
        "state": "failed",
        "failure": "the model said no",
        "attempts": 2,
        "supersessions": {note_id("z"): supersession(), note_id("y"): supersession(relation="contradicts")},
        "until": datetime(2024, 2, 29, 23, 59, 59, 1, tzinfo=UTC),
        "expires_at": datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        "revision": 7,
        "ops": ("op-1", "2"),
        "metadata": {
            "number": "42", "date": "2023-05-08T00:00:00Z", "int": 2**62 + 1, "float": 0.1, "one": 1.0,
            "yes": True, "none": None, "empty": {}, "list": [1, "1", [], {"a.b": "c d"}], "": "é",
        },
    }  # fmt: skip
    return note(name, **{**awkward, **fields})
