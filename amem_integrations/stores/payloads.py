"""Notes and records as points of Qdrant with their payloads, and back, exactly.

A payload is flat and carries its `schema`. Times are RFC 3339, the namespace is one string. `seq` counts nanoseconds,
which is more than the engine's range filters can tell apart (they compare doubles), so a note's is also stored in two
parts. Equality is searched for by `terms`: one list of `name=value` strings, which needs one index for all fields of a
note and all names in its metadata. What is stored for filters only is ignored when reading:

- A note that is alive has its namespace in `namespace`, a tombstone in `buried`: so no filter finds a tombstone by chance.
- `owing` is the namespace of a note that owes a purge or has no vector, `open` that of a decision that is not settled: a namespace with
  unfinished work is one of their values.
- What no filter names is one text of JSON (`view` of a note, `what` of a record): the engine converts a payload value by value,
  and takes ten times as long for the values of that text.
- `last` is the newest seq that a note knows; `size` how many bytes its texts have.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import numpy as np

from ..decisions import SETTLED, Call, Decision, Flip, Item, Lease, Record, Source
from ..errors import InvalidInputError, NamespaceError, StoreError
from ..notes import Attempts, ContextEntry, Link, Namespace, Note, Supersession
from ..stored_note import Earlier, Purge, StoredNote, Vector
from .bm25 import Sparse
from .checks import check_id, plain, stamp

Payload = dict[str, Any]

SCHEMA = 2

DENSE, LEXICAL = "dense", "bm25"  # the names of the vectors
TERMS = "terms"
MAX_TERM = 64  # characters; what is longer is indexed by its hash

# Fields that are stored as they are, and those of a note that `where` finds by its terms.
NOTE = (
    "seq", "content", "speaker", "source", "kind", "origin", "thread", "key", "state", "failure", "attempts",
    "metadata",
)  # fmt: skip
SEARCHED = (
    "content", "speaker", "source", "kind", "origin", "thread", "key", "keywords", "tags", "attributes_source",
    "state", "superseded_by",
)  # fmt: skip
ALWAYS = frozenset({"content", "source", "kind", "origin", "state"})  # which no note lacks
DECISION = ("token", "call", "note", "rev", "stage", "seq", "attempt", "phase")

# What of a note and of a record no filter names.
VIEW = (
    "purge",
    "supersedes",
    "earlier",
    "passages",
    "next_attempts",
    "contexts",
    "links",
    "supersessions",
    "failure",
)
WHAT = ("items", "data", "at", "sources_revs", "shown_revs", "attempt", "by")
BRIEF = ("schema", "namespace", "buried", "token", "rev", "thorough", "expires_at")  # of a note
NO_ATTEMPTS = Attempts()
LONG_AGO = datetime.fromtimestamp(0, UTC)

# Names under which everything is somebody's text.
TEXTS = {"content", "metadata", "text", "keywords", "tags", "reason", "values", "data"}
# Of the parts of a note: what is a time.
TIMES = {"at", "recorded_at", "until", "expires_at", "created", "since"}

# Marks of a record, by which it is filtered.
CALL, DECIDED, LEASE = "call", "decision", "lease"
VOID, OUTDATES, WAITS = "void", "outdates", "waits"


@dataclass(frozen=True, slots=True)
class Point:
    """One point, to be written or as it was read; `dense` has a row for each passage."""

    id: str
    payload: Payload
    dense: Vector | None = None
    lexical: Sparse | None = None


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
    newest = max(seq, stored.rev, stored.deleted_at, *(each.seq for each in stored.earlier))
    seq_us, seq_ns = seq_parts(seq)
    payload: Payload = {
        "schema": SCHEMA,
        "buried" if note is None else "namespace": key,
        "token": stored.token,
        "rev": stored.rev,
        "seq": seq,
        "seq_us": seq_us,
        "seq_ns": seq_ns,
        "last": newest,
        "purge": stored.purge and list(stored.purge),
        "owing": key if stored.purge or (note is not None and stored.vectors is None) else None,
        "thorough": stored.thorough or None,
        "supersedes": list(stored.supersedes) or None,
        "earlier": [_encode_earlier(each) for each in stored.earlier] or None,
        "embedded": stored.embedded if stored.vectors is not None and stored.embedded else None,
    }
    if note is not None:
        if note.namespace != stored.namespace or note.id != stored.id:
            raise NamespaceError(
                f"note {note.id} of {note.namespace!r} is not note {stored.id} of {stored.namespace!r}"
            )
        payload |= _encode_words(note)
    return _with_text(payload, "view", VIEW)


def _with_text(payload: Payload, name: str, fields: Iterable[str]) -> Payload:
    """Return a payload without what is missing, with its size, in which some fields are one text of JSON."""
    made = {name: plain(value, name) for name, value in payload.items() if value is not None}
    size = _bytes_of(made) + sum(_bytes_of(row[2], is_text=True) for row in made.get("links", ()))
    apart = {field: made.pop(field) for field in fields if field in made}
    text = json.dumps(apart, ensure_ascii=False, separators=(",", ":"))
    return {**made, name: text, "size": size}


def _encode_words(note: Note) -> Payload:
    """Return what is stored of a note itself, and of its view."""
    recorded_at = stamp(note.recorded_at, "recorded_at")
    return {
        **{name: getattr(note, name) for name in NOTE},
        "at": _zoned(note.at, "at"),
        "when": _stamp(note.at, "at") or recorded_at,
        "recorded_at": recorded_at,
        "until": _stamp(note.until, "until"),
        "expires_at": _stamp(note.expires_at, "expires_at"),
        "passages": [list(span) for span in note.passages] or None,
        "next_attempts": list(note.next_attempts) if any(note.next_attempts) else None,
        "contexts": [_encode_part(entry) for entry in note.contexts] or None,
        "links": [_encode_link(i, link) for i, link in note.links.items()] or None,
        "supersessions": [_encode_part(s, by=i) for i, s in note.supersessions.items()] or None,
        TERMS: _terms(note),
    }


def decode_note(point: Point) -> StoredNote:
    """Return the note of a point, or the tombstone."""
    payload = _checked(point.payload)
    view = json.loads(payload["view"])
    key, rev, purge = payload.get("namespace"), payload["rev"], view.get("purge")
    namespace = decode_namespace(key or payload["buried"])
    return StoredNote(
        id=point.id,
        namespace=namespace,
        token=payload["token"],
        rev=rev,
        note=_decode_words(point.id, namespace, rev, payload, view) if key else None,
        deleted_at=0 if key else payload["seq"],
        purge=purge and Purge(purge[0], deleted=purge[1]),
        thorough=payload.get("thorough", 0),
        supersedes=tuple(view.get("supersedes", ())),
        earlier=tuple([_decode_earlier(each) for each in view.get("earlier", ())]),
        vectors=point.dense,
        embedded=payload.get("embedded", ""),
    )


def decode_briefly(point: Point) -> StoredNote:
    """Return of a note what tells whether a wording still stands: token, rev, and whether the note is gone."""
    payload = _checked(point.payload)
    namespace, rev = decode_namespace(owner(payload) or ""), payload["rev"]
    note = Note(
        id=point.id,
        seq=rev,
        rev=rev,
        namespace=namespace,
        content="",
        recorded_at=LONG_AGO,
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
    note_id: str, namespace: Namespace, rev: int, payload: Payload, view: Payload
) -> Note:
    """Return the note of a payload and its view; a search reads some thirty, so each field is looked up once."""
    get = payload.get
    return Note(
        id=note_id,
        namespace=namespace,
        rev=rev,
        seq=payload["seq"],
        content=payload["content"],
        speaker=get("speaker"),
        source=payload["source"],
        kind=payload["kind"],
        origin=payload["origin"],
        thread=get("thread"),
        key=get("key"),
        state=payload["state"],
        attempts=payload["attempts"],
        metadata=payload["metadata"],
        recorded_at=_time(payload["recorded_at"]),
        at=_optional_time(get("at")),
        until=_optional_time(get("until")),
        expires_at=_optional_time(get("expires_at")),
        failure=view.get("failure"),
        passages=tuple([(start, end) for start, end in view.get("passages", ())]),
        next_attempts=Attempts(*view["next_attempts"]) if "next_attempts" in view else NO_ATTEMPTS,
        contexts=tuple([_decode_entry(each) for each in view.get("contexts", ())]),
        links=_decode_links(view.get("links", ())),
        supersessions={
            each["by"]: _decode_supersession(each) for each in view.get("supersessions", ())
        },
    )


def encode_record(record: Record) -> Payload:
    """Return the payload of a call, a decision or a lease.

    Raises:
        InvalidInputError: A field cannot be stored; the message names the field.
    """
    check_id(record.id, f"id of a {type(record).__name__}")
    key = namespace_key(record.namespace)
    made: Payload
    if isinstance(record, Decision):
        made = {"namespace": key, **_encode_decision(record, key)}
    elif isinstance(record, Call):
        made = {
            "namespace": key,
            "marks": [CALL],
            "token": record.token,
            "by": record.by,
            "seq": record.seq,
            **_encode_sources("shown", record.shown),
            "data": record.data or None,
        }
    else:
        until = _zoned(record.until, "until")
        kept = {"token": record.token, "thread": record.thread, "holder": record.holder}
        made = {"namespace": key, "marks": [LEASE], "until": until, **kept}
    return {"schema": SCHEMA, **_with_text(made, "what", WHAT)}


def _encode_decision(decision: Decision, key: str) -> Payload:
    places = {source: place for place, source in enumerate(decision.sources)}
    marks = {VOID: decision.void, OUTDATES: decision.supersedes, WAITS: decision.waits}
    return {
        **{name: getattr(decision, name) for name in DECISION},
        "marks": [DECIDED, *(mark for mark, holds in marks.items() if holds)],
        "open": None if decision.phase == SETTLED else key,
        "at": _zoned(decision.at, "at"),
        "items": [_encode_item(item, places) for item in decision.items] or None,
        "about": list(decision.about) or None,
        **_encode_sources("sources", decision.sources),
    }


def _encode_item(item: Item, places: Mapping[Source, int]) -> Payload:
    fields = {
        "kind": item.kind,
        "to": item.to,
        "by": item.by,
        "number": item.number,
        "text": item.text,
        "other": item.other,
        "sources": [places[source] for source in item.sources],
        "data": item.data,
        "switch": "" if item.switch == "on" else item.switch,
        "log": [list(flip) for flip in item.log],
    }
    return {name: value for name, value in fields.items() if value or name in ("to", "by")}


def decode_record(point: Point) -> Record:
    """Return the call, the decision or the lease of a point."""
    payload = {**_checked(point.payload), **json.loads(point.payload["what"])}
    named: Payload = {"id": point.id, "namespace": decode_namespace(payload["namespace"])}
    marks = payload["marks"]
    if DECIDED in marks:
        sources = _decode_sources("sources", payload)
        return Decision(
            **named,
            **{name: payload[name] for name in DECISION},
            at=_time(payload["at"]),
            items=tuple(_decode_item(each, sources) for each in payload.get("items", ())),
            about=tuple(payload.get("about", ())),
            sources=sources,
            void=VOID in marks,
        )
    if CALL in marks:
        shown = _decode_sources("shown", payload)
        kept = {name: payload[name] for name in ("token", "by", "seq")}
        return Call(**named, **kept, shown=shown, data=payload.get("data", {}))
    until, token, holder = _time(payload["until"]), payload["token"], payload["holder"]
    return Lease(**named, token=token, thread=payload.get("thread"), holder=holder, until=until)


def _decode_item(payload: Payload, sources: Sequence[Source]) -> Item:
    return Item(
        kind=payload["kind"],
        to=payload["to"],
        by=payload["by"],
        number=payload.get("number", 0),
        text=payload.get("text", ""),
        other=payload.get("other", ""),
        sources=tuple(sources[place] for place in payload.get("sources", ())),
        data=payload.get("data", {}),
        switch=payload.get("switch", "on"),
        log=tuple(Flip(*flip) for flip in payload.get("log", ())),
    )


def _encode_sources(name: str, sources: Sequence[Source]) -> Payload:
    """Return the fields for some wordings: their ids, by which they are found, and their revs in the same order."""
    return {
        name: [source.id for source in sources] or None,
        f"{name}_revs": [source.rev for source in sources] or None,
    }


def _decode_sources(name: str, payload: Payload) -> tuple[Source, ...]:
    return tuple(map(Source, payload.get(name, ()), payload.get(f"{name}_revs", ())))


def _encode_earlier(earlier: Earlier) -> Payload:
    values = {
        name: _zoned(value, name) if isinstance(value, datetime) else value
        for name, value in earlier.values.items()
    }
    return {"token": earlier.token, "seq": earlier.seq, "rev": earlier.rev, "values": values}


def _decode_earlier(payload: Payload) -> Earlier:
    values = {
        name: _time(value) if name in TIMES and value is not None else value
        for name, value in payload["values"].items()
    }
    return Earlier(payload["token"], payload["seq"], payload["rev"], values)


def _checked(payload: Payload) -> Payload:
    """Return the payload; raise `StoreError` if another version of this package wrote it."""
    if (schema := payload.get("schema")) != SCHEMA:
        raise StoreError(
            f"a note is stored in schema {schema!r}, this version of amem-integrations reads schema {SCHEMA}; "
            "open the memory with the version that wrote it"
        )
    return payload


def _bytes_of(value: object, *, is_text: bool = False) -> int:
    """Return how many bytes the texts of a payload have."""
    if isinstance(value, str):
        return len(value.encode()) if is_text else 0
    if isinstance(value, Mapping):
        return sum(
            _bytes_of(item, is_text=is_text or name in TEXTS) for name, item in value.items()
        )
    return sum(_bytes_of(item, is_text=is_text) for item in value) if isinstance(value, list) else 0


def term(field: str, value: str | float | None = None) -> str:
    """Return `field=value` as one string, equal for equal values; without a value the field alone.

    A bool is no number, and 1 is 1.0. `field` alone is stored with every field that may be empty and is not.
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
    if field not in ALWAYS:
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


