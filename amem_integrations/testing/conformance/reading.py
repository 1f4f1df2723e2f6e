"""Rules about reading: by id, in order, by link, by search; and about the wall between namespaces."""
# ruff: noqa: S101, D102 - asserting is what a test does, and its name is the rule

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ...errors import NamespaceError, StoreError
from ...filters import Condition
from ...ports import Indexed, NoteStore, Query
from .builders import (
    ANN,
    BOB,
    SEQ,
    change,
    done,
    entry,
    item,
    link,
    note,
    note_id,
    supersession,
    unit,
)


class ReadingRules:
    """What a store promises about reads and searches."""

    def test_get_returns_notes_in_the_order_asked_for(self, store: NoteStore) -> None:
        done(store.insert(ANN, [item("a"), item("b"), item("c")], []))
        ids = [note_id("c"), note_id("a")]
        assert [found.id for found in done(store.get(ANN, ids))] == ids

    def test_get_leaves_out_what_is_unknown(self, store: NoteStore) -> None:
        done(store.insert(ANN, [item("a")], []))
        ids = [note_id("unknown"), "not an id", note_id("a"), ""]
        assert done(store.get(ANN, ids)) == [note("a")]
        assert done(store.get(ANN, [])) == []

    def test_get_indexed_returns_notes_with_their_vectors_in_the_order_asked_for(
        self, store: NoteStore
    ) -> None:
        done(store.insert(ANN, [item("a", [3, 4], "text"), item("b", text="words only")], []))
        ids = [note_id("b"), note_id("unknown"), "not an id", note_id("a")]
        without, with_vector = done(store.get_indexed(ANN, ids))
        assert without == Indexed(note=note("b"))
        assert (with_vector.note, with_vector.text) == (note("a"), None)
        assert with_vector.vector is not None
        assert with_vector.vector.dtype == np.float32
        assert np.allclose(with_vector.vector, unit(3, 4), atol=1e-6)
        assert done(store.get_indexed(ANN, [])) == done(store.get_indexed(BOB, ids)) == []

    def test_last_seq_is_the_greatest_of_all_notes_and_changes(self, store: NoteStore) -> None:
        assert done(store.last_seq()) == 0
        done(store.insert(ANN, [item("a", number=7), item("b", number=3)], []))
        assert done(store.last_seq()) == SEQ + 7
        done(store.insert(BOB, [item("c", number=8, namespace=BOB)], []))
        assert done(store.last_seq()) == SEQ + 8
        done(store.replace(ANN, [], [change("late", "a", number=9)]))
        assert done(store.last_seq()) == SEQ + 9
        done(store.clear(ANN, []))
        assert done(store.last_seq()) == SEQ + 8

    def test_backlinks_returns_who_links_to_any_of_the_notes(self, store: NoteStore) -> None:
        to = {name: {note_id(name): link()} for name in ("x", "y", "z")}
        done(
            store.insert(
                ANN,
                [
                    item("b", links=to["x"] | to["y"], number=2),
                    item("a", links=to["y"], number=1),
                    item("c", links=to["z"], number=3),
                ],
                [],
            )
        )
        found = done(store.backlinks(ANN, [note_id("x"), note_id("y"), "not an id"]))
        assert [hit.id for hit in found] == [note_id("a"), note_id("b")]
        assert done(store.backlinks(ANN, [note_id("a")])) == []
        assert done(store.backlinks(ANN, [])) == []

    def test_backlinks_returns_whose_context_came_from_any_of_the_notes(
        self, store: NoteStore
    ) -> None:
        own = item("a", contexts=(entry("a"),), links={note_id("b"): link()})
        evolved = item("b", contexts=(entry("b"), entry("a")))
        done(store.insert(ANN, [own, evolved], []))
        assert done(store.backlinks(ANN, [note_id("a")])) == [evolved.note]
        assert done(store.backlinks(ANN, [note_id("a"), note_id("b")])) == []

    def test_backlinks_returns_what_any_of_the_notes_supersedes(self, store: NoteStore) -> None:
        outdated = item("b", supersessions={note_id("a"): supersession()})
        done(store.insert(ANN, [item("a"), outdated], []))
        assert done(store.backlinks(ANN, [note_id("a")])) == [outdated.note]
        assert done(store.backlinks(ANN, [note_id("b")])) == []

    def test_backlinks_returns_what_is_derived_from_any_of_the_notes(
        self, store: NoteStore
    ) -> None:
        derived = item("b", kind="fact", source="derived", sources=(note_id("a"), note_id("x")))
        done(store.insert(ANN, [item("a"), derived], []))
        for source in derived.note.sources:
            assert done(store.backlinks(ANN, [source])) == [derived.note]

    def test_backlinks_finds_all_of_many(self, store: NoteStore) -> None:
        hub = {note_id("hub"): link()}
        done(store.insert(ANN, [item(str(n), links=hub, number=n) for n in range(600)], []))
        found = done(store.backlinks(ANN, [note_id("hub"), *(f"no id {n}" for n in range(600))]))
        assert [hit.seq for hit in found] == [SEQ + n for n in range(600)]

    def test_scan_goes_by_seq_then_id(self, store: NoteStore) -> None:
        done(store.insert(ANN, [item(str(n), number=n % 3) for n in (4, 2, 0, 3, 1)], []))
        found = done(store.scan(ANN))
        assert [(hit.seq, hit.id) for hit in found] == sorted((hit.seq, hit.id) for hit in found)
        assert {hit.id for hit in found} == {note_id(str(n)) for n in range(5)}

    def test_scan_newest_first_is_the_reverse(self, store: NoteStore) -> None:
        done(store.insert(ANN, [item(str(n), number=n) for n in range(5)], []))
        newest = done(store.scan(ANN, newest_first=True, limit=2))
        assert [hit.seq for hit in newest] == [SEQ + 4, SEQ + 3]

    def test_scan_continues_after_a_seq_to_the_nanosecond(self, store: NoteStore) -> None:
        done(store.insert(ANN, [item(str(n), number=n) for n in range(2500)], []))
        seen: list[int] = []
        after = SEQ - 1
        while page := done(store.scan(ANN, where=(Condition("seq", "$gt", after),), limit=999)):
            seen += [hit.seq for hit in page]
            after = page[-1].seq
        assert seen == [SEQ + n for n in range(2500)]

    def test_an_empty_store_answers_everything(self, store: NoteStore) -> None:
        assert done(store.scan(ANN)) == []
        assert done(store.changes(ANN)) == []
        assert done(store.namespaces()) == []
        (found,) = done(store.search(ANN, [Query(vector=unit(1), text="pottery")]))
        assert list(found.dense) == list(found.lexical) == []

    def test_count_is_exact(self, store: NoteStore) -> None:
        assert done(store.count(ANN)) == 0
        many = [item(str(n)) for n in range(300)]
        done(store.insert(ANN, many, []))
        assert done(store.count(ANN)) == len(many)

    def test_namespaces_are_sorted_and_hold_notes(self, store: NoteStore) -> None:
        spaces = [("b",), ("a", "b"), ("a",), ('a","b',), ("ünïcode/東京", "1")]
        for space in spaces:
            done(store.insert(space, [item(repr(space), namespace=space)], []))
        assert done(store.namespaces()) == sorted(spaces)
        done(store.delete(("b",), [note_id(repr(("b",)))], []))
        assert ("b",) not in done(store.namespaces())

    def test_a_namespace_of_which_a_history_is_left_is_named_when_that_is_asked_for(
        self, store: NoteStore
    ) -> None:
        done(store.insert(ANN, [item("a", [1], "x")], []))
        done(store.clear(BOB, [change("receipt", "", namespace=BOB, kind="clear", note_id="")]))
        assert done(store.namespaces()) == [ANN]
        assert done(store.namespaces(recorded=True)) == [ANN, BOB]

    def test_namespaces_are_found_by_what_their_notes_are_like(self, store: NoteStore) -> None:
        states = {"a": ("pending", 0), "b": ("done", 0), "c": ("failed", 1), "d": ("failed", 2)}
        for name, (state, attempts) in states.items():
            waits = item(name, namespace=(name,), state=state, attempts=attempts)
            done(store.insert((name,), [waits], []))
            done(store.insert((name,), [item(f"{name}2", namespace=(name,), state="done")], []))
        waiting = Condition("state", "$in", ("pending", "failed"))
        tried = Condition("attempts", "$lt", 2)
        assert done(store.namespaces((waiting,))) == [("a",), ("c",), ("d",)]
        assert done(store.namespaces((waiting, tried))) == [("a",), ("c",)]
        assert done(store.namespaces((Condition("state", "$eq", "constructed"),))) == []

    @pytest.mark.parametrize("bad", [(), ("",), ("a", ""), "ann", ["ann"], ("a", 1), ("\0",), None])
    def test_a_malformed_namespace_is_refused(self, store: NoteStore, bad: object) -> None:
        space: Any = bad
        for call in (
            lambda: store.get(space, []),
            lambda: store.get_indexed(space, []),
            lambda: store.search(space, []),
            lambda: store.backlinks(space, []),
            lambda: store.count(space),
            lambda: store.scan(space),
            lambda: store.changes(space),
            lambda: store.changes_by_id(space, []),
            lambda: store.changes_by_op(space, []),
            lambda: store.mentions(space, []),
            lambda: store.insert(space, [], []),
            lambda: store.replace(space, [], []),
            lambda: store.rewrite_changes(space, []),
            lambda: store.delete(space, [], []),
            lambda: store.clear(space, []),
        ):
            with pytest.raises(NamespaceError):
                done(call())

    def test_no_method_reaches_into_another_namespace(self, store: NoteStore) -> None:
        ann = item("a", [1], "pottery", links={note_id("x"): link()})
        done(store.insert(ANN, [ann], [change("1", "a")]))
        ids = [note_id("a")]
        assert done(store.get(BOB, ids)) == []
        assert done(store.get_indexed(BOB, ids)) == []
        assert done(store.mentions(BOB, ids)) == []
        assert done(store.changes_by_op(BOB, ["op 1"])) == []
        assert done(store.backlinks(BOB, [note_id("x")])) == []
        assert done(store.count(BOB)) == 0
        assert done(store.scan(BOB)) == []
        assert done(store.changes(BOB)) == []
        assert done(store.changes(BOB, note_id=note_id("a"))) == []
        (found,) = done(store.search(BOB, [Query(vector=unit(1), text="pottery")]))
        assert list(found.dense) == list(found.lexical) == []

    def test_no_write_reaches_into_another_namespace(self, store: NoteStore) -> None:
        done(store.insert(ANN, [item("a", [1], "pottery")], [change("1", "a")]))
        theirs = item("a", [0, 1], "chess", namespace=BOB, revision=1)
        assert done(store.replace(BOB, [theirs], [])) == {note_id("a")}
        done(store.delete(BOB, [note_id("a")], []))
        done(store.rewrite_changes(BOB, [change("1", "a", namespace=BOB, kind="undo")]))
        done(store.clear(BOB, []))
        assert done(store.get(ANN, [note_id("a")])) == [note("a")]
        assert done(store.changes(ANN)) == [change("1", "a")]
        assert done(store.namespaces()) == [ANN]

    def test_parts_of_a_namespace_do_not_run_together(self, store: NoteStore) -> None:
        done(store.insert(("a", "b"), [item("a", namespace=("a", "b"))], []))
        for other in (("a",), ("a b",), ('["a","b"]',), ("a/b",), ("a", "b", "c")):
            assert done(store.count(other)) == 0

    def test_a_closed_store_says_so(self, store: NoteStore) -> None:
        done(store.close())
        with pytest.raises(StoreError, match="closed"):
            done(store.get(ANN, [note_id("a")]))
        with pytest.raises(StoreError, match="closed"):
            done(store.insert(ANN, [item("a")], []))
        with pytest.raises(StoreError, match="closed"):
            done(store.search(ANN, [Query(text="pottery")]))

    def test_dense_scores_are_cosines_best_first(self, store: NoteStore) -> None:
        done(store.insert(ANN, [item("far", [0, 1]), item("near", [4, 3]), item("same", [1])], []))
        (found,) = done(store.search(ANN, [Query(vector=unit(1))]))
        assert [hit for hit, _ in found.dense] == [note_id("same"), note_id("near"), note_id("far")]
        assert [score for _, score in found.dense] == pytest.approx([1, 0.8, 0], abs=1e-5)
        assert list(found.lexical) == []

    def test_rare_words_count_more_than_common_ones(self, store: NoteStore) -> None:
        texts = {"a": "pottery class", "b": "chess class", "c": "yoga class", "d": "yoga at home"}
        done(store.insert(ANN, [item(name, text=text) for name, text in texts.items()], []))
        (found,) = done(store.search(ANN, [Query(text="Pottery classes!")]))
        assert found.lexical[0][0] == note_id("a")
        assert {hit for hit, _ in found.lexical} == {note_id("a"), note_id("b"), note_id("c")}
        assert list(found.dense) == []

    def test_equal_scores_are_ordered_by_id(self, store: NoteStore) -> None:
        done(store.insert(ANN, [item(str(n), [1], "same words") for n in range(20)], []))
        query = Query(vector=unit(1), text="words")
        first = done(store.search(ANN, [query]))
        ids = sorted(note_id(str(n)) for n in range(20))
        assert [hit for hit, _ in first[0].dense] == ids
        assert [hit for hit, _ in first[0].lexical] == ids
        assert all(done(store.search(ANN, [query])) == first for _ in range(10))

    def test_each_query_has_its_own_limit_and_answer(self, store: NoteStore) -> None:
        done(store.insert(ANN, [item(str(n), [1, n], "words") for n in range(6)], []))
        answers = done(
            store.search(
                ANN,
                [
                    Query(vector=unit(1), limit=2),
                    Query(text="words", limit=3),
                    Query(),
                    Query(vector=unit(0, 1), text="nothing like it", limit=4),
                ],
            )
        )
        assert [(len(a.dense), len(a.lexical)) for a in answers] == [(2, 0), (0, 3), (0, 0), (4, 0)]
        assert answers[0].dense[0][0] == note_id("0")
        assert done(store.search(ANN, [])) == []

    @pytest.mark.parametrize("limit", [0, -1])
    def test_a_limit_below_one_asks_for_nothing(self, store: NoteStore, limit: int) -> None:
        done(store.insert(ANN, [item("a", [1], "words")], [change("a", "a")]))
        (found,) = done(store.search(ANN, [Query(vector=unit(1), text="words", limit=limit)]))
        assert list(found.dense) == list(found.lexical) == []
        assert done(store.scan(ANN, limit=limit)) == []
        assert done(store.changes(ANN, limit=limit)) == []

    def test_a_note_without_vector_is_found_by_its_words(self, store: NoteStore) -> None:
        done(store.insert(ANN, [item("words", text="pottery"), item("vector", [1])], []))
        (found,) = done(store.search(ANN, [Query(vector=unit(1), text="pottery")]))
        assert [hit for hit, _ in found.dense] == [note_id("vector")]
        assert [hit for hit, _ in found.lexical] == [note_id("words")]

    def test_a_query_of_stopwords_finds_nothing(self, store: NoteStore) -> None:
        done(store.insert(ANN, [item("a", text="the and of"), item("b", text="pottery")], []))
        (found,) = done(store.search(ANN, [Query(text="the and of ???")]))
        assert list(found.lexical) == []

    def test_text_without_spaces_is_found(self, store: NoteStore) -> None:
        done(
            store.insert(ANN, [item("a", text="昨日東京で陶芸をした"), item("b", text="京都")], [])
        )
        (found,) = done(store.search(ANN, [Query(text="東京")]))
        assert [hit for hit, _ in found.lexical] == [note_id("a")]

    def test_words_of_another_namespace_do_not_change_a_score(self, store: NoteStore) -> None:
        done(store.insert(ANN, [item("a", text="pottery"), item("b", text="chess")], []))
        before = done(store.search(ANN, [Query(text="pottery")]))
        others = [item(f"bob {n}", text="pottery", namespace=BOB) for n in range(20)]
        done(store.insert(BOB, others, []))
        assert done(store.search(ANN, [Query(text="pottery")])) == before

    def test_conditions_apply_to_both_lists(self, store: NoteStore) -> None:
        notes = [item(str(n), [1, n], "words", speaker="Ann" if n % 2 else "Bob") for n in range(6)]
        done(store.insert(ANN, notes, []))
        where = (Condition("speaker", "$eq", "Ann"),)
        (found,) = done(store.search(ANN, [Query(vector=unit(1), text="words", where=where)]))
        odd = {note_id(str(n)) for n in (1, 3, 5)}
        assert {hit for hit, _ in found.dense} == odd
        assert {hit for hit, _ in found.lexical} == odd
