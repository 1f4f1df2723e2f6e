"""`AMemVectorStore`: documents are kept with ids, sources and metadata, replaced, and removed with their source."""

from __future__ import annotations

import logging
from datetime import date
from pathlib import PurePosixPath

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.indexing import InMemoryRecordManager, aindex, index
from langchain_core.vectorstores import VectorStore
from langchain_tests.integration_tests import VectorStoreIntegrationTests
from support.qdrant_server import FakeQdrant, serving

from amem_integrations import AgenticMemory, ConfigurationError, InvalidInputError, NamespaceError
from amem_integrations.testing import HashEmbedder
from langchain_amem import AMemRetriever, AMemVectorStore, memory_tools

TEAM = ("team",)


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
    def vectorstore(self) -> VectorStore:
        with AgenticMemory.open(":memory:", embedder=HashEmbedder(64)) as memory:
            yield AMemVectorStore(memory, TEAM)


def pages(*texts, source="a.txt", **more):
    return [
        Document(text, metadata={"source": source, "page": n, **more})
        for n, text in enumerate(texts)
    ]


def stored(memory, namespace=TEAM):
    return memory.get_all(namespace=namespace, limit=9999)


def texts(memory, namespace=TEAM):
    return sorted(note.content for note in stored(memory, namespace))


def test_a_source_is_replaced_where_that_is_wanted(memory, store):
    ids = store.add_documents(pages("One.", "Two.", "Three."))
    before = {note.content: note for note in stored(memory)}
    report = store.add(pages("One.", "2.", "Three."), replace=True)
    assert texts(memory) == ["2.", "One.", "Three."]
    assert (report.added, report.changed, report.removed) == (1, 0, 1)
    assert (report.ids[0], report.ids[2]) == (ids[0], ids[2])
    after = {note.content: note for note in stored(memory)}
    assert after["One."] == before["One."]
    again = store.add(pages("One.", "2.", "Three."), replace=True)
    assert (again.added, again.changed, again.removed) == (0, 0, 0)


def test_a_document_with_an_id_replaces_the_one_of_that_id_alone(memory, store):
    store.add_documents([Document("One.", id="1"), Document("Two.", id="2")])
    report = store.add([Document("Uno.", id="1", metadata={"source": "a.txt"})])
    assert (report.ids, report.added, report.changed, report.removed) == (["1"], 0, 1, 0)
    assert texts(memory) == ["Two.", "Uno."]
    assert store.get_by_ids(["2", "1", "3"]) == [
        Document("Two.", id="2"),
        Document("Uno.", id="1", metadata={"source": "a.txt"}),
    ]


def test_other_sources_and_what_an_agent_remembers_are_left_alone(memory, store):
    memory.add("I like quinces.", namespace=TEAM, thread="a.txt")
    store.add_documents([*pages("One."), *pages("Other.", source="b.txt"), Document("No source.")])
    assert store.add(pages("Uno."), replace=True).removed == 1
    assert texts(memory) == ["I like quinces.", "No source.", "Other.", "Uno."]


@pytest.mark.parametrize("size", [1, 3, 10])
def test_splits_of_one_source_added_bit_by_bit_all_stay(memory, store, size):
    splits = pages(*[f"Split {n}." for n in range(9)], "Split 0.")
    ids = []
    for start in range(0, len(splits), size):
        ids += store.add_documents(splits[start : start + size])
    assert len(set(ids)) == len(stored(memory)) == 10
    assert store.get_by_ids(ids) == [
        Document(one.page_content, id=i, metadata=one.metadata)
        for one, i in zip(splits, ids, strict=True)
    ]


@pytest.mark.parametrize("wrong", ["where", "namespace", "score_threshold", "search_kwargs"])
def test_an_unknown_option_is_an_error(store, wrong):
    with pytest.raises(TypeError, match=wrong):
        store.similarity_search("One", **{wrong: {}})
    with pytest.raises(TypeError, match=wrong):
        store.add_documents(pages("One."), **{wrong: {}})


def test_filters_know_or_and_nin_and_exists_and_an_empty_query_finds_nothing(store):
    store.add_documents([*pages("One.", "Two."), *pages("Other.", source="b.txt", year=2020)])

    def found(conditions):
        return sorted(one.page_content for one in store.similarity_search("One", filter=conditions))

    assert found({"$or": [{"source": "b.txt"}, {"page": 1}]}) == ["Other.", "Two."]
    assert found({"$and": [{"source": "a.txt"}, {"page": {"$nin": [0]}}]}) == ["Two."]
    assert found({"year": {"$exists": True}}) == ["Other."]
    assert store.similarity_search(" ") == []


