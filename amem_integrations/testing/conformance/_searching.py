"""Rules about the two lists of a search."""
# ruff: noqa: S101 - asserting is what a test does

from __future__ import annotations

import pytest

from ...filters import Condition
from ...ports import NoteStore, Query
from ._builders import ANN, BOB, StoreRules, change, done, item, note_id, unit


class SearchingRules(StoreRules):
    """What a store promises about searches."""

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
