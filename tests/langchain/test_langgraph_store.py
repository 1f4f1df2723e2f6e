"""LangGraph's store over the memory: the contract, and what is ours beyond it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import langgraph.store.base
import pytest
from langchain_kit import scripted
from langgraph.store.base import BaseStore, GetOp, InvalidNamespaceError, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore
from store_contract import NS, StoreContract

from amem_integrations import AgenticMemory, InvalidInputError
from amem_integrations.testing import HashEmbedder
from langchain_amem import AMemStore

# Versions of LangGraph's stores that match namespaces as text have more faults.
OLD = not hasattr(langgraph.store.base, "validate_op_namespace")
TEXTUAL = {
    "test_labels_are_case_sensitive",
    "test_signs_in_labels_and_keys_mean_only_themselves",
    "test_a_prefix_is_made_of_whole_labels",
}


class TestAMemStore(StoreContract):
    """Ours keeps every rule."""

    @pytest.fixture
    def store(self, memory: AgenticMemory) -> AMemStore:
        return AMemStore(memory)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgenticMemory]:
    path = str(tmp_path_factory.mktemp("store"))
    with AgenticMemory.open(path, model=scripted(), embedder=HashEmbedder()) as opened:
        yield opened


class TestAMemStoreOnDisk(StoreContract):
    """So it does over the embedded engine."""

    @pytest.fixture
    def store(self, folder: AgenticMemory) -> AMemStore:
        for space in folder.namespaces():
            for note in folder.get_all(namespace=space, limit=1000):
                folder.delete(note.id, namespace=space)
        return AMemStore(folder)


class TestInMemoryStore(StoreContract):
    """LangGraph's reference breaks some."""

    faults: ClassVar[frozenset[str]] = frozenset(
        {
            "test_putting_again_keeps_the_time_of_creation",
            "test_changing_a_returned_value_changes_nothing_stored",
            "test_a_range_leaves_out_what_is_no_number",
            "test_search_by_meaning_forgets_what_is_indexed_no_more",
            "test_search_by_meaning_takes_two_items_of_the_same_text",
            "test_an_emptied_namespace_is_not_listed",
            "test_reading_makes_no_namespace",
        }
    )
    expires: ClassVar[bool] = False

    @pytest.fixture
    def store(self) -> InMemoryStore:
        embedder = HashEmbedder()

        def embed(texts: list[str]) -> list[list[float]]:
            return [[float(x) for x in row] for row in embedder.embed_documents(texts)]

        return InMemoryStore(index={"dims": 64, "embed": embed, "fields": ["$"]})


class TestSqliteStore(StoreContract):
    """LangGraph's SQLite store, without an index (which would need an extension)."""

    faults: ClassVar[frozenset[str]] = frozenset(
        {
            "test_times_know_their_zone",
            "test_a_range_leaves_out_what_is_no_number",
            "test_a_filter_can_look_inside",
            "test_the_asynchronous_form_does_the_same",  # AsyncSqliteStore is for that
            "test_after_its_ttl_an_item_is_not_shown",  # not before it is swept
            *(TEXTUAL if OLD else ()),
        }
    )
    strict: ClassVar[bool] = not OLD
    searches: ClassVar[bool] = False

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[SqliteStore]:
        ttl: Any = {"refresh_on_read": True}
        with SqliteStore.from_conn_string(str(tmp_path / "store.sqlite"), ttl=ttl) as store:
            store.setup()
            yield store


@pytest.fixture
def store(memory: AgenticMemory) -> AMemStore:
    return AMemStore(memory)


def test_an_item_is_a_note_that_can_be_read_as_one(store: AMemStore, memory: AgenticMemory) -> None:
    store.put(NS, "k", {"kind": "Memory", "content": {"content": "Ann moved to Oslo."}})
    note = store.note(NS, "k")
    assert note is not None
    assert note.content == "Memory\nAnn moved to Oslo."
    assert memory.search("Oslo", namespace=NS)[0].note.id == note.id
    assert store.note(NS, "other") is None


