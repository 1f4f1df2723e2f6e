"""`AMemIngest`: nodes and documents are stored by a pipeline, replaced with their document, and removed with it."""

from __future__ import annotations

import pytest
from llama_index.core import Document, SimpleDirectoryReader
from llama_index.core.ingestion import DocstoreStrategy, IngestionPipeline
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import TextNode
from llama_index.core.storage.docstore import SimpleDocumentStore

from amem_integrations import AgenticMemory, NamespaceError
from amem_integrations.adapting import Documents
from amem_integrations.testing import HashEmbedder
from llamaindex_amem import AMemIngest

TEAM = ("team",)
PARAGRAPHS = [
    f"Row {n}. The quince of row {n} is pruned in March, and watered in May." for n in range(6)
]


@pytest.fixture
def memory():
    with AgenticMemory.open(":memory:", embedder=HashEmbedder(64)) as memory:
        yield memory


def notes(memory):
    return memory.get_all(namespace=TEAM, limit=9999)


def texts(memory):
    return sorted(note.content for note in notes(memory))


def pipeline(memory, **options):
    splitter = SentenceSplitter(chunk_size=32, chunk_overlap=0)
    return IngestionPipeline(transformations=[splitter, AMemIngest(memory, TEAM)], **options)


def test_a_pipeline_stores_the_nodes_with_metadata_in_a_thread_of_their_document(memory):
    document = Document(text="\n\n".join(PARAGRAPHS), doc_id="trees.txt", metadata={"year": 2026})
    nodes = pipeline(memory).run(documents=[document])
    stored = notes(memory)
    assert len(nodes) > 1
    assert [note.content for note in stored] == [node.text for node in nodes]
    assert {note.thread for note in stored} == {"trees.txt"}
    assert {note.metadata["year"] for note in stored} == {2026}
    assert {note.source for note in stored} == {"import"}
    assert all(memory.search("row 3", namespace=TEAM, where={"metadata.year": 2026}))


def test_reading_a_folder_again_changes_only_what_was_changed(memory, tmp_path):
    (tmp_path / "a.txt").write_text("\n\n".join(PARAGRAPHS))
    (tmp_path / "b.txt").write_text("Something else.")

    def read():
        documents = SimpleDirectoryReader(str(tmp_path), filename_as_id=True).load_data()
        return pipeline(memory).run(documents=documents)

    read()
    before = {note.id: note for note in notes(memory)}
    read()
    assert {note.id: note.recorded_at for note in notes(memory)} == {
        i: note.recorded_at for i, note in before.items()
    }
    (tmp_path / "a.txt").write_text("\n\n".join([*PARAGRAPHS[:3], "Row 3 was cut down."]))
    read()
    after = {note.id: note for note in notes(memory)}
    assert any("cut down" in note.content for note in after.values())
    assert not any("row 5" in note.content for note in after.values())
    assert before.keys() & after.keys()


def test_the_cache_of_a_pipeline_does_not_hide_what_the_memory_has_lost(memory):
    steps = pipeline(memory)
    document = Document(text="One.", doc_id="a")
    steps.run(documents=[document])
    memory.clear(namespace=TEAM)
    steps.run(documents=[document])
    assert texts(memory) == ["One."]


def test_a_document_store_of_a_pipeline_keeps_known_documents_from_the_memory(memory):
    known = DocstoreStrategy.DUPLICATES_ONLY
    steps = pipeline(memory, docstore=SimpleDocumentStore(), docstore_strategy=known)
    steps.run(documents=[Document(text="One.", doc_id="a"), Document(text="Two.", doc_id="b")])
    steps.run(documents=[Document(text="Uno.", doc_id="a"), Document(text="Two.", doc_id="b")])
    assert texts(memory) == ["Two.", "Uno."]


async def test_a_pipeline_stores_on_an_event_loop(memory):
    await pipeline(memory).arun(documents=[Document(text="One.", doc_id="a")])
    assert texts(memory) == ["One."]


def test_a_removed_document_removes_its_notes(memory):
    ingest = AMemIngest(memory, TEAM)
    ingest([Document(text="One.", doc_id="a"), Document(text="Two.", doc_id="b")])
    assert ingest.remove(["a"]) == 1
    assert texts(memory) == ["Two."]


def test_nodes_of_no_document_are_replaced_by_id_and_keep_it(memory):
    ingest = AMemIngest(memory, TEAM)
    ingest([TextNode(text="One.", id_="n-1"), TextNode(text="Two.", id_="n-2")])
    report = ingest.add([TextNode(text="Uno.", id_="n-1")])
    assert (report.ids, report.changed) == (["n-1"], 1)
    (found,) = Documents(memory, TEAM).get(["n-1"])
    assert found.text == "Uno."
    assert texts(memory) == ["Two.", "Uno."]


def test_nodes_of_one_document_may_come_in_several_calls(memory):
    ingest = AMemIngest(memory, TEAM, replace=False)
    document = Document(text="\n\n".join(PARAGRAPHS), doc_id="a")
    nodes = SentenceSplitter(chunk_size=32, chunk_overlap=0).get_nodes_from_documents([document])
    ingest(nodes[:1])
    ingest(nodes[1:])
    assert len(notes(memory)) == len(nodes)


@pytest.mark.parametrize("evolve", [False, True])
def test_a_long_document_is_one_note_which_evolves_only_if_that_is_wanted(memory, evolve):
    seen, text = [], "\n\n".join(PARAGRAPHS * 3)
    ingest = AMemIngest(memory, TEAM, evolve=evolve, progress=lambda *one: seen.append(one))
    ingest([Document(text=text, doc_id="a"), Document(text=" ", doc_id="b")])
    (note,) = notes(memory)
    assert (note.content, note.state) == (text, "done")
    assert note.origin == ("conversation" if evolve else "document")
    assert len(note.passages) > 1
    assert bool(note.contexts) == evolve
    assert seen == [(2, 2)]


def test_a_namespace_is_needed(memory):
    with pytest.raises(NamespaceError):
        AMemIngest(memory, "team")
