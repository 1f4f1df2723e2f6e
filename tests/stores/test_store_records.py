"""Rules about records: calls, decisions and leases."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import datetime

import pytest
from support.stored import (
    ANN,
    BOB,
    NOW,
    SEQ,
    call,
    decision,
    full_decision,
    item,
    lease,
    note_id,
    stored,
    upto,
    wording,
)

from amem_integrations.decisions import SETTLED, VISIBLE, Decision, Lease, ModelCall
from amem_integrations.errors import InvalidInputError
from amem_integrations.ports import RecordQuery
from amem_integrations.stored_note import Purge


def by_id(records):
    return {record.id: record for record in records}


def some_records():
    """Return records of every kind: void, settled, superseding, about many, shown long ago."""
    outdates = item("b", "a", "b", kind="supersession")
    form = item("form", "a", "b", kind="form", data={"name": "Profile"})
    return [
        call("1", "a", "b"),
        call("2", "c", number=3, cost=(ModelCall("link", 1),)),
        decision("1", "a", item("b", "a", "b"), item("c", "a"), number=1),
        decision("1b", "b", item("a", "b"), call=note_id("call 1"), phase=SETTLED, number=1),
        decision("2", "c", outdates, phase=VISIBLE, number=4),
        decision("2v", "c", call=note_id("call 2"), void=True, about=(note_id("b"),), number=5),
        decision("f", "form", form, stage="form", phase=SETTLED, number=6),
        decision("w", "d", item("b", "d", switch="waiting"), phase=SETTLED, number=8),
        decision("old", "d", item("a", sources=(wording("a", 5), wording("d", 7))), number=7),
        lease(),
    ]


def insert_for_both(store):
    """Insert records of every kind for Ann, and the same for Bob under ids of their own; return both."""
    given = some_records()
    theirs = [replace(one, id=note_id(f"bob {one.id}"), namespace=BOB) for one in given]
    store.insert_records(ANN, given)
    store.insert_records(BOB, theirs)
    return given, theirs


def test_every_field_comes_back_as_it_was(store):
    cost = (ModelCall("link", 12, 3), ModelCall("evolve"))
    leases = [lease(), lease(id=note_id("none"), thread=None, holder="")]
    given = [full_decision("d"), call("c", "a", "b", cost=cost), *leases]
    store.insert_records(ANN, given)
    assert store.records(ANN, [record.id for record in given]) == by_id(given)
    assert store.records(ANN, ["no id", "", note_id("unknown")]) == store.records(ANN, []) == {}
    assert store.records(BOB, [record.id for record in given]) == {}


def test_an_insertion_leaves_alone_what_is_there(store):
    store.insert_records(ANN, [call("1"), decision("1", "a")])
    later = [call("1", "b", token="x"), decision("1", "b", token="x"), decision("2", "a")]
    store.insert_records(ANN, later)
    ids = [record.id for record in later]
    assert store.records(ANN, ids) == by_id([call("1"), decision("1", "a"), later[2]])


def test_a_swap_replaces_what_still_has_the_token_whole(store):
    names = [str(n) for n in range(120)]  # of some requests
    store.insert_records(ANN, [decision(name, "a", item("b", "a", "b")) for name in names])
    swaps = [
        ("stale" if number % 2 else f"token {name}", decision(name, "a", token="new", phase=0))
        for number, name in enumerate(names)
    ]
    store.swap_records(ANN, [*swaps, ("token unknown", decision("unknown", "a"))])
    found = store.find_records(ANN, RecordQuery())
    assert len(found) == 120
    for number, name in enumerate(names):
        wanted = decision(name, "a", item("b", "a", "b")) if number % 2 else swaps[number][1]
        assert found[wanted.id] == wanted
    assert len(store.find_records(ANN, RecordQuery(unsettled=True))) == 60
    assert len(store.find_records(ANN, RecordQuery(made_from=upto("b")))) == 60
    held = lease(holder="other", token="mine")
    store.insert_records(ANN, [lease()])
    store.swap_records(ANN, [("token", held)])
    assert store.records(ANN, [held.id]) == {held.id: held}


def conditions():
    """Return queries with every condition, and with every two."""
    calls = [note_id("call 1"), note_id("call 2"), "no id"]
    about = frozenset([note_id("a"), note_id("b")])
    values = {
        "calls": [frozenset(some) for some in (calls, calls[1:2], [])],
        "about": [about, frozenset()],
        "made_from": [upto("a"), upto("a", SEQ - 1), upto("a", 4)],
        "shown": [upto("a"), upto("c", SEQ - 1)],
        **{key: [True] for key in ("unsettled", "waiting", "calls_only", "decisions")},
        "note": [note_id("c")],
        "since": [SEQ + 4],
    }
    one = [{name: value} for name, some in values.items() for value in some]
    one += [{"about": about, "newest": 1}, {"about": frozenset([note_id("c")]), "newest": 0}]
    both = ({**first, **second} for first, second in itertools.combinations(one, 2))
    return [RecordQuery(), *(RecordQuery(**each) for each in (*one, *both))]


def test_records_are_found_by_every_condition_and_by_any_two(store):
    given, _ = insert_for_both(store)
    for query in conditions():
        assert store.find_records(ANN, query) == by_id(query.of(given)), query


def test_of_many_decisions_about_a_note_the_newest_are_read_with_all_that_supersede(store):
    links = [decision(f"l{n}", f"n{n}", item("hub", "hub"), number=n) for n in range(200)]
    gone = {"about": (note_id("hub"),), "void": True}
    void = [decision(f"v{n}", f"n{n}", number=300 + n, **gone) for n in range(99)]
    own = decision("own", "hub", item("x"), number=0)
    outdates = item("hub", kind="supersession")
    superseding = [decision(f"s{n}", f"n{n}", outdates, number=n) for n in range(3)]
    given = [*links, *void, own, *superseding]
    store.insert_records(ANN, given)
    query = RecordQuery(about=frozenset([note_id("hub")]), newest=64)
    found = store.find_records(ANN, query)
    assert found == by_id(query.of(given)) == by_id([*links[-64:], own, *superseding])
    many = RecordQuery(about=frozenset(note_id(f"n{n}") for n in range(70)), newest=1)
    assert store.find_records(ANN, many) == by_id(many.of(given))


def test_decisions_that_were_made_at_the_same_instant_are_read_in_the_order_of_their_ids(store):
    given = [decision(str(n), f"n{n}", item("hub"), number=n // 8) for n in range(40)]
    store.insert_records(ANN, given)
    query = RecordQuery(about=frozenset([note_id("hub")]), newest=12)
    assert store.find_records(ANN, query) == by_id(query.of(given))


def test_what_is_unfinished_is_known_by_namespace(store):
    owes, gone, open_, well, bare = (("owes",), ("gone",), ("open",), ("well",), ("bare",))
    owing = stored("a", [1], namespace=owes, purge=Purge(SEQ, deleted=False))
    left = stored("b", namespace=gone).tombstone("t", SEQ + 1, thorough=True)
    without = stored("d", namespace=bare)
    for one in (owing, left, without, stored("c", [1], namespace=well)):
        store.insert_notes(one.namespace, [one])
    written = replace(decision("1", "c"), namespace=open_)
    settled = replace(decision("2", "c", phase=SETTLED), namespace=well)
    store.insert_records(open_, [written])
    store.insert_records(well, [settled, replace(lease(), namespace=well)])
    assert store.unfinished() == [bare, gone, open_, owes]
    store.swap_notes(bare, [(without.token, stored("d", [1], namespace=bare))])
    store.swap_notes(gone, [("t", replace(left, purge=None, token="u"))])
    store.swap_notes(owes, [("token a", replace(owing, purge=None, token="u"))])
    store.swap_records(open_, [("token 1", replace(written, phase=SETTLED))])
    assert store.unfinished() == []


def test_decisions_are_removed_by_their_ids_and_nothing_else_is(store):
    given, theirs = insert_for_both(store)
    gone, *left = (one for one in given if isinstance(one, Decision))
    others = [one.id for one in given if not isinstance(one, Decision)]
    ids = [gone.id, *others, theirs[-1].id, *(one.id for one in theirs), "no id", note_id("none")]
    store.remove_decisions(ANN, ids)
    kept = [one for one in given if one is not gone and not isinstance(one, Lease)]
    assert left
    assert store.find_records(ANN, RecordQuery()) == by_id(kept)
    assert store.records(ANN, [lease().id]) == by_id([lease()])
    others = [one for one in theirs if not isinstance(one, Lease)]
    assert store.find_records(BOB, RecordQuery()) == by_id(others)
    many = [decision(f"many {number}", "a", number=number) for number in range(600)]
    store.insert_records(ANN, many)
    store.remove_decisions(ANN, [one.id for one in many])
    assert store.find_records(ANN, RecordQuery()) == by_id(kept)


def test_a_record_that_cannot_be_stored_is_refused_before_anything_is_written(store):
    wrong = [
        call("1", id="no id"),
        call("1", cost=(object(),)),
        decision("1", "a", item("b", text="nul \0")),
        decision("1", "a", at=datetime(2026, 1, 1)),  # noqa: DTZ001 - the point of it
        lease(until=NOW.replace(tzinfo=None)),
    ]
    for record in wrong:
        with pytest.raises(InvalidInputError):
            store.insert_records(ANN, [decision("good", "a"), record])
        assert store.find_records(ANN, RecordQuery()) == {}
