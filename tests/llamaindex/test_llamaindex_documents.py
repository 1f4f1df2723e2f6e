"""`AMemIngest`: nodes and documents are stored by a pipeline, replaced with their document, and removed with it."""

from __future__ import annotations

import asyncio
import pickle
import threading

import pytest
from llama_index.core import Document, SimpleDirectoryReader
from llama_index.core.ingestion import DocstoreStrategy, IngestionPipeline
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import MetadataMode, NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.vector_stores import FilterOperator, MetadataFilter, MetadataFilters

from amem_integrations import AgenticMemory, ConfigurationError, InvalidInputError
from amem_integrations.testing import HashEmbedder
from llamaindex_amem import AMemIngest, AMemRetriever

TEAM = ("team",)
SPLITTER = SentenceSplitter(chunk_size=32, chunk_overlap=0)
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


def pipeline(memory, *, splitter=SPLITTER, **options):
    steps = [splitter, AMemIngest(memory, TEAM, replace=True)]
    return IngestionPipeline(transformations=steps, **options)


def test_reading_a_folder_again_changes_only_what_was_changed(memory, tmp_path):
    (tmp_path / "a.txt").write_text("\n\n".join(PARAGRAPHS))
    (tmp_path / "b.txt").write_text("Something else.")

    def named(path):
        return {"file_name": path.rpartition("/")[2]}

    def read():
        # The length of the path must not decide where the text is cut.
        reader = SimpleDirectoryReader(str(tmp_path), filename_as_id=True, file_metadata=named)
        pipeline(memory, splitter=splitter).run(documents=reader.load_data())

    named_by = {"id_func": lambda n, document: f"{document.id_}-{n}"}
    splitter = SentenceSplitter(chunk_size=32, chunk_overlap=0, **named_by)
    read()
    before = {note.id: note for note in notes(memory)}
    read()
    assert [n.recorded_at for n in notes(memory)] == [n.recorded_at for n in before.values()]
    (tmp_path / "a.txt").write_text("\n\n".join([*PARAGRAPHS[:3], "Row 3 was cut down."]))
    read()
    after = {note.id: note for note in notes(memory)}
    assert any("cut down" in note.content for note in after.values())
    assert not any("row 5" in note.content for note in after.values())
    assert before.keys() & after.keys()
    # Nodes that are new stand between those that were there.
    hits = {hit.node_id: hit for hit in AMemRetriever(memory, TEAM, k=50).retrieve("row")}
    for hit in hits.values():
        assert hit.node.next_node is None or hit.node.next_node.node_id in hits


async def test_no_cache_and_no_document_store_of_a_pipeline_hides_what_a_memory_has_lost(memory):
    steps, document = pipeline(memory), Document(text="One.", doc_id="a")
    steps.run(documents=[document])
    memory.clear(namespace=TEAM)
    await steps.arun(documents=[document])
    assert texts(memory) == ["One."]
    known = DocstoreStrategy.DUPLICATES_ONLY
    steps = pipeline(memory, docstore=SimpleDocumentStore(), docstore_strategy=known)
    for first in ("One.", "Uno."):
        steps.run(documents=[Document(text=first, doc_id="a"), Document(text="Two.", doc_id="b")])
    assert texts(memory) == ["Two.", "Uno."]


def test_a_removed_document_removes_its_notes(memory):
    ingest = AMemIngest(memory, TEAM)
    documents = {"a": "One.", "b": "2."}
    ingest([Document(text=t, doc_id=i, metadata={"page": 1}) for i, t in documents.items()])
    # What nobody split is one node of itself.
    first, *_ = AMemRetriever(memory, TEAM).retrieve("one")
    assert (first.node_id, first.node.ref_doc_id, first.metadata) == ("a", "a", {"page": 1})
    assert "One." not in str(notes(memory)[0].metadata)
    memory.add("What was imported of thread a stays.", namespace=TEAM, thread="a", source="import")
    assert ingest.remove(["a"]) == 1
    assert texts(memory) == ["2.", "What was imported of thread a stays."]


def test_what_each_of_several_documents_has_no_more_is_removed(memory):
    def read(*parts):
        nodes = [
            TextNode(text=f"{part} of {one}.", id_=f"{one}-{part}", relationships=relationships)
            for one in ("a", "b", "c")
            for relationships in [{NodeRelationship.SOURCE: RelatedNodeInfo(node_id=one)}]
            for part in parts
        ]
        return AMemIngest(memory, TEAM, replace=True).add(nodes).removed

    assert read("Head", "Tail") == 0
    assert read("Head") == 3
    assert texts(memory) == ["Head of a.", "Head of b.", "Head of c."]
    ingest = AMemIngest(memory, TEAM, replace=True)
    assert ingest.add([Document(text="", doc_id=one) for one in "ab"]).removed == 2
    with pytest.raises(TypeError, match="run a pipeline without num_workers"):
        pickle.dumps(ingest)


def neighbours(node):
    return [getattr(one, "node_id", None) for one in (node.prev_node, node.next_node)]


def where(key, value, operator="=="):
    """Return one filter of the framework."""
    test = MetadataFilter(key=key, value=value, operator=FilterOperator(operator))
    return MetadataFilters(filters=[test])


