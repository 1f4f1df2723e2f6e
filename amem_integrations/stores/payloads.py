"""Notes and records as points of Qdrant with their payloads, and back, exactly.

A payload has the JSON of the whole note or record in one field, `text`: the engine converts a payload value by value,
and takes ten times as long for the values of that text. Beside it stand the fields that a writer changes alone, and
what filters ask for. Times in fields are RFC 3339, the namespace is one string. `seq` counts
nanoseconds, which is more than the engine's range filters can tell apart (they compare doubles), so a note's is also
stored in two parts. Equality is searched for by `terms`: one list of numbers, each of which stands for a text such as
`name=value`; so one index does for all fields of a note and all names in its metadata, and one for all that records
are found by.

- A note that is alive has its namespace in `namespace`, a tombstone in `buried`: so no filter finds a tombstone by chance.
- `owing` is the namespace of a note that owes a purge or has no vector.
- `last` is the newest seq that a note knows.

Ids, vectors and times are checked here before the engine sees a write, JSON values by `notes.plain`: a write that the
engine refuses stays in its log and may come back as an empty point, and what it accepts may still be unreadable.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, cast

import mmh3
import numpy as np
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, to_json

from ..decisions import Call, Decision, Lease, Record
from ..errors import InvalidInputError, StoreError
from ..filters import TIMES
from ..ids import SPELLING
from ..notes import Namespace, Note, plain
from ..plans import adapter_of
from ..stored_note import StoredNote, Vector
from .bm25 import Sparse

Payload = dict[str, Any]

SCHEMA = 2

DENSE, LEXICAL = "dense", "bm25"  # the names of the vectors
TERMS, TEXT = "terms", "text"

# Fields that `where` finds by terms.
SEARCHED = (
    "content", "speaker", "source", "kind", "origin", "thread", "key", "keywords", "tags", "attributes_source",
    "state", "attempts", "superseded_by",
)  # fmt: skip
ALWAYS = frozenset(("content", "source", "kind", "origin", "state", "attempts"))  # of every note
ALONE = ("token", "phase", "seq")  # two of which change alone: they are not in the text of a record
READ = [
    *ALONE,
    "namespace",
    "buried",
    "rev",
    "last",
    "recorded_at",
    TEXT,
]  # the fields that readers look at
# What a point tells beside the text of a record and of a note.
_OF_RECORD = dict.fromkeys(("id", "namespace", *ALONE), True)
_OF_NOTE: dict[str, Any] = dict.fromkeys(("id", "namespace", "token", "rev", "vectors"), True)
_OF_NOTE["note"] = {"id", "namespace", "rev", "seq", "recorded_at"}

UNIT_TOLERANCE = 1e-2  # of the squared length; float16 embedders are off by a few thousandths
_ID = re.compile(SPELLING)
# In compact JSON a NUL, or a number that is none; keys of messages without a thread begin with "[null, ".
_ODD = re.compile(rb"\\u0000|null(?!, )")

# Terms of a record, by which it is found; besides there are those of the ids that it names.
CALL, DECIDED, LEASE = "is call", "is decision", "is lease"
VOID, OUTDATES, WAITS = "is void", "outdates", "waits"


@dataclass(slots=True)
class Point:
    """One point, to be written or as it was read.

    Attributes:
        dense: A row for each passage.
        keeps_dense: Whether the rows are those that are stored under the id already.
    """

    id: str
    payload: Payload
    dense: Vector | None = None
    lexical: Sparse | None = None
    keeps_dense: bool = False


def rows(vectors: Mapping[str, Any] | None) -> Vector | None:
    """Return the dense vectors among those of a point that was read."""
    dense = (vectors or {}).get(DENSE)
    return None if dense is None else np.atleast_2d(np.asarray(dense, dtype=np.float32))


def owner(payload: Payload) -> str:
    """Return the key of the namespace that a point belongs to."""
    return payload.get("namespace") or payload.get("buried") or ""


def encode_note(stored: StoredNote) -> Payload:
    """Return the payload of a note or of a tombstone.

    Raises:
        InvalidInputError: A field cannot be stored; the message names the field.
    """
    check_uuid(stored.id, "id of a note")
    note, key = stored.note, namespace_key(stored.namespace)
    seq = stored.deleted_at if note is None else note.seq
    payload: Payload = {
        "buried" if note is None else "namespace": key,
        "token": stored.token,
        "seq": seq,
        "seq_us": seq // 1000,
        "seq_ns": seq % 1000,
        "last": max(seq, stored.rev, stored.thorough, *(one.seq for one in stored.earlier)),
    }
    if stored.rev != seq:
        payload["rev"] = stored.rev
    if stored.purge or (note and not stored.has_vectors):
        payload["owing"] = key
    if note is not None:
        payload |= {name: stamp(time, name) for name in TIMES if (time := getattr(note, name))}
        payload |= {"attempts": note.attempts, TERMS: _terms(note)}
        if note.metadata:
            payload["metadata"] = plain(note.metadata, "metadata")
    payload[TEXT] = _text_of(stored, _OF_NOTE)
    return payload


def decode_note(point: Point) -> StoredNote:
    """Return the note of a point, or the tombstone."""
    stored: StoredNote = _read(StoredNote, point)
    if point.dense is not None:
        object.__setattr__(stored, "vectors", point.dense)  # to replace it copies all of the note
    return stored


def encode_record(record: Record) -> Payload:
    """Return the payload of a call, a decision or a lease.

    Raises:
        InvalidInputError: A field cannot be stored; the message names the field.
    """
    check_uuid(record.id, f"id of a {type(record).__name__}")
    for name in ("at", "until"):
        if time := getattr(record, name, None):
            stamp(time, name)  # refuses one without a zone
    return {
        "namespace": namespace_key(record.namespace),
        **{name: getattr(record, name) for name in ALONE if hasattr(record, name)},
        TERMS: list(dict.fromkeys(map(number_of, _names_of(record)))),
        TEXT: _text_of(record, _OF_RECORD),
    }


def _names_of(record: Record) -> Iterator[str]:
    """Yield the names by which a record is found: its marks, and the ids that it names under each name."""
    if isinstance(record, Lease):
        yield LEASE
    elif isinstance(record, Call):
        yield CALL
        yield from (f"shown={source.id}" for source in record.shown)
    else:
        marks = {VOID: record.void, OUTDATES: record.supersedes, WAITS: record.waits}
        yield from (DECIDED, *(mark for mark, holds in marks.items() if holds))
        yield from (f"call={record.call}", f"note={record.note}")
        yield from (f"about={i}" for i in record.about)
        yield from (f"sources={i}" for i, _ in record.sources if i not in record.about)


def decode_record(point: Point) -> Record:
    """Return the call, the decision or the lease of a point."""
    payload = point.payload
    kind: type[Record] = Decision if "phase" in payload else Call if "seq" in payload else Lease
    return cast("Record", _read(kind, point))


def _text_of(value: StoredNote | Record, beside: dict[str, Any]) -> str:
    """Return a value as JSON without the fields `beside` it and what is as by default.

    Raises:
        InvalidInputError: A value would not come back the same; the message names the place.
    """
    if isinstance(value, Decision) and replace(value, about=(), sources=()) == value:
        beside = {**beside, "about": True, "sources": True}  # they are those that the items name
    how: dict[str, Any] = {"exclude": beside, "exclude_defaults": True}
    kind, adapter = type(value).__name__, adapter_of(type(value))  # type: ignore[arg-type]
    try:
        made: bytes = adapter.dump_json(value, **how, warnings="error")
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"a {kind} cannot be stored: {error}") from error
    if _ODD.search(made):
        plain(adapter.dump_python(value, mode="json", **how), kind)
    return made.decode()


def _read(kind: type, point: Point) -> Any:  # noqa: ANN401 - of the kind
    """Return the value of a point: its text with the fields beside it."""
    payload, known = point.payload, f'"id":"{point.id}","namespace":{owner(point.payload)}'
    text = payload[TEXT]
    if kind is StoredNote:
        known += f',"rev":{payload.get("rev", payload["seq"])}'
        times = f'"seq":{payload["seq"]},"recorded_at":"{payload.get("recorded_at")}"'
        text = text.replace('"note":{', f'"note":{{{known},{times},', 1)
    alone = to_json({name: payload[name] for name in ALONE if name in payload}).decode()
    rest = "}" if text == "{}" else f",{text[1:]}"
    try:
        return adapter_of(kind).validate_json(f"{{{known},{alone[1:-1]}{rest}")
    except ValidationError as error:
        raise StoreError(
            f"the stored {kind.__name__} {point.id} is damaged, or was written by another version of amem-integrations: "
            f"{error}; open the memory with the version that wrote it, or restore a backup or an export"
        ) from error


def number_of(text: str) -> int:
    """Return the number that stands for a text in a list of terms: it has 48 bits.

    The chance that one of a million other texts has the same number is 4 in a billion.
    """
    whole = text.encode(errors="surrogatepass")  # half a pair of surrogates would end the process
    return int(mmh3.hash64(whole, signed=False)[0]) >> 16


def term(field: str, value: str | float | None = None) -> int:
    """Return a number that stands for `field=value`, equal for equal values; without a value for the field alone.

    A bool is no number, and 1 is 1.0. `field` alone is stored with every field that may be empty and is not.
    """
    name = field.replace("=", r"\=")
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return number_of(name if value is None else f"{name}={json.dumps(value)}")


def is_metadata_name(name: str) -> bool:
    """Return whether a name of metadata can be used in `where`, where a dot leads into an object."""
    return all(part and '"' not in part and "\\" not in part for part in name.split("."))


def _terms(note: Note) -> list[int]:
    fields = {name: getattr(note, name) for name in SEARCHED} | {"metadata": note.metadata or None}
    # Times are compared as ranges, but whether there is one is a question too.
    fields |= {name: getattr(note, name) and True for name in TIMES[1:]}
    given = [(name, value) for name, value in fields.items() if value not in (None, ())]
    return [each for name, value in given for each in _terms_of(name, value)]


def _terms_of(field: str, value: Any) -> Iterator[int]:  # noqa: ANN401 - any JSON value
    items = [
        one for one in (value if isinstance(value, list | tuple) else [value]) if one is not None
    ]
    if not items:
        return
    if field not in ALWAYS:
        yield term(field)
    if isinstance(value, str):
        yield term(field, value)
    elif isinstance(value, Mapping):
        for name, item in value.items():
            if isinstance(name, str) and "." not in name and is_metadata_name(name):
                yield from _terms_of(f"{field}.{name}", item)
    else:
        yield from (term(field, item) for item in items if isinstance(item, str | int | float))


@lru_cache(maxsize=1024)
def decode_namespace(key: str) -> Namespace:
    """Return the namespace that `namespace_key` made this of."""
    return tuple(json.loads(key))


@lru_cache(maxsize=4096)
def namespace_key(namespace: Namespace) -> str:
    """Return a namespace as one string of its own."""
    return json.dumps(namespace, ensure_ascii=False, separators=(",", ":"))


def is_id(value: object) -> bool:
    """Return whether this is a UUID in its usual spelling, as ids of points must be."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def check_uuid(value: str, where: str) -> None:
    """Raise `InvalidInputError` if an id is no UUID in its usual spelling."""
    if not is_id(value):
        raise InvalidInputError(f"{where} must be a UUID in lower case with hyphens, not {value!r}")


