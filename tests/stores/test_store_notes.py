"""Rules about notes: insertion and swap, reading by id and in order, search; and the wall between namespaces."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest
from support.stored import (
    ANN,
    BOB,
    NOW,
    SEQ,
    call,
    decision,
    entry,
    full_stored,
    lease,
    link,
    note_id,
    stored,
    tombstone,
    unit,
)

from amem_integrations.errors import InvalidInputError, StoreError
from amem_integrations.filters import Condition
from amem_integrations.ids import time_of
from amem_integrations.ports import Bring, NoteQuery, Query, RecordQuery
from amem_integrations.stored_note import Earlier, Purge


def check_same(one, other):
    """Two stored notes are equal, vectors too."""
    assert (one, one.embedded) == (other, other.embedded)
    assert (one.vectors is None) == (other.vectors is None)
    if one.vectors is not None:
        np.testing.assert_allclose(one.vectors, other.vectors, atol=1e-6)


# insertion and swap


def test_more_notes_than_a_page_holds_and_a_large_one_come_back_whole(store):
    large = stored("large", content="ünïcode " * 100_000)
    given = {one.id: one for one in (large, *(stored(str(n)) for n in range(600)))}
    store.insert_notes(ANN, list(given.values()))
    assert store.find_notes(ANN, NoteQuery()) == store.notes(ANN, list(given)) == given


def test_every_field_comes_back_as_it_was_and_unknown_ids_are_left_out(store):
    given = full_stored("a")
    store.insert_notes(ANN, [given])
    ids = [note_id("unknown"), "not an id", given.id, "", given.id]
    (found,) = store.notes(ANN, ids, vectors=True).values()
    check_same(found, given)
    assert repr(found.note.metadata) == repr(given.note.metadata)
    assert [one.vectors for one in store.notes(ANN, ids).values()] == [None]
    (brief,) = store.notes(ANN, (), briefly=[given.id]).values()
    assert (brief.token, brief.rev, brief.thorough) == (given.token, given.rev, given.thorough)
    assert brief.note.expires_at == given.note.expires_at is not None
    gone = tombstone("b", purge=Purge(SEQ, deleted=False), thorough=SEQ)
    store.insert_notes(ANN, [gone])
    assert store.notes(ANN, [gone.id]) == {gone.id: gone}


def test_times_of_any_zone_come_back_as_the_same_moment_of_the_day(store):
    local = datetime(2026, 1, 1, 0, 30, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    store.insert_notes(ANN, [stored("a", at=local)])
    (found,) = store.scan(ANN)
    assert (found.at, found.at.utcoffset()) == (local, local.utcoffset())


def test_an_insertion_leaves_alone_what_is_there(store):
    store.insert_notes(ANN, [stored("a", [1], content="first")])
    other = stored("a", [2], content="second", token="other")
    store.insert_notes(ANN, [other, stored("b", content="new", number=1)])
    assert [each.content for each in store.scan(ANN)] == ["first", "new"]
    twice = [stored("c", content=text, number=2) for text in ("said first", "said again")]
    store.insert_notes(ANN, twice)
    assert [each.content for each in store.scan(ANN)] == ["first", "new", "said first"]
    store.insert_notes(ANN, [])
    gone = tombstone("a", token="gone")
    store.swap_notes(ANN, [("token a", gone)])
    store.insert_notes(ANN, [stored("a", [2], content="third")])
    assert store.notes(ANN, [note_id("a")])[note_id("a")] == gone


def test_a_swap_replaces_what_still_has_the_token_whole(store):
    names = [str(n) for n in range(120)]  # of some requests
    store.insert_notes(ANN, [stored(name, [1, 2], thorough=5) for name in names])
    swaps = [
        (f"token {name}" if number % 2 else "stale", stored(name, token="new", content="new words"))
        for number, name in enumerate(names)
    ]
    store.swap_notes(ANN, [*swaps, ("token", stored("unknown"))])
    found = store.notes(ANN, [note_id(name) for name in (*names, "unknown")], vectors=True)
    assert found.keys() == {note_id(name) for name in names}
    for number, name in enumerate(names):
        wanted = swaps[number][1] if number % 2 else stored(name, [1, 2], thorough=5)
        check_same(found[note_id(name)], wanted)
    store.swap_notes(ANN, [swaps[1]])  # a late copy
    check_same(store.notes(ANN, [note_id("1")])[note_id("1")], swaps[1][1])
    (ranked,) = store.search(ANN, [Query(vector=unit(1, 2), text="new words", limit=200)])
    assert len(ranked.dense) == len(ranked.lexical) == 60
    assert {hit for hit, _ in ranked.dense}.isdisjoint(hit for hit, _ in ranked.lexical)


def test_a_tombstone_is_found_by_its_id_and_by_nothing_else(store):
    store.insert_notes(ANN, [stored(n, [1], thread="t", content="pottery") for n in "ab"])
    store.swap_notes(ANN, [("token a", tombstone("a", token="gone"))])
    assert store.count(ANN) == 1
    assert store.count(ANN, (Condition("thread", "$ne", "u"),)) == 1
    assert [each.id for each in store.scan(ANN)] == [note_id("b")]
    (ranked,) = store.search(ANN, [Query(vector=unit(1), text="pottery")])
    assert [hit for hit, _ in (*ranked.dense, *ranked.lexical)] == [note_id("b")] * 2
    store.swap_notes(ANN, [("token b", tombstone("b"))])
    assert store.namespaces() == []
    anew = stored("a", [1], token="again", rev=SEQ + 9)
    store.swap_notes(ANN, [("gone", anew)])
    assert (store.count(ANN), store.namespaces()) == (1, [ANN])


def test_notes_are_found_that_are_deleted_expired_or_owe(store):
    given = {
        "embedded": stored("embedded", [1]),
        "embedded owes": stored("embedded owes", [1], purge=Purge(SEQ, deleted=False)),
        "alive": stored("alive"),
        "owes": stored("owes", purge=Purge(SEQ, deleted=False)),
        "expired": stored("expired", expires_at=NOW),
        "later": stored("later", expires_at=NOW + timedelta(microseconds=1)),
        "gone": tombstone("gone"),
        "gone owes": tombstone("gone owes", purge=Purge(SEQ, deleted=True)),
    }
    store.insert_notes(ANN, list(given.values()))
    store.insert_notes(BOB, [stored("bob", namespace=BOB, purge=Purge(SEQ, deleted=True))])
    every = itertools.product((False, True), (None, NOW), (False, True), (False, True))
    for alive, time, owing, bare in every:
        query = NoteQuery(alive=alive, expired_at=time, owing=owing, bare=bare)
        wanted = {one.id: one for one in given.values() if query.finds(one)}
        assert store.find_notes(ANN, query) == wanted, query
    bare = {one.id for one in store.find_notes(ANN, NoteQuery(bare=True)).values()}
    assert bare == {given[name].id for name in ("alive", "owes", "expired", "later")}


def test_only_tombstones_are_removed_that_owe_nothing_and_are_old(store):
    day = 24 * 3600 * 10**9
    given = [
        tombstone("old"),
        tombstone("owes", purge=Purge(SEQ, deleted=True)),
        tombstone("new", deleted_at=SEQ + 2 * day),
        stored("alive"),
    ]
    store.insert_notes(ANN, given)
    store.insert_notes(BOB, [tombstone("bob", namespace=BOB)])
    store.remove_tombstones(ANN, time_of(SEQ + day))
    assert store.find_notes(ANN, NoteQuery()).keys() == {one.id for one in given[1:]}
    assert len(store.find_notes(BOB, NoteQuery())) == 1


def test_a_note_that_cannot_be_stored_is_refused_before_anything_is_written(store):
    deep, local = json.loads('{"deeper":' * 200 + "{}" + "}" * 200), NOW.replace(tzinfo=None)
    wrong = {
        "id": ["not-a-uuid", note_id("a").upper()],
        "content": ["nul \0"],
        "speaker": ["half \ud83d"],
        "at": [local],
        "metadata": [{1: "x"}, deep, *({"x": x} for x in (float("nan"), local, {1, 2}, 2**64))],
    }
    for bad in ({field: value} for field, values in wrong.items() for value in values):
        with pytest.raises(InvalidInputError):
            store.insert_notes(ANN, [stored("good"), stored("bad", **bad)])
        assert store.count(ANN) == 0


def test_a_vector_of_wrong_shape_or_length_is_refused(store):
    for bad in ([1, 0, 0], [2, 0, 0, 0], [0, 0, 0, 0], [np.nan, 1, 0, 0]):
        vector = np.array(bad, dtype=np.float32)
        for rows in (vector[None], np.stack([np.resize(unit(1), vector.shape), vector])):
            with pytest.raises(InvalidInputError, match="vector"):
                store.insert_notes(ANN, [replace(stored("a"), vectors=rows)])
        with pytest.raises(InvalidInputError, match="vector"):
            store.search(ANN, [Query(vector=vector)])
    with pytest.raises(InvalidInputError, match="vector"):
        store.insert_notes(ANN, [replace(stored("a"), vectors=np.zeros((0, 4), np.float32))])


# reading


def test_last_seq_is_the_greatest_of_all(store):
    assert store.last_seq() == 0
    store.insert_notes(ANN, [stored("a", number=7), stored("b", number=3)])
    assert store.last_seq() == SEQ + 7
    store.insert_records(BOB, [replace(decision("1", "a", number=9), namespace=BOB)])
    assert store.last_seq() == SEQ + 9
    store.insert_notes(BOB, [stored("c", namespace=BOB, rev=SEQ + 20)])
    assert store.last_seq() == SEQ + 20
    edited = stored("a", number=7, earlier=(Earlier("t", SEQ + 30, SEQ, {}),))
    store.swap_notes(ANN, [("token a", edited)])
    assert store.last_seq() == SEQ + 30
    store.swap_notes(ANN, [("token a", tombstone("a", deleted_at=SEQ + 40))])
    assert store.last_seq() == SEQ + 40


def test_scan_goes_by_seq_then_id_or_the_reverse(store):
    store.insert_notes(ANN, [stored(str(n), number=n % 3) for n in (4, 2, 0, 3, 1)])
    found = [(hit.seq, hit.id) for hit in store.scan(ANN)]
    assert found == sorted(found)
    assert len(found) == 5
    assert [(h.seq, h.id) for h in store.scan(ANN, newest_first=True)] == found[::-1]
    assert len(store.scan(ANN, limit=2)) == 2


def test_scan_continues_after_a_seq_to_the_nanosecond(store):
    store.insert_notes(ANN, [stored(str(n), number=n) for n in range(700)])
    seen = [SEQ - 1]
    while page := store.scan(ANN, where=(Condition("seq", "$gt", seen[-1]),), limit=300):
        seen += [hit.seq for hit in page]
    assert seen[1:] == [SEQ + n for n in range(700)]
    assert store.count(ANN) == 700


def test_an_empty_store_answers_everything(store):
    assert store.scan(ANN) == store.namespaces() == store.unfinished() == []
    assert store.find_notes(ANN, NoteQuery()) == store.find_records(ANN, RecordQuery()) == {}
    (found,) = store.search(ANN, [Query(vector=unit(1), text="pottery")])
    assert [*found.dense, *found.lexical] == store.search(ANN, []) == []
    assert (store.notes(ANN, []), store.count(ANN)) == ({}, 0)
    store.flush()
    store.close()
    store.close()


def test_namespaces_are_sorted_and_hold_notes(store):
    spaces = [("b",), ("a", "b"), ("a",), ('a","b',), ("ünïcode/東京", "1")]
    for space in spaces:
        store.insert_notes(space, [stored(repr(space), namespace=space)])
    assert store.namespaces() == sorted(spaces)
    store.insert_notes(("gone",), [tombstone("gone", namespace=("gone",))])
    store.insert_records(BOB, [replace(call("1"), namespace=BOB)])
    store.insert_records(("eve",), [replace(lease(), namespace=("eve",))])  # which records nothing
    assert store.namespaces() == sorted(spaces)
    assert store.namespaces(recorded=True) == sorted([*spaces, ("gone",), BOB])


def test_namespaces_are_found_by_what_their_notes_are_like(store):
    states = {"a": ("pending", 0), "b": ("done", 0), "c": ("failed", 1), "d": ("failed", 2)}
    for name, (state, attempts) in states.items():
        waits = stored(name, namespace=(name,), state=state, attempts=attempts)
        store.insert_notes((name,), [waits, stored(f"{name}2", namespace=(name,), state="done")])
    waiting = Condition("state", "$in", ("pending", "failed"))
    tried = Condition("attempts", "$lt", 2)
    assert store.namespaces((waiting,)) == [("a",), ("c",), ("d",)]
    assert store.namespaces((waiting, tried)) == [("a",), ("c",)]
    assert store.namespaces((Condition("state", "$eq", "constructed"),)) == []


# the wall between namespaces


def test_no_method_reaches_into_another_namespace(store):
    more = {"links": {note_id("x"): link()}, "purge": Purge(SEQ, deleted=True)}
    store.insert_notes(ANN, [stored("a", [1], content="pottery", **more), tombstone("b")])
    ids = [note_id("a"), note_id("b")]
    assert store.notes(BOB, ids) == store.find_notes(BOB, NoteQuery()) == {}
    assert (store.scan(BOB), store.count(BOB)) == ([], 0)
    (found,) = store.search(BOB, [Query(vector=unit(1), text="pottery")])
    assert [*found.dense, *found.lexical] == []
    store.remove_tombstones(BOB, NOW + timedelta(days=9999))
    assert store.notes(ANN, ids).keys() == set(ids)


def test_an_id_of_another_namespace_cannot_be_written(store):
    store.insert_notes(ANN, [stored("a")])
    taken, free = stored("a", namespace=BOB), stored("b", namespace=BOB)
    assert store.notes(BOB, [taken.id, free.id]) == {}  # as whoever inserts has looked
    with pytest.raises(StoreError, match=note_id("a")):
        store.insert_notes(BOB, [taken, free])
    store.swap_notes(BOB, [("another token", taken)])
    assert store.namespaces() == [ANN]
    assert store.scan(ANN) == [stored("a").note]
    for write in (
        lambda: store.insert_notes(BOB, [stored("c")]),
        lambda: store.swap_notes(BOB, [("token", stored("a"))]),
        lambda: store.insert_records(BOB, [lease()]),
    ):
        with pytest.raises(StoreError):
            write()


# search


def test_dense_hits_are_cosines_best_first_of_the_best_passage(store):
    several = [stored("a", [1, 0], [0, 0, 1]), stored("c", [0, 1], [1, 2])]
    store.insert_notes(ANN, [*several, stored("b", [1, 1]), stored("d")])
    (found,) = store.search(ANN, [Query(vector=unit(1))])
    assert [hit for hit, _ in found.dense] == [note_id("a"), note_id("b"), note_id("c")]
    assert [score for _, score in found.dense] == pytest.approx([1, 0.70711, 0.44721], abs=1e-4)
    assert list(found.lexical) == []


def test_lexical_hits_share_words_with_the_whole_note(store):
    context = entry("a", text="she makes pots of clay", keywords=("stoneware",))
    given = [
        stored("a", content="A class for beginners", contexts=(context,)),
        stored("b", content="Pottery is fun", speaker="Zoë"),
        stored("c", content="Chess", at=datetime(2023, 5, 7, tzinfo=UTC)),
    ]
    store.insert_notes(ANN, given)

    def hits(text):
        (found,) = store.search(ANN, [Query(text=text)])
        return {hit for hit, _ in found.lexical}

    assert hits("beginner") == hits("pot") == hits("stoneware") == {note_id("a")}
    assert hits("Zoë's pottery") == {note_id("b")}
    assert hits("May 2023") == {note_id("c")}
    assert hits("the and") == hits("") == set()


def test_each_query_is_answered_for_itself(store):
    store.insert_notes(ANN, [stored(str(n), [1, n], number=n, content="x") for n in range(9)])
    where = (Condition("seq", "$gte", SEQ + 5),)
    asked = [
        Query(vector=unit(1, 0), limit=3),
        Query(vector=unit(1, 0), text="x", limit=2, where=where),
        Query(),
    ]
    first, second, empty = store.search(ANN, asked)
    assert [hit for hit, _ in first.dense] == [note_id(str(n)) for n in range(3)]
    assert [hit for hit, _ in second.dense] == [note_id("5"), note_id("6")]
    assert len(second.lexical) == 2
    assert {hit for hit, _ in second.lexical} <= {note_id(str(n)) for n in range(5, 9)}
    assert not empty.dense
    assert not empty.lexical


def test_words_are_weighed_by_the_notes_of_the_namespace(store):
    """A word is rare here that is common elsewhere, or among the notes that meet the conditions."""
    store.insert_notes(ANN, [stored(str(n), content="chess") for n in range(20)])
    pots = [stored(name, content="pottery", thread="t") for name in "abcx"]
    store.insert_notes(ANN, [*pots, stored("y", content="cello chess", thread="t")])
    others = [stored(f"bob {n}", namespace=BOB, content="pottery") for n in range(40)]
    store.insert_notes(BOB, others)
    within = (Condition("thread", "$eq", "t"),)
    for where in ((), within):
        (found,) = store.search(ANN, [Query(text="pottery chess", where=where)])
        assert found.lexical[0][0] in {one.id for one in pots}, where


def test_equal_hits_are_in_the_order_of_their_ids(store):
    store.insert_notes(ANN, [stored(str(n), [1], content="pottery") for n in range(30)])
    (found,) = store.search(ANN, [Query(vector=unit(1), text="pottery")])
    for hits in (found.dense, found.lexical):
        assert [hit for hit, _ in hits] == sorted(note_id(str(n)) for n in range(30))


def test_what_a_server_brings_are_the_notes_that_are_best_in_both_lists(store):
    given = [stored(str(n), [1, n], content="pottery " * (n % 3)) for n in range(8)]
    given.append(stored("words", content="pottery"))
    store.insert_notes(ANN, given)
    query = Query(vector=unit(1), text="pottery", limit=6, bring=Bring(limit=3, k=60))
    (found,) = store.search(ANN, [query])
    known = {one.id: one for one in given}
    if not store.remote:
        assert found.brought == found.cosines == {}
        return
    scores = Counter()
    for hits in (found.dense, found.lexical):
        scores.update({hit: 1 / (60 + rank) for rank, (hit, _) in enumerate(hits, 1)})
    best = [hit for hit, _ in scores.most_common(3)]
    assert found.brought == {hit: known[hit] for hit in best}
    cosines = {hit: known[hit].vectors @ unit(1) for hit, _ in found.lexical if known[hit].embedded}
    assert found.cosines == {hit: pytest.approx(rows.max()) for hit, rows in cosines.items()}
    (bare,) = store.search(ANN, [replace(query, text=None)])
    assert len(bare.brought) == 3
