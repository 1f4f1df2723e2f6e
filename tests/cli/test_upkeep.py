"""`amem export`, `reindex`, `sweep`, `optimize`, `update`, `delete`, `clear`."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta

import pytest
from support.qdrant_server import FakeQdrant, serving

from amem_integrations import AgenticMemory, Completion
from amem_integrations.stores import FolderStore
from amem_integrations.testing import HashEmbedder, ScriptedModel


def seen(amem, namespace="ann"):
    return {note["id"]: note for note in amem.json("show", "-k", "99", namespace=namespace)}


def test_what_was_exported_is_imported_exactly(wedding, amem, tmp_path):
    out = tmp_path / "out.jsonl"
    assert wedding.json("export", out) == {"file": str(out), "namespace": ["ann"], "notes": 2}
    before, history = seen(wedding), wedding.json("history")
    wedding.folder = tmp_path / "other"
    (row,) = wedding.json("import", out, namespace=None)["namespaces"]
    assert (row["namespace"], row["items"], row["added"]) == (["ann"], 2, 2)
    assert seen(wedding) == before
    assert wedding.json("history") == history
    assert "2 were there" in wedding("import", out).stdout
    assert wedding("doctor").exit_code == 0


def test_an_export_can_be_piped(wedding, tmp_path):
    done = wedding("export", "-")
    assert done.exit_code == 0
    wedding("export", tmp_path / "out.jsonl")
    assert done.stdout == (tmp_path / "out.jsonl").read_text(encoding="utf-8")


def test_an_export_goes_to_another_namespace_if_one_is_given(wedding, tmp_path):
    wedding("export", tmp_path / "out.jsonl")
    wedding("import", tmp_path / "out.jsonl", namespace="bo")
    assert [note["content"] for note in seen(wedding, "bo").values()] == [
        note["content"] for note in seen(wedding).values()
    ]
    assert wedding("doctor").exit_code == 0


def test_a_damaged_export_is_one_line(wedding, tmp_path):
    out = tmp_path / "out.jsonl"
    wedding("export", out)
    out.write_text(out.read_text(encoding="utf-8") + "{,\n", encoding="utf-8")
    assert "line" in wedding.fails("import", out)


def test_a_file_that_cannot_be_written_is_one_line_and_leaves_no_draft(wedding, tmp_path):
    assert "No such file" in wedding.fails("export", tmp_path / "missing" / "out.jsonl")
    (tmp_path / "folder.html").mkdir()
    assert "directory" in wedding.fails("export", tmp_path / "folder.html")
    assert "folder.html: " in wedding.fails("graph", tmp_path / "folder.html")
    assert {path.name for path in tmp_path.iterdir()} == {"memory", "folder.html"}


def test_an_export_that_an_editor_gave_a_byte_order_mark_is_one_all_the_same(wedding, tmp_path):
    out = tmp_path / "out.jsonl"
    wedding("export", out)
    out.write_bytes(b"\xef\xbb\xbf" + out.read_bytes())
    assert wedding.json("import", out)["format"] == "export"


def test_another_embedder_takes_over_by_reindex(wedding):
    assert "reindex" in wedding.fails("search", "wedding", "--embedder", "other")
    before = seen(wedding)
    assert wedding.json("reindex", "--embedder", "other") == {"notes": 2, "embedder": "other"}
    wedding.names.clear()
    assert len(wedding.json("search", "wedding")) == 2
    assert wedding.names == ["other"]
    assert seen(wedding) == before
    assert wedding("doctor").exit_code == 0


def test_the_same_embedder_encodes_anew_in_place(wedding):
    assert wedding.json("reindex") == {"notes": 2, "embedder": "hash"}
    assert "2 notes encoded by hash" in wedding("reindex").stdout


def test_all_namespaces_are_exported_and_imported_without_one(wedding, tmp_path):
    out = tmp_path / "all.jsonl"
    wedding("add", "Of another.", namespace="bo")
    done = wedding.json("export", out, namespace=None)
    assert done == {"file": str(out), "namespace": None, "notes": 3}
    before, history = seen(wedding), wedding.json("history")
    wedding.folder = tmp_path / "copy"
    rows = wedding.json("import", out, "--embedder", "other", namespace=None)["namespaces"]
    assert [(row["namespace"], row["added"]) for row in rows] == [(["ann"], 2), (["bo"], 1)]
    assert (seen(wedding), wedding.json("history")) == (before, history)
    assert len(seen(wedding, "bo")) == 1
    assert len(wedding.json("search", "wedding")) == 2
    assert "other" in wedding("doctor").stdout
    assert "2 namespaces" in wedding.fails("import", out)


def test_what_has_expired_is_swept_in_one_namespace_or_in_all(wedding):
    soon = datetime.now(UTC) + timedelta(seconds=1)
    with AgenticMemory.open(wedding.folder, embedder=HashEmbedder(256, name="hash")) as memory:
        for space in ("ann", "bo", "eve"):
            memory.add("The code is 4711", namespace=(space,), expires_at=soon, evolve=False)
    time.sleep(1.1)
    assert wedding.json("sweep", namespace="bo") == {"deleted": 1}
    assert wedding("sweep", namespace=None).stdout == "2 expired notes deleted\n"
    assert wedding.json("sweep", namespace=None) == {"deleted": 0}
    assert len(seen(wedding)) == wedding.json("stats")["notes"] == 2


def test_stats_show_what_a_model_cost_and_nothing_where_there_was_none(amem):
    assert amem("add", "I moved to Oslo", "--key", "a").exit_code == 0
    assert "calls" not in amem("stats").stdout
    reply = {"notes": [{"id": "n1", "context": "Oslo", "keywords": ["Oslo"], "tags": ["move"]}]}
    text = json.dumps(reply)
    paid = Completion(text=text, input_tokens=90, output_tokens=10)
    amem.model = ScriptedModel(lambda _request: paid)
    assert amem("add", "I moved to Rome", "--model", "m", namespace="bo").exit_code == 0
    assert "cost: 1 calls, 100 tokens, 50.0 a note" in amem("stats", namespace=None).stdout
    cost = amem.json("stats", namespace="bo")["cost"]
    assert (cost["calls"], cost["tokens_per_note"]) == (1, 100.0)


def test_there_is_nothing_to_optimise_in_a_small_memory(wedding):
    assert wedding("optimize").exit_code == 0
    assert wedding("doctor").exit_code == 0
    assert "by itself" in wedding.fails("optimize", "--memory", "http://127.0.0.1:9")


def test_after_compacting_no_byte_of_what_was_deleted_is_left(amem):
    secret = "Xylophantasie"
    amem("add", "Mira moved to Porto.", "--key", "first")
    amem("add", f"The password of the safe is {secret}.", "--key", "secret")
    amem("delete", "secret", "--yes")
    assert [file for file in files(amem.folder) if secret.lower() in file.lower()]
    sizes = amem.json("compact")
    assert sizes["before"] > 0
    assert sizes["after"] > 0
    assert not [file for file in files(amem.folder) if secret.lower() in file.lower()]
    assert [note["content"] for note in amem.json("show")] == ["Mira moved to Porto."]
    assert amem("doctor").exit_code == 0
    assert "bytes" in amem("compact").stdout


def test_a_server_is_not_compacted(amem):
    assert "is no folder" in amem.fails("compact", "--memory", "http://127.0.0.1:9")


def files(folder):
    """Return the contents of all files, every byte as a letter."""
    return [path.read_bytes().decode("latin-1") for path in folder.rglob("*") if path.is_file()]


ABSENT = [("export", "x"), ("reindex",), ("optimize",), ("compact",), ("history",)]


def test_what_is_not_there_is_not_looked_after(amem):
    for arguments in ABSENT:
        assert "there is no memory in" in amem.fails(*arguments)
        assert not amem.folder.exists()


def test_a_correction_can_be_taken_back(wedding):
    updated = wedding.json("update", "first", "The wedding is in Lisbon.")
    assert (updated["content"], updated["state"]) == ("The wedding is in Lisbon.", "done")
    change = next(c for c in wedding.json("history", "first") if c["kind"] == "update")
    assert "+The wedding is in Lisbon." in change["diff"]
    wedding("undo", change["id"])
    assert "Porto" in wedding.json("show", "first")["content"]


def test_what_is_for_good_has_to_be_meant(wedding):
    assert "--yes" in wedding.fails("delete", "first")
    assert "--yes" in wedding.fails("clear")
    assert len(seen(wedding)) == 2


def test_a_deleted_note_leaves_no_trace_in_others(wedding):
    gone = wedding.json("show", "second")["id"]
    went = wedding.json("delete", "second", "--yes")
    assert (went["deleted"], went["pending"]) == (gone, 0)
    first = wedding.json("show", "first")
    assert first["links"] == {}
    assert len(first["contexts"]) == 1
    assert [c["kind"] for c in wedding.json("history", gone)] == ["delete"]
    assert wedding("doctor").exit_code == 0


def test_a_namespace_is_cleared_alone(wedding):
    wedding("add", "Of another.", namespace="bo")
    assert wedding.json("clear", "--yes") == {"cleared": ["ann"], "notes": 2}
    assert seen(wedding) == {}
    assert [change["kind"] for change in wedding.json("history")] == ["delete"] * 2
    assert len(seen(wedding, "bo")) == 1


def test_what_an_interrupted_reindex_left_is_put_right(wedding):
    store, name, _ = FolderStore.as_made(wedding.folder)
    store.close()
    (wedding.folder / "amem").rename(wedding.folder / ".amem-before")
    assert name == "hash"
    assert wedding.json("stats")["notes"] == 2
    assert json.loads(wedding("doctor", "--json").stdout)["ok"]


@pytest.mark.enable_socket
def test_a_memory_moves_to_a_server_and_back(wedding, tmp_path):
    before, history = seen(wedding), wedding.json("history")
    with serving(FakeQdrant()) as server:
        assert "there is no memory" in wedding.fails("stats", "--memory", server.url)
        there = ("--memory", server.url)
        wedding("export", tmp_path / "all.jsonl", namespace=None)
        wedding("import", tmp_path / "all.jsonl", *there, namespace=None)
        assert len(wedding.json("search", "wedding", *there)) == 2
        wedding.json("add", "Said to the server.", *there)
        assert wedding.json("doctor", *there)["ok"]
        assert wedding.json("history", "first", *there)[0] == history[0]
        assert "another collection" in wedding.fails("reindex", "--embedder", "other", *there)
        wedding("export", tmp_path / "back.jsonl", *there, namespace=None)
    wedding.folder = tmp_path / "back"
    wedding("import", tmp_path / "back.jsonl", namespace=None)
    assert {i: n for i, n in seen(wedding).items() if i in before} == before
    assert wedding.json("stats")["notes"] == 3
