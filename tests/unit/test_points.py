"""Notes and changes as payloads: exact there and back, readable, quick."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amem_integrations.errors import InvalidInputError, NamespaceError, StoreError
from amem_integrations.notes import RELATIONS, Change, ContextEntry, Link, Note, Supersession
from amem_integrations.stores.payloads import (
    decode_change,
    decode_namespace,
    decode_note,
    encode_change,
    encode_note,
    namespace_key,
)

texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
names = texts.filter(bool)
ids = st.uuids().map(str)
zones = st.integers(-23, 23).map(lambda hours: timezone(timedelta(hours=hours)))
times = st.datetimes(datetime(1900, 1, 1), datetime(9000, 1, 1), timezones=zones)  # noqa: DTZ001
integers = st.integers(-(2**63), 2**63 - 1)
json_values = st.recursive(
    st.none() | st.booleans() | integers | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
metadata = st.dictionaries(texts, json_values, max_size=3)
words = st.lists(texts, max_size=3).map(tuple)
entries = st.builds(
    ContextEntry,
    text=texts, keywords=words, tags=words, cause=ids, model=texts, change=texts, at=times, recorded_at=times,
    until=st.none() | times,
)  # fmt: skip
links = st.builds(
    Link,
    relation=texts, reason=texts, strength=st.floats(0, 1), direction=st.sampled_from(["out", "in"]),
    created=times,
)  # fmt: skip
supersessions = st.builds(
    Supersession,
    relation=st.sampled_from(RELATIONS), reason=texts, model=texts, change=texts, since=times, recorded_at=times,
)  # fmt: skip
namespaces = st.lists(names, min_size=1, max_size=3).map(tuple)
notes = st.builds(
    Note,
    id=ids, seq=integers, namespace=namespaces, content=texts, recorded_at=times, at=st.none() | times,
    speaker=st.none() | texts, kind=st.sampled_from(["statement", "question", "filler"]), source=st.sampled_from(["user", "assistant", "tool", "import"]),
    thread=st.none() | texts, key=st.none() | texts, contexts=st.lists(entries, max_size=2).map(tuple),
    links=st.dictionaries(ids, links, max_size=2), state=st.sampled_from(["pending", "done"]),
    failure=st.none() | texts, attempts=st.integers(0, 9),
    supersessions=st.dictionaries(ids, supersessions, max_size=2), until=st.none() | times,
    expires_at=st.none() | times, revision=st.integers(0, 2**40), ops=words, metadata=metadata,
)  # fmt: skip
changes = st.builds(
    Change,
    id=texts, seq=integers, op=texts, kind=st.sampled_from(["add", "evolve"]), namespace=namespaces,
    note_id=ids, cause=st.none() | ids, model=st.none() | texts, recorded_at=times, data=metadata,
)  # fmt: skip

NOTE = Note(
    id="00000000-0000-4000-8000-000000000001",
    seq=1_800_000_000_123_456_789,
    namespace=("ann", "chat"),
    content="I signed up for a pottery class",
    recorded_at=datetime(2026, 5, 8, 12, 0, tzinfo=UTC),
)


def through_json(payload: dict[str, Any]) -> dict[str, Any]:
    decoded: dict[str, Any] = json.loads(json.dumps(payload, allow_nan=False))
    assert decoded == payload
    return decoded


@given(notes)
def test_a_note_comes_back_as_it_was(note: Note) -> None:
    payload = through_json(encode_note(note, note.namespace))
    found = decode_note(note.id, payload)
    assert found == note
    assert repr(found.metadata) == repr(note.metadata)


@given(changes)
def test_a_change_comes_back_as_it_was(change: Change) -> None:
    assert decode_change(through_json(encode_change(change, change.namespace))) == change


@given(namespaces, namespaces)
def test_no_two_namespaces_share_a_key(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    assert (namespace_key(one) == namespace_key(other)) == (one == other)
    assert decode_namespace(namespace_key(one)) == one


def test_the_payload_is_flat_versioned_and_made_for_filters() -> None:
    moment = datetime(2023, 5, 7, 23, 30, tzinfo=timezone(timedelta(hours=-5)))
    entry = ContextEntry(
        text="she makes pots", keywords=("clay",), tags=("craft",), cause=NOTE.id, model="rules",
        change="c", at=moment, recorded_at=moment,
    )  # fmt: skip
    payload = encode_note(
        NOTE.revised(at=moment, contexts=(entry,), metadata={"city": "Rome"}), NOTE.namespace
    )
    shown = "schema namespace seq seq_us seq_ns at when recorded_at terms"
    assert {name: payload[name] for name in shown.split()} == {
        "schema": 1,
        "namespace": '["ann","chat"]',
        "seq": 1_800_000_000_123_456_789,
        "seq_us": 1_800_000_000_123_456,
        "seq_ns": 789,
        "at": "2023-05-07T23:30:00.000000-05:00",
        "when": "2023-05-08T04:30:00.000000Z",
        "recorded_at": "2026-05-08T12:00:00.000000Z",
        "terms": [
            "content",
            'content="I signed up for a pottery class"',
            "source",
            'source="user"',
            "kind",
            'kind="statement"',
            "keywords",
            'keywords="clay"',
            "tags",
            'tags="craft"',
            "attributes_source",
            'attributes_source="rules"',
            "state",
            'state="pending"',
            "chunk",
            "chunk=0",
            "at",
            "at=true",
            "metadata",
            "metadata.city",
            'metadata.city="Rome"',
        ],
    }
    assert "speaker" not in payload


def test_without_an_event_time_when_is_the_time_of_recording() -> None:
    payload = encode_note(NOTE, NOTE.namespace)
    assert payload["when"] == payload["recorded_at"]
    assert "at" not in payload


def test_a_note_is_not_stored_under_another_namespace() -> None:
    with pytest.raises(NamespaceError, match="belongs to"):
        encode_note(NOTE, ("ann",))


def test_a_refusal_names_the_place() -> None:
    bad = NOTE.revised(metadata={"a": [{"b": float("inf")}]})
    with pytest.raises(InvalidInputError, match=r"metadata\.a\.b is inf"):
        encode_note(bad, NOTE.namespace)


def test_a_negative_revision_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="revision"):
        encode_note(NOTE.revised(revision=-1), NOTE.namespace)


def test_a_time_that_leaves_the_calendar_is_refused() -> None:
    edge = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=5)))
    with pytest.raises(InvalidInputError, match="calendar"):
        encode_note(NOTE.revised(at=edge), NOTE.namespace)


def test_a_payload_of_a_later_version_is_not_guessed_at() -> None:
    payload = encode_note(NOTE, NOTE.namespace)
    with pytest.raises(StoreError, match="newer version"):
        decode_note(NOTE.id, {**payload, "schema": 2})


def test_what_is_stored_is_a_copy() -> None:
    inner = ["x"]
    payload = encode_note(NOTE.revised(metadata={"list": inner}), NOTE.namespace)
    inner.append("y")
    assert payload["metadata"] == {"list": ["x"]}


def test_decoding_ten_notes_takes_well_under_a_millisecond() -> None:
    moment = NOTE.recorded_at
    entry = ContextEntry(
        text="t" * 100, keywords=("a", "b", "c"), tags=("d",), cause=NOTE.id, model="m", change="c",
        at=moment, recorded_at=moment,
    )  # fmt: skip
    link = Link(
        relation="r", reason="because", strength=0.5, direction="out", created=moment
    )  # fmt: skip
    many = {f"00000000-0000-4000-8000-{n:012}": link for n in range(5)}
    payload = encode_note(NOTE.revised(contexts=(entry,) * 3, links=many), NOTE.namespace)
    best = min(_seconds_for_ten(payload) for _ in range(50))
    assert best < 0.001


def _seconds_for_ten(payload: dict[str, Any]) -> float:
    started = time.perf_counter()
    for _ in range(10):
        decode_note(NOTE.id, payload)
    return time.perf_counter() - started
