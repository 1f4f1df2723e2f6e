"""Short ways to make notes, records and vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import numpy as np
from support.notes import make_note

from amem_integrations.decisions import Call, Decision, Flip, Item, Lease, lease_id
from amem_integrations.notes import (
    Attempts,
    ContextEntry,
    Link,
    Namespace,
    Note,
    Supersession,
    Wording,
)
from amem_integrations.stored_note import Earlier, Purge, StoredNote, Vector

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
    content, at = f"this is {name}", NOW + timedelta(seconds=number)
    given = {"id": note_id(name), "seq": SEQ + number, "content": content, "recorded_at": at}
    return make_note(**{**given, **fields})


def stored(name: str, *rows: Sequence[float], **fields: Any) -> StoredNote:
    """Return a stored note called `name`, with a vector in each of these directions.

    Fields of a stored note are given by name; all others are those of the note.
    """
    names = ("token", "rev", "purge", "thorough", "supersedes", "earlier")
    kept = {key: fields.pop(key) for key in names if key in fields}
    made = note(name, **fields)
    vectors = np.stack([unit(*row) for row in rows]) if rows else None
    given = {"token": f"token {name}", "rev": made.seq, "embedded": "hash" if rows else "", **kept}
    return StoredNote(id=made.id, namespace=made.namespace, note=made, vectors=vectors, **given)


def tombstone(name: str, **fields: Any) -> StoredNote:
    """Return what is left of the note called `name`."""
    return replace(stored(name), **{"note": None, "deleted_at": SEQ + 1, **fields})


def upto(name: str, rev: int = SEQ) -> dict[str, int]:
    """Return what a query names for the wordings of the note called `name` up to a rev."""
    return {note_id(name): rev}


def wording(name: str, rev: int = SEQ) -> Wording:
    """Return a wording of the note called `name`."""
    return Wording(note_id(name), rev)


def full_stored(name: str) -> StoredNote:
    """Return a stored note with something in every field."""
    values = {
        "content": "before",
        "at": NOW,
        "until": NOW,
        "expires_at": None,
        "metadata": {"a": [1, {"b": "é"}]},
    }
    return StoredNote(
        id=note_id(name),
        namespace=ANN,
        token="a token",
        rev=SEQ + 5,
        note=full_note(name),
        purge=Purge(SEQ + 4, deleted=True),
        thorough=SEQ + 3,
        supersedes=(note_id("x"), note_id("y")),
        earlier=(Earlier("earlier", SEQ + 2, SEQ + 1, values), Earlier("later", SEQ + 9, SEQ, {})),
        vectors=np.stack([unit(1, 2), unit(2, 1)]),
        embedded="a hash",
    )


def unit(*numbers: float) -> Vector:
    """Return the vector of length 1 in this direction."""
    vector = np.zeros(DIMENSIONS, dtype=np.float32)
    vector[: len(numbers)] = numbers
    return vector / np.float32(np.linalg.norm(vector))


def call(name: str, *shown: str, **fields: Any) -> Call:
    """Return a call, which was shown the notes of these names."""
    number = fields.pop("number", 0)
    given = {
        "id": note_id(f"call {name}"),
        "token": f"token {name}",
        "namespace": ANN,
        "by": "a model",
        "seq": SEQ + number,
        "shown": tuple(wording(one) for one in shown),
    }
    return Call(**{**given, **fields})


def item(to: str, *sources: str, **fields: Any) -> Item:
    """Return an item for the note of a name, made of others."""
    given = {
        "kind": "link",
        "to": note_id(to),
        "by": "a model",
        "text": f"why {to}",
        "sources": tuple(wording(one) for one in sources),
    }
    return Item(**{**given, **fields})


def decision(name: str, of: str, *items: Item, **fields: Any) -> Decision:
    """Return a decision called `name` about the note called `of`, by the call of the same name."""
    number = fields.pop("number", 0)
    given = {
        "id": note_id(f"decision {name}"),
        "token": f"token {name}",
        "namespace": ANN,
        "call": note_id(f"call {name}"),
        "note": note_id(of),
        "rev": SEQ,
        "stage": "link",
        "seq": SEQ + number,
        "at": NOW,
        "items": items,
    }
    return Decision(**{**given, **fields})


def full_decision(name: str) -> Decision:
    """Return a decision with something in every field."""
    flips = (Flip("off", "user", SEQ + 7, "t1"), Flip("waiting", "user", SEQ + 8, "t2"))
    data = {"relation": "same event", "strength": 0.1, "keywords": ["clay", "Zoë 🏺"]}
    items = (
        item("x", "a", "x", number=3, other=note_id("y"), data=data, switch="waiting", log=flips),
        item("y", kind="supersession", text="", number=0),
    )
    fields = {"rev": SEQ + 1, "attempt": 2, "phase": 1, "void": True, "number": 9}
    return decision(name, "a", *items, about=(note_id("q"),), sources=(wording("q", 5),), **fields)


def lease(**fields: Any) -> Lease:
    """Return the lease of a thread."""
    given = {
        "id": lease_id(ANN, "t"),
        "token": "token",
        "namespace": ANN,
        "thread": "t",
        "holder": "me",
        "until": NOW,
    }
    return Lease(**{**given, **fields})


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
        "origin": "document",
        "passages": ((0, 5), (5, 30)),
        "next_attempts": Attempts(1, 2),
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
        "metadata": {
            "number": "42", "date": "2023-05-08T00:00:00Z", "int": 2**62 + 1, "float": 0.1, "one": 1.0,
            "yes": True, "none": None, "empty": {}, "list": [1, "1", [], {"a.b": "c d"}], "": "é",
        },
    }  # fmt: skip
    return note(name, **{**awkward, **fields})
