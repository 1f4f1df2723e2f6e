"""Rules about conditions: every operator on every kind of field."""
# ruff: noqa: S101, D102 - asserting is what a test does, and its name is the rule

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ...errors import InvalidInputError
from ...filters import matches, parse
from ...notes import Note
from ...ports import Indexed, NoteStore
from .builders import ANN, NOW, SEQ, done, entry, note, note_id

LATER = NOW + timedelta(microseconds=1)
EARLY = datetime(2023, 5, 7, tzinfo=UTC)


def _notes() -> list[Note]:
    return [
        note(
            "a", number=0, speaker="Ann", thread="1", at=EARLY, state="done", key="k",
            contexts=(entry("a", tags=("craft", "home"), keywords=("clay",)),),
            metadata={"n": 1, "city": "Rome", "when": "2026-05-08T12:00:00Z", "odd key": "x", "in": {"x": 1}},
        ),
        note(
            "b", number=1, speaker="Bob", thread="2", state="pending", superseded_by=note_id("a"),
            contexts=(entry("b", tags=("craft",), model="rules"),),
            metadata={"n": 2.5, "city": ["Rome", "Oslo"], "flag": True, "none": None},
        ),
        note("c", number=2, source="import", at=LATER, state="failed", metadata={"n": "1", "big": 2**60 + 1}),
        note("d", number=3, expires_at=NOW, recorded_at=EARLY, metadata={"n": 1.0, "flag": False, "list": [], "odd=key": 1, "long": "long " * 100}),
    ]  # fmt: skip


# The fields that the cases compare by `$gt` and the like, for a store that wants to know them beforehand.
METADATA_INDEXES = {"n": "float", "when": "datetime"}
CASES: list[tuple[Mapping[str, Any], str]] = [
    ({}, "abcd"),
    ({"id": note_id("a")}, "a"),
    ({"id": "not an id"}, ""),
    ({"id": {"$in": [note_id("a"), note_id("c"), "x"]}}, "ac"),
    ({"id": {"$ne": note_id("a")}}, "bcd"),
    ({"seq": SEQ + 1}, "b"),
    ({"seq": {"$ne": SEQ + 1}}, "acd"),
    ({"seq": {"$gt": SEQ + 1}}, "cd"),
    ({"seq": {"$gte": SEQ + 1}}, "bcd"),
    ({"seq": {"$lt": SEQ + 1}}, "a"),
    ({"seq": {"$lte": SEQ + 1}}, "ab"),
    ({"seq": {"$gt": SEQ, "$lt": SEQ + 3}}, "bc"),
    ({"seq": {"$in": [SEQ, SEQ + 3]}}, "ad"),
    ({"content": "this is a"}, "a"),
    ({"speaker": "Ann"}, "a"),
    ({"speaker": None}, "cd"),
    ({"speaker": {"$ne": None}}, "ab"),
    ({"speaker": {"$ne": "Ann"}}, "bcd"),
    ({"speaker": {"$in": ["Ann", "Bob", "Zoë"]}}, "ab"),
    ({"speaker": {"$in": ["Ann", None]}}, "acd"),
    ({"speaker": {"$in": []}}, ""),
    ({"speaker": "ann"}, ""),
    ({"source": "import"}, "c"),
    ({"thread": "1"}, "a"),
    ({"thread": 1}, ""),
    ({"key": "k"}, "a"),
    ({"state": {"$in": ["pending", "failed"]}}, "bcd"),
    ({"superseded_by": None}, "acd"),
    ({"tags": "craft"}, "ab"),
    ({"tags": {"$ne": "home"}}, "bcd"),
    ({"tags": {"$in": ["home", "clay"]}}, "a"),
    ({"tags": None}, "cd"),
    ({"keywords": "clay"}, "ab"),
    ({"attributes_source": "rules"}, "b"),
    ({"at": None}, "bd"),
    ({"at": EARLY}, "a"),
    ({"at": {"$gt": NOW}}, "c"),
    ({"at": {"$gte": LATER}}, "c"),
    ({"at": {"$gt": LATER}}, ""),
    ({"at": {"$lt": NOW}}, "a"),
    ({"at": {"$ne": EARLY}}, "bcd"),
    ({"at": {"$in": [EARLY, LATER]}}, "ac"),
    ({"when": {"$lte": EARLY}}, "ad"),
    ({"recorded_at": {"$gte": NOW}}, "abc"),
    ({"expires_at": {"$lte": NOW}}, "d"),
    ({"metadata.city": "Rome"}, "ab"),
    ({"metadata.city": "Oslo"}, "b"),
    ({"metadata.n": 1}, "ad"),
    ({"metadata.n": 1.0}, "ad"),
    ({"metadata.n": "1"}, "c"),
    ({"metadata.n": 2.5}, "b"),
    ({"metadata.n": {"$gt": 1}}, "b"),
    ({"metadata.n": {"$lte": 1}}, "ad"),
    ({"metadata.n": {"$in": [1, "1"]}}, "acd"),
    ({"metadata.n": {"$ne": 1}}, "bc"),
    ({"metadata.n": None}, ""),
    ({"metadata.big": 2**60 + 1}, "c"),
    ({"metadata.big": 2**60 + 2}, ""),
    ({"metadata.flag": True}, "b"),
    ({"metadata.flag": False}, "d"),
    ({"metadata.flag": 1}, ""),
    ({"metadata.n": True}, ""),
    ({"metadata.n": {"$in": [True, 2.5]}}, "b"),
    ({"metadata.n": {"$ne": True}}, "abcd"),
    ({"metadata.flag": {"$in": [1, 0]}}, ""),
    ({"metadata.flag": {"$ne": 1}}, "abcd"),
    ({"metadata.flag": {"$ne": True}}, "acd"),
    ({"attempts": True}, ""),
    ({"attempts": 0}, "abcd"),
    ({"attempts": {"$lt": 1}}, "abcd"),
    ({"attempts": None}, ""),
    ({"content": "this is"}, ""),
    ({"metadata.city": None}, "cd"),
    ({"metadata.city": {"$ne": None}}, "ab"),
    ({"metadata.in": None}, "bcd"),
    ({"metadata.odd=key": 1}, "d"),
    ({"metadata.odd": "key=1"}, ""),
    ({"metadata.long": "long " * 100}, "d"),
    ({"metadata.long": "long " * 99}, ""),
    ({"at": {"$ne": None}}, "ac"),
    ({"expires_at": None}, "abc"),
    ({"metadata.none": None}, "abcd"),
    ({"metadata.list": None}, "abcd"),
    ({"metadata.when": {"$lt": NOW}}, "a"),
    ({"metadata.odd key": "x"}, "a"),
    ({"metadata.in.x": 1}, "a"),
    ({"metadata.missing": "x"}, ""),
    ({"speaker": "Ann", "state": "pending"}, ""),
    ({"tags": "craft", "metadata.city": "Rome", "at": {"$lt": NOW}}, "a"),
]


