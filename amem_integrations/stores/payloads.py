"""Notes and records as points of Qdrant with their payloads, and back, exactly.

A payload has what filters and writers ask for, each in a field of its own, and all else as one text of JSON, `text`: the
engine converts a payload value by value, and takes ten times as long for the values of that text. Times in fields are
RFC 3339, the namespace is one string. `seq` counts nanoseconds, which is more than the engine's range filters can tell
apart (they compare doubles), so a note's is also stored in two parts. Equality is searched for by `terms`: one list of
numbers, each of which stands for a text such as `name=value`; so one index does for all fields of a note and all names
in its metadata, and one for all that records are found by. What is stored for filters only is ignored when reading:

- A note that is alive has its namespace in `namespace`, a tombstone in `buried`: so no filter finds a tombstone by chance.
- `owing` is the namespace of a note that owes a purge or has no vector.
- `last` is the newest seq that a note knows.

The first line of `text` has the ids, times and numbers that occur in the JSON more than once; there each is told by its
place, such as `~0~`, and the point's own id by `~own~`.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, lru_cache
from struct import iter_unpack, pack
from typing import Any
from uuid import UUID

import mmh3
import numpy as np
from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_json

from ..decisions import Call, Decision, Lease, Record, Source
from ..errors import InvalidInputError, NamespaceError, StoreError
from ..notes import Namespace, Note, plain
from ..stored_note import Earlier, Purge, StoredNote, Vector
from .bm25 import Sparse
from .checks import check_id, stamp

Payload = dict[str, Any]

SCHEMA = 2

DENSE, LEXICAL = "dense", "bm25"  # the names of the vectors
TERMS, TEXT = "terms", "text"

# Fields that `where` finds by terms, and fields of notes and records that are not in the text.
SEARCHED = (
    "content", "speaker", "source", "kind", "origin", "thread", "key", "keywords", "tags", "attributes_source",
    "state", "superseded_by",
)  # fmt: skip
ALWAYS = frozenset({"content", "source", "kind", "origin", "state"})  # which no note lacks
OF_NOTE = ("seq", "attempts", "recorded_at", "at", "until", "expires_at", "metadata")
OF_RECORD = ("token", "seq", "phase")
BRIEF = ("schema", "namespace", "buried", "token", "seq", "rev", "thorough", "expires_at")
EPOCH = datetime.fromtimestamp(0, UTC)

# Terms of a record, by which it is found; besides there are those of the ids that it names.
CALL, DECIDED, LEASE = "is call", "is decision", "is lease"
VOID, OUTDATES, WAITS = "is void", "outdates", "waits"

# Each begins with a mark that is quickly found: looking at every character takes longer than writing the JSON.
_LONG = re.compile(r'"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d{4}-\d\d-\d\dT[\d:.]+Z)')
_LONG_NUMBER = re.compile(r"[:,](\d{16,})")


@dataclass(frozen=True, slots=True)
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


def points_of(records: Iterable[Any]) -> Iterator[Point]:
    """Yield records of either interface to Qdrant as points; one without a payload was never written whole."""
    for record in records:
        if payload := record.payload:  # each look makes another dict of it
            vectors = record.vector or {}
            lexical, dense = vectors.get(LEXICAL), vectors.get(DENSE)
            yield Point(
                str(record.id),
                payload,
                None if dense is None else np.atleast_2d(np.asarray(dense, dtype=np.float32)),
                lexical and (lexical.indices, lexical.values),
            )


def owner(payload: Payload) -> str | None:
    """Return the key of the namespace that a point belongs to."""
    return payload.get("namespace") or payload.get("buried")


def encode_note(stored: StoredNote) -> Payload:
    """Return the payload of a note or of a tombstone.

    Raises:
        InvalidInputError: A field cannot be stored; the message names the field.
    """
    check_id(stored.id, "id of a note")
    note, key = stored.note, namespace_key(stored.namespace)
    seq = stored.deleted_at if note is None else note.seq
    seq_us, seq_ns = seq_parts(seq)
    payload: Payload = {
        "schema": SCHEMA,
        "buried" if note is None else "namespace": key,
        "owing": key if stored.purge or (note and not stored.has_vectors) else None,
        "token": stored.token,
        "seq": seq,
        "seq_us": seq_us,
        "seq_ns": seq_ns,
        "last": max(seq, stored.rev, stored.deleted_at, *(one.seq for one in stored.earlier)),
        "rev": None if stored.rev == seq else stored.rev,
        "thorough": stored.thorough or None,
        "purge": stored.purge and list(stored.purge),
        "supersedes": list(stored.supersedes) or None,
        "embedded": stored.embedded or None,
        "earlier": [_encode_earlier(one) for one in stored.earlier] or None,
        TEXT: "",
    }
    if note is not None:
        if note.namespace != stored.namespace or note.id != stored.id:
            raise NamespaceError(
                f"note {note.id} of {note.namespace!r} is not note {stored.id} of {stored.namespace!r}"
            )
        for other in (*note.links, *note.supersessions):
            check_id(other, "target of a Link or by of a Supersession")
        times = ("recorded_at", "until", "expires_at")
        payload |= {
            **{n: stamp(time, n) for n in times if (time := getattr(note, n)) is not None},
            "at": note.at and _zoned(note.at, "at"),
            "attempts": note.attempts,
            "metadata": plain(note.metadata, "metadata") if note.metadata else None,
            TEXT: _text_of(note, OF_NOTE),
            TERMS: _terms(note),
        }
    return {name: value for name, value in payload.items() if value is not None}


def decode_note(point: Point) -> StoredNote:
    """Return the note of a point, or the tombstone."""
    payload = _checked(point.payload)
    get, key, rev = payload.get, owner(payload) or "", _rev_of(payload)
    is_alive, namespace = bool(payload[TEXT]), decode_namespace(key)
    known = f'"id":"{point.id}","namespace":{key},"rev":{rev}'
    return StoredNote(
        id=point.id,
        namespace=namespace,
        token=payload["token"],
        rev=rev,
        note=_read(Note, known, point, OF_NOTE) if is_alive else None,
        deleted_at=0 if is_alive else payload["seq"],
        purge=Purge(*purge) if (purge := get("purge")) else None,
        thorough=get("thorough") or 0,
        supersedes=tuple(get("supersedes") or ()),
        earlier=tuple([_decode_earlier(*one) for one in get("earlier") or ()]),
        vectors=point.dense,
        embedded=get("embedded") or "",
    )


def decode_briefly(point: Point) -> StoredNote:
    """Return of a note what tells whether a wording still stands: token, rev, and whether the note is gone."""
    payload = _checked(point.payload)
    namespace, rev = decode_namespace(owner(payload) or ""), _rev_of(payload)
    note = Note(
        id=point.id,
        seq=rev,
        rev=rev,
        namespace=namespace,
        content="",
        recorded_at=EPOCH,
        expires_at=None
        if (at := payload.get("expires_at")) is None
        else datetime.fromisoformat(at),
    )
    return StoredNote(
        id=point.id,
        namespace=namespace,
        token=payload["token"],
        rev=rev,
        note=note if "namespace" in payload else None,
        thorough=payload.get("thorough") or 0,
    )


def encode_record(record: Record) -> Payload:
    """Return the payload of a call, a decision or a lease.

    Raises:
        InvalidInputError: A field cannot be stored; the message names the field.
    """
    check_id(record.id, f"id of a {type(record).__name__}")
    for name in ("at", "until"):
        if time := getattr(record, name, None):
            stamp(time, name)  # refuses one without a zone
    made = {name: getattr(record, name) for name in OF_RECORD if hasattr(record, name)}
    if isinstance(record, Call) and record.shown:
        made["shown"] = _packed(record.shown)
    return {
        "schema": SCHEMA,
        "namespace": namespace_key(record.namespace),
        **made,
        TERMS: list(dict.fromkeys(map(number_of, _names_of(record)))),
        TEXT: _text_of(record, (*OF_RECORD, "shown")),
    }


def _names_of(record: Record) -> Iterator[str]:
    """Yield what a record is found by: its marks, and the ids that it names under each name."""
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
    payload = _checked(point.payload)
    kind: type[Record] = Decision if "phase" in payload else Call if "seq" in payload else Lease
    known = f'"id":"{point.id}","namespace":{payload["namespace"]}'
    if shown := payload.get("shown"):
        known += f',"shown":{to_json(_unpacked(shown)).decode()}'
    found: Record = _read(kind, known, point, OF_RECORD)
    return found


def _packed(sources: Iterable[Source]) -> str:
    """Return wordings as a text: a call may have been shown some hundred."""
    rows = (pack(">16sq", UUID(source.id).bytes, source.rev) for source in sources)
    return b64encode(b"".join(rows)).decode()


def _unpacked(text: str) -> list[tuple[str, int]]:
    rows = iter_unpack(">16sq", b64decode(text))
    return [(str(UUID(bytes=identity)), rev) for identity, rev in rows]


@cache
def _adapter(kind: type) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _text_of(value: Note | Record, beside: Iterable[str]) -> str:
    """Return a value as JSON without the fields `beside` it, what is as by default, and repetitions.

    Raises:
        InvalidInputError: A value would not come back the same; the message names the place.
    """
    known = {"id", "namespace", "rev"} if isinstance(value, Note) else {"id", "namespace"}
    how: dict[str, Any] = {"exclude": {*known, *beside}, "exclude_defaults": True}
    if isinstance(value, Decision) and replace(value, about=(), sources=()) == value:
        how["exclude"] |= {"about", "sources"}  # they are those that the items name
    kind = type(value).__name__
    adapter = _adapter(type(value))  # type: ignore[arg-type]
    try:
        made = adapter.dump_json(value, **how, warnings="error")
        # A NUL or a number that is none, or the text of one.
        is_plain = b"\\u0000" not in made and b"null" not in made
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        with suppress(PydanticSerializationError, RecursionError):
            plain(adapter.dump_python(value, mode="json", **how, warnings=False), kind)
        raise InvalidInputError(f"a {kind} cannot be stored: {error}") from error
    if not is_plain:
        plain(adapter.dump_python(value, mode="json", **how), kind)
    text = made.decode().replace("~", "\\u007e").replace(value.id, "~own~")
    found = [*_LONG.findall(text), *_LONG_NUMBER.findall(text)]
    repeated = [one for one, times in Counter(found).items() if times > 1] if found else found
    for place, one in enumerate(repeated):
        text = text.replace(one, f"~{place}~")
    return f"{' '.join(repeated)}\n{text}"


def _read(kind: type, known: str, point: Point, beside: Iterable[str]) -> Any:  # noqa: ANN401
    """Return the value of a point: of some fields that are known, of those beside its text, and of its text."""
    payload = point.payload
    repeated, _, text = payload[TEXT].partition("\n")
    told = {"own": point.id, **{str(place): one for place, one in enumerate(repeated.split())}}
    pieces = text.split("~")  # a tilde of the text itself is escaped: each second piece is a place
    fields = to_json({name: v for name in beside if (v := payload.get(name)) is not None}).decode()
    try:
        pieces[1::2] = [told[place] for place in pieces[1::2]]
        return _adapter(kind).validate_json(f"{{{known},{fields[1:-1]},{''.join(pieces)[1:]}")
    except (ValidationError, KeyError) as error:
        raise StoreError(
            f"a stored {kind.__name__} is damaged: {error}; restore the memory from a backup or an export"
        ) from error


def _encode_earlier(earlier: Earlier) -> list[Any]:
    values = {
        name: _zoned(value, name) if isinstance(value, datetime) else plain(value, name)
        for name, value in earlier.values.items()
    }
    return [earlier.token, earlier.seq, earlier.rev, values]


def _decode_earlier(token: str, seq: int, rev: int, values: Mapping[str, Any]) -> Earlier:
    times = {"at", "until", "expires_at"}
    read = {n: datetime.fromisoformat(v) if n in times and v else v for n, v in values.items()}
    return Earlier(token, seq, rev, read)


def _rev_of(payload: Payload) -> int:
    """Return the seq of the present wording; the first one has that of the note."""
    return int(payload["seq"] if (rev := payload.get("rev")) is None else rev)


def _checked(payload: Payload) -> Payload:
    """Return the payload; raise `StoreError` if another version of this package wrote it."""
    if (schema := payload.get("schema")) != SCHEMA:
        raise StoreError(
            f"a note is stored in schema {schema!r}, this version of amem-integrations reads schema {SCHEMA}; "
            "open the memory with the version that wrote it"
        )
    return payload


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
    if value is None:
        return number_of(name)
    if isinstance(value, str):
        return number_of(f'{name}="{value}"')
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return number_of(f"{name}={json.dumps(value)}")


def is_metadata_name(name: str) -> bool:
    """Return whether a name of metadata can be used in `where`, where a dot leads into an object."""
    return all(part and '"' not in part and "\\" not in part for part in name.split("."))


def _terms(note: Note) -> list[int]:
    fields = {name: value for name in SEARCHED if (value := getattr(note, name)) is not None}
    # Times are compared as ranges, but whether there is one is a question too.
    fields |= {name: True for name in ("at", "expires_at", "until") if getattr(note, name)}
    if note.metadata:
        fields["metadata"] = note.metadata
    return [each for name, value in fields.items() for each in _terms_of(name, value)]


def _terms_of(field: str, value: Any) -> Iterator[int]:  # noqa: ANN401 - any JSON value
    if value is None or value in ((), []):
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
        items = value if isinstance(value, list | tuple) else [value]
        yield from (term(field, item) for item in items if isinstance(item, str | int | float))


def seq_parts(seq: int) -> tuple[int, int]:
    """Return a `seq` as (microseconds, nanoseconds within); both are exact in a range filter."""
    return divmod(seq, 1000)


def _zoned(time: datetime, where: str) -> str:
    """Return a time in its own zone: an evening is not the day after."""
    stamp(time, where)
    return time.isoformat(timespec="microseconds")


@lru_cache(maxsize=1024)
def decode_namespace(key: str) -> Namespace:
    """Return the namespace that `namespace_key` made this of."""
    return tuple(json.loads(key))


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
