"""LangGraph's store over the memory: as LangGraph's own store, and what is ours beyond it."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_kit import scripted
from langgraph.store.base import GetOp, ListNamespacesOp, MatchCondition, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore
from support.ports import WatchedEmbedder

from amem_integrations import AgenticMemory, ConfigurationError, StoreError
from amem_integrations.testing import HashEmbedder
from langchain_amem import AMemRetriever, AMemStore, failures
from langchain_amem.store import LOCKS

NS = ("memories", "ann")


class Meddling(AgenticMemory):
    """A memory that counts its reads, and in which something happens right after an item was read."""

    then: Any = None
    reads = 0

    def get_all(self, **options):
        self.reads += 1
        found = super().get_all(**options)
        if found and self.then:
            happens, self.then = self.then, None
            happens()
        return found

    def delete(self, *args, **kwargs):
        if self.then is KeyboardInterrupt:
            raise KeyboardInterrupt
        return super().delete(*args, **kwargs)


@pytest.fixture
def memory(model):
    with Meddling.open(":memory:", model=model, embedder=HashEmbedder()) as opened:
        yield opened


@pytest.fixture
def store(memory):
    return AMemStore(memory)


def note_of(store, key="k"):
    return store.note(NS, key)


def value_of(store, key="k"):
    """Return the value of an item, or None if there is no such item."""
    item = store.get(NS, key)
    return None if item is None else item.value


def put_all(store, count, text, namespace=NS):
    """Put items in one batch; `text` is formatted with the number of each."""
    store.batch([PutOp(namespace, str(n), {"text": text.format(n=n)}) for n in range(count)])


# LangGraph's own store, over operations of all kinds

EXACT = {
    "text": "Grüße, 世界 🌍, my cat",
    "number": 1.5,
    "big": 2**40,
    "nested": {"list": [1, {"deep": "x"}], "empty": {}, "none": None, "flag": True},
    "braces": '{not} a %template$ \\ "quoted"',
}
VALUES = [
    EXACT,
    {"text": "my cat", "color": "red", "n": 1, "at": {"city": "Oslo", "no": 1}},
    {"text": "she has a boat", "color": "blue", "n": 2, "at": {"city": "Oslo"}},
    {"text": "a nurse", "color": "red", "n": 3.5, "at": {"city": "Rome"}, "parts": ["a", "b"]},
]
FILTERS = [
    None,
    {"color": "red"},
    {"color": {"$eq": "red"}},
    {"color": {"$ne": "red"}},
    {"color": "red", "n": 1},
    {"color": None},
    {"at": {"city": "Oslo"}},
    {"parts": ["a", "b"]},
    {"missing": {"$ne": 1}},
    {"n": {"$near": 1}},
]
spaces = st.sampled_from(
    [("a",), ("a", "b"), ("A", "b"), ("ab",), ("*", "x"), ("%", "a b"), ("ü", "a/b"), ("[x]", "'")]
)
prefixes = st.sampled_from([(), ("a",), ("A",), ("*",), ("%",), ("ü", "a/b")])
keys, values, filters = map(st.sampled_from, ("kK", [*VALUES, None], FILTERS))
indexes = st.sampled_from([None, None, False, ["color"], ["no.such"]])
pages = st.sampled_from([(99, 0), (99, 0), (0, 0), (2, 1)])  # limit and offset
queries = st.sampled_from([(99, 0, query) for query in ("cat", "a boat")])
OPERATIONS = st.one_of(
    st.tuples(spaces, keys, values, indexes).map(lambda given: PutOp(*given)),
    st.tuples(spaces, keys).map(lambda given: GetOp(*given)),
    *(
        st.tuples(prefixes, filters, rest).map(lambda given: SearchOp(*given[:2], *given[2]))
        for rest in (pages, queries)
    ),
)


def done(store, operation):
    """Return what came of an operation, without times and scores, and of hits on several pages only how many they are."""
    try:
        (result,) = store.batch([operation])
    except ValueError as error:
        return type(error)
    if not isinstance(operation, SearchOp):
        return result and (result.namespace, result.key, result.value)
    found = [(item.namespace, item.key, str(item.value)) for item in result]
    return sorted(found) if (operation.limit, operation.offset) == (99, 0) else len(found)


@settings(max_examples=30)
@given(st.lists(OPERATIONS, max_size=30))
def test_it_does_what_langgraphs_own_store_does(operations):
    def embed(texts):
        return [[float(x) for x in row] for row in HashEmbedder().embed_documents(texts)]

    theirs = InMemoryStore(index={"dims": 64, "embed": embed, "fields": ["$"]})
    with AgenticMemory.open(":memory:", embedder=HashEmbedder()) as memory:
        ours = AMemStore(memory)
        for operation in operations:
            assert done(ours, operation) == done(theirs, operation)


def test_putting_again_keeps_the_time_of_creation(store):
    times = []
    for number in range(2):
        store.put(NS, "k", {"list": [number]})
        item = store.get(NS, "k")
        times.append((item.created_at, item.updated_at))
        item.value["list"].append(2)
        assert value_of(store) == {"list": [number]}  # a returned value is the caller's own
    assert times[0][0] == times[1][0] < times[1][1]
    assert times[0][0].tzinfo is not None


def test_a_range_leaves_out_what_cannot_be_compared(store):
    for number, n in enumerate((1, 2, 9, "many", None, "2026-01-28", "2026-01-29", [1])):
        store.put(NS, str(number), {"n": n})
    for condition, found in (
        ({"$lt": 3}, "01"),
        ({"$gte": 1, "$lt": 2}, "0"),
        ({"$gt": 1}, "12"),
        ({"$lte": 2}, "01"),
        ({"$gt": "2026-01-28"}, "36"),  # texts are compared as texts
    ):
        assert [item.key for item in store.search(NS, filter={"n": condition})] == [*found]


def test_a_filter_looks_into_objects_and_lists_as_langgraphs_own_store_does(store):
    values = [
        {"who": {"name": "Ann", "age": 7}, "tags": ["x", 2]},
        {"who": "Ann", "tags": ["x"]},
        {"who": {"name": "Bob"}, "tags": "x"},
    ]
    theirs = InMemoryStore()
    for one in (store, theirs):
        one.batch([PutOp(NS, str(n), value) for n, value in enumerate(values)])
    for condition, found in (
        ({"who": {"name": "Ann"}}, "0"),
        ({"who": {"name": {"$ne": "Bob"}}}, "0"),
        ({"who": {"$ne": "Ann"}}, "02"),
        ({"tags": ["x", {"$gt": 1}]}, "0"),
        ({"tags": ["x"]}, "1"),
        ({"tags": ["x", 3]}, ""),
        ({"tags": "x", "who": {"name": "Bob"}}, "2"),
    ):
        for one in (store, theirs):
            assert [item.key for item in one.search(NS, filter=condition)] == [*found]


def test_a_search_by_meaning_finds_the_nearest_first_and_what_is_not_indexed_last(store):
    def found(query, **options):
        return [item.key for item in store.search(("memories",), query=query, **options)]

    store.put(NS, "hidden", {"text": "my cat is called Mia"}, index=False)
    store.put(NS, "a", {"text": "my cat is called Mia"})
    store.put(NS, "b", {"text": "she works as a nurse"})
    store.put(("memories", "bob"), "c", {"text": "what is my cat called"})
    assert found("what is my cat called") == ["c", "a", "b", "hidden"]
    assert found("what is my cat called", limit=3) == ["c", "a", "b"]
    assert store.search(NS, query="my cat")[-1].score is None
    assert [item.score for item in store.search(NS, query=" ")] == [None] * 3
    assert store.search(NS, query="my cat", limit=0) == []
    store.put(NS, "flags", {"yes": True, "none": None, "blank": " "})
    assert note_of(store, "flags").content == "store:flags"  # there are no words to search for
    store.delete(NS, "flags")
    store.batch([PutOp(NS, key, {"text": "we play chess"}) for key in "ad"])
    assert set(found("we play chess", limit=2)) == {"a", "d"}
    store.put(NS, "d", {"text": "we play chess"}, index=False)
    assert found("we play chess")[0] == "a"
    assert [i.score is None for i in store.search(NS, query="chess") if i.key == "d"] == [True]


def test_a_search_by_meaning_knows_the_paths_asked_for_and_no_others(store):
    store.put(NS, "a", {"one": "my cat", "secret": "we play chess"}, index=("one",))
    store.put(NS, "b", {"one": "we play chess", "secret": "my cat"}, index=["one"])
    for query, key in (("my cat", "a"), ("we play chess", "b")):
        assert store.search(NS, query=query)[0].key == key


def test_namespaces_with_items_are_listed_by_prefix_suffix_and_depth(store):
    first, second, third = spaces = [("a", "x", "1"), ("a", "y", "1"), ("b", "x", "2")]
    for space in (*spaces, ("emptied",)):
        store.put(space, "k", {"v": 1})
    store.delete(("emptied",), "k")
    store.get(("nowhere",), "k")
    conditions = [
        ({}, spaces),
        ({"prefix": ("a",)}, [first, second]),
        ({"suffix": ("1",)}, [first, second]),
        ({"prefix": ("*", "x")}, [first, third]),
        ({"prefix": ("a",), "suffix": ("y", "*")}, [second]),
        ({"max_depth": 1}, [("a",), ("b",)]),
        ({"limit": 1, "offset": 1}, [second]),
        ({"prefix": ("a", "x", "1", "more")}, []),
    ]
    for options, listed in conditions:
        assert store.list_namespaces(**options) == listed


def test_a_batch_reads_before_it_writes_and_the_last_write_wins(store):
    store.put(NS, "k", {"v": 0})
    under = ListNamespacesOp((MatchCondition("prefix", ("memories",)),))
    puts = [PutOp(NS, "k", {"v": number}) for number in (1, 2)]
    results = store.batch([puts[0], GetOp(NS, "k"), puts[1], SearchOp(NS), under])
    assert (results[1].value, [item.value for item in results[3]]) == ({"v": 0}, [{"v": 0}])
    assert (results[0], results[4], value_of(store)) == (None, [NS], {"v": 2})
    assert store.batch([]) == []


async def test_the_asynchronous_form_does_the_same_and_a_namespace_may_be_a_list(store):
    await store.aput([*NS], "k", EXACT)
    assert (await store.aget(NS, "k")).value == EXACT
    assert [item.key for item in await store.asearch(NS)] == ["k"]
    assert await store.alist_namespaces() == [NS]
    await store.adelete(NS, "k")
    assert await store.aget(NS, "k") is None


# Items are notes


def test_an_item_is_a_note_that_can_be_read_as_one(store, memory):
    store.put(NS, "k", {"kind": "Memory", "content": {"content": "Ann moved to Oslo."}})
    note = note_of(store)
    assert note.content == "Memory\nAnn moved to Oslo."
    assert memory.search("Oslo", namespace=NS)[0].note.id == note.id
    assert store.note(NS, "other") is None
    assert memory.stats()["usage"]["total"] == {}  # no model is called, unless items evolve


def test_evolution_changes_the_note_and_never_the_value(memory):
    store = AMemStore(memory, evolve=True)
    for key, text in (("1", "Ann moved to Oslo."), ("2", "Ann likes Oslo.")):
        store.put(NS, key, {"text": text})
        assert memory.flush(timeout=10)
    note = note_of(store, "1")
    assert (note.state, "evolved" in note.tags, len(note.links)) == ("done", True, 1)
    assert value_of(store, "1") == {"text": "Ann moved to Oslo."}
    store.put(NS, "1", {"text": "Ann moved to Rome."})
    assert memory.flush(timeout=10)
    assert note_of(store, "1").state == "done"


def test_other_notes_of_a_namespace_are_left_alone(store, memory):
    other = memory.add("I moved to Oslo.", namespace=NS, key="k")
    store.put(NS, "k", {"text": "Ann moved to Oslo."})
    assert [item.key for item in store.search(NS)] == ["k"]
    assert [item.key for item in store.search(NS, query="Oslo")] == ["k"]
    store.delete(NS, "k")
    assert memory.get(other.id, namespace=NS).content == "I moved to Oslo."
    assert store.list_namespaces() == []


def test_long_and_strange_text_is_kept_exactly(store):
    value = {"text": "word " * 20_000 + "\0 \ud800", "n": 2**70, "f": 1e300}
    store.put(NS, "k", value)
    assert value_of(store) == value


# Searching


def test_the_order_is_the_memorys_by_words_too_and_scores_follow_it(store, memory):
    for number in range(20):
        store.put(NS, str(number), {"title": f"item {number}", "text": "cat dog boat " * number})
    found = store.search(NS, query="dog item 7", limit=20)
    cosines = {
        str(hit.note.key).removeprefix("store:"): hit.similarity
        for hit in memory.search("dog item 7", namespace=NS, k=20)
    }
    assert [item.key for item in found] == list(cosines)
    assert all((item.score or 0) >= (cosines[item.key] or 0) - 1e-6 for item in found)
    assert max(filter(None, cosines.values())) == pytest.approx(found[0].score)


def test_more_than_a_search_goes_deep_is_ranked_all_the_same_with_a_filter_too(store):
    put_all(store, 230, "cat number {n}")
    found = store.search(NS, query="cat number 229", limit=300)
    put_all(store, 230, "cat number {n}")  # as many as these are recognised too
    again = {item.key: item.created_at for item in store.search(NS, limit=300)}
    assert again == {item.key: item.created_at for item in found}
    assert (len(again), len(found), found[0].key) == (230, 230, "229")
    scores = [item.score for item in found]
    assert scores == sorted(scores, reverse=True)
    for key, text in (("chess", "we play chess"), ("boat", "she has a boat")):
        store.put(NS, key, {"text": text, "odd": True})
    found = store.search(NS, query="cat boat", filter={"odd": True})  # ranks all that is left
    assert [(item.key, item.score is None) for item in found] == [("boat", False), ("chess", False)]


def test_pages_over_several_namespaces_hold_each_item_once_and_the_best_first(store):
    for name in ("ann", "bob", "eve"):  # more than a search goes deep
        put_all(store, 50, f"cat {{n}} of {name} and more of cat 3", (name,))
    pages = [store.search((), query="cat 3 ann", limit=10, offset=at) for at in range(0, 150, 10)]
    found = [item for page in pages for item in page]
    assert len({(item.namespace, item.key) for item in found}) == 150
    assert found == store.search((), query="cat 3 ann", limit=150)
    scores = [item.score for item in found]
    assert scores == sorted(scores, reverse=True)


def test_pages_deeper_than_a_search_hold_each_item_once(store):
    for name in ("ann", "bob"):
        values = [{"text": f"cat {n} and {n} more", "n": n} for n in range(220)]
        store.batch([PutOp((name,), str(value["n"]), value) for value in values])
    for space, conditions in ((("ann",), None), ((), None), ((), {"n": {"$gte": 110}})):
        asked = {"query": "cat 3", "filter": conditions}
        pages = [store.search(space, **asked, limit=90, offset=at) for at in range(0, 450, 90)]
        found = [(item.namespace, item.key) for page in pages for item in page]
        at_once = store.search(space, **asked, limit=450)
        assert found == [(item.namespace, item.key) for item in at_once]
        assert len({*found}) == len(found) == 220 * (2 if space == () and not conditions else 1)


def test_a_negative_cosine_is_shown_as_it_is(store, memory):
    embed = memory.embedder.embed_documents
    memory.embedder.embed_documents = lambda texts: -embed(texts)
    store.put(NS, "k", {"text": "my cat"})
    (item,) = store.search(NS, query="my cat")
    assert item.score == pytest.approx(-1.0)


def test_a_search_and_a_list_look_into_no_more_namespaces_than_they_have_to(store, memory):
    for number in range(30):
        store.put(("users", f"user {number:02}"), "k", {"text": "a cat"})
    memory.reads = 0
    assert len(store.list_namespaces(limit=3)) == 3
    assert store.list_namespaces(prefix=("users", "user 07")) == [("users", "user 07")]
    assert len(store.search(("users", "user 07"), query="cat")) == 1
    assert memory.reads <= 9
    memory.reads = 0  # what is found by meaning is not read one by one
    assert len(store.search(("users",), query="cat", limit=3)) == 3
    assert memory.reads == 0


def test_what_is_indexed_is_all_of_a_value_or_paths_as_langgraph_has_them(memory):
    value = {
        "title": "T",
        "meta": {"author": {"name": "N"}, "year": 7},
        "parts": [{"text": "one"}, {"text": "two"}],
        "tags": ["a", "b"],
    }
    whole = "T\nN\n7\none\ntwo\na\nb"
    texts = [
        *((paths, whole) for paths in (None, [], ["$"])),
        (["title"], "T"),
        (["meta.author.name"], "N"),
        (["parts[*].text"], "one\ntwo"),
        (["parts[0].text"], "one"),
        (["parts[-1].text"], "two"),
        (["meta.*"], '{"name": "N"}\n7'),
        (["tags[*]"], "a\nb"),
        (["title", "tags[*]"], "T\na\nb"),
    ]
    for paths, text in texts:
        store = AMemStore(memory, fields=paths)
        store.put(NS, "fields", value)
        AMemStore(memory).put(NS, "index", value, index=tuple(paths or ()) or None)
        assert note_of(store, "fields").content == note_of(store, "index").content == text


# What is not indexed


def test_what_is_not_indexed_is_no_note_among_others(store, memory, model):
    for number, index in enumerate((["no.such.path"], [], False)):
        store.put(NS, f"{number} settings", {"text": "my cat"}, index=index)
    memory.add("My cat is called Mia.", namespace=NS, evolve=False)
    found = memory.search("cat settings", namespace=NS)
    assert [hit.note.content for hit in found] == ["My cat is called Mia."]
    memory.evolve(namespace=NS)
    assert all("settings" not in request.prompt for request in model.requests)
    assert value_of(store, "2 settings") == {"text": "my cat"}
    assert store.list_namespaces() == [NS]


def test_an_item_can_be_indexed_and_not_and_again(store, memory):
    created = set()
    for number, index in enumerate((None, False, False, None, ["text"], False)):
        store.put(NS, "k", {"text": f"my cat {number}"}, index=index)
        (item,) = store.search(NS, query="my cat")
        assert item.value == {"text": f"my cat {number}"}
        assert (item.score is None) == (index is False)
        created.add(item.created_at)
    assert len(created) == 1
    assert sum(memory.stats(namespace=space)["notes"] for space in memory.namespaces()) == 1
    store.delete(NS, "k")
    assert store.get(NS, "k") is None
    assert memory.namespaces() == []


def test_interrupted_between_two_writes_the_newer_value_counts_and_the_next_put_mends_it(
    store, memory
):
    store.put(NS, "k", {"text": "old"})

    def interrupted():
        memory.then = KeyboardInterrupt

    memory.then = interrupted
    with pytest.raises(KeyboardInterrupt):
        store.put(NS, "k", {"text": "new"}, index=False)
    memory.then = None
    assert value_of(store) == {"text": "new"}
    store.put(NS, "k", {"text": "newer"}, index=False)
    assert [item.value for item in store.search(NS)] == [{"text": "newer"}]


# Time to live


def test_no_door_of_the_memory_finds_what_has_expired(memory):
    store, text = AMemStore(memory), "Ann moved to Oslo."
    retriever = AMemRetriever(memory=memory, namespace=NS)
    store.put(NS, "k", {"text": text}, ttl=60)
    store.put(NS, "apart", {"v": 1}, index=False, ttl=0.0)
    assert memory.search(text, namespace=NS)
    assert retriever.invoke(text)
    memory.update(note_of(store).id, namespace=NS, expires_at=datetime.now(UTC))
    found = [memory.search(text, namespace=NS), memory.context(text, namespace=NS)]
    found += [memory.get_all(namespace=NS), retriever.invoke(text), store.search(NS, query=text)]
    found += [value_of(store), store.note(NS, "k"), value_of(store, "apart"), store.search(NS)]
    assert not any([*found, store.list_namespaces()])
    store.put(NS, "ever", {"v": 1})
    assert [store.sweep_ttl(), store.sweep_ttl()] == [2, 0]
    assert memory.namespaces() == [NS]
    assert memory.stats(namespace=NS)["notes"] == 1


def test_what_is_read_lives_for_its_ttl_from_then_on_and_is_seldom_written(store, memory):
    for read in (lambda: store.get(NS, "k"), lambda: store.search(NS, query="1")):
        store.put(NS, "k", {"v": 1}, ttl=60)
        for _ in range(10):
            read()
            lives = note_of(store).expires_at - datetime.now(UTC)
            assert timedelta(minutes=65.9) < lives <= timedelta(minutes=66)
        store.get(NS, "k", refresh_ttl=False)
    updates = [c for c in memory.history(note_of(store).id, namespace=NS) if c.kind == "update"]
    assert len(updates) <= 4  # of each a put and the first read
    still = AMemStore(memory, ttl={"default_ttl": 1.0, "refresh_on_read": False})
    still.put(NS, "still", {"v": 1})
    before = note_of(still, "still").expires_at
    still.get(NS, "still")
    still.search(NS)
    assert note_of(still, "still").expires_at == before


def test_a_ttl_can_be_changed_and_taken_away(store):
    for ttl in (0.0, 60.0, None):
        store.put(NS, "k", {"v": 1}, ttl=ttl)
        store.put(NS, "k", {"v": 2}, ttl=None)
        assert value_of(store) == {"v": 2}
        assert note_of(store).expires_at is None
        store.put(NS, "k", {"v": 3}, ttl=0.0)
        assert value_of(store) is None


def test_a_read_that_prolongs_brings_back_no_old_value(memory):
    store = AMemStore(memory)
    store.put(NS, "k", {"v": "old"}, ttl=60)
    memory.then = lambda: AMemStore(memory).put(NS, "k", {"v": "new"}, ttl=60)
    store.get(NS, "k", refresh_ttl=True)
    assert value_of(store) == {"v": "new"}
    memory.update(note_of(store).id, namespace=NS, expires_at=None)  # kept for good, by hand
    assert value_of(store) == {"v": "new"}
    note = note_of(store)
    memory.then = lambda: memory.update(note.id, namespace=NS, expires_at=datetime.now(UTC))
    store.put(NS, "k", {"v": "newest"})  # also if the item expires meanwhile
    assert value_of(store) == {"v": "newest"}
    soon = datetime.now(UTC) + timedelta(hours=1)
    memory.update(note.id, namespace=NS, expires_at=soon)  # by hand, without a time to live
    assert value_of(store) == {"v": "newest"}
    assert note_of(store).expires_at == soon


def test_a_read_that_prolongs_embeds_nothing_and_a_batch_is_encoded_by_one_call():
    embedder = WatchedEmbedder()
    with AgenticMemory.open(":memory:", embedder=embedder, model=scripted()) as memory:
        put_all(AMemStore(memory), 9, "cat {n}")
        assert [len(texts) for texts in embedder.calls] == [9]
        store = AMemStore(memory, evolve=True)
        store.put(NS, "k", {"text": "Ann moved to Oslo."}, ttl=60)
        assert memory.flush(timeout=10)
        before, embedded = note_of(store), len(embedder.calls)
        store.get(NS, "k", refresh_ttl=True)
        after = note_of(store)
        assert after.expires_at > before.expires_at
        assert (after.state, after.contexts) == ("done", before.contexts)
        assert len(embedder.calls) == embedded


def test_a_sweeper_deletes_what_has_expired_until_it_is_stopped(memory):
    store = AMemStore(memory, ttl={"sweep_interval_minutes": 0.01 / 60})
    swept, sweep = threading.Event(), memory.sweep

    def sweeping(**options):
        try:
            return sweep(**options)
        finally:
            swept.set()

    memory.sweep = sweeping
    store.put(NS, "k", {"v": 1}, ttl=0.0)
    first, future = store.start_ttl_sweeper(), store.start_ttl_sweeper()  # which takes its place
    assert first.result(timeout=10) is None
    assert swept.wait(10)
    assert store.stop_ttl_sweeper()
    future.result(timeout=10)
    assert memory.namespaces() == []
    swept.clear()
    seldom = AMemStore(memory, ttl={"sweep_interval_minutes": 60.0})
    seldom.put(NS, "k", {"v": 1}, ttl=0.0)
    seldom.start_ttl_sweeper(0.01 / 60)  # what is given counts before what is configured
    assert swept.wait(10)
    assert seldom.stop_ttl_sweeper()


def test_a_put_that_is_cancelled_while_it_waits_for_another_one_is_not_written_later(store):
    async def put_two():
        with LOCKS[hash(NS) % len(LOCKS)]:
            first = asyncio.create_task(store.aput(NS, "k", {"v": 1}))
            await asyncio.sleep(0.1)
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            second = asyncio.create_task(store.aput(NS, "other", {"v": 2}))
            await asyncio.sleep(0.1)
        await second

    asyncio.run(put_two())  # which waits for all threads of the loop
    assert store.get(NS, "k") is None
    assert store.get(NS, "other").value == {"v": 2}


def test_a_sweeper_stops_with_its_memory_and_when_its_future_is_cancelled(memory):
    before = set(threading.enumerate())
    for stop in (lambda future: future.cancel(), lambda _: memory.close()):
        future = AMemStore(memory, ttl={"default_ttl": 5.0}).start_ttl_sweeper()
        (thread,) = (t for t in set(threading.enumerate()) - before if "sweeper" in t.name)
        begun = time.monotonic()
        stop(future)
        assert time.monotonic() - begun < 30  # it sweeps every five minutes
        thread.join(10)
        assert not thread.is_alive()


def test_a_sweeper_without_a_ttl_or_whose_memory_is_closed_in_a_sweep_is_done(store, memory):
    assert store.start_ttl_sweeper().result(timeout=5) is None
    future = AMemStore(memory, ttl={"default_ttl": 5.0}).start_ttl_sweeper(0.001)
    memory._runtime.store.close()  # before the sweeper hears of it
    assert future.result(timeout=5) is None


def test_a_sweep_that_fails_is_counted_and_tried_again(memory, monkeypatch):
    store, before = AMemStore(memory, ttl={"default_ttl": 5.0}), failures().get("sweep", 0)
    swept, outcomes = threading.Event(), iter([ZeroDivisionError, StoreError])

    def failing(_store):
        if error := next(outcomes, None):
            raise error
        swept.set()

    monkeypatch.setattr(AMemStore, "sweep_ttl", failing)
    store.start_ttl_sweeper(0.0001)
    assert swept.wait(10)
    assert store.stop_ttl_sweeper()
    assert failures()["sweep"] == before + 2


# Mistakes

BAD = [
    *(PutOp(NS, "bad", value) for value in ({"x": object()}, {1: "one"}, "text", ["text"], 5)),
    *(PutOp(space, "bad", {"v": 1}) for space in ((), ("",), (5,), ("a\0b",), ("\ud83d",))),
    *(PutOp(NS, "bad", {"v": 1}, index=index) for index in ("text", True, [1], [["text"]])),
    *(PutOp(NS, "bad", {"v": 1}, ttl=ttl) for ttl in ("60", True, float("nan"), 1e300)),
    PutOp(NS, "a\0b", {"text": "a NUL in the key"}),
    SearchOp(NS, filter={"v": {"$near": 1}}),
    GetOp(("",), "k"),
    "op",
]


def test_a_batch_with_a_wrong_operation_writes_nothing(store):
    store.put(NS, "there", {"v": 0})
    for bad in BAD:
        with pytest.raises((ValueError, TypeError)):
            store.batch([PutOp(("bob",), "first", {"v": 1}), bad, PutOp(NS, "there", {"v": 2})])
        assert {item.key: item.value for item in store.search(())} == {"there": {"v": 0}}


def test_options_that_a_store_cannot_have_are_refused(memory):
    for name, wrong in (("fields", "text"), ("fields", [1]), ("evolve", 1)):
        with pytest.raises(ConfigurationError, match=name):
            AMemStore(memory, **{name: wrong})


# Many at a time


def test_threads_that_put_one_key_leave_a_whole_item(memory):
    def put(number):
        index = False if number % 3 == 0 else None
        AMemStore(memory).put(NS, "k", {"text": f"value {number}"}, index=index)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(put, range(40)))
    store = AMemStore(memory)
    (item,) = store.search(NS)
    assert note_of(store).content in (item.value["text"], "store:k")
    assert sum(memory.stats(namespace=space)["notes"] for space in memory.namespaces()) == 1


def test_sweeping_spares_what_is_put_again_meanwhile(memory, monkeypatch):
    store, within = AMemStore(memory), memory._runtime.store

    def swept_first(*given):
        monkeypatch.undo()
        assert store.sweep_ttl() == 1
        return within.swap_notes(*given)

    store.put(NS, "k", {"v": "old"}, ttl=0.0)
    monkeypatch.setattr(within, "swap_notes", swept_first)
    store.put(NS, "k", {"v": "new"})
    assert value_of(store) == {"v": "new"}
    with ThreadPoolExecutor(2) as pool:
        for number in range(20):
            store.put(NS, "k", {"v": "old"}, ttl=0.0)
            swept = pool.submit(store.sweep_ttl)
            put = pool.submit(AMemStore(memory).put, NS, "k", {"v": number})
            assert swept.result() in (0, 1)
            put.result()
            assert value_of(store) == {"v": number}
            store.delete(NS, "k")
