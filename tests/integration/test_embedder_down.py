"""What the user can do while the embedder is down, and what is made good later."""

from __future__ import annotations

import numpy as np
import pytest
from support import models
from support.ports import WatchedEmbedder

from amem_integrations import NoteInput

ANN = ("ann",)


def found_by_words(memory, query):
    hits = memory.search(query, namespace=ANN, links=False, explain=True)
    return {hit.note.id for hit in hits if hit.why.lexical_rank is not None}


def vector(memory, note_id):
    """The vectors of a note's passages; None: the note has none."""
    return memory._runtime.store.notes(ANN, [note_id], vectors=True)[note_id].vectors


@pytest.fixture
def told(open_memory):
    """A secret in the second note, by which the first one evolved, and which the third one quotes."""
    embedder = WatchedEmbedder()
    memory = open_memory(models.model(evolve, quoting), embedder)
    turns = ["My bank account", "The PIN is sesame", "I see"]
    notes = memory.add_many([NoteInput(content=turn, thread="t") for turn in turns], namespace=ANN)
    assert len(found_by_words(memory, "sesame")) == 3
    memory._runtime.vectors.clear()  # as after a restart
    return memory, embedder, [note.id for note in notes]


def quoting(request):
    shown = [*request.inputs["before"], *request.inputs["notes"]]
    return {
        "notes": [
            {"id": n["alias"], "context": " ".join(m["content"] for m in shown[: shown.index(n)])}
            for n in request.inputs["notes"]
        ]
    }


def evolve(request):
    """The note that tells the PIN adds an entry to the one before it; nothing else is proposed."""
    for note in request.inputs["notes"]:
        if "sesame" in note["content"]:
            update = {"to": note["candidates"][0]["alias"], "context": "Its PIN is sesame."}
            return {"notes": [{"id": note["alias"], "updates": [update]}]}
    return {"notes": []}


def test_what_has_to_go_goes_while_the_embedder_is_down(told, caplog):
    memory, embedder, (bank, pin, reply) = told
    stale = vector(memory, reply)
    embedder.down = True
    memory.delete(pin, namespace=ANN)
    assert [note.id for note in memory.get_all(namespace=ANN)] == [bank, reply]
    assert "sesame" not in repr(memory.get_all(namespace=ANN))
    assert "sesame" not in repr(memory.history(None, namespace=ANN))
    assert found_by_words(memory, "sesame") == set()
    assert "1 notes have no new vector until the next evolve" in caplog.text
    # One note is to be constructed again, and gets its vector then.
    assert [note.state for note in memory.get_all(namespace=ANN)] == ["done", "pending"]
    assert np.allclose(vector(memory, reply), stale)
    embedder.down = False
    memory.evolve()
    assert not np.allclose(vector(memory, reply), stale)


def test_a_correction_goes_through_with_all_that_follows_from_it(told):
    memory, embedder, (_, pin, reply) = told
    embedder.down = True
    note = memory.update(pin, namespace=ANN, content="I changed the number")
    assert (note.content, note.state) == ("I changed the number", "pending")
    assert "sesame" not in repr(memory.get_all(namespace=ANN))
    assert found_by_words(memory, "sesame") == set()
    assert found_by_words(memory, "number") == {pin}
    assert vector(memory, pin) is None  # that of the old words is gone with them
    assert memory.evolve().interrupted
    embedder.down = False
    memory.evolve()
    assert [memory.get(one, namespace=ANN).state for one in (pin, reply)] == ["done", "done"]
    assert vector(memory, pin).shape == (1, 256)


def test_a_note_of_which_the_model_says_nothing_gets_its_vector_all_the_same(open_memory):
    def silent(request):
        return {"notes": [{"id": note["alias"], "context": ""} for note in request.inputs["notes"]]}

    embedder = WatchedEmbedder()
    memory = open_memory(models.model(construct=silent), embedder)
    embedder.down = True
    note = memory.add("Hm", namespace=ANN)
    assert vector(memory, note.id) is None
    embedder.down = False
    memory.evolve()
    assert memory.get(note.id, namespace=ANN).state == "done"
    assert vector(memory, note.id).shape == (1, 256)
