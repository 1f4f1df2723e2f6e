"""`amem doctor` says what is wrong with a memory, and is content with one that is in order."""

from __future__ import annotations

import json
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from uuid import uuid4

import pytest

from amem_integrations import AgenticMemory
from amem_integrations.conversation import Message
from amem_integrations.stores import FolderStore
from amem_integrations.stores.conditions import every, one_of
from amem_integrations.stores.folder_collection import FolderCollection
from amem_integrations.stores.payloads import Point
from amem_integrations.testing import HashEmbedder, ScriptedModel


class Down(HashEmbedder):
    """An embedder that does not answer."""

    def embed_documents(self, texts):
        raise OSError("no route to the embedder")


def findings(amem, *, status):
    """Return what the doctor finds, by what it is about, and what of that is wrong."""
    done = amem("doctor", "--json", namespace=None)
    assert done.exit_code == status, done.output
    report = json.loads(done.stdout)
    assert report["ok"] == (status == 0)
    found = {one["about"]: one for one in report["findings"]}
    return found, [one["about"] for one in report["findings"] if one["level"] == "wrong"]


def mislead(amem):
    """Have the first note show nothing of what was decided about it, past the memory."""
    with closing(FolderStore(amem.folder, dimensions=256)) as store:
        first, *_ = store.scan(("ann",), limit=1)
        (stored,) = store.notes(("ann",), [first.id], vectors=True).values()
        new = replace(stored, note=first.revised(links={}, contexts=()), token="another")
        store.swap_notes(("ann",), [(stored.token, new)])
        assert store.scan(("ann",), limit=1) == [new.note]


@contextmanager
def notes_of(amem):
    """The shard of notes in a closed folder, open."""
    shard = FolderCollection(amem.folder / "amem" / "notes", {}, nullcontext())
    shard.load()
    yield shard
    shard.close()


def test_a_memory_in_order_is_well(talk):
    found, sick = findings(talk, status=0)
    assert sick == []
    for about, said in [
        ("notes", "30, "), ("embedder", "hash"), ("dimensions", "256"), ("versions", "qdrant-edge-py"), ("format", "2"),
        ("schema", "2"), ("created_at", "20"),
    ]:  # fmt: skip
        assert said in found[about]["text"]
    assert "ok: true" in talk("doctor").stdout
    assert talk.names == []


def test_a_memory_that_is_not_there_or_in_use_is_said_to_be(amem, talk, tmp_path):
    with closing(FolderStore(talk.folder, dimensions=256)):
        assert "open already" in talk.fails("stats")
        assert "open already" in findings(talk, status=1)[0]["memory"]["text"]
        assert "open already" in talk("doctor", "--mend").stdout
    amem.folder = tmp_path / "none"
    assert "there is no memory" in findings(amem, status=1)[0]["memory"]["text"]
    assert not amem.folder.exists()


DAMAGED = [
    ("{", "cannot be read"),
    ("{}", "holds no memory"),
    ('{"format": 99}', "format 99"),
    ("[" * 100_000, "cannot be read"),
    ('{"format": 2, "embedder": null, "dimensions": "many"}', "damaged"),
]


def test_a_damaged_description_is_named(talk):
    for content, said in DAMAGED:
        (talk.folder / "amem" / "amem.json").write_text(content, encoding="utf-8")
        assert said in findings(talk, status=1)[0]["memory"]["text"]
        assert said in talk.fails("add", "A word more.")
    assert talk.names == []  # no embedder was loaded for that


def test_a_missing_shard_is_named(talk):
    (talk.folder / "amem" / "notes").rename(talk.folder / "elsewhere")
    assert "notes" in findings(talk, status=1)[0]["memory"]["text"]


def test_what_waits_is_no_fault_and_what_failed_is_tried_again_as_it_says(amem):
    amem("add", "Hopeless.", "--later")
    assert findings(amem, status=0)[0]["unfinished"]["advice"] == "run `amem evolve`"
    amem.model = ScriptedModel(lambda _: "no JSON at all")
    for _ in range(6):
        amem("evolve")
    asked = len(amem.model.requests)
    assert amem.json("evolve")["failed"] == {}
    assert len(amem.model.requests) == asked
    found, sick = findings(amem, status=1)
    assert sick == ["failed"]
    assert found["failed"]["text"].startswith("1 notes")
    assert len(found["failed"]["text"]) > 20
    assert "`amem evolve --retry`" in found["failed"]["advice"]
    assert len(amem.json("evolve", "--retry")["failed"]) == 1
    amem.model = None
    assert len(amem.json("evolve", "--retry")["done"]) == 1


def test_points_that_went_missing_or_hold_no_note_are_found(talk):
    with notes_of(talk) as shard:
        shard.insert([Point(str(uuid4()), {})])
    found, sick = findings(talk, status=1)
    assert sick == ["points"]
    assert "1 points hold no note" in found["points"]["text"]
    talk("compact")
    with notes_of(talk) as shard:
        shard.delete(every([one_of([shard.scroll(None)[0].id])]))
    found, sick = findings(talk, status=1)
    assert "points" in sick
    assert "1 of 30 points are missing" in found["points"]["text"]


def test_deleted_text_lies_in_the_files_until_they_are_compacted(amem):
    for key in ("first", "second"):
        amem("add", f"The {key} kiln is cold.", "--key", key)
    amem("delete", "second", "--yes")
    found, _ = findings(amem, status=0)
    assert (found["deleted"]["level"], found["deleted"]["advice"]) == ("hint", "run `amem compact`")
    sizes = amem.json("compact")
    assert min(sizes["before"], sizes["after"]) > 0
    assert "deleted" not in findings(amem, status=0)[0]
    assert [note["key"] for note in amem.json("show")] == ["first"]


def test_it_mends_views_and_vectors_that_are_missing(talk):
    with AgenticMemory.open(talk.folder, embedder=Down(256)) as memory:
        before = memory.get_all(namespace=("ann",), limit=99)
        said = Message(text="The kiln is cold.", role="user")
        (bare,) = memory.remember_turn([said], namespace=("bo",)).notes
    mislead(talk)
    found, sick = findings(talk, status=1)
    assert sick == ["vectors", "views"]
    assert "1 notes do not show what was decided" in found["views"]["text"]
    assert "wrong" in talk("doctor").stdout
    assert talk("doctor", "--mend").exit_code == 0
    assert findings(talk, status=0)[1] == []
    with AgenticMemory.open(talk.folder, embedder=HashEmbedder(256)) as memory:
        assert memory.get_all(namespace=("ann",), limit=99) == before
        (hit,) = memory.search("The kiln is cold.", namespace=("bo",))
    assert (hit.note.id, hit.similarity) == (bare.id, pytest.approx(1, abs=0.3))
