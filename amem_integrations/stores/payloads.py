"""Notes and changes as payloads of Qdrant points, and back, exactly.

A payload is flat and carries its `schema`. Times are RFC 3339 in UTC, the namespace is one string.
`seq` counts nanoseconds, which is more than the engine's range filters can tell apart (they compare
doubles), so it is also stored in two parts. Equality is searched for by `terms`: one list of `name=value`
strings, which needs one index for all fields of a note and all names in its metadata. What is stored for
filters only (`seq_us`, `when`, `terms`, …) is ignored when reading.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from hashlib import blake2b
from typing import Any
from uuid import UUID, uuid5

from ..errors import InvalidInputError, NamespaceError, StoreError
from ..notes import Change, ContextEntry, Link, Namespace, Note
from .validation import check_id, namespace_key, plain, stamp

Payload = dict[str, Any]

SCHEMA = 1
# How a payload of an earlier schema becomes one of the next, by the schema it has. A payload is brought
# forward whenever it is read, and stored so when its note is next written.
MIGRATIONS: dict[int, Callable[[Payload], Payload]] = {}

TERMS = "terms"
MAX_TERM = 200  # characters; what is longer is indexed by its hash

# The id of a change's point comes from its namespace and its own id, under this root.
_CHANGE_IDS = UUID("5b0c7a62-7c1d-5a0e-9b1f-6d1f6f6c2f10")


def current(payload: Payload) -> Payload:
    """Return a payload in the present schema.

    Raises:
        StoreError: It was written by a later version of this package.
    """
    while (schema := payload["schema"]) != SCHEMA:
        if schema not in MIGRATIONS:
            message = (
                f"a note is stored in format {schema!r}, this version of amem-integrations "
                f"reads up to format {SCHEMA}; install a newer version"
            )
            raise StoreError(message)
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
    fields: dict[str, Any] = {
        "content": note.content,
        "speaker": note.speaker,
        "source": note.source,
        "thread": note.thread,
        "key": note.key,
        "keywords": note.keywords,
        "tags": note.tags,
        "attributes_source": note.attributes_source,
        "state": note.state,
        "superseded_by": note.superseded_by,
        "chunk": note.chunk,
        "chunk_of": note.chunk_of,
        # Times are compared as ranges, but whether there is one is a question too.
        "at": note.at and True,
        "expires_at": note.expires_at and True,
    }
    terms = [each for field, value in fields.items() for each in _terms_of(field, value)]
    return [*terms, *_terms_of("metadata", note.metadata)]


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
    """Return the payload of a note.

    Raises:
        NamespaceError: The note says it belongs to another namespace.
        InvalidInputError: Something in it cannot be stored; the message names the field.
    """
    check_id(note.id, "id of a note")
    if note.namespace != namespace:
        message = f"note {note.id} belongs to {note.namespace!r}, not to {namespace!r}"
        raise NamespaceError(message)
    if note.revision < 0:
        message = f"revision of note {note.id} must be 0 or more, not {note.revision!r}"
        raise InvalidInputError(message)
    seq_us, seq_ns = seq_parts(note.seq)
    recorded_at = stamp(note.recorded_at, "recorded_at")
    at = _optional_stamp(note.at, "at")
    # In its own zone: an evening is not the day after.
    local = note.at.isoformat(timespec="microseconds") if note.at else None
    payload = {
        "schema": SCHEMA,
        "namespace": namespace_key(namespace),
        "seq": note.seq,
        "seq_us": seq_us,
        "seq_ns": seq_ns,
        "content": note.content,
        "speaker": note.speaker,
        "source": note.source,
        "thread": note.thread,
        "key": note.key,
        "chunk": note.chunk or None,
        "chunk_of": note.chunk_of,
        "at": local,
        "when": at or recorded_at,
        "recorded_at": recorded_at,
        "expires_at": _optional_stamp(note.expires_at, "expires_at"),
        "contexts": [_encode_entry(entry) for entry in note.contexts],
        "links": [_encode_link(target, link) for target, link in note.links.items()],
        "state": note.state,
        "failure": note.failure,
        "attempts": note.attempts,
        "superseded_by": note.superseded_by,
        "revision": note.revision,
        "ops": note.ops,
        "metadata": note.metadata,
        TERMS: _terms(note),
    }
    return {name: plain(value, name) for name, value in payload.items() if value is not None}


def decode_note(note_id: str, payload: Payload) -> Note:
    """Return the note of a payload.

    Raises:
        StoreError: It was written by a later version of this package.
    """
    payload = current(payload)
    get = payload.get
    return Note(
        id=note_id,
        seq=payload["seq"],
        namespace=decode_namespace(payload["namespace"]),
        content=payload["content"],
        recorded_at=_time(payload["recorded_at"]),
        at=_optional_time(get("at")),
        speaker=get("speaker"),
        source=payload["source"],
        thread=get("thread"),
        key=get("key"),
        chunk=get("chunk", 0),
        chunk_of=get("chunk_of"),
        contexts=tuple(map(_decode_entry, payload["contexts"])),
        links={link["target"]: _decode_link(link) for link in payload["links"]},
        state=payload["state"],
        failure=get("failure"),
        attempts=payload["attempts"],
        superseded_by=get("superseded_by"),
        expires_at=_optional_time(get("expires_at")),
        revision=payload["revision"],
        ops=tuple(payload["ops"]),
        metadata=payload["metadata"],
    )


@lru_cache(maxsize=1024)
def decode_namespace(key: str) -> Namespace:
    """Return the namespace that `namespace_key` made this of."""
    return tuple(json.loads(key))


def encode_change(change: Change, namespace: Namespace) -> Payload:
    """Return the payload of a change.

    Raises:
        NamespaceError: The change says it belongs to another namespace.
        InvalidInputError: Something in it cannot be stored; the message names the field.
    """
    if change.namespace != namespace:
        message = f"change {change.id} belongs to {change.namespace!r}, not to {namespace!r}"
        raise NamespaceError(message)
    seq_us, seq_ns = seq_parts(change.seq)
    payload = {
        "schema": SCHEMA,
        "namespace": namespace_key(namespace),
        "id": change.id,
        "seq": change.seq,
        "seq_us": seq_us,
        "seq_ns": seq_ns,
        "op": change.op,
        "kind": change.kind,
        "note_id": change.note_id,
        "cause": change.cause,
        "model": change.model,
        "recorded_at": stamp(change.recorded_at, "recorded_at"),
        "data": change.data,
    }
    return {name: plain(value, name) for name, value in payload.items() if value is not None}


def decode_change(payload: Payload) -> Change:
    """Return the change of a payload.

    Raises:
        StoreError: It was written by a later version of this package.
    """
    payload = current(payload)
    return Change(
        id=payload["id"],
        seq=payload["seq"],
        op=payload["op"],
        kind=payload["kind"],
        namespace=decode_namespace(payload["namespace"]),
        note_id=payload["note_id"],
        cause=payload.get("cause"),
        model=payload.get("model"),
        recorded_at=_time(payload["recorded_at"]),
        data=payload["data"],
    )


def _optional_stamp(time: datetime | None, where: str) -> str | None:
    return None if time is None else stamp(time, where)


# The times of one note, and of notes written together, are mostly the same few.
@lru_cache(maxsize=4096)
def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _optional_time(text: str | None) -> datetime | None:
    return None if text is None else _time(text)


def _encode_entry(entry: ContextEntry) -> Payload:
    return {
        "text": entry.text,
        "keywords": entry.keywords,
        "tags": entry.tags,
        "cause": entry.cause,
        "model": entry.model,
        "change": entry.change,
        "at": stamp(entry.at, "at of a context entry"),
        "recorded_at": stamp(entry.recorded_at, "recorded_at of a context entry"),
    }


def _decode_entry(entry: Payload) -> ContextEntry:
    return ContextEntry(
        text=entry["text"],
        keywords=tuple(entry["keywords"]),
        tags=tuple(entry["tags"]),
        cause=entry["cause"],
        model=entry["model"],
        change=entry["change"],
        at=_time(entry["at"]),
        recorded_at=_time(entry["recorded_at"]),
    )


def _encode_link(target: str, link: Link) -> Payload:
    return {
        "target": check_id(target, "target of a link"),
        "relation": link.relation,
        "reason": link.reason,
        "strength": float(link.strength),
        "direction": link.direction,
        "created": stamp(link.created, "created of a link"),
        "reinforced": stamp(link.reinforced, "reinforced of a link"),
    }


def _decode_link(link: Payload) -> Link:
    return Link(
        relation=link["relation"],
        reason=link["reason"],
        strength=link["strength"],
        direction=link["direction"],
        created=_time(link["created"]),
        reinforced=_time(link["reinforced"]),
    )
