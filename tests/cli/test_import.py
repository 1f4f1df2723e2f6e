"""`amem import`: every form of file, again and again, with nothing lost."""

from __future__ import annotations

import json
import os
from datetime import datetime

from cli_kit import DIALOGUE

from amem_integrations import AgenticMemory
from amem_integrations.testing import HashEmbedder

MEM0 = [
    {"id": "m-1", "memory": "Allergic to nuts", "user_id": "ann"},
    {"id": "m-2", "memory": "Answers in French", "agent_id": "ann"},
]


def write(folder, name, data):
    path = folder / name
    path.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
    return path


def imported(amem, path, **extra):
    """Return what an import into one namespace tells of it."""
    (row,) = amem.json("import", path, **extra)["namespaces"]
    return row


def test_the_same_file_again_adds_nothing(amem):
    assert amem("import", DIALOGUE, "--later").exit_code == 0
    assert amem.json("stats")["states"] == {"pending": 30}
    first = imported(amem, DIALOGUE)  # finishes what the other one left
    assert (first["items"], first["added"], first["namespace"]) == (30, 0, ["ann"])
    assert amem.json("stats")["states"] == {"done": 30}
    again = imported(amem, DIALOGUE)
    assert (again["added"], again["links"]) == (0, 0)
    assert "namespaces" not in amem("import", DIALOGUE).stdout


def test_lines_are_texts_or_objects_and_keep_every_field(amem, tmp_path):
    lines = [
        '"Just text."',
        "",
        json.dumps({"text": "More \u2028 text.", "session": 3, "role": "ann", "id": 7, "mood": "fine",
                    "timestamp": "2026-05-08", "a": 2, "metadata": {"a": 1}}, ensure_ascii=False),
        json.dumps({"role": "user", "content": "A note of my own.", "key": "8"}),
        json.dumps({"role": "user", "content": "Said in a chat.", "thread": "t", "mood": "calm"}),
    ]  # fmt: skip
    amem("import", write(tmp_path, "x.jsonl", "\n".join(lines)))
    one, two, three, said = amem.json("show")
    assert (said["thread"], said["metadata"]) == ("t", {"mood": "calm"})
    assert one["content"] == "Just text."
    assert two["content"] == "More \u2028 text."
    assert (two["thread"], two["speaker"], two["key"]) == ("3", "ann", "7")
    assert two["metadata"] == {"mood": "fine", "a": 1}
    assert two["at"].startswith("2026-05-08")
    assert (three["key"], three["thread"]) == ("8", None)


CHAT = [
    {"role": "user", "content": "I am Ann.", "name": "Ann", "at": "2026-05-08T10:00:00+00:00"},
    {"role": "assistant", "content": "One moment.", "tool_calls": [{"id": "c"}]},
    {"role": "tool", "content": "42"},
    {"role": "assistant", "content": "Hello Ann!", "at": "2026-05-08T10:01:00+00:00"},
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "I am Ann.", "id": "m5"},
    {"role": "user", "content": "I am Ann."},
]


def test_an_imported_conversation_is_the_one_that_add_messages_stores(amem, tmp_path):
    messages = [{**m, "at": datetime.fromisoformat(m["at"])} if "at" in m else m for m in CHAT]
    with AgenticMemory.open(amem.folder, embedder=HashEmbedder(256)) as memory:
        memory.add_messages(messages, namespace=("ann",), thread="t")
    stored = amem.json("show")
    for name, data in (("t.json", CHAT), ("t.jsonl", "\n".join(map(json.dumps, CHAT)))):
        amem.folder = tmp_path / "memory"
        row = imported(amem, write(tmp_path, name, data))
        assert (row["items"], row["added"]) == (5, 0)
        amem.folder = tmp_path / name.replace(".", "-")
        amem("import", tmp_path / name)
        for expected, found in zip(stored, amem.json("show"), strict=True):
            for field in ("id", "key", "thread", "speaker", "at"):
                assert found[field] == expected[field], (name, field)


EXPORT = '{"format": "amem-integrations", "version": 2, "namespace": ["ann"]}\n'
UNREADABLE = [
    ("x.jsonl", "{,", "x.jsonl, line 1 is not JSON"),
    ("x.jsonl", '{"text": "a", "at": "noon"}', "line 1: 'noon' is not a time"),
    ("x.jsonl", "\n", "x.jsonl holds nothing"),
    ("x.json", '{"a": 1}', "none of the known formats"),
    ("x.json", [{"memory": ""}], "no text: 1 (first: "),
    ("x.json", [{"namespace": ["a"], "value": {"a": 1}}], "item 1 lacks a namespace, a key"),
    ("x.json", [{"role": "system", "content": "Be kind."}], "nothing to import as chat: system"),
    ("x.txt", "hello", "x.txt is not JSON: lexical error: invalid char in json text. hello"),
    ("x.jsonl", EXPORT + '{"note": {"id": 7}}', "line 2 of"),
    ("x.jsonl", EXPORT.replace("2", "99"), "newer version"),
]


def test_a_file_that_cannot_be_read_is_one_line_and_nothing_is_stored(amem, tmp_path):
    for name, data, said in UNREADABLE:
        told = amem.fails("import", write(tmp_path, name, data))
        assert said in told, (name, data)
        assert told.count("\n") == 1, (name, data)
        assert not amem.folder.exists(), (name, data)


def test_a_pipe_is_refused_in_words_before_it_is_read(amem, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert "pipe is a pipe, and a file is read twice" in amem.fails("import", tmp_path / "pipe")


def test_the_form_can_be_named(amem, tmp_path):
    path = write(tmp_path, "x.json", MEM0)
    assert "nothing to import as langgraph" in amem.fails("import", path, "--from", "langgraph")
    for above in ([], ["old", "mem0"]):  # what is of several is kept apart
        told = amem.json("import", path, "--from", "mem0", namespace="/".join(above) or None)
        spaces = [row["namespace"] for row in told["namespaces"]]
        assert spaces == [[*above, "ann"], [*above, "agent", "ann"]]
    told = amem.fails("import", path, "--from", "radio")
    assert "unknown format 'radio'" in told
    assert {"export", "auto", "mem0"} <= set(told.replace(",", "").split())


def test_a_line_that_cannot_be_read_is_skipped_and_told(amem, tmp_path):
    lines = [
        '"One."', "{,", '{"mood": 1}', "[1]", '{"text": "x", "at": "noon"}', '{"text": "x", "source": "radio"}',
        '{"role": "user", "content": "x", "at": "noon"}', '{"text": "x", "mood": NaN}', '"Two."',
    ]  # fmt: skip
    told = amem.json("import", write(tmp_path, "x.jsonl", "\n".join(lines)))
    assert [row["added"] for row in told["namespaces"]] == [2]
    assert told["skipped"] == {"cannot be read": 5, "cannot be stored": 2}
    assert "x.jsonl, line 2 is not JSON" in told["first_skipped"]["cannot be read"]
    assert [note["content"] for note in amem.json("show")] == ["One.", "Two."]