def test_a_retriever_cites_the_documents_own_source_and_shows_the_passage(memory, store):
    text = "".join(f"The quince of row {n} is pruned in March. " for n in range(300))
    store.add_documents([Document(text, metadata={"source": "trees.txt", "author": "Ann"})])
    (found,) = AMemRetriever(memory=memory, namespace=TEAM).invoke("quince of row 77")
    assert found.page_content == text
    assert (found.metadata["source"], found.metadata["author"]) == ("trees.txt", "Ann")
    assert "row 77 " in found.metadata["passage"]
    assert len(found.metadata["passage"]) <= 1600
    (search,) = memory_tools(memory, namespace=TEAM, kinds=["search"])
    shown = search.invoke({"query": "quince of row 77"})
    assert "row 77 " in shown
    assert len(shown) < 3000


def test_the_same_text_twice_in_a_source_is_two_documents(memory, store):
    report = store.add(pages("Same.", "Same."))
    assert len(set(report.ids)) == 2
    assert texts(memory) == ["Same.", "Same."]
    assert store.add(pages("Same."), replace=True).removed == 1


def test_a_removed_source_removes_its_notes_and_nothing_else(memory, store):
    store.add_documents([*pages("One.", "Two."), *pages("Other.", source="b.txt")])
    assert store.delete(sources=["a.txt"])
    assert texts(memory) == ["Other."]
    with pytest.raises(InvalidInputError, match="name the ids or the sources"):
        store.delete()


def test_a_long_document_is_one_note_and_found_by_its_passages(memory, store):
    sentence = "The quince of row {} is pruned in March. "
    long = "".join(sentence.format(n) for n in range(1200))
    (name,) = store.add_documents([Document(long, metadata={"source": "trees.txt"})])
    (note,) = stored(memory)
    assert (note.content, note.origin) == (long, "document")
    assert len(note.passages) > 50
    (found,) = store.get_by_ids([name])
    assert found.page_content == long
    assert found.metadata == {"source": "trees.txt"}
    assert store.similarity_search("quince of row 777", k=1) == [found]
    with pytest.raises(InvalidInputError, match="TextSplitter of LangChain"):
        store.add_documents([Document(long * 3)])


def test_documents_do_not_evolve_unless_that_is_wanted(memory, store):
    store.add_documents(pages("Ann moved to Oslo.", "Ann moved to Bergen."))
    assert memory.evolve().done == ()
    memory.add("Ann moved to Rome.", namespace=TEAM, thread="a.txt")
    notes = {note.content: note for note in stored(memory)}
    assert {note.origin for note in notes.values()} == {"document", "conversation"}
    assert all(not note.links and not note.contexts for note in notes.values() if note.key)
    evolving = AMemVectorStore(memory, TEAM, evolve=True)
    evolving.add_documents(pages("Ann moved to Oslo.", "Ann moved to Bergen."))
    notes = [note for note in stored(memory) if note.key]
    assert {(note.origin, note.state) for note in notes} == {("conversation", "done")}
    assert all(note.contexts for note in notes)
    assert len(notes) == 2


def test_a_long_document_with_an_id_shrinks_and_grows(memory, store):
    long = "The quince is pruned in March. " * 2500
    store.add_documents([Document(long, id="x")])
    store.add_documents([Document("Short.", id="x")])
    assert texts(memory) == ["Short."]
    store.add_documents([Document(long, id="x")])
    assert store.get_by_ids(["x"])[0].page_content == long
    store.delete(["x"])
    assert stored(memory) == []


def test_metadata_that_is_no_json_becomes_text_and_can_be_filtered(store):
    meta = {
        "source": PurePosixPath("a.txt"),
        "day": date(2026, 5, 8),
        "page": 3,
        "size": float("nan"),
    }
    store.add_documents([Document("One.", metadata=meta), *pages("Two.", source="b.txt")])
    (found,) = store.similarity_search("One", filter={"page": 3})
    assert found.metadata == {"source": "a.txt", "day": "2026-05-08", "page": 3, "size": "NaN"}
    assert [
        one.page_content for one in store.similarity_search("Two", filter={"page": {"$lt": 3}})
    ] == ["Two."]


def test_documents_without_text_are_left_out(memory, store):
    assert store.add(pages("One.", "  \n")).ids[1] == ""
    assert texts(memory) == ["One."]


def test_a_search_finds_documents_only_with_the_cosine_of_query_and_text(memory, store):
    memory.add("The quince blooms.", namespace=TEAM)
    store.add_documents(pages("The quince blooms in May."))
    ((found, score),) = store.similarity_search_with_score("quince blooms")
    assert found.page_content == "The quince blooms in May."
    assert 0 < score <= 1
    assert store.as_retriever(search_kwargs={"k": 1}).invoke("quince") == [found]
    assert store.similarity_search_with_relevance_scores("quince blooms")[0][1] == pytest.approx(
        score
    )


