"""Notes and records as points of Qdrant with their payloads, and back, exactly.

A payload has what filters and writers ask for, each in a field of its own, and all else as one text of JSON, `text`: the
engine converts a payload value by value, and takes ten times as long for the values of that text. Times in fields are
RFC 3339, the namespace is one string. `seq` counts nanoseconds, which is more than the engine's range filters can tell
apart (they compare doubles), so a note's is also stored in two parts. Equality is searched for by `terms`: one list of
numbers, each of which stands for a text such as `name=value`; so one index does for all fields of a note and all names
in its metadata, and one for all that records are found by. What is stored for filters only is ignored when reading:

- A note that is alive has its namespace in `namespace`, a tombstone in `buried`: so no filter finds a tombstone by chance.
- `owing` is the namespace of a note that owes a purge or has no vector.
- `last` is the newest seq that a note knows; `size` how many bytes its texts have.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from struct import iter_unpack, pack
from typing import Any
from uuid import UUID

import mmh3
import numpy as np

from ..decisions import Call, Decision, Flip, Item, Lease, Record, Source
from ..errors import InvalidInputError, NamespaceError, StoreError
from ..notes import Attempts, ContextEntry, Link, Namespace, Note, Supersession
from ..stored_note import Earlier, Purge, StoredNote, Vector
from .bm25 import Sparse
from .checks import check_id, plain, stamp

Payload = dict[str, Any]

SCHEMA = 2

DENSE, LEXICAL = "dense", "bm25"  # the names of the vectors
TERMS, TEXT = "terms", "text"

# Fields of a note that are stored in the text unless they have their defaults, and those that `where` finds by terms.
WORDS = (
    "content", "speaker", "source", "kind", "origin", "thread", "key", "state", "failure",
)  # fmt: skip
SEARCHED = (
    "content", "speaker", "source", "kind", "origin", "thread", "key", "keywords", "tags", "attributes_source",
    "state", "superseded_by",
)  # fmt: skip
ALWAYS = frozenset({"content", "source", "kind", "origin", "state"})  # which no note lacks
BRIEF = ("schema", "namespace", "buried", "token", "seq", "rev", "thorough", "expires_at")
DEFAULTS = {one.name: one.default for one in fields(Note)}
NO_ATTEMPTS = Attempts()
EPOCH = datetime.fromtimestamp(0, UTC)
MICROSECOND = timedelta(microseconds=1)
FIRST, LAST = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)
INSTANTS = range(*((edge - EPOCH) // MICROSECOND for edge in (FIRST, LAST)))

# Terms of a record, by which it is found; besides there are those of the ids that it names.
CALL, DECIDED, LEASE = "is call", "is decision", "is lease"
VOID, OUTDATES, WAITS = "is void", "outdates", "waits"

_as_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


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
        "token": stored.token,
        "seq": seq,
        "seq_us": seq_us,
        "seq_ns": seq_ns,
        "last": max(seq, stored.rev, stored.deleted_at, *(one.seq for one in stored.earlier)),
        "size": 0,
    }
    if stored.rev != seq:
        payload["rev"] = stored.rev
    if stored.thorough:
        payload["thorough"] = stored.thorough
    if stored.purge or (note is not None and not stored.has_vectors):
        payload["owing"] = key
    text: dict[str, Any] = {
        "purge": stored.purge,
        "supersedes": stored.supersedes,
        "embedded": stored.embedded,
        "earlier": [_encode_earlier(one) for one in stored.earlier],
    }
    if note is not None:
        if note.namespace != stored.namespace or note.id != stored.id:
            raise NamespaceError(
                f"note {note.id} of {note.namespace!r} is not note {stored.id} of {stored.namespace!r}"
            )
        text |= _view_of(note)
    payload[TEXT] = _text_of(text)
    if note is not None:
        payload |= _fields_of(note)
        payload["size"] = _bytes_of(note, stored.earlier)
    return payload


def _view_of(note: Note) -> dict[str, Any]:
    """Return what of a note no filter asks for."""
    return {
        "note": {name: v for name in WORDS if (v := getattr(note, name)) != DEFAULTS[name]},
        "passages": note.passages,
        "next_attempts": note.next_attempts if any(note.next_attempts) else None,
        "contexts": [_encode_entry(one, note.id) for one in note.contexts],
        "links": [_encode_link(i, link) for i, link in note.links.items()],
        "supersessions": [_encode_supersession(i, s) for i, s in note.supersessions.items()],
    }


def _fields_of(note: Note) -> Payload:
    """Return the fields of a note by which it is found, once its texts are known to be storable."""
    found: Payload = {
        "attempts": note.attempts,
        "recorded_at": stamp(note.recorded_at, "recorded_at"),
    }
    if note.at is not None:
        found["at"] = _zoned(note.at, "at")
    if note.until is not None:
        found["until"] = stamp(note.until, "until")
    if note.expires_at is not None:
        found["expires_at"] = stamp(note.expires_at, "expires_at")
    if note.metadata:
        found["metadata"] = plain(note.metadata, "metadata")
    found[TERMS] = _terms(note)
    return found


def _text_of(values: Mapping[str, Any]) -> str:
    """Return values as one text of JSON, without those that are empty.

    Raises:
        InvalidInputError: A value would not come back the same; the message names the place.
    """
    given = {name: value for name, value in values.items() if value not in (None, "", (), [], {})}
    try:
        text = _as_json(given)
        text.isascii() or text.encode()
    except (TypeError, ValueError, RecursionError):
        text = "\\u0000"
    if "\\u0000" in text:  # a NUL, or the text of one
        text = _as_json({name: plain(value, name) for name, value in given.items()})
    return text


def decode_note(point: Point) -> StoredNote:
    """Return the note of a point, or the tombstone."""
    payload = _checked(point.payload)
    text = json.loads(payload[TEXT])
    key, rev, purge = payload.get("namespace"), _rev_of(payload), text.get("purge")
    namespace = decode_namespace(key or payload["buried"])
    return StoredNote(
        id=point.id,
        namespace=namespace,
        token=payload["token"],
        rev=rev,
        note=_decode_words(point.id, namespace, rev, payload, text) if key else None,
        deleted_at=0 if key else payload["seq"],
        purge=purge and Purge(purge[0], deleted=purge[1]),
        thorough=payload.get("thorough", 0),
        supersedes=tuple(text.get("supersedes", ())),
        earlier=tuple([_decode_earlier(*one) for one in text.get("earlier", ())]),
        vectors=point.dense,
        embedded=text.get("embedded", ""),
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
        expires_at=_optional_time(payload.get("expires_at")),
    )
    return StoredNote(
        id=point.id,
        namespace=namespace,
        token=payload["token"],
        rev=rev,
        note=note if "namespace" in payload else None,
        thorough=payload.get("thorough", 0),
    )


def _decode_words(
    note_id: str, namespace: Namespace, rev: int, payload: Payload, text: Payload
) -> Note:
    """Return the note of a payload and its text; a search reads some thirty, so each field is looked up once."""
    get = payload.get
    return Note(
        id=note_id,
        namespace=namespace,
        rev=rev,
        seq=payload["seq"],
        attempts=payload["attempts"],
        metadata=get("metadata", {}),
        recorded_at=_time(payload["recorded_at"]),
        at=_optional_time(get("at")),
        until=_optional_time(get("until")),
        expires_at=_optional_time(get("expires_at")),
        passages=tuple([(start, end) for start, end in text.get("passages", ())]),
        next_attempts=Attempts(*text["next_attempts"]) if "next_attempts" in text else NO_ATTEMPTS,
        contexts=tuple([_decode_entry(row, note_id) for row in text.get("contexts", ())]),
        links={row[0]: _decode_link(row) for row in text.get("links", ())},
        supersessions={row[0]: _decode_supersession(row) for row in text.get("supersessions", ())},
        **text["note"],
    )


def encode_record(record: Record) -> Payload:
    """Return the payload of a call, a decision or a lease.

    Raises:
        InvalidInputError: A field cannot be stored; the message names the field.
    """
    check_id(record.id, f"id of a {type(record).__name__}")
    made: Payload = {
        "schema": SCHEMA,
        "namespace": namespace_key(record.namespace),
        "token": record.token,
    }
    if isinstance(record, Decision):
        return made | _encode_decision(record)
    if isinstance(record, Call):
        return made | {
            "seq": record.seq,
            TERMS: _terms_of_ids(CALL, shown=[source.id for source in record.shown]),
            TEXT: _text_of({"by": record.by, "shown": _packed(record.shown), "data": record.data}),
            "size": _bytes_in(record.data),
        }
    until = _zoned(record.until, "until")
    text = {"thread": record.thread, "holder": record.holder, "until": until}
    return made | {TERMS: _terms_of_ids(LEASE), TEXT: _text_of({"lease": text}), "size": 0}


def _encode_decision(decision: Decision) -> Payload:
    ids = {note_id: place for place, note_id in enumerate(decision.about)}
    places = {source: place for place, source in enumerate(decision.sources)}
    marks = {VOID: decision.void, OUTDATES: decision.supersedes, WAITS: decision.waits}
    return {
        "seq": decision.seq,
        "phase": decision.phase,
        TERMS: _terms_of_ids(
            DECIDED,
            *(mark for mark, holds in marks.items() if holds),
            call=[decision.call],
            note=[decision.note],
            about=decision.about,
            sources=[i for i, _ in decision.sources if i not in ids],
        ),
        TEXT: _text_of(
            {
                "call": decision.call,
                "note": ids.get(decision.note, decision.note),
                "rev": decision.rev,
                "stage": decision.stage,
                "at": _zoned(decision.at, "at"),
                "attempt": decision.attempt or None,
                "void": decision.void or None,
                "items": [_encode_item(item, ids, places) for item in decision.items],
                "about": decision.about,
                # A source is mostly a note that the decision is about.
                "sources": [(ids.get(i, i), rev) for i, rev in decision.sources],
            }
        ),
        "size": sum(len(item.text.encode()) + _bytes_in(item.data) for item in decision.items),
    }


def _encode_item(
    item: Item, ids: Mapping[str, int], places: Mapping[Source, int]
) -> dict[str, Any]:
    """Return an item; ids that its decision names are told by their places there."""
    fields = {
        "kind": item.kind,
        "to": ids.get(item.to, item.to),
        "by": item.by,
        "number": item.number,
        "text": item.text,
        "other": ids.get(item.other, item.other),
        "sources": [places[source] for source in item.sources],
        "data": item.data,
        "switch": "" if item.switch == "on" else item.switch,
        "log": item.log,
    }
    return {name: v for name, v in fields.items() if v not in ("", (), [], {})}


def decode_record(point: Point) -> Record:
    """Return the call, the decision or the lease of a point."""
    payload = _checked(point.payload)
    text = json.loads(payload[TEXT])
    namespace, token = decode_namespace(payload["namespace"]), payload["token"]
    if "stage" in text:
        return _decode_decision(point.id, namespace, token, payload, text)
    if "lease" not in text:
        return Call(
            id=point.id,
            namespace=namespace,
            token=token,
            by=text.get("by", ""),
            seq=payload["seq"],
            shown=_unpacked(text.get("shown", "")),
            data=text.get("data", {}),
        )
    lease = text["lease"] | {"until": _time(text["lease"]["until"])}
    return Lease(id=point.id, namespace=namespace, token=token, **lease)


def _decode_decision(
    decision_id: str, namespace: Namespace, token: str, payload: Payload, text: Payload
) -> Decision:
    about = text.get("about", ())

    def named(place: str | int) -> str:
        return about[place] if isinstance(place, int) else place

    sources = [Source(named(place), rev) for place, rev in text.get("sources", ())]
    return Decision(
        id=decision_id,
        token=token,
        namespace=namespace,
        call=text["call"],
        note=named(text["note"]),
        rev=text.get("rev", 0),
        stage=text["stage"],
        seq=payload["seq"],
        at=_time(text["at"]),
        attempt=text.get("attempt", 0),
        items=tuple([_decode_item(one, named, sources) for one in text.get("items", ())]),
        about=tuple(about),
        sources=tuple(sources),
        void=text.get("void", False),
        phase=payload["phase"],
    )


def _decode_item(
    item: Payload, named: Callable[[str | int], str], sources: Sequence[Source]
) -> Item:
    get = item.get
    return Item(
        kind=item["kind"],
        to=named(item["to"]),
        by=get("by", ""),
        number=item["number"],
        text=get("text", ""),
        other=named(get("other", "")),
        sources=tuple([sources[place] for place in get("sources", ())]),
        data=get("data", {}),
        switch=get("switch", "on"),
        log=tuple([Flip(*flip) for flip in get("log", ())]),
    )


def _encode_earlier(earlier: Earlier) -> list[Any]:
    values = {
        name: _zoned(value, name) if isinstance(value, datetime) else value
        for name, value in earlier.values.items()
    }
    return [earlier.token, earlier.seq, earlier.rev, values]


def _decode_earlier(token: str, seq: int, rev: int, values: Mapping[str, Any]) -> Earlier:
    times = {"at", "until", "expires_at"}
    read = {k: _time(v) if k in times and v is not None else v for k, v in values.items()}
    return Earlier(token, seq, rev, read)


def _packed(sources: Iterable[Source]) -> str:
    """Return wordings as a text: a call may have been shown some hundred."""
    rows = (pack(">16sq", bytes.fromhex(i.replace("-", "")), rev) for i, rev in sources)
    return b64encode(b"".join(rows)).decode()


def _unpacked(text: str) -> tuple[Source, ...]:
    rows = iter_unpack(">16sq", b64decode(text))
    return tuple([Source(str(UUID(bytes=identity)), rev) for identity, rev in rows])


# The parts of a view are rows: there are many of them, and the names of the fields would take half of the bytes.


def _encode_entry(entry: ContextEntry, note_id: str) -> list[Any]:
    return [
        entry.text,
        entry.keywords,
        entry.tags,
        None if entry.cause == note_id else entry.cause,
        entry.model,
        entry.change,
        _instant(entry.at, "at of a ContextEntry"),
        _instant(entry.recorded_at, "recorded_at of a ContextEntry"),
        None if entry.until is None else _instant(entry.until, "until of a ContextEntry"),
        entry.sources,
    ]


def _decode_entry(row: Sequence[Any], note_id: str) -> ContextEntry:
    text, keywords, tags, cause, model, change, at, recorded_at, until, sources = row
    return ContextEntry(
        text=text,
        keywords=tuple(keywords),
        tags=tuple(tags),
        cause=cause or note_id,
        model=model,
        change=change,
        at=_time_at(at),
        recorded_at=_time_at(recorded_at),
        until=None if until is None else _time_at(until),
        sources=tuple([(i, rev) for i, rev in sources]),
    )


def _encode_link(target: str, link: Link) -> list[Any]:
    created = _instant(link.created, "created of a Link")
    end = check_id(target, "target of a Link")
    return [end, link.relation, link.reason, link.strength, link.direction, created]


def _decode_link(row: Sequence[Any]) -> Link:
    _, relation, reason, strength, direction, created = row
    return Link(
        relation=relation,
        reason=reason,
        strength=strength,
        direction=direction,
        created=_time_at(created),
    )


def _encode_supersession(by: str, made: Supersession) -> list[Any]:
    since, recorded_at = (
        _instant(getattr(made, name), f"{name} of a Supersession")
        for name in ("since", "recorded_at")
    )
    newer = check_id(by, "by of a Supersession")
    return [newer, made.relation, made.reason, made.model, made.change, since, recorded_at]


def _decode_supersession(row: Sequence[Any]) -> Supersession:
    _, relation, reason, model, change, since, recorded_at = row
    return Supersession(
        relation=relation,
        reason=reason,
        model=model,
        change=change,
        since=_time_at(since),
        recorded_at=_time_at(recorded_at),
    )


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


def _bytes_of(note: Note, earlier: Iterable[Earlier]) -> int:
    """Return how many bytes somebody's texts in a note have."""
    texts = [note.content]
    for entry in note.contexts:
        texts += (entry.text, *entry.keywords, *entry.tags)
    texts += (link.reason for link in note.links.values())
    texts += (made.reason for made in note.supersessions.values())
    beside = _bytes_in(note.metadata) + sum(_bytes_in(one.values) for one in earlier)
    return len("".join(texts).encode()) + beside