def check_vectors(vectors: Vector, dimensions: int, where: str) -> Vector:
    """Return vectors as rows of float32; raise `InvalidInputError` if their shape or a length (not 1) is wrong."""
    array = np.atleast_2d(np.asarray(vectors, dtype=np.float32))
    if array.ndim != 2 or array.shape[1] != dimensions or not len(array):  # noqa: PLR2004 - rows
        raise InvalidInputError(
            f"{where} has shape {array.shape}; this store wants (passages, {dimensions})"
        )
    squared = [float(row @ row) for row in array]
    if not all(abs(one - 1) <= UNIT_TOLERANCE for one in squared):
        raise InvalidInputError(
            f"{where} must be finite and of length 1, not {np.sqrt(squared).tolist()!r:.200}"
        )
    return array


def stamp(time: datetime, where: str) -> str:
    """Return a time with a zone as RFC 3339 in UTC with microseconds, which sorts as text."""
    offset = time.utcoffset()
    if offset is None:
        raise InvalidInputError(f"{where} has no time zone: {time!r}; add tzinfo")
    if offset % timedelta(minutes=1):  # the local time of a place, before there were zones
        raise InvalidInputError(f"{where} is not whole minutes from UTC: {time!r}; give it in UTC")
    try:
        return time.astimezone(UTC).isoformat(timespec="microseconds")[:-6] + "Z"
    except OverflowError as error:
        raise InvalidInputError(f"{where} is outside the calendar in UTC: {time!r}") from error
