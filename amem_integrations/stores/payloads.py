"""Notes and changes as points of Qdrant with their payloads, and back, exactly.

A payload is flat and carries its `schema`. Times are RFC 3339 in UTC, the namespace is one string.
`seq` counts nanoseconds, which is more than the engine's range filters can tell apart (they compare
doubles), so it is also stored in two parts. Equality is searched for by `terms`: one list of `name=value`
strings, which needs one index for all fields of a note and all names in its metadata. What is stored for
filters only (`seq_us`, `when`, `terms`, …) is ignored when reading.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from hashlib import blake2b
from typing import Any, TypeVar
from uuid import UUID, uuid5

from ..errors import InvalidInputError, NamespaceError, StoreError
from ..kinds import kind_of
from ..notes import Change, ContextEntry, Link, Namespace, Note, Supersession
from ..ports import OPS_KEPT, Vector
from .bm25 import Sparse
from .checks import check_id, plain, stamp

Payload = dict[str, Any]
Part = TypeVar("Part", ContextEntry, Link, Supersession)

SCHEMA = 1
# How a payload of an earlier schema becomes one of the next, by the schema it has. A payload is brought
# forward whenever it is read, and stored so when its note is next written.
MIGRATIONS: dict[int, Callable[[Payload], Payload]] = {}

DENSE, LEXICAL = "dense", "bm25"  # the names of the vectors
TERMS = "terms"
CAUSES = "causes"  # of all context entries, and sources of derived notes
MAX_TERM = 200  # characters; what is longer is indexed by its hash

# Fields that are stored as they are, and those of a note that `where` finds by its terms.
NOTE = (
    "seq", "content", "speaker", "source", "kind", "thread", "key", "chunk_of", "state", "failure", "attempts",
    "revision", "metadata",
)  # fmt: skip
SEARCHED = (
    "content", "speaker", "source", "kind", "thread", "key", "keywords", "tags", "attributes_source", "state",
    "superseded_by", "chunk", "chunk_of", "sources",
)  # fmt: skip
CHANGE = ("id", "seq", "op", "kind", "note_id", "cause", "model", "data")
# Of the parts of a note: what is a time, and what is a list.
TIMES = {"at", "recorded_at", "until", "created", "since"}
LISTS = {"keywords", "tags"}

# The id of a change's point comes from its namespace and its own id, under this root.
_CHANGE_IDS = UUID("5b0c7a62-7c1d-5a0e-9b1f-6d1f6f6c2f10")


@dataclass(frozen=True, slots=True)
class Point:
    """One point, to be written or as it was read; an empty `dense` takes away the one that is stored."""

    id: str
    payload: Payload
    dense: Vector | Sequence[float] | None = None
    lexical: Sparse | None = None


def points_of(records: Iterable[Any]) -> Iterator[Point]:
    """Yield records of either interface to Qdrant as points; one without a payload was never written whole."""
    for record in records:
        vectors = record.vector or {}
        if record.payload:
            lexical = vectors.get(LEXICAL)
            lexical = lexical and (lexical.indices, lexical.values)
            yield Point(str(record.id), record.payload, vectors.get(DENSE), lexical)


def current(payload: Payload) -> Payload:
    """Return a payload in the present schema; raise `StoreError` if a later version wrote it."""
    while (schema := payload["schema"]) != SCHEMA:
        if schema not in MIGRATIONS:
            raise StoreError(
                f"a note is stored in format {schema!r}, this version of amem-integrations "
                f"reads up to format {SCHEMA}; install a newer version"
            )
        payload = {**MIGRATIONS[schema](payload), "schema": schema + 1}
    return payload


def change_point_id(namespace: str, change_id: str) -> str:
    """Return the id of a change's point: changes of two namespaces (here: its key) may share an id."""
    return str(uuid5(_CHANGE_IDS, f"{namespace}{change_id}"))


def term(field: str, value: str | float | None = None) -> str:
    """Return `field=value` as one string, equal for equal values; without a value the field alone.

    A bool is no number, and 1 is 1.0. `field` alone is stored with every field that is not empty.
    """
    name = field.replace("=", r"\=")
    if value is None:
        return name
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = f"{name}={json.dumps(value, ensure_ascii=False)}"
    if len(text) <= MAX_TERM:
        return text
    return f"{name}={blake2b(text.encode(), digest_size=16).hexdigest()}"


def is_metadata_name(name: str) -> bool:
    """Return whether a name of metadata can be used in `where`, where a dot leads into an object."""
    return all(part and '"' not in part and "\\" not in part for part in name.split("."))


def _terms(note: Note) -> list[str]:
    fields = {name: getattr(note, name) for name in SEARCHED}
    # Times are compared as ranges, but whether there is one is a question too.
    fields |= {"at": note.at and True, "expires_at": note.expires_at and True}
    fields["until"] = note.until and True
    fields["metadata"] = note.metadata
    return [each for name, value in fields.items() for each in _terms_of(name, value)]


