"""What any LangGraph store must do: subclass `StoreContract` and give it a `store`.

LangGraph ships no such suite. `faults` names the rules that a store is known to break; those tests are
expected to fail.
"""

from __future__ import annotations

import time
from typing import Any, ClassVar

import pytest
from langgraph.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)

NS = ("memories", "ann")
EXACT: dict[str, Any] = {
    "text": "Grüße, 世界 🌍",
    "number": 1.5,
    "big": 2**40,
    "none": None,
    "flag": True,
    "nested": {"list": [1, {"deep": "x"}], "empty": {}},
    "braces": '{not} a %template$ \\ "quoted"',
}


class StoreContract:
    """Rules every store has to keep."""

    faults: ClassVar[frozenset[str]] = frozenset()

    @pytest.fixture(autouse=True)
    def _expect(self, request: pytest.FixtureRequest) -> None:
        if request.function.__name__ in self.faults:
            request.node.add_marker(pytest.mark.xfail(reason="a known fault of this store"))

    # Items

    def test_what_was_put_is_returned_exactly_until_it_is_put_again_or_deleted(
        self, store: BaseStore
    ) -> None:
        store.put(NS, "k", EXACT)
        item = store.get(NS, "k")
        assert item is not None
        assert (item.value, item.key, item.namespace) == (EXACT, "k", NS)
        assert item.created_at.tzinfo is not None
        assert item.updated_at >= item.created_at
        assert store.get(NS, "other") is None
        assert store.get(("elsewhere",), "k") is None
        store.put(NS, "k", {"a": 3})
        assert [item.value for item in store.search(NS)] == [{"a": 3}]
        for _ in range(2):  # a deleted key can be put again
            store.delete(NS, "k")
            store.delete(NS, "never there")
            assert store.get(NS, "k") is None
            assert store.search(NS) == []
            store.put(NS, "k", {"a": 2})
            assert store.get(NS, "k").value == {"a": 2}

    def test_putting_again_keeps_the_time_of_creation(self, store: BaseStore) -> None:
        store.put(NS, "k", {"a": 1})
        first = store.get(NS, "k")
        time.sleep(0.01)
        store.put(NS, "k", {"a": 2})
        second = store.get(NS, "k")
        assert second.created_at == first.created_at
        assert second.updated_at >= first.updated_at

    def test_changing_a_returned_value_changes_nothing_stored(self, store: BaseStore) -> None:
        store.put(NS, "k", {"list": [1]})
        store.get(NS, "k").value["list"].append(2)
        assert store.get(NS, "k").value == {"list": [1]}

    def test_namespaces_do_not_share_keys_and_labels_are_case_sensitive(
        self, store: BaseStore
    ) -> None:
        store.put(("a",), "k", {"who": "a"})
        store.put(("a", "b"), "k", {"who": "ab"})
        store.delete(("a",), "k")
        assert store.get(("a", "b"), "k").value == {"who": "ab"}
        assert store.get(("A", "b"), "k") is None
        assert store.get(("a", "b"), "K") is None
        assert store.search(("A",)) == []

    def test_a_bad_namespace_is_refused(self, store: BaseStore) -> None:
        bad: list[Any] = [(), ("",), ("a.b",), ("langgraph",), ("langgraph", "x")]
        for namespace in bad:
            with pytest.raises(InvalidNamespaceError):
                store.put(namespace, "k", {"a": 1})

    def test_signs_in_labels_and_keys_mean_only_themselves(self, store: BaseStore) -> None:
        store.put(("other", "x"), "other", {"a": 2})
        for label in ("*", "%", "_", "a b", "ü", "a/b", "[x]", "'"):
            store.put((label, "x"), label, {"a": 1})
            assert store.get((label, "x"), label).value == {"a": 1}
            assert [item.value for item in store.search((label,))] == [{"a": 1}]

    # Search

    def test_a_prefix_is_made_of_whole_labels_and_an_empty_one_is_everything(
        self, store: BaseStore
    ) -> None:
        store.put(("us",), "1", {"a": 1})
        store.put(("us", "er"), "2", {"a": 2})
        store.put(("user",), "3", {"a": 3})
        assert {item.key for item in store.search(("us",))} == {"1", "2"}
        assert {item.key for item in store.search(())} == {"1", "2", "3"}

    def test_limit_and_offset_page_through_everything_once(self, store: BaseStore) -> None:
        for number in range(7):
            store.put(NS, str(number), {"n": number})
        pages = [store.search(NS, limit=3, offset=offset) for offset in (0, 3, 6)]
        assert [len(page) for page in pages] == [3, 3, 1]
        assert {item.key for page in pages for item in page} == set("0123456")

    def test_a_filter_compares_values_also_inside_and_refuses_other_operators(
        self, store: BaseStore
    ) -> None:
        self._colours(store)
        filters: list[tuple[dict[str, Any], str]] = [
            ({"color": "red"}, "ad"),
            ({"color": {"$eq": "red"}}, "ad"),
            ({"color": {"$ne": "red"}}, "bc"),
            ({"n": {"$gt": 1}}, "bcd"),
            ({"n": {"$gte": 1, "$lt": 3}}, "ab"),
            ({"n": {"$lte": 1}}, "a"),
            ({"color": "red", "n": 1}, "a"),
            ({"color": "pink"}, ""),
            ({"at": {"city": "Oslo"}}, "ab"),
        ]
        for condition, keys in filters:
            assert {item.key for item in store.search(NS, filter=condition)} == set(keys)
        with pytest.raises(ValueError, match="perator"):
            store.search(NS, filter={"n": {"$near": 1}})
        store.put(NS, "e", {"color": "red"})
        assert {item.key for item in store.search(NS, filter={"n": None})} == {"e"}

    def test_a_range_leaves_out_what_is_no_number(self, store: BaseStore) -> None:
        self._colours(store)
        store.put(NS, "e", {"color": "red"})
        store.put(NS, "f", {"n": "many"})
        assert {item.key for item in store.search(NS, filter={"n": {"$lt": 3}})} == {"a", "b"}

    def _colours(self, store: BaseStore) -> None:
        store.put(NS, "a", {"color": "red", "n": 1, "at": {"city": "Oslo", "no": 1}})
        store.put(NS, "b", {"color": "blue", "n": 2, "at": {"city": "Oslo"}})
        store.put(NS, "c", {"color": "green", "n": 3, "at": {"city": "Rome"}})
        store.put(NS, "d", {"color": "red", "n": 9})

    # Search by meaning

    def test_search_by_meaning_finds_the_nearest_first(self, store: BaseStore) -> None:
        store.put(NS, "cat", {"text": "my cat is called Mia"})
        store.put(NS, "job", {"text": "she works as a nurse"})
        found = store.search(NS, query="what is my cat called")
        assert [item.key for item in found] == ["cat", "job"]
        assert found[0].score > found[1].score

    def test_search_by_meaning_sees_changes_at_once(self, store: BaseStore) -> None:
        store.put(NS, "a", {"text": "my cat is called Mia"})
        store.put(NS, "b", {"text": "I live in Oslo"})
        store.put(NS, "a", {"text": "we play chess"})
        store.put(NS, "b", {"text": "my cat is called Leo"})
        assert store.search(NS, query="my cat is called")[0].key == "b"
        store.delete(NS, "b")
        assert [item.key for item in store.search(NS, query="my cat is called")] == ["a"]

    def test_search_by_meaning_keeps_to_filter_prefix_and_limit(self, store: BaseStore) -> None:
        for number in range(30):
            store.put(NS, str(number), {"text": f"cat number {number}", "even": number % 2 == 0})
        store.put(("memories", "bob"), "bob", {"text": "cat number 1", "even": False})
        found = store.search(NS, query="cat number 1", filter={"even": True}, limit=4)
        assert len(found) == 4
        assert all(item.value["even"] and item.namespace == NS for item in found)

    def test_search_by_meaning_goes_through_all_namespaces_of_a_prefix(
        self, store: BaseStore
    ) -> None:
        store.put(("memories", "ann"), "a", {"text": "my cat is called Mia"})
        store.put(("memories", "bob"), "b", {"text": "what is my cat called"})
        found = store.search(("memories",), query="what is my cat called")
        assert [item.key for item in found] == ["b", "a"]

    def test_search_by_meaning_knows_the_paths_asked_for_and_no_others(
        self, store: BaseStore
    ) -> None:
        value = {"one": "my cat", "many": [{"text": "a nurse"}, {"text": "in Oslo"}]}
        store.put(NS, "a", {**value, "secret": "we play chess"}, index=["one", "many[*].text"])
        store.put(NS, "b", {"one": "we play chess", "secret": "my cat"}, index=["one"])
        for query in ("my cat", "a nurse", "in Oslo"):
            assert store.search(NS, query=query)[0].key == "a"
        assert store.search(NS, query="we play chess")[0].key == "b"

    def test_search_by_meaning_puts_what_is_not_indexed_last_without_a_score(
        self, store: BaseStore
    ) -> None:
        store.put(NS, "hidden", {"text": "my cat is called Mia"}, index=False)
        store.put(NS, "job", {"text": "she works as a nurse"})
        found = store.search(NS, query="my cat is called Mia")
        assert [item.key for item in found] == ["job", "hidden"]
        assert found[1].score is None
        assert store.get(NS, "hidden").value == {"text": "my cat is called Mia"}

    def test_search_by_meaning_forgets_what_is_indexed_no_more(self, store: BaseStore) -> None:
        store.put(NS, "a", {"text": "my cat is called Mia"})
        store.put(NS, "a", {"text": "my cat is called Mia"}, index=False)
        assert [item.score for item in store.search(NS, query="my cat is called Mia")] == [None]

    def test_search_by_meaning_leaves_what_is_not_indexed_out_if_there_is_no_room(
        self, store: BaseStore
    ) -> None:
        store.put(NS, "cat", {"text": "my cat"}, index=False)
        store.put(NS, "no such path", {"text": "my cat"}, index=["title"])
        for number in range(3):
            store.put(NS, str(number), {"text": f"we play chess {number}"})
        found = store.search(NS, query="my cat", limit=3)
        assert {item.key for item in found} == {"0", "1", "2"}
        assert all(item.score is not None for item in found)

    def test_search_by_meaning_scores_fall(self, store: BaseStore) -> None:
        for number in range(12):
            store.put(NS, str(number), {"text": f"my cat {'is called Mia ' * number}"})
        scores = [item.score for item in store.search(NS, query="my cat is called Mia", limit=12)]
        assert None not in scores
        assert scores == sorted(scores, reverse=True)

    def test_search_by_meaning_pages_through_everything_once(self, store: BaseStore) -> None:
        for number in range(25):
            store.put(NS, str(number), {"text": f"cat number {number} of {number % 4}"})
        pages = [store.search(NS, query="cat 3", limit=10, offset=at) for at in (0, 10, 20)]
        assert [len(page) for page in pages] == [10, 10, 5]
        assert len({item.key for page in pages for item in page}) == 25

    def test_search_by_meaning_ranks_all_that_a_filter_leaves(self, store: BaseStore) -> None:
        cats = [{"text": f"cat {n}", "odd": False} for n in range(150)]
        store.batch([PutOp(NS, str(n), value) for n, value in enumerate(cats)])
        store.put(NS, "chess", {"text": "we play chess", "odd": True})
        store.put(NS, "boat", {"text": "she has a boat", "odd": True})
        found = store.search(NS, query="cat boat", filter={"odd": True})
        assert [item.key for item in found] == ["boat", "chess"]
        assert all(item.score is not None for item in found)

    def test_search_by_meaning_takes_two_items_of_the_same_text(self, store: BaseStore) -> None:
        store.batch([PutOp(NS, key, {"text": "my cat"}) for key in "ab"])
        assert {item.key for item in store.search(NS, query="my cat")} == {"a", "b"}

    # Namespaces

    def test_namespaces_are_listed_by_prefix_suffix_and_depth(self, store: BaseStore) -> None:
        for space in (("a", "x", "1"), ("a", "y", "1"), ("b", "x", "2")):
            store.put(space, "k", {"v": 1})
        listed = store.list_namespaces
        assert listed() == [("a", "x", "1"), ("a", "y", "1"), ("b", "x", "2")]
        assert listed(prefix=("a",)) == [("a", "x", "1"), ("a", "y", "1")]
        assert listed(suffix=("1",)) == [("a", "x", "1"), ("a", "y", "1")]
        assert listed(prefix=("*", "x")) == [("a", "x", "1"), ("b", "x", "2")]
        assert listed(prefix=("a",), suffix=("y", "*")) == [("a", "y", "1")]
        assert listed(max_depth=1) == [("a",), ("b",)]
        assert listed(limit=1, offset=1) == [("a", "y", "1")]
        assert listed(prefix=("a", "x", "1", "more")) == []

    def test_an_emptied_namespace_is_not_listed(self, store: BaseStore) -> None:
        store.put(("a",), "k", {"v": 1})
        store.delete(("a",), "k")
        assert store.list_namespaces() == []

    def test_reading_makes_no_namespace(self, store: BaseStore) -> None:
        store.get(("nowhere",), "k")
        store.search(("nowhere",))
        assert store.list_namespaces() == []

    # Batches

    def test_a_batch_reads_before_it_writes_and_the_last_write_wins(self, store: BaseStore) -> None:
        assert store.batch([]) == []
        store.put(NS, "k", {"v": 0})
        results = store.batch(
            [
                PutOp(NS, "k", {"v": 1}),
                GetOp(NS, "k"),
                PutOp(NS, "k", {"v": 2}),
                SearchOp(NS),
                ListNamespacesOp((MatchCondition("prefix", ("memories",)),)),
            ]
        )
        assert results[0] is None
        assert results[1].value == {"v": 0}
        assert [item.value for item in results[3]] == [{"v": 0}]
        assert results[4] == [NS]
        assert store.get(NS, "k").value == {"v": 2}

    async def test_the_asynchronous_form_does_the_same(self, store: BaseStore) -> None:
        await store.aput(NS, "k", EXACT)
        assert (await store.aget(NS, "k")).value == EXACT
        assert [item.key for item in await store.asearch(NS)] == ["k"]
        assert await store.alist_namespaces() == [NS]
        await store.adelete(NS, "k")
        assert await store.aget(NS, "k") is None
