"""What `where` means, and what is no filter."""

from __future__ import annotations

from datetime import timedelta

import pytest
from support.notes import NOON, make_entry, make_note

from amem_integrations import InvalidInputError
from amem_integrations.filters import Condition, matches, parse

NOTE = make_note(
    speaker="Ann",
    at=NOON,
    metadata={
        "city": "Oslo",
        "age": 7,
        "places": ["a", "b"],
        "noon": f"{NOON:%Y-%m-%dT%H:%M:%S}",  # a time without a zone is in UTC
    },
)
NOTE = NOTE.revised(contexts=(make_entry("x", NOTE.id, tags=("pets", "home")),))
MET = [
    {},
    {"speaker": "Ann"},
    {"speaker": {"$ne": "Bob"}},
    {"tags": "pets"},
    {"tags": {"$in": ["home", "x"]}},
    {"at": {"$gte": NOON, "$lt": NOON + timedelta(days=1)}},
    {"metadata.city": "Oslo", "metadata.age": {"$gt": 6.5}},
    {"metadata.missing": None},
    {"metadata.places": "b"},
    {"metadata.noon": NOON},
    {"metadata.noon": {"$gte": NOON, "$lt": NOON + timedelta(minutes=1)}},
    {"thread": None},
]
NOT_MET = [
    {"speaker": "ann"},
    {"speaker": {"$in": []}},
    {"tags": {"$ne": "pets"}},
    {"at": {"$gt": NOON}},
    {"metadata.age": {"$lt": 7}},
    {"metadata.city": {"$gt": 5}},
    {"metadata.missing": {"$gt": 0}},
    {"at": {"$gt": 5}},
    {"speaker": "Ann", "metadata.city": "Rome"},
]


def test_a_note_meets_what_is_true_of_it():
    assert [where for where in MET if not matches(NOTE, parse(where))] == []
    assert [where for where in NOT_MET if matches(NOTE, parse(where))] == []


def test_a_value_means_equals_and_several_operators_must_all_hold():
    assert parse({"thread": "t", "seq": {"$gt": 1, "$lte": 5}}) == (
        Condition("thread", "$eq", "t"),
        Condition("seq", "$gt", 1),
        Condition("seq", "$lte", 5),
    )


NO_FILTERS = [
    ({"tags": ["a"]}, "tags"),
    ({"at": {"$gt": "2024"}}, "at"),
    ({"key": {"$gt": None}}, "key"),
    ({"source": "wiki"}, r"'source' in where is never 'wiki'.*'metadata\.source'"),
    ({"kind": {"$in": ["statement", "recipe"]}}, "never 'recipe'"),
    ({"state": {"$nin": ["ready"]}}, "never 'ready'"),
    ({"$or": []}, "at least one"),
    ({"$or": {"speaker": "Ann"}}, "list of filters"),
    ({"$and": [{}]}, "not empty"),
    ({"$not": [{"speaker": "Ann"}]}, "unknown field"),
    ({"speaker": {"$exists": "yes"}}, "True or False"),
    ({"speaker": {"$nin": "Ann"}}, "wants a list"),
    ({"speeker": "Ann"}, "unknown field 'speeker'"),
    ({"metadata.": 1}, "unknown field"),
    ({"speaker": {"$like": "A"}}, r"unknown operator '\$like'"),
    ({"at": {"$gt": NOON.replace(tzinfo=None)}}, "time zone"),
]


def test_what_could_never_match_and_what_is_no_filter_is_refused():
    for where, says in NO_FILTERS:
        with pytest.raises(InvalidInputError, match=says):
            parse(where)
