"""What other memories have kept: mem0, and LangGraph stores, as langmem's."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from importing_kit import imported_twice, open_memory, write

from amem_integrations import NamespaceError
from amem_integrations.importers import import_from

ANN = ("ann",)
MEM0 = {
    "results": [
        {
            "id": "f38b689d-6b24-45b7-bced-17fbb4d8bac7", "memory": "Likes quinces", "hash": "62bc",
            "created_at": "2025-02-25T23:57:00.108347-08:00", "updated_at": None, "user_id": "ann",
            "run_id": "r-1", "actor_id": "Ann", "role": "user", "metadata": {"kind": "food"},
        },
        {
            "id": "0b0b689d-6b24-45b7-bced-17fbb4d8bac7", "memory": "Answers briefly", "hash": "00",
            "created_at": "2025-02-26T23:57:00-08:00", "updated_at": "2025-02-27T23:57:00-08:00",
            "agent_id": "ann", "categories": ["style"], "expiration_date": "2099-01-01",
        },
        {"id": "e", "memory": "  ", "user_id": "ann"},
    ],
    "relations": [{"source": "ann", "relationship": "likes", "target": "quinces"}],
}  # fmt: skip


def test_mem0_keeps_owners_times_and_metadata(tmp_path):
    report, notes = imported_twice(write(tmp_path, "mem0.json", MEM0))
    assert report.format == "mem0"
    assert report.found == {("ann",): 1, ("agent", "ann"): 1}
    assert report.skipped == {"no text": 1, "relation of the graph": 1}
    likes, answers = notes
    assert (likes.content, likes.thread) == ("Likes quinces", "r-1")
    assert (likes.speaker, likes.source) == ("Ann", "import")
    assert likes.at == datetime(2025, 2, 26, 7, 57, 0, 108347, tzinfo=UTC)
    assert likes.metadata == {"kind": "food", "role": "user"}
    assert answers.expires_at == datetime(2099, 1, 1, tzinfo=UTC)
    assert answers.metadata == {"updated_at": "2025-02-27T23:57:00-08:00", "categories": ["style"]}


def test_mem0_of_the_platform_is_a_page_or_a_bare_list(tmp_path):
    page = {"count": 2, "next": None, "previous": None, "results": MEM0["results"][:2]}
    for data in (page, page["results"]):
        report, _ = imported_twice(write(tmp_path, "mem0.json", data), namespace=("old",))
        assert set(report.added) == {("old", "ann"), ("old", "agent", "ann")}


def test_the_items_of_langmem_keep_namespace_key_and_all_of_their_value(tmp_path):
    def item(key, value, **more):
        times = dict.fromkeys(("created_at", "updated_at"), "2025-02-25T23:57:00.108347+00:00")
        return {"namespace": ["memories", "ann"], "key": key, "value": value, **times, **more}

    managed = {"kind": "Memory", "content": {"content": "Likes quinces"}}
    profile = {"kind": "Profile", "content": {"name": "Zoë", "language": "nl"}}
    rows = [
        item("k1", managed, score=None),
        item("k2", {"content": "Has a cat"}),
        item("k3", profile),
        item("", {"content": "lost"}),
        {**item("k4", {"content": "Of nobody"}), "namespace": ["memories", "\0"]},
    ]
    for source in (rows, write(tmp_path, "store.json", {"items": rows})):
        report, notes = imported_twice(source)
        assert report.format == "langgraph"
        assert report.found == {("memories", "ann"): 3}
        assert "4 lacks a namespace, a key or a value" in report.first_skipped["cannot be read"]
        assert report.skipped == {"cannot be read": 2}
        assert {note.at for note in notes} == {datetime(2025, 2, 25, 23, 57, 0, 108347, tzinfo=UTC)}
        whole = json.dumps(profile, sort_keys=True, ensure_ascii=False)
        assert [(note.key, note.content, note.metadata) for note in notes] == [
            ("k1", "Likes quinces", {"value": managed}),
            ("k2", "Has a cat", {}),
            ("k3", whole, {"value": profile}),
        ]


def test_the_payloads_of_the_vector_store_of_mem0_are_read_by_name():
    payload = {"data": "Likes quinces", "hash": "62bc", "user_id": "ann", "kind": "food"}
    report, (note,) = imported_twice([{"id": "p-1", **payload}], "mem0")
    assert report.found == {ANN: 1}
    assert (note.content, note.key, note.metadata) == ("Likes quinces", "p-1", {"kind": "food"})


def test_memories_that_name_no_owner_need_a_namespace(tmp_path):
    path = write(tmp_path, "mem0.json", [{"memory": "Likes quinces"}])
    with open_memory() as memory:
        with pytest.raises(NamespaceError, match=r"mem0\.json does not say whose"):
            import_from(memory, path)
        assert memory.namespaces() == []
        assert import_from(memory, path, namespace=ANN).added == {ANN: 1}


def test_an_item_that_cannot_be_read_is_told_and_the_others_are_taken():
    rows = [{"memory": "One.", "created_at": "yesterday"}, {"memory": "Two."}, 3]
    report, (note,) = imported_twice(rows, namespace=ANN)
    assert note.content == "Two."
    assert report.skipped == {"cannot be read": 1, "no text": 1}
    assert report.first_skipped["cannot be read"].startswith("rows, item 1: 'yesterday' is not")
