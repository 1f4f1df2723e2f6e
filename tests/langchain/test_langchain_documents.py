"""`AMemVectorStore`: documents are kept with ids, sources and metadata, replaced, and removed with their source."""

from __future__ import annotations

import asyncio
import logging
import threading
from datetime import date
from pathlib import PurePosixPath

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.indexing import InMemoryRecordManager, aindex, index
from langchain_kit import kept
from langchain_tests.integration_tests import VectorStoreIntegrationTests
from support.ports import WatchedEmbedder, fail_once
from support.qdrant_server import FakeQdrant, serving

from amem_integrations import (
    AgenticMemory,
    ConfigurationError,
    InvalidInputError,
    ModelUnavailableError,
    NamespaceError,
    StoreError,
    adapting,
)
from amem_integrations.testing import HashEmbedder
from langchain_amem import AMemRetriever, AMemVectorStore, memory_tools

TEAM = ("team",)
LONG = "".join(f"The quince of row {n} is pruned in March. " for n in range(1200))


@pytest.fixture
def memory():
    with AgenticMemory.open(":memory:", embedder=HashEmbedder(64)) as memory:
        yield memory


@pytest.fixture
def store(memory):
    return AMemVectorStore(memory, TEAM)


class TestAMemVectorStore(VectorStoreIntegrationTests):
    """LangChain's own tests of vector stores."""

    @pytest.fixture
    def vectorstore(self, store):
        return store


def pages(*texts, source="a.txt", **more):
    metadata = {"source": source, **more}
    return [Document(text, metadata={**metadata, "page": n}) for n, text in enumerate(texts)]


def found(documents):
    return sorted(document.page_content for document in documents)


def texts(memory):
    return sorted(kept(memory, TEAM))


# Adding, replacing, removing


def test_a_source_is_replaced_where_that_is_wanted(memory, store):
    ids = store.add_documents(pages("One.", "Two.", "Three."))
    before = {note.content: note for note in memory.get_all(namespace=TEAM)}
    for changes in (1, 0):
        report = store.add(pages("One.", "2.", "Three."), replace=True)
        assert (report.added, report.changed, report.removed) == (changes, 0, changes)
    assert texts(memory) == ["2.", "One.", "Three."]
    assert (report.ids[0], report.ids[2]) == (ids[0], ids[2])
    assert before["One."] in memory.get_all(namespace=TEAM)


def test_a_document_with_an_id_replaces_the_one_of_that_id_alone(memory, store):
    store.add_documents([Document("One.", id="1"), Document("Two.", id="2")])
    changed = Document("Uno.", id="1", metadata={"source": "a.txt"})
    report = store.add([changed])
    assert (report.ids, report.added, report.changed, report.removed) == (["1"], 0, 1, 0)
    assert store.add([changed]).changed == 0
    for ids in (None, [None], ["1"]):
        assert store.add_documents([changed], ids=ids) == ["1"]
    assert texts(memory) == ["Two.", "Uno."]
    assert store.get_by_ids(["2", "1", "3"]) == [Document("Two.", id="2"), changed]
    store.add_documents([Document(LONG, id="1")])
    assert store.get_by_ids(["1"])[0].page_content == LONG
    store.delete(["1"])
    assert texts(memory) == ["Two."]
    assert store.add_documents([Document("Three.", id="9")], ids=["3"]) == ["3"]
    ids = store.add_documents([Document("Four.", id=""), Document("Five.", id="")])  # of no id
    assert [one.page_content for one in store.get_by_ids(ids)] == ["Four.", "Five."]


def test_other_sources_and_what_an_agent_remembers_are_left_alone(memory, store):
    memory.add("I like quinces.", namespace=TEAM, thread="a.txt")
    store.add_documents([*pages("One."), *pages("Other.", source="b.txt"), Document("No source.")])
    assert store.add(pages("Uno."), replace=True).removed == 1
    assert texts(memory) == ["I like quinces.", "No source.", "Other.", "Uno."]
    assert store.delete(sources=["a.txt", "None"])
    assert texts(memory) == ["I like quinces.", "No source.", "Other."]
    with pytest.raises(InvalidInputError, match="name the ids or the sources"):
        store.delete()
    store.add_documents([Document("One.", id="1")])
    for single in ({"ids": "1"}, {"sources": "b.txt"}):  # whose characters were taken for a list
        with pytest.raises(InvalidInputError, match="must be a list"):
            store.delete(**single)
    assert texts(memory) == ["I like quinces.", "No source.", "One.", "Other."]