class FilteringRules:
    """What a store promises about conditions."""

    def test_conditions_select_the_notes_that_meet_them(self, store: NoteStore) -> None:
        done(store.insert(ANN, [Indexed(note=each) for each in _notes()], []))
        names = {each.id: each.content[-1] for each in _notes()}
        wrong = {}
        for where, expected in CASES:
            found = "".join(names[hit.id] for hit in done(store.scan(ANN, where=parse(where))))
            counted = done(store.count(ANN, parse(where)))
            if (found, counted) != (expected, len(expected)):
                wrong[repr(where)] = (found, counted)
        assert wrong == {}

    def test_the_core_judges_a_note_by_conditions_as_the_store_does(self) -> None:
        for where, expected in CASES:
            found = [n.content[-1] for n in _notes() if matches(n, parse(where))]
            assert "".join(found) == expected, where

    @pytest.mark.parametrize(
        "where",
        [
            {"seq": "1"},
            {"seq": 1.5},
            {"seq": None},
            {"at": "2026-05-08"},
            {"at": 5},
            {"metadata.n": float("inf")},
            {"metadata.n": {"$lt": float("nan")}},
            {"metadata.n": 2**64},
            {"metadata.a..b": 1},
            {'metadata.a"b': 1},
            {"speaker": "half \ud83d"},
        ],
        ids=lambda where: repr(where).encode("ascii", "backslashreplace").decode(),
    )
    def test_a_comparison_that_makes_no_sense_is_refused(
        self, store: NoteStore, where: Mapping[str, Any]
    ) -> None:
        with pytest.raises(InvalidInputError):
            done(store.count(ANN, parse(where)))
