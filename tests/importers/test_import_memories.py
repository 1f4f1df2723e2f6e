"""Exports of other memories: mem0, Zep and Graphiti, langmem, LlamaIndex's blocks."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from importing_kit import imported_twice, open_memory, write
from qdrant_client import QdrantClient
from qdrant_client.models import Distance, PointStruct, VectorParams

from amem_integrations import InvalidInputError, NamespaceError, StoreUnavailableError
from amem_integrations.importers import import_from

ANN = ("ann",)
MEM0 = {
    "results": [
        {
            "id": "f38b689d-6b24-45b7-bced-17fbb4d8bac7",
            "memory": "Likes quinces",
            "hash": "62bc074f56d1f909f1b4c2b639f56f6a",
            "created_at": "2025-02-25T23:57:00.108347-08:00",
            "updated_at": None,
            "user_id": "ann",
            "run_id": "r-1",
            "actor_id": "Ann",
            "role": "user",
            "metadata": {"kind": "food"},
        },
        {
            "id": "0b0b689d-6b24-45b7-bced-17fbb4d8bac7",
            "memory": "Answers briefly",
            "hash": "00",
            "created_at": "2025-02-26T23:57:00-08:00",
            "updated_at": "2025-02-27T23:57:00-08:00",
            "agent_id": "ann",
            "categories": ["style"],
            "expiration_date": "2099-01-01",
        },
        {"id": "e", "memory": "  ", "user_id": "ann"},
    ],
    "relations": [{"source": "ann", "relationship": "likes", "target": "quinces"}],
}


def test_mem0_keeps_owners_times_and_metadata(tmp_path):
    report, notes = imported_twice(write(tmp_path, "mem0.json", MEM0))
    assert report.format == "mem0"
    assert report.found == {("ann",): 1, ("agent", "ann"): 1}
    assert report.skipped == {"no text": 1, "relation of the graph": 1}
    likes, answers = notes
    assert (likes.content, likes.thread, likes.speaker, likes.source) == (
        "Likes quinces",
        "r-1",
        "Ann",
        "import",
    )
    assert likes.at == datetime(2025, 2, 26, 7, 57, 0, 108347, tzinfo=UTC)
    assert likes.metadata == {"kind": "food", "role": "user"}
    assert answers.expires_at == datetime(2099, 1, 1, tzinfo=UTC)
    assert answers.metadata == {"updated_at": "2025-02-27T23:57:00-08:00", "categories": ["style"]}


def test_mem0_of_the_platform_is_a_page_or_a_bare_list(tmp_path):
    page = {"count": 2, "next": None, "previous": None, "results": MEM0["results"][:2]}
    for data in (page, page["results"]):
        report, _ = imported_twice(write(tmp_path, "mem0.json", data), namespace=("old",))
        assert set(report.added) == {("old", "ann"), ("old", "agent", "ann")}


MEM0_POINTS = {
    "2f2b689d-6b24-45b7-bced-17fbb4d8bac7": {
        "data": "Likes quinces",
        "hash": "62bc",
        "created_at": "2025-02-25T23:57:00-08:00",
        "user_id": "ann",
        "text_lemmatized": "like quince",
        "kind": "food",
    },
    "3f2b689d-6b24-45b7-bced-17fbb4d8bac7": {
        "data": "Answers briefly",
        "hash": "00",
        "createdAt": "2025-02-26T23:57:00Z",
        "agentId": "bot",
    },
    "4f2b689d-6b24-45b7-bced-17fbb4d8bac7": {
        "data": "quince",
        "entity_type": "FOOD",
        "linked_memory_ids": ["2f2b689d-6b24-45b7-bced-17fbb4d8bac7"],
        "user_id": "ann",
    },
}


def collection(folder, name, payloads):
    client = QdrantClient(path=str(folder))
    client.create_collection(name, VectorParams(size=2, distance=Distance.COSINE))
    points = [
        PointStruct(id=point, vector=[1.0, 0.0], payload=payload)
        for point, payload in payloads.items()
    ]
    client.upsert(name, points)
    client.close()
    return folder / "collection" / name


def test_mem0_is_read_from_its_collection_in_a_folder(tmp_path):
    report, notes = imported_twice(collection(tmp_path / "qdrant", "mem0", MEM0_POINTS))
    assert report.format == "mem0"
    assert {n.namespace: (n.content, n.metadata) for n in notes} == {
        ("ann",): ("Likes quinces", {"kind": "food"}),
        ("agent", "bot"): ("Answers briefly", {}),
    }
    assert {note.key for note in notes} == set(list(MEM0_POINTS)[:2])
    assert report.skipped == {"entity of the graph": 1}


def test_a_collection_that_is_not_there_is_named(tmp_path):
    path = collection(tmp_path / "qdrant", "mem0", MEM0_POINTS)
    with open_memory() as memory, pytest.raises(InvalidInputError, match="no collection 'other'"):
        import_from(memory, path.with_name("other"))
    with open_memory() as memory, pytest.raises(InvalidInputError, match="names no collection"):
        import_from(memory, "http://localhost:6333")


def test_a_server_that_does_not_answer_is_named():
    with open_memory() as memory, pytest.raises(StoreUnavailableError, match="cannot be read"):
        import_from(memory, "http://127.0.0.1:9/collections/mem0")


def test_the_items_of_langmem_keep_namespace_key_and_all_of_their_value(tmp_path):
    def item(key, value, **more):
        at = "2025-02-25T23:57:00.108347+00:00"
        return {
            "namespace": ["memories", "ann"],
            "key": key,
            "value": value,
            "created_at": at,
            "updated_at": at,
            **more,
        }

    managed = {"kind": "Memory", "content": {"content": "Likes quinces"}}
    profile = {"kind": "Profile", "content": {"name": "Ann", "language": "nl"}}
    rows = [
        item("k1", managed, score=None),
        item("k2", {"content": "Has a cat"}),
        item("k3", profile),
        item("", {"content": "lost"}),
    ]
    for source in (rows, write(tmp_path, "store.json", {"items": rows})):
        report, notes = imported_twice(source)
        assert report.format == "langgraph"
        assert report.found == {("memories", "ann"): 3}
        assert "has no key" in report.first_skipped["cannot be read"]
        assert [note.key for note in notes] == ["k1", "k2", "k3"]
        assert [note.content for note in notes[:2]] == ["Likes quinces", "Has a cat"]
        assert json.loads(notes[2].content) == profile
        assert [n.metadata for n in notes] == [{"value": managed}, {}, {"value": profile}]


EDGE = {
    "uuid": "e-1",
    "group_id": "ann",
    "source_node_uuid": "n-1",
    "target_node_uuid": "n-2",
    "created_at": "2025-03-01T00:00:00Z",
    "name": "LIVES_IN",
    "fact": "Ann lives in Oslo.",
    "fact_embedding": [0.1, 0.2],
    "episodes": ["p-1"],
    "expired_at": "2025-06-02T00:00:00Z",
    "valid_at": "2024-05-01T00:00:00Z",
    "invalid_at": "2025-06-01T00:00:00Z",
    "reference_time": None,
    "attributes": {},
}
EPISODE = {
    "uuid": "p-1",
    "name": "chat",
    "group_id": "ann",
    "labels": [],
    "created_at": "2025-03-01T00:00:00Z",
    "source": "message",
    "source_description": "support chat",
    "content": "Ann: I moved to Oslo.",
    "valid_at": "2024-05-01T00:00:00Z",
    "entity_edges": ["e-1"],
}
NODES = [
    {"uuid": "n-1", "name": "Ann", "group_id": "ann", "labels": ["Entity"], "name_embedding": None,
     "created_at": "2025-03-01T00:00:00Z", "summary": "A potter.", "attributes": {}},
    {"uuid": "n-2", "name": "Oslo", "group_id": "ann", "labels": ["Entity"], "summary": ""},
]  # fmt: skip
MENTIONS = {"uuid": "m", "group_id": "ann", "source_node_uuid": "p-1", "target_node_uuid": "n-1"}


def test_graphiti_gives_facts_with_their_times_episodes_and_summaries(tmp_path):
    graph = {"edges": [EDGE, MENTIONS], "episodes": [EPISODE], "nodes": NODES}
    report, notes = imported_twice(write(tmp_path, "graph.json", graph))
    assert report.format == "zep"
    assert report.found == {("ann",): 3}
    assert report.skipped == {"edge without a fact": 1, "entity without a summary": 1}
    fact, episode, entity = notes
    assert (fact.content, fact.key) == ("Ann lives in Oslo.", "e-1")
    assert fact.at == datetime(2024, 5, 1, tzinfo=UTC)
    assert fact.until == datetime(2025, 6, 1, tzinfo=UTC)
    assert fact.metadata["name"] == "LIVES_IN"
    assert fact.metadata["episodes"] == ["p-1"]
    assert "fact_embedding" not in fact.metadata
    assert (episode.content, episode.source) == (EPISODE["content"], "import")
    assert episode.metadata["source_description"] == "support chat"
    assert entity.content == "Ann: A potter."


def test_zep_messages_keep_thread_speaker_and_side_and_are_their_episodes(tmp_path):
    two = {
        "uuid": "z-1",
        "content": "Hello.",
        "role": "Ann",
        "role_type": "user",
        "session_id": "s-1",
        "created_at": "2025-03-01T00:00:00Z",
        "source": "message",
        "processed": True,
    }
    three = {
        "uuid": "z-2",
        "content": "Hello Ann.",
        "role": "assistant",
        "name": "Zoe",
        "created_at": "2025-03-01T00:00:01Z",
        "metadata": {"mood": "fine"},
    }
    page = {"messages": [two, three], "row_count": 2, "total_count": 2}
    report, notes = imported_twice(write(tmp_path, "s-1.json", page), namespace=ANN, thread="s-1")
    assert report.format == "zep"
    assert [(n.thread, n.speaker, n.source) for n in notes] == [
        ("s-1", "Ann", "user"),
        ("s-1", "Zoe", "assistant"),
    ]
    assert notes[1].metadata == {"mood": "fine"}
    with open_memory() as memory:
        import_from(memory, [two, three], "zep", namespace=ANN, thread="s-1")
        again = import_from(memory, {"episodes": [two]}["episodes"], "zep", namespace=ANN)
        assert again.added == {ANN: 0}


def test_facts_of_zep_that_name_no_owner_need_a_namespace(tmp_path):
    edge = {name: value for name, value in EDGE.items() if name != "group_id"}
    path = write(tmp_path, "edges.json", [edge])
    with open_memory() as memory:
        with pytest.raises(NamespaceError, match=r"edges\.json does not say whose"):
            import_from(memory, path)
        assert memory.namespaces() == []
        assert import_from(memory, path, namespace=ANN).added == {ANN: 1}


def block_node(name, text, session="s-1"):
    node = {
        "id_": name,
        "embedding": None,
        "metadata": {"session_id": session},
        "excluded_embed_metadata_keys": [],
        "relationships": {},
        "text": text,
        "mimetype": "text/plain",
        "class_name": "TextNode",
    }
    none = dict.fromkeys(("document_id", "doc_id", "ref_doc_id"), "None")
    return {
        "session_id": session,
        "_node_content": json.dumps(node),
        "_node_type": "TextNode",
        **none,
    }


BATCH = (
    "<message role='user'>What is a quince?\nI saw <message role='x'> somewhere.</message>\n"
    "<message role='tool'>42</message>\n"
    "<message role='assistant'>A fruit.\nAdditional Info: ({'mood': 'fine'})</message>"
)


def test_the_collection_of_a_vector_memory_block_becomes_messages_again(tmp_path):
    payloads = {
        "1f2b689d-6b24-45b7-bced-17fbb4d8bac7": block_node("n-1", BATCH),
        "2f2b689d-6b24-45b7-bced-17fbb4d8bac7": block_node("n-2", "A text of its own.", None),
    }
    report, notes = imported_twice(
        collection(tmp_path / "qdrant", "memory", payloads), namespace=ANN
    )
    assert report.format == "llamaindex"
    assert report.skipped == {"output of a tool": 1}
    found = {note.key: note for note in notes}
    question, answer, own = found["n-1/1"], found["n-1/3"], found["n-2/1"]
    assert question.content == "What is a quince?\nI saw <message role='x'> somewhere."
    assert (question.thread, question.speaker, question.source) == ("s-1", "user", "user")
    assert answer.content.startswith("A fruit.")
    assert (own.content, own.thread, own.source) == ("A text of its own.", None, "import")


def test_a_node_that_cannot_be_read_is_told_and_the_others_are_taken():
    rows = [{"payload": {"_node_content": "{"}}, {"payload": block_node("n", "Text.")}]
    report, (note,) = imported_twice(rows, namespace=ANN)
    assert note.content == "Text."
    assert "node 1: _node_content is not JSON" in report.first_skipped["cannot be read"]


def test_an_owner_whose_id_is_no_text_does_not_stop_the_others():
    rows = [{"memory": "One.", "user_id": "a\ud800"}, {"memory": "Two.", "user_id": "ann"}]
    report, _ = imported_twice(rows)
    assert report.found == {("ann",): 1}
    assert report.skipped == {"cannot be stored": 1}


def test_what_a_vector_memory_block_itself_writes_is_read():
    pytest.importorskip("llama_index.core")
    from llama_index.core.schema import TextNode  # noqa: PLC0415 - of an extra
    from llama_index.core.vector_stores.utils import (  # noqa: PLC0415 - of an extra
        node_to_metadata_dict,
    )

    node = TextNode(text=BATCH, metadata={"session_id": "s-1"})
    rows = [{"id": "p", "payload": node_to_metadata_dict(node)}]
    for source in (rows, [node.model_dump(mode="json")]):
        report, notes = imported_twice(source, namespace=ANN)
        assert [note.speaker for note in notes] == ["user", "assistant"]
        assert {note.thread for note in notes} == {"s-1"}
        assert report.format == "llamaindex"
