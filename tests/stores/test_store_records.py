"""Rules about records: calls, decisions and leases."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any

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

from amem_integrations.decisions import SETTLED, VISIBLE, Decision, Lease, Record
from amem_integrations.errors import InvalidInputError
from amem_integrations.ports import RecordQuery
from amem_integrations.stored_note import Purge
from amem_integrations.stores.store import Store


def by_id(records: Iterable[Record]) -> dict[str, Record]:
    return {record.id: record for record in records}


def some_records() -> list[Record]:
    """Return records of every kind: void, settled, superseding, about many, shown long ago."""
    outdates = item("b", "a", "b", kind="supersession")
    form = item("form", "a", "b", kind="form", data={"name": "Profile"})
    return [
        call("1", "a", "b"),
        call("2", "c", number=3, data={"cost": 0.1, "tasks": {"link": {"calls": 1}}}),
        decision("1", "a", item("b", "a", "b"), item("c", "a"), number=1),
        decision("1b", "b", item("a", "b"), call=note_id("call 1"), phase=SETTLED, number=1),
        decision("2", "c", outdates, phase=VISIBLE, number=4),
        decision("2v", "c", call=note_id("call 2"), void=True, about=(note_id("b"),), number=5),
        decision("f", "form", form, stage="form", phase=SETTLED, number=6),
        decision("w", "d", item("b", "d", switch="waiting"), phase=SETTLED, number=8),
        decision("old", "d", item("a", sources=(wording("a", 5), wording("d", 7))), number=7),
        lease(),
    ]


def test_every_field_comes_back_as_it_was(store: Store) -> None:
    data = {"task": "link", "cost": 0.25, "rejected": ["no JSON {"], "by": {"a": [1, None]}}
    given = [
        full_decision("d"),
        call("c", "a", "b", data=data),
        lease(),
        lease(id=note_id("none"), thread=None, holder=""),
    ]
    store.insert_records(ANN, given)
    assert store.records(ANN, [record.id for record in given]) == by_id(given)
    assert store.records(ANN, ["no id", "", note_id("unknown")]) == store.records(ANN, []) == {}
    assert store.records(BOB, [record.id for record in given]) == {}


def test_an_insertion_leaves_alone_what_is_there(store: Store) -> None:
    store.insert_records(ANN, [call("1"), decision("1", "a")])
    later = [call("1", "b", token="x"), decision("1", "b", token="x"), decision("2", "a")]
    store.insert_records(ANN, later)
    ids = [record.id for record in later]
    assert store.records(ANN, ids) == by_id([call("1"), decision("1", "a"), later[2]])


def test_a_swap_replaces_what_still_has_the_token_whole(store: Store) -> None:
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


def conditions() -> list[RecordQuery]:
    """Return queries with every condition, and with every two."""
    calls = frozenset([note_id("call 1"), note_id("call 2"), "no id"])
    one: list[dict[str, Any]] = [
        {"calls": calls},
        {"calls": frozenset([note_id("call 2")])},
        {"calls": frozenset()},
        {"about": frozenset([note_id("a"), note_id("b")])},
        {"about": frozenset([note_id("a"), note_id("b")]), "newest": 1},
        {"about": frozenset([note_id("c")]), "newest": 0},
        {"about": frozenset()},
        {"made_from": upto("a")},
        {"made_from": upto("a", SEQ - 1)},
        {"made_from": upto("a", 4)},
        {"shown": upto("a")},
        {"shown": upto("c", SEQ - 1)},
        {"unsettled": True},
        {"waiting": True},
        {"note": note_id("c")},
        {"calls_only": True},
        {"decisions": True},
        {"since": SEQ + 4},
    ]
    both = ({**first, **second} for first, second in itertools.combinations(one, 2))
    return [RecordQuery(), *(RecordQuery(**each) for each in (*one, *both))]


def test_records_are_found_by_every_condition_and_by_any_two(store: Store) -> None:
    given = some_records()
    store.insert_records(ANN, given)
    theirs = [replace(one, id=note_id(f"bob {one.id}"), namespace=BOB) for one in given]
    store.insert_records(BOB, theirs)
    wrong = {}
    for query in conditions():
        found = store.find_records(ANN, query)
        if found != by_id(query.of(given)):
            wrong[query] = found
    assert wrong == {}


def test_of_many_decisions_about_a_note_the_newest_are_read_with_all_that_supersede(
    store: Store,
) -> None:
    links = [decision(f"l{n}", f"n{n}", item("hub", "hub"), number=n) for n in range(200)]
    void = [
        decision(f"v{n}", f"n{n}", about=(note_id("hub"),), void=True, number=300 + n)
        for n in range(99)
    ]
    own = decision("own", "hub", item("x"), number=0)
    outdates = item("hub", kind="supersession")
    superseding = [decision(f"s{n}", f"n{n}", outdates, number=n) for n in range(3)]
    given = [*links, *void, own, *superseding]
    store.insert_records(ANN, given)
    query = RecordQuery(about=frozenset([note_id("hub")]), newest=64)
    found = store.find_records(ANN, query)
    assert found == by_id(query.of(given))
    assert found == by_id([*links[-64:], own, *superseding])
    many = RecordQuery(about=frozenset(note_id(f"n{n}") for n in range(70)), newest=1)
    assert store.find_records(ANN, many) == by_id(many.of(given))


def test_decisions_that_were_made_at_the_same_instant_are_read_in_the_order_of_their_ids(
    store: Store,
) -> None:
    given = [decision(str(n), f"n{n}", item("hub"), number=n // 8) for n in range(40)]
    store.insert_records(ANN, given)
    query = RecordQuery(about=frozenset([note_id("hub")]), newest=12)
    assert store.find_records(ANN, query) == by_id(query.of(given))


def test_last_seq_knows_records_too(store: Store) -> None:
    store.insert_notes(ANN, [stored("a", number=2)])
    store.insert_records(BOB, [replace(decision("1", "a", number=9), namespace=BOB)])
    assert store.last_seq() == SEQ + 9


def test_what_is_unfinished_is_known_by_namespace(store: Store) -> None:
    names = ("owes", "gone", "open", "well", "bare")
    spaces = {name: (name,) for name in names}
    owing = stored("a", [1], namespace=spaces["owes"], purge=Purge(SEQ, deleted=False))
    gone = stored("b", namespace=spaces["gone"]).tombstone("t", SEQ + 1, thorough=True)
    store.insert_notes(spaces["owes"], [owing])
    store.insert_notes(spaces["gone"], [gone])
    store.insert_notes(spaces["well"], [stored("c", [1], namespace=spaces["well"])])
    bare = stored("d", namespace=spaces["bare"])
    store.insert_notes(spaces["bare"], [bare])
    written = replace(decision("1", "c"), namespace=spaces["open"])
    settled = replace(decision("2", "c", phase=SETTLED), namespace=spaces["well"])
    store.insert_records(spaces["open"], [written])
    store.insert_records(spaces["well"], [settled, replace(lease(), namespace=spaces["well"])])
    assert store.unfinished() == [("bare",), ("gone",), ("open",), ("owes",)]
    whole = stored("d", [1], namespace=spaces["bare"])
    store.swap_notes(spaces["bare"], [(bare.token, whole)])
    store.swap_notes(spaces["gone"], [("t", replace(gone, purge=None, token="u"))])
    store.swap_notes(spaces["owes"], [("token a", replace(owing, purge=None, token="u"))])
    store.swap_records(spaces["open"], [("token 1", replace(written, phase=SETTLED))])
    assert store.unfinished() == []


def test_a_namespace_of_which_records_are_left_is_named_when_that_is_asked_for(
    store: Store,
) -> None:
    store.insert_notes(ANN, [stored("a")])
    store.insert_records(BOB, [replace(call("1"), namespace=BOB)])
    eve = ("eve",)
    store.insert_records(eve, [replace(lease(), namespace=eve)])  # which records nothing
    assert store.namespaces() == [ANN]
    assert store.namespaces(recorded=True) == [ANN, BOB]


def test_decisions_are_removed_by_their_ids_and_nothing_else_is(store: Store) -> None:
    given = some_records()
    store.insert_records(ANN, given)
    theirs = [replace(one, id=note_id(f"bob {one.id}"), namespace=BOB) for one in given]
    store.insert_records(BOB, theirs)
    gone, *left = (one for one in given if isinstance(one, Decision))
    others = [one.id for one in given if not isinstance(one, Decision)]
    ids = [gone.id, *others, theirs[-1].id, *(one.id for one in theirs), "no id", note_id("none")]
    store.remove_decisions(ANN, ids)
    kept = [one for one in given if one is not gone and not isinstance(one, Lease)]
    assert left
    assert store.find_records(ANN, RecordQuery()) == by_id(kept)
    assert store.records(ANN, [lease().id]) == by_id([lease()])
    assert store.find_records(BOB, RecordQuery()) == by_id(
        [one for one in theirs if not isinstance(one, Lease)]
    )
    many = [decision(f"many {number}", "a", number=number) for number in range(600)]
    store.insert_records(ANN, many)
    store.remove_decisions(ANN, [one.id for one in many])
    assert store.find_records(ANN, RecordQuery()) == by_id(kept)


def test_a_record_that_cannot_be_stored_is_refused_before_anything_is_written(store: Store) -> None:
    wrong: list[Record] = [
        call("1", id="no id"),
        call("1", data={"x": object()}),
        decision("1", "a", item("b", text="nul \0")),
        decision("1", "a", at=datetime(2026, 1, 1)),  # noqa: DTZ001 - the point of it
        lease(until=NOW.replace(tzinfo=None)),
    ]
    for record in wrong:
        with pytest.raises(InvalidInputError):
            store.insert_records(ANN, [decision("good", "a"), record])
        assert store.find_records(ANN, RecordQuery()) == {}
