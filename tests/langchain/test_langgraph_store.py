"""LangGraph's store over the memory: the contract, and what is ours beyond it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import pytest
from langchain_kit import scripted
from langgraph.store.base import GetOp, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore
from store_contract import NS, StoreContract

from amem_integrations import (
    AgenticMemory,
    ConfigurationError,
)
from amem_integrations.testing import HashEmbedder, ScriptedModel
from langchain_amem import AMemRetriever, AMemStore

# Versions of LangGraph's stores that match namespaces as text have more faults.


class TestAMemStore(StoreContract):
    """Ours keeps every rule."""

    @pytest.fixture
    def store(self, memory: AgenticMemory) -> AMemStore:
        return AMemStore(memory)


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
    store = AMemStore(memory, evolve=True)
    store.put(NS, "1", {"text": "Ann moved to Oslo."})
    assert memory.flush(timeout=10)
    store.put(NS, "2", {"text": "Ann likes Oslo."})
    assert memory.flush(timeout=10)
    note = store.note(NS, "1")
    assert note is not None
    assert (note.state, "evolved" in note.tags, len(note.links)) == ("done", True, 1)
    assert store.get(NS, "1").value == {"text": "Ann moved to Oslo."}  # type: ignore[union-attr]
    store.put(NS, "1", {"text": "Ann moved to Rome."})
    assert memory.flush(timeout=10)
    assert store.note(NS, "1").state == "done"  # type: ignore[union-attr]


def test_without_evolve_no_model_is_called(store: AMemStore, memory: AgenticMemory) -> None:
    store.put(NS, "1", {"text": "Ann moved to Oslo."})
    assert memory.stats()["usage"]["total"] == {}


def test_other_notes_of_a_namespace_are_left_alone(store: AMemStore, memory: AgenticMemory) -> None:
    other = memory.add("I moved to Oslo.", namespace=NS, key="k")
    store.put(NS, "k", {"text": "Ann moved to Oslo."})
    assert [item.key for item in store.search(NS)] == ["k"]
    assert [item.key for item in store.search(NS, query="Oslo")] == ["k"]
    store.delete(NS, "k")
    assert memory.get(other.id, namespace=NS).content == "I moved to Oslo."
    assert store.list_namespaces() == []


def test_the_order_is_the_memorys_by_words_too_and_scores_follow_it(
    store: AMemStore, memory: AgenticMemory
) -> None:
    for number in range(20):
        store.put(NS, str(number), {"title": f"item {number}", "text": "cat dog boat " * number})
    found = store.search(NS, query="dog item 7", limit=20)
    ranked = [hit.note for hit in memory.search("dog item 7", namespace=NS, k=20)]
    assert [item.key for item in found] == [note.key.removeprefix("store:") for note in ranked]
    cosines = {h.note.key: h.similarity for h in memory.search("dog item 7", namespace=NS, k=20)}
    assert all(item.score >= cosines[f"store:{item.key}"] - 1e-6 for item in found)
    assert max(cosines.values()) == pytest.approx(found[0].score)


def test_more_than_a_search_goes_deep_is_ranked_all_the_same(store: AMemStore) -> None:
    store.batch([PutOp(NS, str(i), {"text": f"cat number {i}"}) for i in range(230)])
    found = store.search(NS, query="cat number 7", limit=300)
    assert len({item.key for item in found}) == 230
    assert all(item.score is not None for item in found)


def test_pages_over_several_namespaces_hold_each_item_once(store: AMemStore) -> None:
    for space in ("ann", "bob", "eve"):
        for number in range(9):
            store.put((space,), str(number), {"text": f"cat {number} {'of ' * number}{space}"})
    pages = [store.search((), query="cat 3 ann", limit=5, offset=at) for at in range(0, 27, 5)]
    assert len({(item.namespace, item.key) for page in pages for item in page}) == 27


# What is not indexed


def test_what_is_not_indexed_is_no_note_among_others(
    store: AMemStore, memory: AgenticMemory, model: ScriptedModel
) -> None:
    for number, index in enumerate((["no.such.path"], [], False)):
        store.put(NS, f"{number} settings", {"text": "my cat"}, index=index)  # type: ignore[arg-type]
    store.put(NS, "cat settings", {"text": "my cat"}, index=False)
    memory.add("My cat is called Mia.", namespace=NS, evolve=False)
    assert [hit.note.content for hit in memory.search("cat settings", namespace=NS)] == [
        "My cat is called Mia."
    ]
    memory.evolve(namespace=NS)
    assert all("settings" not in request.prompt for request in model.requests)
    assert store.get(NS, "cat settings").value == {"text": "my cat"}  # type: ignore[union-attr]
    assert store.list_namespaces() == [NS]


def test_an_item_can_be_indexed_and_not_and_again(store: AMemStore, memory: AgenticMemory) -> None:
    created = set()
    for number, index in enumerate([None, False, False, None, ["text"], False]):
        store.put(NS, "k", {"text": f"my cat {number}"}, index=index)  # type: ignore[arg-type]
        (item,) = store.search(NS, query="my cat")
        assert item.value == {"text": f"my cat {number}"}
        assert (item.score is None) == (index is False)
        created.add(item.created_at)
    assert len(created) == 1
    assert sum(memory.stats(namespace=space)["notes"] for space in memory.namespaces()) == 1
    store.delete(NS, "k")
    assert store.get(NS, "k") is None
    assert memory.namespaces() == []


def test_interrupted_between_two_writes_the_newer_value_counts_and_the_next_put_mends_it() -> None:
    class Breaking(AgenticMemory):
        broken = True

        def delete(self, *args: Any, **kwargs: Any) -> None:
            if self.broken:
                raise KeyboardInterrupt
            super().delete(*args, **kwargs)

    with Breaking.open(":memory:", embedder=HashEmbedder()) as memory:
        store = AMemStore(memory)
        store.put(NS, "k", {"text": "old"})
        with pytest.raises(KeyboardInterrupt):
            store.put(NS, "k", {"text": "new"}, index=False)
        assert store.get(NS, "k").value == {"text": "new"}  # type: ignore[union-attr]
        memory.broken = False
        store.put(NS, "k", {"text": "newer"}, index=False)
        assert [item.value for item in store.search(NS)] == [{"text": "newer"}]


# What is written


def test_long_and_strange_text_is_kept_exactly(store: AMemStore) -> None:
    value = {"text": "word " * 20_000 + "\0 \ud800", "n": 2**70, "f": 1e300}
    store.put(NS, "k", value)
    assert store.get(NS, "k").value == value  # type: ignore[union-attr]


def test_the_default_ttl_is_used_and_reading_need_not_refresh_it(memory: AgenticMemory) -> None:
    store = AMemStore(memory, ttl={"default_ttl": 1.0, "refresh_on_read": False})
    store.put(NS, "k", {"v": 1})
    expires = store.note(NS, "k").expires_at  # type: ignore[union-attr]
    assert expires is not None
    store.get(NS, "k")
    store.search(NS)
    assert store.note(NS, "k").expires_at == expires  # type: ignore[union-attr]


def test_reading_writes_once_in_a_tenth_of_the_ttl(store: AMemStore, memory: AgenticMemory) -> None:
    store.put(NS, "k", {"v": 1}, ttl=60)
    note = store.note(NS, "k")
    assert note is not None
    for _ in range(20):
        store.get(NS, "k")
        store.search(NS)
        store.search(NS, query="1")
    changes = memory.history(note.id, namespace=NS)
    assert [change.kind for change in changes if change.kind == "update"] == ["update"]


def test_what_is_read_lives_for_its_ttl_from_then_on(store: AMemStore) -> None:
    for read in (lambda: store.get(NS, "k"), lambda: store.search(NS, query="1")):
        store.put(NS, "k", {"v": 1}, ttl=60)
        for _ in range(3):
            read()
            note = store.note(NS, "k")
            assert note is not None
            assert note.expires_at is not None
            left = note.expires_at - datetime.now(UTC)
            assert timedelta(minutes=59.9) < left <= timedelta(minutes=66)


def test_what_is_not_indexed_expires_too(store: AMemStore) -> None:
    store.put(NS, "k", {"v": 1}, index=False, ttl=0.0)
    store.put(NS, "ever", {"v": 1}, index=False)
    assert store.get(NS, "k") is None
    assert [item.key for item in store.search(NS)] == ["ever"]
    assert store.sweep_ttl() == 1


class Meddling(AgenticMemory):
    """A memory in which something happens right after an item was read."""

    then: Any = None

    def get_all(self, **options: Any) -> Any:
        found = super().get_all(**options)
        if found and self.then:
            happens, self.then = self.then, None
            happens()
        return found


@pytest.fixture
def meddling() -> Iterator[Meddling]:
    with Meddling.open(":memory:", embedder=HashEmbedder()) as opened:
        yield opened


def test_a_read_that_prolongs_brings_back_no_old_value(meddling: Meddling) -> None:
    store = AMemStore(meddling)
    store.put(NS, "k", {"v": "old"}, ttl=60)
    meddling.then = lambda: AMemStore(meddling).put(NS, "k", {"v": "new"}, ttl=60)
    store.get(NS, "k", refresh_ttl=True)
    assert store.get(NS, "k").value == {"v": "new"}  # type: ignore[union-attr]


def test_sweeping_spares_what_is_put_again_meanwhile(memory: AgenticMemory) -> None:
    store = AMemStore(memory)
    with ThreadPoolExecutor(2) as pool:
        for number in range(30):
            store.put(NS, "k", {"v": "old"}, ttl=0.0)
            swept = pool.submit(store.sweep_ttl)
            put = pool.submit(AMemStore(memory).put, NS, "k", {"v": number})
            assert swept.result() in (0, 1)
            put.result()
            assert store.get(NS, "k").value == {"v": number}  # type: ignore[union-attr]
            store.delete(NS, "k")


def test_no_door_of_the_memory_finds_what_has_expired(memory: AgenticMemory) -> None:
    store, text = AMemStore(memory), "Ann moved to Oslo."
    store.put(NS, "k", {"text": text}, ttl=60)
    note = store.note(NS, "k")
    assert note is not None
    retriever = AMemRetriever(memory=memory, namespace=NS)
    assert memory.search(text, namespace=NS)
    assert retriever.invoke(text)
    memory.update(note.id, namespace=NS, expires_at=datetime.now(UTC))
    assert memory.search(text, namespace=NS) == []
    assert memory.context(text, namespace=NS) == ""
    assert memory.get_all(namespace=NS) == []
    assert retriever.invoke(text) == []
    assert store.get(NS, "k") is None
    assert store.note(NS, "k") is None
    assert store.search(NS, query=text) == []
    assert store.list_namespaces() == []


def test_a_ttl_can_be_changed_and_taken_away(store: AMemStore) -> None:
    for ttl in (0.0, 60.0, None):
        store.put(NS, "k", {"v": 1}, ttl=ttl)
        store.put(NS, "k", {"v": 2}, ttl=None)
        assert store.get(NS, "k").value == {"v": 2}  # type: ignore[union-attr]
        store.put(NS, "k", {"v": 3}, ttl=0.0)
        assert store.get(NS, "k") is None


def test_an_item_that_expires_while_it_is_put_again_is_put(meddling: Meddling) -> None:
    store = AMemStore(meddling)
    store.put(NS, "k", {"v": "old"}, ttl=60)
    note = store.note(NS, "k")
    assert note is not None
    meddling.then = lambda: meddling.update(note.id, namespace=NS, expires_at=datetime.now(UTC))
    store.put(NS, "k", {"v": "new"})
    assert store.get(NS, "k").value == {"v": "new"}  # type: ignore[union-attr]


def test_a_read_that_prolongs_embeds_nothing() -> None:
    embedder = Counting()
    with AgenticMemory.open(":memory:", embedder=embedder, model=scripted()) as memory:
        store = AMemStore(memory, evolve=True)
        store.put(NS, "k", {"text": "Ann moved to Oslo."}, ttl=60)
        assert memory.flush(timeout=10)
        before, embedded = store.note(NS, "k"), embedder.texts
        store.get(NS, "k", refresh_ttl=True)
        after = store.note(NS, "k")
        assert before is not None
        assert after is not None
        assert after.expires_at > before.expires_at  # type: ignore[operator]
        assert (after.state, after.contexts) == ("done", before.contexts)
        assert embedder.texts == embedded


class Counting(HashEmbedder):
    """Counts the texts it embeds."""

    texts = 0

    def embed_documents(self, texts: Sequence[str]) -> Any:
        self.texts += len(texts)
        return super().embed_documents(texts)


def test_threads_that_put_one_key_leave_a_whole_item(memory: AgenticMemory) -> None:
    def put(number: int) -> None:
        index: Any = False if number % 3 == 0 else None
        AMemStore(memory).put(NS, "k", {"text": f"value {number}"}, index=index)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(put, range(40)))
    store = AMemStore(memory)
    (item,) = store.search(NS)
    note = store.note(NS, "k")
    assert note is not None
    assert note.content in (item.value["text"], "store:k")
    assert sum(memory.stats(namespace=space)["notes"] for space in memory.namespaces()) == 1


def test_sweeping_deletes_what_has_expired(store: AMemStore, memory: AgenticMemory) -> None:
    store.put(NS, "k", {"v": 1}, ttl=0.0)
    store.put(NS, "ever", {"v": 1})
    assert store.sweep_ttl() == 1
    assert memory.stats(namespace=NS)["notes"] == 1
    assert store.sweep_ttl() == 0


# What is asked for


def test_a_negative_cosine_is_shown_as_it_is() -> None:
    class Opposite(HashEmbedder):
        def embed_documents(self, texts: Any) -> Any:
            return -super().embed_documents(texts)

    with AgenticMemory.open(":memory:", embedder=Opposite()) as memory:
        store = AMemStore(memory)
        store.put(NS, "k", {"text": "my cat"})
        (item,) = store.search(NS, query="my cat")
        assert item.score == pytest.approx(-1.0)


BAD: list[Any] = [
    *(PutOp(NS, "bad", value) for value in ({"x": object()}, "text", ["text"], 5)),
    *(PutOp(space, "bad", {"v": 1}) for space in ((), ("",), ("a.b",))),
    *(PutOp(NS, "bad", {"v": 1}, index=index) for index in ("text", True, [1], [["text"]])),  # type: ignore[arg-type]
    *(PutOp(NS, "bad", {"v": 1}, ttl=ttl) for ttl in ("60", True, float("nan"), 1e300)),  # type: ignore[arg-type]
    PutOp(NS, "a\0b", {"text": "a NUL in the key"}),
    SearchOp(NS, filter={"v": {"$near": 1}}),
    SearchOp(("a.b",)),
    GetOp(("",), "k"),
    "op",
]


def test_a_batch_with_a_wrong_operation_writes_nothing(store: AMemStore) -> None:
    store.put(NS, "there", {"v": 0})
    for bad in BAD:
        with pytest.raises((ValueError, TypeError)):
            store.batch([PutOp(NS, "first", {"v": 1}), bad, PutOp(NS, "there", {"v": 2})])
        assert {item.key: item.value for item in store.search(NS)} == {"there": {"v": 0}}


def test_options_that_a_store_cannot_have_are_refused(memory: AgenticMemory) -> None:
    wrong: list[Any] = [{"fields": "text"}, {"fields": [1]}, {"ttl": 60}, {"ttl": {"default": 60}}]
    for options in wrong:
        with pytest.raises(ConfigurationError, match=next(iter(options))):
            AMemStore(memory, **options)


def test_the_items_of_a_batch_are_encoded_by_one_call() -> None:
    calls: list[int] = []

    class Counting(HashEmbedder):
        def embed_documents(self, texts: Any) -> Any:
            calls.append(len(texts))
            return super().embed_documents(texts)

    with AgenticMemory.open(":memory:", embedder=Counting()) as memory:
        AMemStore(memory).batch([PutOp(NS, str(i), {"text": f"cat {i}"}) for i in range(9)])
    assert calls == [9]


def test_listing_looks_into_no_more_namespaces_than_it_shows() -> None:
    class Reading(AgenticMemory):
        reads = 0

        def get_all(self, **options: Any) -> Any:
            self.reads += 1
            return super().get_all(**options)

    with Reading.open(":memory:", embedder=HashEmbedder()) as memory:
        store = AMemStore(memory)
        for number in range(30):
            store.put((f"user {number:02}",), "k", {"text": "a cat"})
        memory.reads = 0
        assert len(store.list_namespaces(limit=3)) == 3
        assert store.list_namespaces(prefix=("user 07",)) == [("user 07",)]
        assert memory.reads <= 8


# Sweeping at intervals


def test_a_sweeper_deletes_what_has_expired_until_it_is_stopped(memory: AgenticMemory) -> None:
    store = AMemStore(memory, ttl={"sweep_interval_minutes": 0.05 / 60})  # type: ignore[typeddict-item]
    store.put(NS, "k", {"v": 1}, ttl=0.0)
    future = store.start_ttl_sweeper()
    store.start_ttl_sweeper()  # there is one already
    end = time.monotonic() + 10
    while memory.namespaces() and time.monotonic() < end:
        time.sleep(0.01)
    assert memory.namespaces() == []
    assert store.stop_ttl_sweeper()
    future.result(timeout=1)
    store.put(NS, "k", {"v": 1}, ttl=0.0)
    time.sleep(0.2)
    assert memory.namespaces() == [NS]


def test_a_sweeper_stops_with_its_memory_and_when_its_future_is_cancelled() -> None:
    threads = []
    for stop in ("close", "cancel"):
        memory = AgenticMemory.open(":memory:", embedder=HashEmbedder())
        store = AMemStore(memory, ttl={"default_ttl": 5.0})
        before = set(threading.enumerate())
        future = store.start_ttl_sweeper(60)
        threads += [thread for thread in threading.enumerate() if thread not in before]
        if stop == "cancel":
            future.cancel()
        begun = time.monotonic()
        memory.close()
        assert time.monotonic() - begun < 1
    for thread in threads:
        thread.join(1)
    assert len(threads) == 2
    assert not any(thread.is_alive() for thread in threads)


# Many tasks at a time


async def test_tasks_see_what_they_have_put(store: AMemStore) -> None:
    async def one(number: int) -> None:
        for round_ in range(5):
            value = {"text": f"cat {number} {round_}"}
            await store.aput(NS, str(number), value)
            item = await store.aget(NS, str(number))
            assert item is not None
            assert item.value == value
        await store.adelete(NS, str(number))
        assert await store.aget(NS, str(number)) is None

    await asyncio.gather(*(one(number) for number in range(20)))


def test_several_event_loops_use_one_store(store: AMemStore) -> None:
    async def put(name: str) -> None:
        await asyncio.gather(*(store.aput(NS, f"{name}{n}", {"v": n}) for n in range(10)))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: asyncio.run(put(name)), "abcd"))
    assert len(store.search(NS, limit=100)) == 40


# What `fields` and `index` mean is what LangGraph means by them


def test_what_is_indexed_is_all_of_a_value_or_paths_as_langgraph_has_them(
    memory: AgenticMemory,
) -> None:
    value = {
        "title": "T",
        "meta": {"author": {"name": "N"}, "year": 7},
        "parts": [{"text": "one"}, {"text": "two"}],
        "tags": ["a", "b"],
    }
    whole = "T\nN\n7\none\ntwo\na\nb"
    texts: list[tuple[Any, str]] = [
        (None, whole),
        ([], whole),
        (["$"], whole),
        (["title"], "T"),
        (["meta.author.name"], "N"),
        (["parts[*].text"], "one\ntwo"),
        (["parts[0].text"], "one"),
        (["parts[-1].text"], "two"),
        (["meta.*"], '{"name": "N"}\n7'),
        (["tags[*]"], "a\nb"),
    ]
    for paths, text in texts:
        AMemStore(memory, fields=paths).put(NS, "fields", value)
        AMemStore(memory).put(NS, "index", value, index=paths or None)
        for key in ("fields", "index"):
            note = AMemStore(memory).note(NS, key)
            assert note is not None
            assert note.content == text
