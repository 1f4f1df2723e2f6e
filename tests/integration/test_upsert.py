"""The same key again: what is given takes the place of what was there, what is left out stays."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from support import models
from support.ports import WatchedEmbedder

from amem_integrations import AgenticMemory, MemoryConfig, NoteInput

ANN = ("ann",)
MAY, JUNE = datetime(2024, 5, 8, 12, tzinfo=UTC), datetime(2024, 6, 8, 12, tzinfo=UTC)
STORY = "\n\n".join(f"Chapter {n}. " + "The hero walks on. " * 30 for n in range(4))


@pytest.fixture
def told():
    """A memory with one note, everything given, and what it cost."""
    model, embedder = models.model(models.update_first("It is in May.")), WatchedEmbedder()
    config = MemoryConfig(min_gate_similarity=-1.0)
    with AgenticMemory.open(":memory:", model=model, embedder=embedder, config=config) as memory:
        add(memory, speaker="Ann", at=MAY, metadata={"city": "Rome", "days": [1, 2]})
        yield memory, model, embedder


def add(memory, content="We meet yesterday", **given):
    return memory.add(content, namespace=ANN, key="k", thread="t", **given)


def cost(told):
    _, model, embedder = told
    return len(model.requests), len(embedder.calls)


def test_what_is_equal_or_left_out_changes_nothing_and_costs_nothing(told):
    memory, *_ = told
    before, spent = memory.get_all(namespace=ANN), cost(told)
    changes = memory.history(None, namespace=ANN)
    for again in (
        {},
        {"speaker": "Ann", "at": MAY, "metadata": {"city": "Rome", "days": [1, 2]}},
        {"metadata": {"days": (1, 2), "city": "Rome"}},
        {"at": MAY.astimezone(timezone(timedelta(hours=9)))},
    ):
        assert [add(memory, **again)] == before == memory.get_all(namespace=ANN)
        assert memory.history(None, namespace=ANN) == changes
        assert cost(told) == spent


def test_other_metadata_is_taken_without_asking_a_model(told):
    memory, *_ = told
    spent, before = cost(told), memory.get_all(namespace=ANN)[0]
    note = add(memory, metadata={"city": "Oslo"})
    assert note == memory.get(note.id, namespace=ANN)
    assert (note.metadata, note.state, note.contexts) == ({"city": "Oslo"}, "done", before.contexts)
    assert cost(told) == spent
    assert memory.get_all(namespace=ANN, where={"metadata.city": "Oslo"}) == [note]
    made = memory.history(note.id, namespace=ANN)[-1]
    assert made.kind == "update"
    assert (made.before, made.after) == (
        {"metadata": before.metadata},
        {"metadata": {"city": "Oslo"}},
    )
    memory.undo(made.id, namespace=ANN)
    assert memory.get(note.id, namespace=ANN).metadata == before.metadata


@pytest.mark.parametrize(("field", "value"), [("at", JUNE), ("speaker", "Bo")])
def test_another_time_or_speaker_makes_the_note_anew(told, field, value):
    memory, model, _ = told
    before = memory.get_all(namespace=ANN)[0]
    note = add(memory, **{field: value})
    assert getattr(note, field) == value
    assert note.state == "done"
    (asked,) = model.asked("construct")[1:]
    shown = value.isoformat() if field == "at" else value
    assert asked.inputs["notes"][0][field] == shown
    assert note.metadata == before.metadata
    made = [c for c in memory.history(note.id, namespace=ANN) if c.kind == "update"][-1]
    assert made.after == {field: shown}
    memory.undo(made.id, namespace=ANN)  # a correction back: the note is made anew once more
    again = memory.get(note.id, namespace=ANN)
    assert (again.at, again.speaker, again.contexts) == (MAY, "Ann", ())


def test_what_the_old_time_had_brought_to_other_notes_is_taken_back(told):
    memory, *_ = told
    first = memory.get_all(namespace=ANN)[0]
    said = {"namespace": ANN, "key": "second", "thread": "t"}
    memory.add("So it is on Friday", at=MAY, **said)
    assert len(memory.get(first.id, namespace=ANN).contexts) == 2
    memory.add("So it is on Friday", at=JUNE, evolve=False, **said)
    assert len(memory.get(first.id, namespace=ANN).contexts) == 1


def test_within_one_call_the_last_one_counts(told):
    memory, *_ = told
    items = [NoteInput(content="One", key="n", metadata={"n": n}) for n in range(3)]
    notes = memory.add_many(items, namespace=ANN)
    assert [note.metadata for note in notes] == [{"n": 2}] * 3


def test_without_a_key_the_words_are_all_that_counts(told):
    memory, *_ = told
    note = memory.add("No key", namespace=ANN, metadata={"n": 1})
    assert memory.add("No key", namespace=ANN, metadata={"n": 2}) == note
    first = memory.add(STORY, namespace=ANN, metadata={"n": 1})
    notes = memory.get_all(namespace=ANN)
    assert memory.add(STORY, namespace=ANN, metadata={"n": 2}) == first
    assert memory.get_all(namespace=ANN) == notes
