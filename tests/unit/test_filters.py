"""What is no filter; what a filter means is shown in every store."""

from __future__ import annotations

from datetime import timedelta

import pytest
from support.notes import NOON, make_note

from amem_integrations import InvalidInputError
from amem_integrations.filters import matches, parse


def test_a_time_of_metadata_without_a_zone_is_in_utc():
    note = make_note(metadata={"noon": f"{NOON:%Y-%m-%dT%H:%M:%S}"})
    for test in (NOON, {"$gte": NOON, "$lt": NOON + timedelta(minutes=1)}):
        assert matches(note, parse({"metadata.noon": test}))


NO_FILTERS = [
    ({"tags": ["a"]}, "tags"),
    ({"at": {"$gt": "2024"}}, "at"),
    ({"key": {"$gt": None}}, "key"),
    ({"seq": {"$gte": True}}, "wants a number or a datetime"),
    ({"seq": {"$in": 3}}, "wants a list"),
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
