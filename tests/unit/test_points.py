"""Notes and records as payloads: exact there and back, readable, quick."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amem_integrations.decisions import Call, Decision, Flip, Item, Lease, ModelCall
from amem_integrations.errors import InvalidInputError, StoreError
from amem_integrations.notes import (
    RELATIONS,
    Attempts,
    ContextEntry,
    Link,
    Note,
    Supersession,
    Wording,
)
from amem_integrations.stored_note import Earlier, Purge, StoredNote
from amem_integrations.stores import payloads
from amem_integrations.stores.payloads import Point, number_of

texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
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
namespaces = st.lists(texts.filter(bool), min_size=1, max_size=3).map(tuple)
BY_TYPE = {str: texts, str | None: st.none() | texts, int: integers, datetime: times}
BY_TYPE[datetime | None] = st.none() | times
BY_TYPE[tuple[str, ...]] = st.lists(texts, max_size=3).map(tuple)
BY_NAME = dict.fromkeys(("id", "cause", "call", "note", "to"), ids) | {"namespace": namespaces}


def made(kind, **given):
    """Return instances of a class, of which each field is given, or made by its name or its type."""
    known = BY_NAME | given
    hints = get_type_hints(kind).items()
    fields = {n: known.get(n, BY_TYPE.get(hint, st.from_type(hint))) for n, hint in hints}
    return st.builds(kind, **fields)


def several(strategy):
    return st.lists(strategy, max_size=2).map(tuple)


sources = several(made(Wording))
links = made(Link, strength=st.floats(0, 1))
supersessions = made(Supersession, relation=st.sampled_from(RELATIONS))
edited = {"content": texts, "at": st.none() | times, "metadata": metadata}
earlier = made(Earlier, values=st.fixed_dictionaries({}, optional=edited))
notes = made(
    Note,
    passages=several(st.tuples(st.integers(0, 9), st.integers(10, 99))),
    contexts=several(made(ContextEntry, sources=st.just(()))),
    links=st.dictionaries(ids, links, max_size=2),
    supersessions=st.dictionaries(ids, supersessions, max_size=2),
    attempts=st.integers(0, 9),
    next_attempts=st.builds(Attempts, *[st.integers(0, 3)] * 3),
    metadata=metadata,
    rev=st.just(0),
)
items = made(Item, other=st.just("") | ids, sources=sources, data=metadata, log=several(made(Flip)))
decisions = made(Decision, items=several(items), about=several(ids), sources=sources)
tokens = st.integers(0, 2**63 - 1)
costs = several(made(ModelCall, input_tokens=tokens, output_tokens=tokens))
records = decisions | made(Call, shown=sources, cost=costs) | made(Lease)


@st.composite
def stored_notes(draw):
    """Return notes and tombstones."""
    note, alive, rev = draw(notes), draw(st.booleans()), draw(integers)
    return StoredNote(
        id=note.id, namespace=note.namespace, token=draw(texts), rev=rev, note=note if alive else None,
        deleted_at=0 if alive else draw(integers), purge=draw(st.none() | made(Purge)),
        thorough=draw(integers), supersedes=draw(several(ids)), earlier=draw(several(earlier)),
    )  # fmt: skip


NOTE = Note(
    id="00000000-0000-4000-8000-000000000001",
    seq=1_800_000_000_123_456_789,
    namespace=("ann", "chat"),
    content="I signed up for a pottery class",
    recorded_at=datetime(2026, 5, 8, 12, 0, tzinfo=UTC),
)


def payload_of(note):
    """Return the payload of a note that is stored as it is."""
    given = {"id": note.id, "namespace": note.namespace, "token": "t", "rev": note.seq}
    return payloads.encode_note(StoredNote(note=note, **given))


def through_json(payload):
    decoded = json.loads(json.dumps(payload, allow_nan=False))
    assert decoded == payload
    return decoded


@given(stored_notes())
def test_a_note_comes_back_as_it_was(stored):
    found = payloads.decode_note(Point(stored.id, through_json(payloads.encode_note(stored))))
    assert found == stored
    if found.note is not None and stored.note is not None:
        assert repr(found.note.metadata) == repr(stored.note.metadata)


@given(records)
def test_a_record_comes_back_as_it_was(record):
    payload = through_json(payloads.encode_record(record))
    assert payloads.decode_record(Point(record.id, payload)) == record


@given(namespaces, namespaces)
def test_no_two_namespaces_share_a_key(one, other):
    key = payloads.namespace_key(one)
    assert (key == payloads.namespace_key(other)) == (one == other)
    assert payloads.decode_namespace(key) == one


def test_the_payload_is_flat_versioned_and_made_for_filters():
    moment = datetime(2023, 5, 7, 23, 30, tzinfo=timezone(timedelta(hours=-5)))
    entry = ContextEntry(
        text="she makes pots", keywords=("clay",), tags=("craft",), cause=NOTE.id, model="rules",
        change="c", at=moment, recorded_at=moment,
    )  # fmt: skip
    payload = payload_of(NOTE.revised(at=moment, contexts=(entry,), metadata={"city": "Rome"}))
    seq = {"seq": NOTE.seq, "seq_us": 1_800_000_000_123_456, "seq_ns": 789}
    times = {"at": "2023-05-08T04:30:00.000000Z", "recorded_at": "2026-05-08T12:00:00.000000Z"}
    assert payload.items() >= {"namespace": '["ann","chat"]', **seq, **times}.items()
    told = ['content="I signed up for a pottery class"', "keywords", 'keywords="clay"', "at=true"]
    told += [
        'attributes_source="rules"',
        'state="pending"',
        "metadata.city",
        'metadata.city="Rome"',
    ]
    assert set(map(number_of, told)) <= set(payload["terms"])
    assert number_of("thread") not in payload["terms"]
    assert json.loads(payload_of(NOTE)["text"]) == {"note": {"content": NOTE.content}}


def test_half_a_surrogate_pair_has_a_number_as_any_text():
    assert number_of("\ud800") != number_of("\ud801")
    assert number_of("Zürich") == number_of("Z\u00fcrich") < 2**48


def test_a_refusal_names_the_place():
    edge = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=5)))
    refused = [
        ({"metadata": {"a": [{"b": float("inf")}]}}, r"metadata\.a\.b is .*inf"),
        ({"at": edge}, "calendar"),
        ({"at": datetime(1890, 1, 1, tzinfo=timezone(timedelta(seconds=19270)))}, "minutes"),
    ]
    for fields, said in refused:
        with pytest.raises(InvalidInputError, match=said):
            payload_of(NOTE.revised(**fields))
    damaged = {**payload_of(NOTE), "text": '{"note":{}}'}
    with pytest.raises(StoreError, match=f"(?s){NOTE.id} is damaged.*version that wrote"):
        payloads.decode_note(Point(NOTE.id, damaged))