def _terms_of(field: str, value: Any) -> Iterator[str]:  # noqa: ANN401 - any JSON value
    if value is None or (isinstance(value, Sequence) and not isinstance(value, str) and not value):
        return
    yield term(field)
    if isinstance(value, Mapping):
        for name, item in value.items():
            if isinstance(name, str) and "." not in name and is_metadata_name(name):
                yield from _terms_of(f"{field}.{name}", item)
        return
    items = value if isinstance(value, list | tuple) else [value]
    yield from (term(field, item) for item in items if isinstance(item, str | int | float))


def seq_parts(seq: int) -> tuple[int, int]:
    """Return a `seq` as (microseconds, nanoseconds within); both are exact in a range filter."""
    return divmod(seq, 1000)


def encode_note(note: Note, namespace: Namespace) -> Payload:
    """Return the payload of a note; raise `InvalidInputError` naming the field that cannot be stored."""
    check_id(note.id, "id of a note")
    _check_namespace(f"note {note.id}", note.namespace, namespace)
    if note.revision < 0:
        raise InvalidInputError(
            f"revision of note {note.id} must be 0 or more, not {note.revision!r}"
        )
    seq_us, seq_ns = seq_parts(note.seq)
    recorded_at = stamp(note.recorded_at, "recorded_at")
    payload = {
        **{name: getattr(note, name) for name in NOTE},
        "schema": SCHEMA,
        "namespace": namespace_key(namespace),
        "seq_us": seq_us,
        "seq_ns": seq_ns,
        "chunk": note.chunk or None,
        # In its own zone: an evening is not the day after.
        "at": note.at.isoformat(timespec="microseconds") if note.at else None,
        "when": _optional_stamp(note.at, "at") or recorded_at,
        "recorded_at": recorded_at,
        "until": _optional_stamp(note.until, "until"),
        "expires_at": _optional_stamp(note.expires_at, "expires_at"),
        "contexts": [_encode_part(entry) for entry in note.contexts],
        "sources": note.sources or None,
        CAUSES: sorted({*note.sources, *(entry.cause for entry in note.contexts)}) or None,
        "links": [_encode_part(link, target=i) for i, link in note.links.items()],
        "supersessions": [_encode_part(s, by=i) for i, s in note.supersessions.items()] or None,
        "ops": note.ops,
        TERMS: _terms(note),
    }
    return {name: plain(value, name) for name, value in payload.items() if value is not None}


def decode_note(note_id: str, payload: Payload) -> Note:
    """Return the note of a payload, of this or (see `current`) of an earlier schema."""
    payload = current(payload)
    if "kind" not in payload:  # written before there were kinds
        payload = {**payload, "kind": kind_of(payload["content"])}
    return Note(
        **_picked(payload, NOTE),
        id=note_id,
        namespace=decode_namespace(payload["namespace"]),
        recorded_at=_time(payload["recorded_at"]),
        at=_optional_time(payload.get("at")),
        sources=tuple(payload.get("sources", ())),
        chunk=payload.get("chunk", 0),
        contexts=tuple(_decode_part(ContextEntry, each) for each in payload["contexts"]),
        links={link["target"]: _decode_part(Link, link) for link in payload["links"]},
        supersessions={
            each["by"]: _decode_part(Supersession, each)
            for each in payload.get("supersessions", ())
        },
        until=_optional_time(payload.get("until")),
        expires_at=_optional_time(payload.get("expires_at")),
        ops=tuple(payload["ops"]),
    )


@lru_cache(maxsize=1024)
def decode_namespace(key: str) -> Namespace:
    """Return the namespace that `namespace_key` made this of."""
    return tuple(json.loads(key))


def encode_change(change: Change, namespace: Namespace) -> Payload:
    """Return the payload of a change; raise `InvalidInputError` naming what cannot be stored."""
    _check_namespace(f"change {change.id}", change.namespace, namespace)
    seq_us, seq_ns = seq_parts(change.seq)
    payload = {
        **{name: getattr(change, name) for name in CHANGE},
        "schema": SCHEMA,
        "namespace": namespace_key(namespace),
        "seq_us": seq_us,
        "seq_ns": seq_ns,
        "recorded_at": stamp(change.recorded_at, "recorded_at"),
    }
    return {name: plain(value, name) for name, value in payload.items() if value is not None}


def decode_change(payload: Payload) -> Change:
    """Return the change of a payload, of this or (see `current`) of an earlier schema."""
    payload = current(payload)
    return Change(
        **_picked(payload, CHANGE),
        namespace=decode_namespace(payload["namespace"]),
        recorded_at=_time(payload["recorded_at"]),
    )


def _check_namespace(what: str, own: Namespace, namespace: Namespace) -> None:
    if own != namespace:
        raise NamespaceError(f"{what} belongs to {own!r}, not to {namespace!r}")


def _optional_stamp(time: datetime | None, where: str) -> str | None:
    return None if time is None else stamp(time, where)


# The times of one note, and of notes written together, are mostly the same few.
@lru_cache(maxsize=4096)
def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _optional_time(text: str | None) -> datetime | None:
    return None if text is None else _time(text)


