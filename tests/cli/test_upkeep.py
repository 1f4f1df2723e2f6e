"""`amem export`, `import` of an export, `reindex`, `sweep`, `optimize`, `compact`, `update`, `delete`, `clear`."""

from __future__ import annotations

import pytest
from support.qdrant_server import FakeQdrant, serving


def seen(amem, namespace="ann"):
    return {note["id"]: note for note in amem.json("show", "-k", "99", namespace=namespace)}


def test_what_was_exported_is_imported_exactly(wedding, tmp_path):
    out, every = tmp_path / "out.jsonl", tmp_path / "all.jsonl"
    assert wedding.json("export", out) == {"file": str(out), "namespace": ["ann"], "notes": 2}
    assert wedding("export", "-").stdout == out.read_text(encoding="utf-8")
    before, history = seen(wedding), wedding.json("history")
    wedding("import", out, namespace="bo")
    contents = [[note["content"] for note in seen(wedding, one).values()] for one in ("ann", "bo")]
    assert contents[0] == contents[1]
    done = wedding.json("export", every, namespace=None)
    assert done == {"file": str(every), "namespace": None, "notes": 4}
    assert "2 namespaces" in wedding.fails("import", every)
    wedding.folder = tmp_path / "other"
    every.write_bytes(b"\xef\xbb\xbf" + every.read_bytes())  # the byte order mark of an editor
    for _ in range(2):
        done = wedding.json("import", every, "--embedder", "other", namespace=None)
        assert done == {"format": "export", "notes": 4}
        assert (seen(wedding), wedding.json("history")) == (before, history)
    assert len(seen(wedding, "bo")) == len(wedding.json("search", "wedding")) == 2
    assert wedding("doctor").exit_code == 0
    out.write_text(out.read_text(encoding="utf-8") + "{,\n", encoding="utf-8")
    assert "line" in wedding.fails("import", out)


def test_a_file_that_cannot_be_written_is_one_line_and_leaves_no_draft(wedding, tmp_path):
    assert "No such file" in wedding.fails("export", tmp_path / "missing" / "out.jsonl")
    (tmp_path / "folder.html").mkdir()
    assert "directory" in wedding.fails("export", tmp_path / "folder.html")
    assert "folder.html: " in wedding.fails("graph", tmp_path / "folder.html")
    assert {path.name for path in tmp_path.iterdir()} == {"memory", "folder.html"}


def test_another_embedder_takes_over_by_reindex(wedding):
    assert wedding.json("reindex") == {"notes": 2, "embedder": "hash"}
    before = seen(wedding)
    assert wedding.json("reindex", "--embedder", "other") == {"notes": 2, "embedder": "other"}
    wedding.names.clear()
    assert len(wedding.json("search", "wedding")) == 2
    assert wedding.names == ["other"]
    assert seen(wedding) == before
    # As a reindex leaves a folder that was killed at its very end.
    (wedding.folder / "amem").rename(wedding.folder / ".amem-before")
    assert wedding.json("stats")["notes"] == 2
    assert wedding.json("optimize") == {"optimized": False}
    assert wedding("doctor").exit_code == 0


def test_what_has_expired_is_swept_in_one_namespace_or_in_all(wedding):
    for space in ("ann", "bo", "eve"):
        wedding("add", "The code is 4711", "--expires", "2020-01-01", namespace=space)
    assert len(seen(wedding)) == 2
    assert wedding.json("sweep", namespace="bo") == {"deleted": 1}
    assert wedding("sweep", namespace=None).stdout == "deleted: 2\n"
    assert wedding.json("stats")["notes"] == 2


def test_what_is_for_good_has_to_be_meant(wedding):
    for arguments in (("delete", "first"), ("clear",)):
        assert "--yes" in wedding.fails(*arguments)
    first, second = (wedding.json("show", key)["id"] for key in ("first", "second"))
    # What was decided in view of the note goes too.
    went = wedding.json("delete", "first", "--yes", "--thorough")
    assert (went["deleted"], went["entries"], went["pending"]) == (first, [second], 1)
    assert wedding.json("show", "second")["state"] == "pending"
    assert [c["kind"] for c in wedding.json("history", first)] == ["delete"]
    wedding("add", "Of another.", namespace="bo")
    assert wedding.json("clear", "--yes") == {"cleared": ["ann"], "notes": 1}
    assert (seen(wedding), len(seen(wedding, "bo"))) == ({}, 1)
    assert wedding("doctor").exit_code == 0


@pytest.mark.enable_socket
def test_a_memory_moves_to_a_server_and_back(wedding, tmp_path):
    history = wedding.json("history")
    with serving(FakeQdrant()) as server:
        assert "there is no memory" in wedding.fails("stats", "--memory", server.url)
        there = ("--memory", server.url)
        wedding("export", tmp_path / "all.jsonl", namespace=None)
        wedding("import", tmp_path / "all.jsonl", *there, namespace=None)
        assert len(wedding.json("search", "wedding", *there)) == 2
        assert wedding.json("doctor", *there)["ok"]
        assert wedding.json("history", "first", *there)[0] == history[0]
        told = wedding.fails("reindex", "--embedder", "other", *there)
        assert "`amem export` it, and `amem import` the file" in told
        assert "another --collection" in told
        for command in ("optimize", "compact"):
            assert "is no folder" in wedding.fails(command, *there)
