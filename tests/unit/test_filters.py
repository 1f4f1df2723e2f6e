"""What is no filter; what a filter means is shown in every store."""

from __future__ import annotations

from datetime import timedelta

import pytest
from support.notes import NOON, make_note

from amem_integrations import AgenticMemory, InvalidInputError, NoteInput
from amem_integrations.filters import matches, parse
from amem_integrations.testing import HashEmbedder


def test_a_time_of_metadata_without_a_zone_is_in_utc():
    note = make_note(metadata={"noon": f"{NOON:%Y-%m-%dT%H:%M:%S}"})
    for test in (NOON, {"$gte": NOON, "$lt": NOON + timedelta(minutes=1)}):
        assert matches(note, parse({"metadata.noon": test}))


TIMES = ["2024-05-08", "2024-05-08T12:00", "2024-05-08 12:00:00.5", "2024-05-08t12:00:00z"]
TIMES += ["2024-05-08T12:00:00+0200", "2024-05-08T12:00:00+02"]
NO_TIMES = ["20240508", "2024-W19-3", "2024-05-08T12", "2024-05-08T12:00Z", "2024-05-08T120000"]


def test_times_of_metadata_are_those_that_the_store_reads():
    with AgenticMemory.open(":memory:", embedder=HashEmbedder()) as memory:
        items = [NoteInput(content=one, metadata={"day": one}) for one in TIMES + NO_TIMES]
        notes = memory.add_many(items, namespace=("ann",), evolve=False)
        where = {"metadata.day": {"$gte": NOON.replace(year=2000)}}
        found = memory.get_all(namespace=("ann",), where=where)
        assert [note.content for note in found] == TIMES
        assert [note.content for note in notes if matches(note, parse(where))] == TIMES


DEEP: dict[str, object] = {"speaker": "Ann"}
for _ in range(5000):
    DEEP = {"$and": [DEEP]}
NO_FILTERS = [
    (DEEP, "nested more than 32 times"),
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
