"""The kind of a note is stored, found by `where`, kept by an export, and follows the content."""

from __future__ import annotations

from amem_integrations import AgenticMemory
from amem_integrations.testing import HashEmbedder

ANN = ("ann",)


def opened(path=":memory:") -> AgenticMemory:
    return AgenticMemory.open(path, embedder=HashEmbedder())


def contents(memory: AgenticMemory, kind: object) -> set[str]:
    return {note.content for note in memory.get_all(namespace=ANN, where={"kind": kind})}


def test_where_finds_notes_by_kind(tmp_path):
    with opened(tmp_path) as memory:
        memory.add_many(["I moved to Oslo.", "Where do I live?", "Thanks, bye!"], namespace=ANN)
    with opened(tmp_path) as memory:
        assert contents(memory, "statement") == {"I moved to Oslo."}
        assert contents(memory, "question") == {"Where do I live?"}
        assert contents(memory, {"$ne": "filler"}) == {"I moved to Oslo.", "Where do I live?"}
        assert [
            hit.note.kind for hit in memory.search("bye", namespace=ANN, where={"kind": "filler"})
        ] == ["filler"]


def test_an_update_makes_the_kind_anew_and_an_undo_brings_it_back():
    with opened() as memory:
        note = memory.add("Thanks!", namespace=ANN)
        assert note.kind == "filler"
        memory.update(note.id, namespace=ANN, content="Where is Rex?")
        assert memory.get(note.id, namespace=ANN).kind == "question"
        change = memory.history(note.id, namespace=ANN)[-1]
        last = next(
            c for c in reversed(memory.history(note.id, namespace=ANN)) if c.kind == "update"
        )
        assert change is not None
        memory.undo(last.id, namespace=ANN)
        assert memory.get(note.id, namespace=ANN).kind == "filler"


def test_an_export_keeps_kinds(tmp_path):
    file = tmp_path / "notes.jsonl"
    with opened() as memory:
        memory.add_many(["Where do I live?", "Thanks!"], namespace=ANN)
        memory.export(file, namespace=ANN)
    with opened() as memory:
        memory.import_(file, namespace=ANN)
        assert contents(memory, "question") == {"Where do I live?"}
        assert contents(memory, "filler") == {"Thanks!"}