def test_evolution_changes_the_note_and_never_the_value(memory: AgenticMemory) -> None:
    store = AMemStore(memory, evolve_on_put=True)
    store.put(NS, "1", {"text": "Ann moved to Oslo."})
    store.put(NS, "2", {"text": "Ann likes Oslo."})
    note = store.note(NS, "1")
    assert note is not None
    assert (note.state, "evolved" in note.tags, len(note.links)) == ("done", True, 1)
    assert store.get(NS, "1").value == {"text": "Ann moved to Oslo."}  # type: ignore[union-attr]
    store.put(NS, "1", {"text": "Ann moved to Rome."})
    assert store.note(NS, "1").state == "done"  # type: ignore[union-attr]


def test_without_evolve_on_put_no_model_is_called(store: AMemStore, memory: AgenticMemory) -> None:
    store.put(NS, "1", {"text": "Ann moved to Oslo."})
    assert memory.usage()["total"] == {}


def test_other_notes_of_a_namespace_are_left_alone(store: AMemStore, memory: AgenticMemory) -> None:
    other = memory.add("I moved to Oslo.", namespace=NS, key="k")
    store.put(NS, "k", {"text": "Ann moved to Oslo."})
    assert [item.key for item in store.search(NS)] == ["k"]
    assert [item.key for item in store.search(NS, query="Oslo")] == ["k"]
    store.delete(NS, "k")
    assert memory.get(other.id, namespace=NS).content == "I moved to Oslo."
    assert store.list_namespaces() == []


def test_what_is_deep_in_the_ranking_is_found_by_a_filter(store: AMemStore) -> None:
    store.batch([PutOp(NS, str(i), {"text": f"cat cat {i}"}) for i in range(130)])
    store.put(NS, "odd", {"text": "something else", "odd": True})
    assert [i.key for i in store.search(NS, query="cat cat", filter={"odd": True})] == ["odd"]


def test_long_and_strange_text_is_kept_exactly(store: AMemStore) -> None:
    value = {"text": "word " * 20_000 + "\0 \ud800", "n": 2**70, "f": 1e300}
    store.put(NS, "k", value)
    assert store.get(NS, "k").value == value  # type: ignore[union-attr]


def test_a_value_that_is_not_json_is_refused(store: AMemStore) -> None:
    with pytest.raises(InvalidInputError, match="JSON"):
        store.put(NS, "k", {"x": object()})


def test_a_raw_batch_is_checked_too(store: AMemStore) -> None:
    for op in (PutOp(("a.b",), "k", {"v": 1}), GetOp(("",), "k"), SearchOp(("a.b",))):
        with pytest.raises(InvalidNamespaceError):
            store.batch([op])
    with pytest.raises(TypeError, match="unknown operation"):
        store.batch(["op"])  # type: ignore[list-item]


def test_the_default_ttl_is_used_and_reading_need_not_refresh_it(memory: AgenticMemory) -> None:
    store = AMemStore(memory, ttl={"default_ttl": 1.0, "refresh_on_read": False})
    store.put(NS, "k", {"v": 1})
    expires = store.note(NS, "k").metadata["expires_at"]  # type: ignore[union-attr]
    store.get(NS, "k")
    store.search(NS)
    assert store.note(NS, "k").metadata["expires_at"] == expires  # type: ignore[union-attr]


def test_sweeping_deletes_what_has_expired(store: AMemStore, memory: AgenticMemory) -> None:
    store.put(NS, "k", {"v": 1}, ttl=0.0)
    store.put(NS, "ever", {"v": 1})
    assert store.sweep_ttl() == 1
    assert memory.stats(namespace=NS)["notes"] == 1
    assert store.sweep_ttl() == 0


def test_two_users_never_see_each_others_items(store: AMemStore) -> None:
    store.put(("memories", "ann"), "k", {"text": "I moved to Oslo."})
    store.put(("memories", "bob"), "k", {"text": "I moved to Rome."})
    found = store.search(("memories", "bob"), query="Oslo")
    assert [item.value["text"] for item in found] == ["I moved to Rome."]


async def test_nothing_of_it_works_on_the_event_loop() -> None:
    threads: set[int] = set()

    class Watched(HashEmbedder):
        def embed_query(self, text: str) -> Any:
            threads.add(threading.get_ident())
            return super().embed_query(text)

    with AgenticMemory.open(":memory:", model=scripted(), embedder=Watched()) as memory:
        store: BaseStore = AMemStore(memory, evolve_on_put=True)
        await store.aput(NS, "k", {"text": "I moved to Oslo."})
        await store.asearch(NS, query="Oslo")
    assert threads
    assert threading.get_ident() not in threads