def _picked(payload: Payload, names: Sequence[str]) -> Payload:
    return {name: payload.get(name) for name in names}


def _encode_part(part: ContextEntry | Link | Supersession, **named: str) -> Payload:
    """Return the payload of a part of a note; `named` is the id of the other note that it is about."""
    what = type(part).__name__
    fields = {name: getattr(part, name) for name in part.__slots__}
    times = {
        name: stamp(fields[name], f"{name} of a {what}")
        for name in TIMES & fields.keys()
        if fields[name] is not None
    }
    ids = {name: check_id(i, f"{name} of a {what}") for name, i in named.items()}
    return {**fields, **times, **ids}


def _decode_part(kind: type[Part], payload: Payload) -> Part:
    fields = {name: payload[name] for name in kind.__slots__ if name in payload}
    times = {name: _optional_time(fields[name]) for name in TIMES & fields.keys()}
    return kind(
        **{**fields, **times, **{name: tuple(fields[name]) for name in LISTS & fields.keys()}}
    )


def namespace_key(namespace: Namespace) -> str:
    """Return a non-empty tuple of non-empty strings as one string of its own, or raise `NamespaceError`."""
    if not isinstance(namespace, tuple) or not all(isinstance(part, str) for part in namespace):
        raise NamespaceError(
            f"a namespace is a tuple of strings such as ('ann',), not {namespace!r}"
        )
    return _namespace_key(namespace)


@lru_cache(maxsize=4096)
def _namespace_key(namespace: Namespace) -> str:
    if not namespace or not all(namespace):
        raise NamespaceError(
            f"a namespace needs at least one part and no empty ones, not {namespace!r}"
        )
    try:
        plain(namespace, "namespace")
    except InvalidInputError as error:
        raise NamespaceError(str(error)) from error
    return json.dumps(namespace, ensure_ascii=False, separators=(",", ":"))


def follows(new: Point, old: Point | None) -> bool:
    """Return whether `new` is the version after the stored one."""
    return old is not None and old.payload["revision"] == new.payload["revision"] - 1


def is_same_write(new: Point, old: Point) -> bool:
    """Return whether `old` is `new`, written by an earlier try whose answer was lost."""
    last = new.payload["ops"][-1:]
    same = new.payload["revision"] == old.payload["revision"]
    return same and bool(last) and last == old.payload["ops"][-1:]


def completed(new: Point, old: Point) -> Point:
    """Return `new` with the vectors of `old` where it has none of its own."""
    dense = old.dense if new.dense is None else new.dense
    return Point(new.id, new.payload, dense, old.lexical if new.lexical is None else new.lexical)


def is_written(wanted: Point, stored: Point | None) -> bool:
    """Return whether this version of a note was written; a later one may already have replaced it."""
    if stored is None:
        return False
    if ops := wanted.payload["ops"]:
        return ops[-1] in stored.payload["ops"]
    return bool(stored.payload["revision"] == wanted.payload["revision"])


def check_owner(taken: Collection[Point], namespace: str) -> None:
    """Raise `StoreError` if a point is that of a note in another namespace."""
    others = [point.id for point in taken if point.payload.get("namespace") != namespace]
    if others:
        raise StoreError(
            f"the ids {others} belong to notes of another namespace than {namespace}; nothing was "
            "written. Ids come from the namespace: these notes were imported with ids that do not"
        )


def about_others(records: Sequence[Point], ids: Collection[str]) -> list[Point]:
    """Return the changes that are about none of these notes."""
    return [record for record in records if record.payload["note_id"] not in ids]


def intended(records: Sequence[Point], notes: Sequence[Point]) -> list[list[Any]]:
    """Return which change is made true by which version of a note, known by revision and operation."""
    versions = {
        note.id: (note.payload["revision"], (note.payload["ops"] or [None])[-1]) for note in notes
    }
    return [
        [record.id, record.payload["note_id"], *versions[record.payload["note_id"]]]
        for record in records
        if record.payload["note_id"] in versions
    ]


def is_made(note: Point | None, revision: int, op: str | None) -> bool:
    """Return whether a version was written, as far as the note remembers; in doubt it was."""
    if note is None or note.payload["revision"] < revision:
        return False
    forgotten = note.payload["revision"] - revision >= OPS_KEPT
    return forgotten or op is None or op in note.payload["ops"]


def blanked(record: Point, stored: Point) -> Point:
    """Return the record without the texts that another writer has taken out of the stored one."""
    data = _less(record.payload["data"], stored.payload["data"])
    return Point(record.id, {**record.payload, "data": data})


def _less(new: Any, stored: Any) -> Any:  # noqa: ANN401 - JSON values
    if isinstance(new, dict) and isinstance(stored, dict):
        return {name: _less(value, stored.get(name, value)) for name, value in new.items()}
    if isinstance(new, list) and isinstance(stored, list):
        return [item for item in new if not isinstance(item, str) or item in stored]
    return "" if stored == "" else new
