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
