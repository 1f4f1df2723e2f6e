"""Rules about reading: by id, in order, by link, by search; and about the wall between namespaces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.stored import (
    ANN,
    BOB,
    SEQ,
    change,
    entry,
    item,
    link,
    note,
    note_id,
    supersession,
    unit,
)

from amem_integrations.errors import NamespaceError, StoreError
from amem_integrations.filters import Condition
from amem_integrations.ports import Indexed, NoteStore, Query


def test_get_returns_notes_in_the_order_asked_for(store: NoteStore) -> None:
    store.insert(ANN, [item("a"), item("b"), item("c")], [])
    ids = [note_id("c"), note_id("a")]
    assert [found.id for found in store.get(ANN, ids)] == ids


def test_get_leaves_out_what_is_unknown(store: NoteStore) -> None:
    store.insert(ANN, [item("a")], [])
    ids = [note_id("unknown"), "not an id", note_id("a"), ""]
    assert store.get(ANN, ids) == [note("a")]
    assert store.get(ANN, []) == []


def test_get_indexed_returns_notes_with_their_vectors_in_the_order_asked_for(
    store: NoteStore,
) -> None:
    store.insert(ANN, [item("a", [3, 4], "text"), item("b", text="words only")], [])
    ids = [note_id("b"), note_id("unknown"), "not an id", note_id("a")]
    without, with_vector = store.get_indexed(ANN, ids)
    assert without == Indexed(note=note("b"))
    assert (with_vector.note, with_vector.text) == (note("a"), None)
    assert with_vector.vector is not None
    assert with_vector.vector.dtype == np.float32
    assert np.allclose(with_vector.vector, unit(3, 4), atol=1e-6)
    assert store.get_indexed(ANN, []) == store.get_indexed(BOB, ids) == []


def test_last_seq_is_the_greatest_of_all_notes_and_changes(store: NoteStore) -> None:
    assert store.last_seq() == 0
    store.insert(ANN, [item("a", number=7), item("b", number=3)], [])
    assert store.last_seq() == SEQ + 7
    store.insert(BOB, [item("c", number=8, namespace=BOB)], [])
    assert store.last_seq() == SEQ + 8
    store.replace(ANN, [], [change("late", "a", number=9)])
    assert store.last_seq() == SEQ + 9
    store.clear(ANN, [])
    assert store.last_seq() == SEQ + 8


def test_backlinks_returns_who_links_to_any_of_the_notes(store: NoteStore) -> None:
    to = {name: {note_id(name): link()} for name in ("x", "y", "z")}
    store.insert(
        ANN,
        [
            item("b", links=to["x"] | to["y"], number=2),
            item("a", links=to["y"], number=1),
            item("c", links=to["z"], number=3),
        ],
        [],
    )
    found = store.backlinks(ANN, [note_id("x"), note_id("y"), "not an id"])
    assert [hit.id for hit in found] == [note_id("a"), note_id("b")]
    assert store.backlinks(ANN, [note_id("a")]) == []
    assert store.backlinks(ANN, []) == []


def test_backlinks_returns_whose_context_came_from_any_of_the_notes(store: NoteStore) -> None:
    own = item("a", contexts=(entry("a"),), links={note_id("b"): link()})
    evolved = item("b", contexts=(entry("b"), entry("a")))
    store.insert(ANN, [own, evolved], [])
    assert store.backlinks(ANN, [note_id("a")]) == [evolved.note]
    assert store.backlinks(ANN, [note_id("a"), note_id("b")]) == []


def test_backlinks_returns_what_any_of_the_notes_supersedes(store: NoteStore) -> None:
    outdated = item("b", supersessions={note_id("a"): supersession()})
    store.insert(ANN, [item("a"), outdated], [])
    assert store.backlinks(ANN, [note_id("a")]) == [outdated.note]
    assert store.backlinks(ANN, [note_id("b")]) == []


def test_backlinks_returns_what_is_derived_from_any_of_the_notes(store: NoteStore) -> None:
    derived = item("b", kind="form", source="derived", sources=(note_id("a"), note_id("x")))
    store.insert(ANN, [item("a"), derived], [])
    for source in derived.note.sources:
        assert store.backlinks(ANN, [source]) == [derived.note]


def test_backlinks_finds_all_of_many(store: NoteStore) -> None:
    hub = {note_id("hub"): link()}
    store.insert(ANN, [item(str(n), links=hub, number=n) for n in range(600)], [])
    found = store.backlinks(ANN, [note_id("hub"), *(f"no id {n}" for n in range(600))])
    assert [hit.seq for hit in found] == [SEQ + n for n in range(600)]


def test_scan_goes_by_seq_then_id(store: NoteStore) -> None:
    store.insert(ANN, [item(str(n), number=n % 3) for n in (4, 2, 0, 3, 1)], [])
    found = store.scan(ANN)
    assert [(hit.seq, hit.id) for hit in found] == sorted((hit.seq, hit.id) for hit in found)
    assert {hit.id for hit in found} == {note_id(str(n)) for n in range(5)}


def test_scan_newest_first_is_the_reverse(store: NoteStore) -> None:
    store.insert(ANN, [item(str(n), number=n) for n in range(5)], [])
    newest = store.scan(ANN, newest_first=True, limit=2)
    assert [hit.seq for hit in newest] == [SEQ + 4, SEQ + 3]


def test_scan_continues_after_a_seq_to_the_nanosecond(store: NoteStore) -> None:
    store.insert(ANN, [item(str(n), number=n) for n in range(2500)], [])
    seen: list[int] = []
    after = SEQ - 1
    while page := store.scan(ANN, where=(Condition("seq", "$gt", after),), limit=999):
        seen += [hit.seq for hit in page]
        after = page[-1].seq
    assert seen == [SEQ + n for n in range(2500)]


def test_an_empty_store_answers_everything(store: NoteStore) -> None:
    assert store.scan(ANN) == []
    assert store.changes(ANN) == []
    assert store.namespaces() == []
    (found,) = store.search(ANN, [Query(vector=unit(1), text="pottery")])
    assert list(found.dense) == list(found.lexical) == []


def test_count_is_exact(store: NoteStore) -> None:
    assert store.count(ANN) == 0
    many = [item(str(n)) for n in range(300)]
    store.insert(ANN, many, [])
    assert store.count(ANN) == len(many)


def test_namespaces_are_sorted_and_hold_notes(store: NoteStore) -> None:
    spaces = [("b",), ("a", "b"), ("a",), ('a","b',), ("ünïcode/東京", "1")]
    for space in spaces:
        store.insert(space, [item(repr(space), namespace=space)], [])
    assert store.namespaces() == sorted(spaces)
    store.delete(("b",), [note_id(repr(("b",)))], [])
    assert ("b",) not in store.namespaces()


def test_a_namespace_of_which_a_history_is_left_is_named_when_that_is_asked_for(
    store: NoteStore,
) -> None:
    store.insert(ANN, [item("a", [1], "x")], [])
    store.clear(BOB, [change("receipt", "", namespace=BOB, kind="clear", note_id="")])
    assert store.namespaces() == [ANN]
    assert store.namespaces(recorded=True) == [ANN, BOB]


def test_namespaces_are_found_by_what_their_notes_are_like(store: NoteStore) -> None:
    states = {"a": ("pending", 0), "b": ("done", 0), "c": ("failed", 1), "d": ("failed", 2)}
    for name, (state, attempts) in states.items():
        waits = item(name, namespace=(name,), state=state, attempts=attempts)
        store.insert((name,), [waits], [])
        store.insert((name,), [item(f"{name}2", namespace=(name,), state="done")], [])
    waiting = Condition("state", "$in", ("pending", "failed"))
    tried = Condition("attempts", "$lt", 2)
    assert store.namespaces((waiting,)) == [("a",), ("c",), ("d",)]
    assert store.namespaces((waiting, tried)) == [("a",), ("c",)]
    assert store.namespaces((Condition("state", "$eq", "constructed"),)) == []


def test_a_malformed_namespace_is_refused(store: NoteStore) -> None:
    calls: list[Callable[[Any], object]] = [
        lambda space: store.get(space, []),
        lambda space: store.get_indexed(space, []),
        lambda space: store.search(space, []),
        lambda space: store.backlinks(space, []),
        store.count,
        store.scan,
        store.changes,
        lambda space: store.changes_by_id(space, []),
        lambda space: store.changes_by_op(space, []),
        lambda space: store.mentions(space, []),
        lambda space: store.insert(space, [], []),
        lambda space: store.replace(space, [], []),
        lambda space: store.rewrite_changes(space, []),
        lambda space: store.delete(space, [], []),
        lambda space: store.clear(space, []),
    ]
    for bad in ((), ("",), ("a", ""), "ann", ["ann"], ("a", 1), ("\0",), None):
        for call in calls:
            with pytest.raises(NamespaceError):
                call(bad)


def test_no_method_reaches_into_another_namespace(store: NoteStore) -> None:
    ann = item("a", [1], "pottery", links={note_id("x"): link()})
    store.insert(ANN, [ann], [change("1", "a")])
    ids = [note_id("a")]
    assert store.get(BOB, ids) == []
    assert store.get_indexed(BOB, ids) == []
    assert store.mentions(BOB, ids) == []
    assert store.changes_by_op(BOB, ["op 1"]) == []
    assert store.backlinks(BOB, [note_id("x")]) == []
    assert store.count(BOB) == 0
    assert store.scan(BOB) == []
    assert store.changes(BOB) == []
    assert store.changes(BOB, note_id=note_id("a")) == []
    (found,) = store.search(BOB, [Query(vector=unit(1), text="pottery")])
    assert list(found.dense) == list(found.lexical) == []


def test_no_write_reaches_into_another_namespace(store: NoteStore) -> None:
    store.insert(ANN, [item("a", [1], "pottery")], [change("1", "a")])
    theirs = item("a", [0, 1], "chess", namespace=BOB, revision=1)
    assert store.replace(BOB, [theirs], []) == {note_id("a")}
    store.delete(BOB, [note_id("a")], [])
    store.rewrite_changes(BOB, [change("1", "a", namespace=BOB, kind="undo")])
    store.clear(BOB, [])
    assert store.get(ANN, [note_id("a")]) == [note("a")]
    assert store.changes(ANN) == [change("1", "a")]
    assert store.namespaces() == [ANN]


def test_parts_of_a_namespace_do_not_run_together(store: NoteStore) -> None:
    store.insert(("a", "b"), [item("a", namespace=("a", "b"))], [])
    for other in (("a",), ("a b",), ('["a","b"]',), ("a/b",), ("a", "b", "c")):
        assert store.count(other) == 0


def test_a_closed_store_says_so(store: NoteStore) -> None:
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.get(ANN, [note_id("a")])
    with pytest.raises(StoreError, match="closed"):
        store.insert(ANN, [item("a")], [])
    with pytest.raises(StoreError, match="closed"):
        store.search(ANN, [Query(text="pottery")])


def test_dense_scores_are_cosines_best_first(store: NoteStore) -> None:
    store.insert(ANN, [item("far", [0, 1]), item("near", [4, 3]), item("same", [1])], [])
    (found,) = store.search(ANN, [Query(vector=unit(1))])
    assert [hit for hit, _ in found.dense] == [note_id("same"), note_id("near"), note_id("far")]
    assert [score for _, score in found.dense] == pytest.approx([1, 0.8, 0], abs=1e-5)
    assert list(found.lexical) == []


def test_rare_words_count_more_than_common_ones(store: NoteStore) -> None:
    texts = {"a": "pottery class", "b": "chess class", "c": "yoga class", "d": "yoga at home"}
    store.insert(ANN, [item(name, text=text) for name, text in texts.items()], [])
    (found,) = store.search(ANN, [Query(text="Pottery classes!")])
    assert found.lexical[0][0] == note_id("a")
    assert {hit for hit, _ in found.lexical} == {note_id("a"), note_id("b"), note_id("c")}
    assert list(found.dense) == []


def test_equal_scores_are_ordered_by_id(store: NoteStore) -> None:
    store.insert(ANN, [item(str(n), [1], "same words") for n in range(20)], [])
    query = Query(vector=unit(1), text="words")
    first = store.search(ANN, [query])
    ids = sorted(note_id(str(n)) for n in range(20))
    assert [hit for hit, _ in first[0].dense] == ids
    assert [hit for hit, _ in first[0].lexical] == ids
    assert all(store.search(ANN, [query]) == first for _ in range(10))


def test_each_query_has_its_own_limit_and_answer(store: NoteStore) -> None:
    store.insert(ANN, [item(str(n), [1, n], "words") for n in range(6)], [])
    answers = store.search(
        ANN,
        [
            Query(vector=unit(1), limit=2),
            Query(text="words", limit=3),
            Query(),
            Query(vector=unit(0, 1), text="nothing like it", limit=4),
        ],
    )
    assert [(len(a.dense), len(a.lexical)) for a in answers] == [(2, 0), (0, 3), (0, 0), (4, 0)]
    assert answers[0].dense[0][0] == note_id("0")
    assert store.search(ANN, []) == []


def test_a_limit_below_one_asks_for_nothing(store: NoteStore) -> None:
    store.insert(ANN, [item("a", [1], "words")], [change("a", "a")])
    for limit in (0, -1):
        (found,) = store.search(ANN, [Query(vector=unit(1), text="words", limit=limit)])
        assert list(found.dense) == list(found.lexical) == []
        assert store.scan(ANN, limit=limit) == []
        assert store.changes(ANN, limit=limit) == []


def test_a_note_without_vector_is_found_by_its_words(store: NoteStore) -> None:
    store.insert(ANN, [item("words", text="pottery"), item("vector", [1])], [])
    (found,) = store.search(ANN, [Query(vector=unit(1), text="pottery")])
    assert [hit for hit, _ in found.dense] == [note_id("vector")]
    assert [hit for hit, _ in found.lexical] == [note_id("words")]


def test_a_query_of_stopwords_finds_nothing(store: NoteStore) -> None:
    store.insert(ANN, [item("a", text="the and of"), item("b", text="pottery")], [])
    (found,) = store.search(ANN, [Query(text="the and of ???")])
    assert list(found.lexical) == []


def test_text_without_spaces_is_found(store: NoteStore) -> None:
    store.insert(ANN, [item("a", text="昨日東京で陶芸をした"), item("b", text="京都")], [])
    (found,) = store.search(ANN, [Query(text="東京")])
    assert [hit for hit, _ in found.lexical] == [note_id("a")]


def test_words_of_another_namespace_do_not_change_a_score(store: NoteStore) -> None:
    store.insert(ANN, [item("a", text="pottery"), item("b", text="chess")], [])
    before = store.search(ANN, [Query(text="pottery")])
    others = [item(f"bob {n}", text="pottery", namespace=BOB) for n in range(20)]
    store.insert(BOB, others, [])
    assert store.search(ANN, [Query(text="pottery")]) == before


def test_conditions_apply_to_both_lists(store: NoteStore) -> None:
    notes = [item(str(n), [1, n], "words", speaker="Ann" if n % 2 else "Bob") for n in range(6)]
    store.insert(ANN, notes, [])
    where = (Condition("speaker", "$eq", "Ann"),)
    (found,) = store.search(ANN, [Query(vector=unit(1), text="words", where=where)])
    odd = {note_id(str(n)) for n in (1, 3, 5)}
    assert {hit for hit, _ in found.dense} == odd
    assert {hit for hit, _ in found.lexical} == odd
