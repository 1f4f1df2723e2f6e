"""Rules about conditions: every operator on every kind of field."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from support.stored import ANN, NOW, SEQ, entry, note, note_id, stored, supersession, tombstone

from amem_integrations.errors import InvalidInputError
from amem_integrations.filters import matches, parse

LATER = NOW + timedelta(microseconds=1)
EARLY = datetime(2023, 5, 7, tzinfo=UTC)


def _notes():
    return [
        note(
            "a", number=0, speaker="Ann", thread="1", at=EARLY, state="done", key="k",
            contexts=(entry("a", tags=("craft", "home"), keywords=("clay",)),),
            metadata={"n": 1, "city": "Rome", "when": "2026-05-08T12:00:00Z", "odd key": "x", "in": {"x": 1}, "void": {}},
        ),
        note(
            "b", kind="question", number=1, speaker="Bob", thread="2", state="pending", supersessions={note_id("a"): supersession()}, until=LATER,
            contexts=(entry("b", tags=("craft",), model="rules"),),
            metadata={"n": 2.5, "city": ["Rome", "Oslo"], "flag": True, "none": None},
        ),
        note("c", number=2, source="import", at=LATER, state="failed", metadata={"n": "1", "void": [None, "x"], "big": 2**60 + 1}),
        note("d", kind="filler", number=3, expires_at=NOW, recorded_at=EARLY, metadata={"n": 1.0, "flag": False, "list": [], "void": [None], "odd=key": 1, "long": "long " * 100}),
    ]  # fmt: skip


# By field: a condition, and the notes that meet it.
BY_FIELD = {
    "id": [(note_id("a"), "a"), ("not an id", ""),
        ({"$in": [note_id("a"), note_id("c"), "x"]}, "ac"), ({"$ne": note_id("a")}, "bcd")],
    "seq": [(SEQ + 1, "b"), ({"$ne": SEQ + 1}, "acd"), ({"$gt": SEQ + 1}, "cd"),
        ({"$gte": SEQ + 1}, "bcd"), ({"$lt": SEQ + 1}, "a"), ({"$lte": SEQ + 1}, "ab"),
        ({"$gt": SEQ, "$lt": SEQ + 3}, "bc"), ({"$in": [SEQ, SEQ + 3]}, "ad")],
    "content": [("this is a", "a"), ("this is", "")],
    "speaker": [("Ann", "a"), (None, "cd"), ({"$ne": None}, "ab"), ({"$ne": "Ann"}, "bcd"),
        ({"$in": ["Ann", "Bob", "Zoë"]}, "ab"), ({"$in": ["Ann", None]}, "acd"), ({"$in": []}, ""),
        ({"$nin": ["Ann", "Zoë"]}, "bcd"), ({"$nin": ["Ann", None]}, "b"), ({"$nin": []}, "abcd"),
        ("ann", "")],
    "source": [("import", "c"), (None, ""), ({"$ne": None}, "abcd"), ({"$in": ["import", None]}, "c")],
    "origin": [("conversation", "abcd"), ("document", "")],
    "kind": [("question", "b"), ({"$ne": "question"}, "acd"), ({"$in": ["filler", "question"]}, "bd")],
    "thread": [("1", "a"), (1, "")],
    "key": [("k", "a")],
    "state": [({"$in": ["pending", "failed"]}, "bcd")],
    "superseded_by": [(None, "acd"), (note_id("a"), "b")],
    "until": [(None, "acd"), ({"$gt": NOW}, "b"), ({"$lt": NOW}, "")],
    "tags": [("craft", "ab"), ({"$ne": "home"}, "bcd"), ({"$in": ["home", "clay"]}, "a"),
        (None, "cd")],
    "keywords": [("clay", "ab")],
    "attributes_source": [("rules", "b")],
    "at": [(None, "bd"), (EARLY, "a"), ({"$gt": NOW}, "c"), ({"$gte": LATER}, "c"),
        ({"$gt": LATER}, ""), ({"$lt": NOW}, "a"), ({"$ne": EARLY}, "bcd"),
        ({"$in": [EARLY, LATER]}, "ac"), ({"$ne": None}, "ac")],
    "when": [({"$lte": EARLY}, "ad")],
    "recorded_at": [({"$gte": NOW}, "abc")],
    "expires_at": [({"$lte": NOW}, "d"), (None, "abc")],
    "metadata.city": [({"$exists": True}, "ab"), ({"$exists": False}, "cd"), ({"$nin": ["Oslo"]}, "acd"), ("Rome", "ab"), ("Oslo", "b"), (None, "cd"), ({"$ne": None}, "ab")],
    "metadata.n": [(1, "ad"), (1.0, "ad"), ("1", "c"), (2.5, "b"), ({"$gt": 1}, "b"),
        ({"$lte": 1}, "ad"), ({"$in": [1, "1"]}, "acd"), ({"$ne": 1}, "bc"), (None, ""), (True, ""),
        ({"$in": [True, 2.5]}, "b"), ({"$ne": True}, "abcd")],
    "metadata.big": [(2**60 + 1, "c"), (2**60 + 2, "")],
    "metadata.flag": [(True, "b"), (False, "d"), (1, ""), ({"$in": [1, 0]}, ""),
        ({"$ne": 1}, "abcd"), ({"$ne": True}, "acd")],
    "attempts": [(True, ""), (0, "abcd"), ({"$lt": 1}, "abcd"), (None, "")],
    "metadata.in": [(None, "bcd")],
    "metadata.odd=key": [(1, "d")],
    "metadata.odd": [("key=1", "")],
    "metadata.long": [("long " * 100, "d"), ("long " * 99, "")],
    "metadata.none": [(None, "abcd")],
    "metadata.list": [(None, "abcd")],
    "metadata.void": [(None, "bd"), ({"$exists": True}, "ac"), ("x", "c")],
    "metadata.when": [({"$lt": NOW}, "a")],
    "metadata.odd key": [("x", "a")],
    "metadata.in.x": [(1, "a")],
    "metadata.missing": [("x", "")],
}  # fmt: skip
EITHER = [{"speaker": "Ann"}, {"metadata.n": {"$gt": 1}, "speaker": "Bob"}, {"key": "none"}]
WITHIN = [
    {"$or": [{"key": "k"}, {"at": LATER}]},
    {"$and": [{"kind": "filler"}, {"source": "import"}]},
]
CASES = [
    ({}, "abcd"),
    ({"speaker": "Ann", "state": "pending"}, ""),
    ({"tags": "craft", "metadata.city": "Rome", "at": {"$lt": NOW}}, "a"),
    ({"$or": EITHER}, "ab"),
    ({"$or": [{"speaker": {"$ne": None}}, {"metadata.n": "1"}], "kind": "statement"}, "ac"),
    ({"$or": WITHIN}, "ac"),
    ({"$and": [{"tags": "craft"}, {"tags": "home"}]}, "a"),
    ({"$and": []}, "abcd"),
    *(({field: wanted}, notes) for field, cases in BY_FIELD.items() for wanted, notes in cases),
]


def test_conditions_select_the_notes_that_meet_them(store):
    given = [replace(stored("x"), id=each.id, rev=each.seq, note=each) for each in _notes()]
    store.insert_notes(ANN, [*given, tombstone("gone")])
    for where, expected in CASES:
        found = "".join(hit.content[-1] for hit in store.scan(ANN, where=parse(where)))
        assert (found, store.count(ANN, parse(where))) == (expected, len(expected)), where


def test_the_core_judges_a_note_by_conditions_as_the_store_does():
    for where, expected in CASES:
        found = [n.content[-1] for n in _notes() if matches(n, parse(where))]
        assert "".join(found) == expected, where


def test_a_comparison_that_makes_no_sense_is_refused(store):
    wrong = {
        "seq": ["1", None],
        "$or": [[{"seq": 1.5}]],
        "at": ["2026-05-08", 5],
        "state": [NOW, {"$gt": 1}],
        "tags": [{"$in": ["craft", NOW]}],
        "speaker": [{"$lt": NOW}, "half \ud83d"],
        "metadata.n": [float("inf"), {"$lt": float("nan")}, 2**64],
        "metadata.a..b": [1],
        'metadata.a"b': [1],
    }
    for where in ({field: value} for field, values in wrong.items() for value in values):
        with pytest.raises(InvalidInputError):
            store.count(ANN, parse(where))
