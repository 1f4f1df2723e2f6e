"""Writes to a note between a plan and its commit, and while a model is thinking about the note."""

from __future__ import annotations

import pytest
from support import models

from amem_integrations import InvalidInputError, NoteInput
from amem_integrations.journal.erasure import MOST_EARLIER
from amem_integrations.stores.store import PointStore

ANN = ("ann",)


def planned(memory, first="one", second="two"):
    """Two notes, and the plan by which the second links and updates the first."""
    one = memory.add(first, namespace=ANN)
    two = memory.add(second, namespace=ANN, evolve=False)
    memory.construct([two.id], namespace=ANN)
    return one, two, memory.propose([two.id], namespace=ANN)


def test_a_plan_for_what_was_corrected_since_is_not_written(open_memory):
    memory = open_memory(models.model(models.update_first("From the old text.")))
    one, two, plan = planned(memory)
    memory.update(two.id, namespace=ANN, content="three")
    memory.construct([two.id], namespace=ANN)
    report = memory.commit(plan, namespace=ANN)
    assert (report.done, report.links, report.evolved) == ((), 0, ())
    assert len(memory.get(one.id, namespace=ANN).contexts) == 1


def busy(memory, note_id):
    """Write a note so often that its earliest edits are forgotten."""
    for number in range(MOST_EARLIER + 1):
        memory.update(note_id, namespace=ANN, metadata={"n": number})


def test_what_was_taken_back_since_does_not_come_back_by_committing_again(open_memory):
    memory = open_memory(models.model(models.update_first("It goes on.")))
    one, _, plan = planned(memory)
    busy(memory, one.id)
    report = memory.commit(plan, namespace=ANN)
    assert (report.links, report.evolved) == (1, (one.id,))
    assert memory.get(one.id, namespace=ANN).contexts[-1].text == "It goes on."
    for kind in ("evolve", "link"):
        (made,) = [c for c in memory.history(one.id, namespace=ANN) if c.kind == kind]
        memory.undo(made.id, namespace=ANN)
    busy(memory, one.id)
    before = memory.get_all(namespace=ANN), memory.history(None, namespace=ANN)
    report = memory.commit(plan, namespace=ANN)
    assert (report.links, report.evolved) == (0, ())
    assert (memory.get_all(namespace=ANN), memory.history(None, namespace=ANN)) == before


def test_a_plan_leaves_out_what_is_gone_and_keeps_the_rest(open_memory):
    memory = open_memory(models.model(models.update_first("Secret.")))
    one, two, plan = planned(memory)
    memory.delete(one.id, namespace=ANN)
    report = memory.commit(plan, answers={models.item_of(plan, "sentence"): True}, namespace=ANN)
    assert (report.done, report.links) == ((two.id,), 0)
    assert memory.get(two.id, namespace=ANN).links == {}


def test_a_note_that_is_evolved_again_updates_another_once(open_memory):
    texts = iter(["It goes on.", "It goes on.", "It went on."])

    def evolve(request):
        return models.update_first(next(texts))(request)

    memory = open_memory(models.model(evolve))
    one, two, plan = planned(memory)
    memory.commit(plan, namespace=ANN)
    for text in ("It goes on.", "It went on."):
        memory.update(two.id, namespace=ANN, content=f"two, {text}")
        memory.evolve()
        entries = memory.get(one.id, namespace=ANN).contexts
        assert [entry.text for entry in entries[1:]] == [text]


@pytest.mark.parametrize(
    "answer",
    [{}, {"context": 5}, {"context": ""}, {"context": "w " * 61}, {"keywords": "abc"}, {"x": 1}, 7],
)
def test_an_answer_that_cannot_be_written_is_a_clear_error_and_writes_nothing(open_memory, answer):
    memory = open_memory(models.model(models.update_first("It goes on.")))
    _, two, plan = planned(memory)
    with pytest.raises(InvalidInputError):
        memory.commit(plan, answers={models.item_of(plan, "sentence"): answer}, namespace=ANN)
    assert memory.get(two.id, namespace=ANN).state == "constructed"


def test_what_was_deleted_while_earlier_notes_were_worked_on_is_shown_to_no_model(open_memory):
    shown = []

    def construct(request):
        (note,) = request.inputs["notes"]
        shown.append(note["content"])
        if note["content"] == "one":
            memory.delete(last.id, namespace=ANN)
        return models.construct(request)

    memory = open_memory(models.model(construct=construct), batch_size=1, max_concurrency=1)
    *_, last = memory.add_many(["one", "two", "My PIN is 4711"], namespace=ANN, evolve=False)
    memory.evolve()
    assert shown == ["one", "two"]


def test_an_add_while_its_namespace_is_cleared_keeps_what_was_made_of_it(open_memory, monkeypatch):
    memory = open_memory(models.model())
    memory.add_many([NoteInput(content=f"Boat {n}", thread="t") for n in range(3)], namespace=ANN)
    added = []

    def slow(remove):
        def removes(*args):
            if not added:
                added.append(memory.add("My harp is red", namespace=ANN))
            return remove(*args)

        return removes

    monkeypatch.setattr(PointStore, "remove_decisions", slow(PointStore.remove_decisions))
    memory.clear(namespace=ANN)
    (note,) = memory.get_all(namespace=ANN)
    assert (note.id, note.state) == (added[0].id, "done")
    assert [context.text for context in note.contexts] == ["About My harp is red"]
    assert [change.kind for change in memory.history(note.id, namespace=ANN)][:2] == [
        "add",
        "construct",
    ]