def test_a_node_comes_back_as_it_was(memory):
    given = {"source": "wiki", "tags": ["a", "b"], "kind": "page"}
    given |= {"file": "x100.txt", "secret": "s", "message_hash": "h"}
    with pytest.raises(InvalidInputError, match="cannot be named '_node'"):
        AMemIngest(memory, TEAM).add([Document(text="One.", metadata={"_node": 1})])
    document = Document(
        text="\n\n".join(PARAGRAPHS),
        doc_id="x100",
        metadata=given,
        excluded_llm_metadata_keys=["secret"],
        excluded_embed_metadata_keys=["file"],
        text_template="{content} ({metadata_str})",
    )
    nodes = {node.node_id: node for node in pipeline(memory).run(documents=[document])}
    stored = notes(memory)
    assert [note.content for note in stored] == [node.text for node in nodes.values()]
    assert {(note.thread, note.source) for note in stored} == {("x100", "import")}
    hits = AMemRetriever(memory, TEAM, k=50).retrieve("the quince of row 3")
    assert {hit.node_id for hit in hits} == nodes.keys()
    for hit in hits:
        node = nodes[hit.node_id]
        assert (hit.text, hit.metadata, hit.node.ref_doc_id) == (node.text, given, "x100")
        assert all(hit.node.get_content(mode) == node.get_content(mode) for mode in MetadataMode)
        assert "x100.txt" in hit.node.get_content(MetadataMode.LLM)
        assert neighbours(hit.node) == neighbours(node)
    for key, value in (("source", "wiki"), ("tags", "a"), ("kind", "page")):
        assert AMemRetriever(memory, TEAM, filters=where(key, value)).retrieve("quince")
    assert AMemIngest(memory, TEAM).remove(["x100"]) == len(nodes)


def test_metadata_under_the_name_of_a_field_are_filtered_by_any_value(memory):
    AMemIngest(memory, TEAM).add([TextNode(text="One.", metadata={"at": "the desk", "id": 7})])
    for filters in (where("at", "the desk"), where("id", 5, ">")):
        (hit,) = AMemRetriever(memory, TEAM, filters=filters, on_error="raise").retrieve("one")
        assert hit.text == "One."
    for wrong in ({"at": "the desk"}, {"id": {"$gt": 5}}, {"seq": {"$exists": True}}):
        with pytest.raises(ConfigurationError, match="cannot be"):  # where it is made
            AMemRetriever(memory, TEAM, where=wrong)


def test_a_node_with_children_comes_back_with_all_of_them(memory):
    ids = {"head", "tail"}
    children = {NodeRelationship.CHILD: [RelatedNodeInfo(node_id=one) for one in sorted(ids)]}
    AMemIngest(memory, TEAM).add([TextNode(text="All.", id_="all", relationships=children)])
    (found,) = AMemRetriever(memory, TEAM).retrieve("all")
    assert {child.node_id for child in found.node.child_nodes} == ids


def test_documents_of_one_id_in_two_namespaces_are_both_found(memory):
    for space in (TEAM, ("me",)):
        AMemIngest(memory, space)([Document(text=f"Trees of {space[0]}.", doc_id="trees.txt")])
    found = AMemRetriever(memory, ("me",), also={"team": TEAM}).retrieve("trees")
    assert {hit.text for hit in found} == {"Trees of me.", "Trees of team."}
    assert {hit.node.ref_doc_id for hit in found} == {"trees.txt"}


def test_a_second_call_deletes_nothing_and_no_character_stops_a_pipeline(memory):
    document = Document(text="\n\n".join([*PARAGRAPHS, "A \0 nul."]), doc_id="a")
    nodes = SPLITTER.get_nodes_from_documents([document])
    ingest = AMemIngest(memory, TEAM)
    for node in nodes:
        ingest([node])
    changed = TextNode(text="Uno.", id_=nodes[0].node_id)
    report = ingest.add([changed])
    assert (report.ids, report.added, report.changed) == ([changed.node_id], 0, 1)
    assert len(notes(memory)) == len(nodes)
    assert "Uno." in texts(memory)
    assert any("A  nul." in text for text in texts(memory))


def test_documents_are_never_outdated_and_nobodys_candidates(memory):
    weights = {str(n): f"The X{n}00 weighs {n} kg." for n in range(1, 9)}
    AMemIngest(memory, TEAM)([Document(text=text, doc_id=n) for n, text in weights.items()])
    memory.add("The X100 weighs 9 kg now.", namespace=TEAM)
    memory.evolve(namespace=TEAM)
    stored = notes(memory)
    assert not any(note.superseded_by for note in stored)
    assert not any(note.links or note.contexts for note in stored if note.origin == "document")


def test_an_ingestion_that_is_cancelled_ends_with_its_batch(memory):
    async def give_up():
        def stop(*_):
            loop.call_soon_threadsafe(task.cancel)
            gone.wait(10)

        loop, gone = asyncio.get_running_loop(), threading.Event()
        ingest = AMemIngest(memory, TEAM, progress=stop)
        task = asyncio.create_task(ingest.acall([Document(text=f"Row {n}") for n in range(150)]))
        with pytest.raises(asyncio.CancelledError):
            await task
        gone.set()

    asyncio.run(give_up())  # which waits for all threads of the loop
    assert len(notes(memory)) == 64


def test_a_long_document_is_one_note_which_evolves_only_if_that_is_wanted(memory):
    text = "\n\n".join(PARAGRAPHS * 3)
    for evolve in (False, True):
        seen = []
        ingest = AMemIngest(memory, TEAM, evolve=evolve, progress=lambda *n, s=seen: s.append(n))
        ingest([Document(text=text, doc_id="a"), Document(text=" ", doc_id="b")])
        (note,) = notes(memory)
        assert (note.content, note.state) == (text, "done")
        assert note.origin == ("conversation" if evolve else "document")
        assert len(note.passages) > 1
        assert bool(note.contexts) == evolve
        assert seen == [(2, 2)]
