"""What whole memories are put through leaves digests as they are, a blank one too."""

from __future__ import annotations

import pytest
from support.digests import digest

from amem_integrations import AgenticMemory
from amem_integrations.reindex import migrate, reindex
from amem_integrations.testing import CopyingModel, HashEmbedder

ANN = ("ann",)


class Strict(HashEmbedder):
    """An embedder that refuses an empty text, as endpoints do."""

    def embed_documents(self, texts):
        assert all(texts), "an empty text"
        return super().embed_documents(texts)


def opened(place, embedder=None):
    return AgenticMemory.open(place, model=CopyingModel(), embedder=embedder or Strict())


@pytest.fixture
def folder(tmp_path):
    """A memory with a digest that holds and one that is blank, and what they are."""
    place = tmp_path / "memory"
    with opened(place) as memory:
        notes = memory.add_many(["Tea at four", "Ink is blue", "Oaks grow"], namespace=ANN)
        kept, blank = digest(memory, notes[1:]), digest(memory, notes[:2], name="blank")
        memory.delete(notes[0].id, namespace=ANN)
        ids = (kept.id, blank.id)
        return place, {i: memory.get(i, namespace=ANN) for i in ids}, ids


def check(memory, known, ids):
    assert {i: memory.get(i, namespace=ANN).contexts for i in ids} == {
        i: known[i].contexts for i in ids
    }
    assert {i: memory.get(i, namespace=ANN).sources for i in ids} == {
        i: known[i].sources for i in ids
    }
    vectors = [item.vector for item in memory._runtime.store.get_indexed(ANN, list(ids))]
    assert [vector is None for vector in vectors] == [False, True]


def test_they_come_through_migrate_reindex_compact_and_opening_again(folder, tmp_path):
    place, known, ids = folder
    migrate(place, tmp_path / "copy")
    migrate(place, tmp_path / "anew", embedder=Strict(dimensions=16))
    for other, embedder in (("copy", None), ("anew", Strict(dimensions=16))):
        with opened(tmp_path / other, embedder) as memory:
            check(memory, known, ids)
    reindex(place, Strict(dimensions=8))
    with opened(place, Strict(dimensions=8)) as memory:
        check(memory, known, ids)
        memory._runtime.store.compact()
        check(memory, known, ids)
        memory.reindex()
        check(memory, known, ids)


def test_they_come_through_an_export_into_a_new_folder(folder, tmp_path):
    place, known, ids = folder
    with opened(place) as memory:
        memory.export(tmp_path / "ann.jsonl", namespace=ANN)
    with opened(tmp_path / "new") as memory:
        memory.import_(tmp_path / "ann.jsonl", namespace=ANN)
        notes = [note for note in memory.get_all(namespace=ANN) if note.kind == "digest"]
        contents = {note.id: note.content for note in memory.get_all(namespace=ANN)}
        told = [[contents[i] for i in note.sources] for note in notes]
        assert told == [["Ink is blue", "Oaks grow"], ["Ink is blue"]]
        assert [note.content for note in notes] == [known[i].content for i in ids]


def test_after_compact_the_bytes_of_a_blanked_digest_are_gone(tmp_path):
    with opened(tmp_path / "memory") as memory:
        notes = memory.add_many(["The word is zanzibar4711", "Ink is blue"], namespace=ANN)
        digest(memory, notes)
        memory.delete(notes[0].id, namespace=ANN)
        memory._runtime.store.compact()
    for file in (tmp_path / "memory").rglob("*"):
        assert not file.is_file() or b"zanzibar4711" not in file.read_bytes().lower()