def test_splits_of_one_source_added_bit_by_bit_all_stay(store):
    splits = pages(*[f"Split {n}." for n in range(9)], "Split 0.")
    for size in (1, 3, 10):
        bits = [splits[start : start + size] for start in range(0, len(splits), size)]
        ids = [name for bit in bits for name in store.add_documents(bit)]
        assert len(set(ids)) == len(store.memory.get_all(namespace=TEAM)) == 10
        known = zip(splits, ids, strict=True)
        assert store.get_by_ids(ids) == [one.model_copy(update={"id": i}) for one, i in known]


def test_the_same_text_twice_in_a_source_is_two_documents(memory, store):
    others = [f"Text {n}." for n in range(70)]  # more than are stored at once
    report = store.add([*pages("Same.", *others), *pages("Same."), Document("  \n")])
    assert (len(set(report.ids)), report.ids[-1]) == (73, "")
    assert texts(memory) == sorted([*others, "Same.", "Same."])
    assert store.add(pages("Same.", *others), replace=True).removed == 1
    store.add(pages("Gone.", source="b.txt"))
    many = [*pages("Here.", source="b.txt"), *pages("Same.", *others)]
    assert store.add(many, replace=True).removed == 1  # of the source that came first


def test_a_long_document_is_one_note_and_found_by_its_passages(memory, store):
    given = {"source": "trees.txt", "author": "Ann"}
    (name,) = store.add_documents([Document(LONG, metadata=given)])
    (note,) = memory.get_all(namespace=TEAM)
    assert (note.content, note.origin) == (LONG, "document")
    assert len(note.passages) > 50
    (whole,) = store.get_by_ids([name])
    assert (whole.page_content, whole.metadata) == (LONG, given)
    assert store.similarity_search("quince of row 777", k=1) == [whole]
    with pytest.raises(InvalidInputError, match="TextSplitter of LangChain"):
        store.add_documents([Document(LONG * 3)])
    (hit,) = AMemRetriever(memory=memory, namespace=TEAM).invoke("quince of row 77")
    assert hit.page_content == LONG
    assert given.items() <= hit.metadata.items()
    assert "row 77 " in hit.metadata["passage"]
    assert len(hit.metadata["passage"]) <= 1600
    (search,) = memory_tools(memory, namespace=TEAM, kinds=["search"])
    shown = search.invoke({"query": "quince of row 77"})
    assert "row 77 " in shown
    assert len(shown) < 3000


def test_documents_do_not_evolve_unless_that_is_wanted(memory, store):
    moved = pages("Ann moved to Oslo.", "Ann moved to Bergen.")
    store.add_documents(moved)
    assert memory.evolve().done == ()
    memory.add("Ann moved to Rome.", namespace=TEAM, thread="a.txt")
    notes = memory.get_all(namespace=TEAM)
    assert {note.origin for note in notes} == {"document", "conversation"}
    assert all(not note.links and not note.contexts for note in notes if note.key)
    AMemVectorStore(memory, TEAM, evolve=True).add_documents(moved)
    notes = [note for note in memory.get_all(namespace=TEAM) if note.key]
    kinds = [(note.origin, note.state, bool(note.contexts)) for note in notes]
    assert kinds == [("conversation", "done", True)] * 2
    AMemVectorStore(memory, TEAM, evolve=True).add_documents([Document("Quinces are pruned.")])
    (hit,) = AMemRetriever(memory=memory, namespace=TEAM, k=1).invoke("quinces")
    assert "source" not in hit.metadata  # it was given none


def test_hundreds_of_chunks_go_on_after_a_stop_without_repeating(memory):
    for evolve, done_at in ((True, 64), (False, 256)):
        count, seen = done_at + 20, []
        metadata = [{"source": f"{n % 20}.txt"} for n in range(count)]
        chunks = [Document(f"Chunk {n}.", metadata=one) for n, one in enumerate(metadata)]

        def stop(done, total, seen=seen, done_at=done_at):
            seen.append((done, total))
            if done >= done_at:
                raise KeyboardInterrupt

        space = (*TEAM, str(evolve))
        store = AMemVectorStore(memory, space, evolve=evolve)
        with pytest.raises(KeyboardInterrupt):
            store.add(chunks, progress=stop)
        assert seen == [(done, count) for done in range(64, done_at + 1, 64)]
        first = memory.get_all(namespace=space, limit=9999)
        report = store.add(chunks, progress=lambda *_: None)
        assert (report.added, report.changed, report.removed) == (20, 0, 0)
        notes = memory.get_all(namespace=space, limit=9999)
        assert (len(first), len(notes)) == (done_at, count)
        assert {note.state for note in notes} == {"done"}
        assert [note.recorded_at for note in notes[:done_at]] == [n.recorded_at for n in first]
        assert len(store.get_by_ids(report.ids)) == count