@pytest.mark.parametrize(("evolve", "done_at"), [(True, 64), (False, 256)])
def test_hundreds_of_chunks_go_on_after_a_stop_without_repeating(tmp_path, evolve, done_at):
    count = done_at + 20
    chunks = [
        Document(f"Chunk {n} of {n % 7}.", metadata={"source": f"{n % 20}.txt"})
        for n in range(count)
    ]
    embedder = HashEmbedder(64)
    seen = []

    def stop(done, total):
        seen.append((done, total))
        if done >= done_at:
            raise KeyboardInterrupt

    with AgenticMemory.open(tmp_path / "memory", embedder=embedder) as memory:
        store = AMemVectorStore(memory, TEAM, evolve=evolve)
        with pytest.raises(KeyboardInterrupt):
            store.add(chunks, progress=stop)
        assert seen == [(done, count) for done in range(64, done_at + 1, 64)]
        first = {note.id: note for note in stored(memory)}
        report = store.add(chunks, progress=lambda *_: None)
        assert len(first) == done_at
        assert (report.added, report.changed, report.removed) == (20, 0, 0)
        notes = {note.id: note for note in stored(memory)}
        assert len(notes) == count
        assert {note.state for note in notes.values()} == {"done"}
        assert all(notes[i].recorded_at == note.recorded_at for i, note in first.items())


def test_a_loader_that_yields_is_not_read_ahead(memory, store):
    read = []

    def loader():
        for n in range(150):
            read.append(n)
            yield Document(f"Chunk {n}.", metadata={"source": "a.txt"})

    seen = []
    store.add(loader(), progress=lambda done, total: seen.append((done, len(read))))
    assert seen == [(64, 64), (128, 128), (150, 150)]


@pytest.mark.parametrize("cleanup", ["incremental", "full", "scoped_full"])
def test_langchain_indexing_keeps_the_memory_as_the_sources_are(memory, store, cleanup):
    records = InMemoryRecordManager("team")
    records.create_schema()

    def run(documents):
        return index(
            documents, records, store, cleanup=cleanup, source_id_key="source", key_encoder="sha256"
        )

    first = [*pages("One.", "Two."), *pages("Other.", source="b.txt")]
    assert run(first) == {"num_added": 3, "num_updated": 0, "num_skipped": 0, "num_deleted": 0}
    assert run(first)["num_skipped"] == 3
    changed = [*pages("One.", "2."), *pages("Other.", source="b.txt")]
    assert run(changed) == {"num_added": 1, "num_updated": 0, "num_skipped": 2, "num_deleted": 1}
    assert texts(memory) == ["2.", "One.", "Other."]
    gone = run(pages("One.", "2."))
    if cleanup == "full":
        assert gone["num_deleted"] == 1
        assert texts(memory) == ["2.", "One."]
    else:
        assert texts(memory) == ["2.", "One.", "Other."]


async def test_langchain_indexing_works_on_an_event_loop(memory, store):
    records = InMemoryRecordManager("team")
    await records.acreate_schema()
    documents = pages(*(f"Chunk {n}." for n in range(130)))
    options = {"cleanup": "full", "source_id_key": "source", "key_encoder": "sha256"}
    assert (await aindex(documents, records, store, **options))["num_added"] == 130
    assert (await aindex(documents[:110], records, store, **options))["num_deleted"] == 20
    assert len(stored(memory)) == 110


def test_two_namespaces_share_nothing(memory):
    ours, theirs = (AMemVectorStore(memory, (name,), evolve=False) for name in ("a", "b"))
    ours.add_documents(pages("One."))
    theirs.add_documents(pages("Uno."))
    assert theirs.delete(sources=["a.txt"])
    assert texts(memory, ("a",)) == ["One."]
    with pytest.raises(NamespaceError):
        AMemVectorStore(memory, "a")


def test_what_cannot_be_meant_is_refused(memory, store):
    with pytest.raises(InvalidInputError, match="2 ids for 1 documents"):
        store.add_documents(pages("One."), ids=["1", "2"])
    with pytest.raises(ConfigurationError, match="the memory has its embedder"):
        AMemVectorStore.from_texts(["One."], DeterministicFakeEmbedding(size=3))
    made = AMemVectorStore.from_texts(["One."], memory=memory, namespace=TEAM, evolve=False)
    assert made.similarity_search("One")[0].page_content == "One."


def test_progress_is_logged_if_that_is_wanted(store, caplog):
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
        assert [one.page_content for one in store.similarity_search("One")] == ["One."]
        store.delete(sources=["a.txt"])
        assert stored(memory) == []


def test_a_text_with_a_nul_or_half_a_character_costs_nothing() -> None:
    with AgenticMemory.open(":memory:", embedder=HashEmbedder()) as memory:
        store = AMemVectorStore(memory, ("docs",))
        ids = store.add_texts(["before", "an example\0 \ud83d of a page", "after"])
        assert len(ids) == 3
        found = store.similarity_search("example", k=1)
        assert found[0].page_content == "an example \ufffd of a page"