def _bytes_in(value: object) -> int:
    """Return how many bytes the texts in a JSON value have."""
    if isinstance(value, str):
        return len(value.encode())
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, list | tuple):
        return 0
    return sum(map(_bytes_in, value))


def number_of(text: str) -> int:
    """Return the number that stands for a text in a list of terms: it has 48 bits.

    The chance that one of a million other texts has the same number is 4 in a billion.
    """
    return int(mmh3.hash64(text, signed=False)[0]) >> 16


def term(field: str, value: str | float | None = None) -> int:
    """Return what stands for `field=value`, equal for equal values; without a value for the field alone.

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


def _terms_of_ids(*marks: str, **ids: Iterable[str]) -> list[int]:
    """Return the terms of a record: its marks, and the ids that it names under each name."""
    named = [f"{name}={i}" for name, some in ids.items() for i in some]
    return list(dict.fromkeys(map(number_of, [*marks, *named])))


def seq_parts(seq: int) -> tuple[int, int]:
    """Return a `seq` as (microseconds, nanoseconds within); both are exact in a range filter."""
    return divmod(seq, 1000)


def _zoned(time: datetime | None, where: str) -> str | None:
    """Return a time in its own zone: an evening is not the day after."""
    if time is None:
        return None
    stamp(time, where)
    return time.isoformat(timespec="microseconds")


# The times of one note, and of notes written together, are mostly the same few.
@lru_cache(maxsize=4096)
def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _optional_time(text: str | None) -> datetime | None:
    return None if text is None else _time(text)


def _instant(time: datetime, where: str) -> int:
    """Return a time as microseconds since 1970."""
    if time.tzinfo is None or (instant := (time - EPOCH) // MICROSECOND) not in INSTANTS:
        stamp(time, where)  # says what is wrong
        raise AssertionError(where)
    return instant


@lru_cache(maxsize=4096)
def _time_at(instant: int) -> datetime:
    return EPOCH + instant * MICROSECOND


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