def test_an_addition_that_is_cancelled_ends_with_its_batch(memory):
    async def give_up():
        def stop(*_):
            loop.call_soon_threadsafe(task.cancel)
            gone.wait(10)

        loop, gone = asyncio.get_running_loop(), threading.Event()
        chunks = [Document(f"Chunk {n}.") for n in range(150)]
        task = asyncio.create_task(AMemVectorStore(memory, TEAM).aadd(chunks, progress=stop))
        with pytest.raises(asyncio.CancelledError):
            await task
        gone.set()

    asyncio.run(give_up())  # which waits for all threads of the loop
    assert len(memory.get_all(namespace=TEAM, limit=999)) == 64


def test_a_removal_that_failed_half_way_is_finished_when_it_is_called_again(memory, store):
    store.add(pages("One."))
    fail_once(memory._runtime.store._records, "scroll")
    with pytest.raises(StoreError, match="told to fail"):
        store.delete(sources=["a.txt"])
    assert memory._runtime.store.unfinished() == [TEAM]
    assert store.delete(sources=["a.txt"])
    assert memory._runtime.store.unfinished() == []


def test_a_loader_that_yields_is_not_read_ahead(store, caplog):
    read, seen = [], []

    def loader():
        for n in range(150):
            read.append(n)
            yield Document(f"Chunk {n}.", metadata={"source": "a.txt"})

    store.add(loader(), progress=lambda done, total: seen.append((done, len(read))))
    assert seen == [(64, 64), (128, 128), (150, 150)]
    with caplog.at_level(logging.INFO, logger="amem_integrations"):
        store.add(pages("One."), progress=True)
    assert "1 of 1 notes" in caplog.text


@pytest.mark.enable_socket
def test_documents_on_a_server_are_replaced_and_removed_by_source():
    with (
        serving(FakeQdrant()) as server,
        AgenticMemory.open(server.url, embedder=HashEmbedder(16)) as memory,
    ):
        store = AMemVectorStore(memory, TEAM)
        store.add_documents(pages("One.", "Two."))
        assert store.add(pages("One."), replace=True).removed == 1
        assert found(store.similarity_search("One")) == ["One."]
        store.delete(sources=["a.txt"])
        assert texts(memory) == []


# LangChain's indexing


async def test_langchain_indexing_keeps_the_memory_as_the_sources_are(memory, store):
    options = {"source_id_key": "source", "key_encoder": "sha256"}
    before, after = pages("One.", "Two."), pages("One.", "2.")
    other, chunks = pages("Other.", source="b.txt"), pages(*(f"Chunk {n}." for n in range(110)))
    for cleanup in ("incremental", "full", "scoped_full"):
        records = InMemoryRecordManager("team")
        records.create_schema()
        for documents, expected in (
            ([*before, *other], (3, 0, 0, 0)),
            ([*before, *other], (0, 0, 3, 0)),
            ([*after, *other], (1, 0, 2, 1)),
            (after, (0, 0, 2, int(cleanup == "full"))),
        ):
            done = index(documents, records, store, cleanup=cleanup, **options)
            assert tuple(done.values()) == expected
        assert texts(memory) == ["2.", "One.", *(["Other."] if cleanup != "full" else [])]
        awaited = await aindex(chunks, records, store, cleanup="full", **options)
        assert awaited["num_added"] == len(texts(memory)) == 110
        memory.clear(namespace=TEAM)


# Searching


def test_a_search_finds_documents_only_with_the_cosine_of_query_and_text(memory, store):
    memory.add("The quince blooms.", namespace=TEAM)
    store.add_documents(pages("The quince blooms in May."))
    for conditions in (None, {"page": 0}):
        ((one, score),) = store.similarity_search_with_score("quince blooms", filter=conditions)
        assert one.page_content == "The quince blooms in May."
        assert 0 < score <= 1
    assert store.similarity_search("quince blooms", min_similarity=0.99) == []
    assert store.as_retriever(search_kwargs={"k": 1}).invoke("quince") == [one]
    ((_, relevance),) = store.similarity_search_with_relevance_scores("quince blooms")
    assert relevance == pytest.approx(score)
    store.add_documents(pages(*(f"Text {n}." for n in range(40)), source="b.txt"))
    asked = {"query": "quince blooms", "k": 50}
    cosines = [score for _, score in store.similarity_search_with_score(**asked)]
    scores = [score for _, score in store.similarity_search_with_relevance_scores(**asked)]
    assert min(cosines) < 0
    assert scores == pytest.approx([max(0.0, cosine) for cosine in cosines])