def _stamp(time: datetime | None, where: str) -> str | None:
    return None if time is None else stamp(time, where)


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


def _encode_part(part: ContextEntry | Supersession, **named: str) -> Payload:
    """Return the payload of a part of a note; `named` is the id of the other note that it is about."""
    what = type(part).__name__
    fields = {name: getattr(part, name) for name in part.__slots__}
    kept = {name: value for name, value in fields.items() if value not in (None, ())}
    times = {name: stamp(kept[name], f"{name} of a {what}") for name in TIMES & kept.keys()}
    ids = {name: check_id(i, f"{name} of a {what}") for name, i in named.items()}
    return {**kept, **times, **ids}


# A search reads some hundred parts of notes: each kind is made by itself, which takes a third of the time.


def _decode_entry(payload: Payload) -> ContextEntry:
    return ContextEntry(
        text=payload["text"],
        keywords=tuple(payload.get("keywords", ())),
        tags=tuple(payload.get("tags", ())),
        cause=payload["cause"],
        model=payload["model"],
        change=payload["change"],
        at=_time(payload["at"]),
        recorded_at=_time(payload["recorded_at"]),
        until=_optional_time(payload.get("until")),
        sources=tuple((note_id, rev) for note_id, rev in payload.get("sources", ())),
    )


def _encode_link(target: str, link: Link) -> list[Any]:
    """Return a link as a row: there are many of them, and the names of the fields would take half of the bytes."""
    created = stamp(link.created, "created of a Link")
    end = check_id(target, "target of a Link")
    return [end, link.relation, link.reason, link.strength, link.direction, created]


def _decode_links(rows: Sequence[Any]) -> dict[str, Link]:
    return {
        target: Link(
            relation=relation,
            reason=reason,
            strength=strength,
            direction=direction,
            created=_time(created),
        )
        for target, relation, reason, strength, direction, created in rows
    }


def _decode_supersession(payload: Payload) -> Supersession:
    return Supersession(
        relation=payload["relation"],
        reason=payload["reason"],
        model=payload["model"],
        change=payload["change"],
        since=_time(payload["since"]),
        recorded_at=_time(payload["recorded_at"]),
    )


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