def test_without_the_embedder_documents_are_found_by_their_words_with_no_similarity():
    with AgenticMemory.open(":memory:", embedder=(embedder := WatchedEmbedder())) as memory:
        store = AMemVectorStore(memory, TEAM)
        store.add_documents(pages("The quince blooms."))
        embedder.error = ModelUnavailableError("away")
        ((one, score),) = store.similarity_search_with_score("quince")
        assert (one.page_content, score) == ("The quince blooms.", 0.0)


def test_filters_know_or_and_nin_and_exists_and_an_empty_query_finds_nothing(memory, store):
    memory.add("One of Ann's.", namespace=TEAM, metadata={"page": 1})
    store.add_documents([*pages("One.", "Two."), *pages("Other.", source="b.txt", year=2020)])
    for conditions, expected in (
        ({"$or": [{"source": "b.txt"}, {"page": 1}]}, ["Other.", "Two."]),
        ({"$and": [{"source": "a.txt"}, {"page": {"$nin": [0]}}]}, ["Two."]),
        ({"year": {"$exists": True}}, ["Other."]),
        ({"page": {"$lt": 1}}, ["One.", "Other."]),
    ):
        assert found(store.similarity_search("One", filter=conditions)) == expected
    assert store.similarity_search(" ") == []
    for wrong in (lambda _: True, "b.txt", {1: 2}, {"$or": ["b.txt"]}):
        with pytest.raises(InvalidInputError, match="must be a dict of field to value"):
            store.similarity_search("One", filter=wrong)
    with pytest.raises(InvalidInputError, match="wants a list of filters"):
        store.similarity_search("One", filter={"$or": {"page": 1}})


def test_metadata_that_is_no_json_becomes_text_and_no_character_costs_a_document(store):
    meta = {"source": PurePosixPath("a.txt"), "day": date(2026, 5, 8), "size": float("nan")}
    store.add_texts(["an example\0 \ud83d of a page", "Two."], [meta, {}])
    (one,) = store.similarity_search("example", filter={"day": "2026-05-08"})
    assert one.page_content == "an example \ufffd of a page"
    assert one.metadata == {"source": "a.txt", "day": "2026-05-08", "size": "NaN"}
    found = AMemRetriever(memory=store.memory, namespace=TEAM).invoke("two")
    (two,) = (document for document in found if document.page_content == "Two.")
    assert two.metadata.keys().isdisjoint({"source", "_document"})  # none was given
    for odd in ("page\0 3", "page \ud83d"):
        (three,) = store.get_by_ids(store.add_documents([Document("Three.")], ids=[odd]))
        assert store.get_by_ids([odd]) == [three]
        store.delete([odd])
        assert store.get_by_ids([odd]) == []


# Mistakes


def test_what_cannot_be_meant_is_refused(memory, store):
    for wrong in ("where", "namespace", "score_threshold", "search_kwargs"):
        for act, given in ((store.similarity_search, "One"), (store.add_documents, pages("One."))):
            with pytest.raises(TypeError, match=wrong):
                act(given, **{wrong: {}})
    with pytest.raises(InvalidInputError, match="2 ids for 1 documents"):
        store.add_documents(pages("One."), ids=["1", "2"])
    with pytest.raises(InvalidInputError, match="cannot be named '_document'"):
        store.add_texts(["One."], [{adapting.RECORD: "mine"}])
    whose = {"memory": memory, "namespace": TEAM}
    for embedding, given in ((DeterministicFakeEmbedding(size=3), whose), (None, {})):
        with pytest.raises(ConfigurationError, match="the memory has its embedder"):
            AMemVectorStore.from_texts(["One."], embedding, **given)
    with pytest.raises(NamespaceError):
        AMemVectorStore(memory, "a")
    named = {"ids": ["1"], "metadatas": [{"page": 7}]}
    made = AMemVectorStore.from_texts(["One."], **named, **whose, evolve=False)
    assert made.get_by_ids(["1"]) == [Document("One.", id="1", metadata={"page": 7})]
    other = AMemVectorStore.from_texts(["Uno."], memory=memory, namespace=("b",))
    assert [found(one.similarity_search("One")) for one in (made, other)] == [["One."], ["Uno."]]
