"""The history, and taking things back: rule 9, as a user sees it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from support import models

from amem_integrations import InvalidInputError, RevisionConflictError

ANN, BOB = ("ann",), ("bob",)


@pytest.fixture
def evolved(open_memory):
    """A memory with two notes, linked, and the first evolved by the second."""
    memory = open_memory(models.model(models.update_first("It was moved to May.", tags=("plans",))))
    first = memory.add("The trip is in April", namespace=ANN, thread="t")
    second = memory.add("The trip is in May now", namespace=ANN, thread="t")
    return memory, first.id, second.id


def state(memory, *ids):
    return [memory.get(note_id, namespace=ANN) for note_id in ids]


def last(memory, note_id, kind):
    return [c for c in memory.history(note_id, namespace=ANN) if c.kind == kind][-1]


# history


@pytest.mark.on_a_server
def test_history_is_oldest_first_and_of_one_note(evolved):
    memory, first, second = evolved
    changes = memory.history(first, namespace=ANN)
    assert [change.kind for change in changes] == ["add", "construct", "link", "evolve"]
    assert [change.at for change in changes] == sorted(change.at for change in changes)
    assert [change.note_id for change in changes] == [first, first, second, first]
    assert [change.kind for change in memory.history(second, namespace=ANN)] == [
        "add",
        "construct",
        "link",
    ]
    everything = memory.history(None, namespace=ANN)
    assert {change.id for change in everything} >= {change.id for change in changes}
    assert [c.kind for c in everything if c.note_id == first] == ["add", "construct", "evolve"]


def test_a_change_says_what_by_whom_and_whether_it_holds(evolved):
    memory, first, second = evolved
    _, made, link, evolve = memory.history(first, namespace=ANN)
    assert {made.by, link.by, evolve.by} == {"scripted"}
    assert made.after["context"] == "About The trip is in April"
    assert (made.before, made.state) == ({}, "on")
    assert evolve.after["context"] == "It was moved to May."
    assert (evolve.after["tags"], evolve.after["cause"]) == (["plans"], second)
    assert link.after == {
        "to": first,
        "relation": "continues",
        "reason": "goes on with it",
        "strength": 0.8,
    }
    memory.undo(link.id, namespace=ANN)
    assert last(memory, first, "link").state == "off"
    undone = last(memory, first, "undo")
    assert (undone.by, undone.before, undone.after) == (
        "user",
        {"state": "on"},
        {"change": link.id, "state": "off"},
    )
    memory.update(first, namespace=ANN, metadata={"n": 1}, content="The trip is off")
    update = last(memory, first, "update")
    assert (update.by, update.before, update.after) == (
        "user",
        {"metadata": {}, "content": "The trip is in April"},
        {"metadata": {"n": 1}, "content": "The trip is off"},
    )


def test_the_newest_twenty_edits_of_a_note_are_kept(open_memory):
    memory = open_memory(models.model())
    note = memory.add("0", namespace=ANN, evolve=False)
    for number in range(1, 31):
        memory.update(note.id, namespace=ANN, metadata={"n": number})
    changes = memory.history(note.id, namespace=ANN)
    assert [change.kind for change in changes] == ["add", *["update"] * 20]
    assert [change.after["metadata"]["n"] for change in changes[1:]] == list(range(11, 31))
    assert changes[1].before["metadata"] == {"n": 10}


def test_what_is_void_shows_no_text(evolved):
    memory, first, _ = evolved
    memory.update(first, namespace=ANN, content="Nothing to do with it")
    (made,) = [c for c in memory.history(first, namespace=ANN) if c.kind == "construct"]
    assert (made.state, made.by, made.before, made.after) == ("void", "scripted", {}, {})
    with pytest.raises(InvalidInputError, match="quoted"):
        memory.undo(made.id, namespace=ANN)


# undo


@pytest.mark.on_a_server
@pytest.mark.parametrize("kind", ["construct", "evolve", "link"])
def test_undo_takes_back_what_a_change_did_and_undoing_that_brings_it_back(evolved, kind):
    memory, first, second = evolved
    before = state(memory, first, second)
    undone = memory.undo(last(memory, first, kind).id, namespace=ANN)
    assert (undone.kind, undone.note_id) == ("undo", second if kind == "link" else first)
    note, other = state(memory, first, second)
    if kind == "construct":
        assert (note.own_entry, note.state, len(note.contexts)) == (None, "pending", 1)
    if kind == "evolve":
        assert [entry.text for entry in note.contexts] == ["About The trip is in April"]
        assert note.tags == ("topic",)
    if kind == "link":
        assert (dict(note.links), dict(other.links)) == ({}, {})
    again = memory.undo(undone.id, namespace=ANN)
    assert state(memory, first, second) == before
    memory.undo(again.id, namespace=ANN)
    assert state(memory, first, second) == [note, other]
    flips = [made for made in memory.history(first, namespace=ANN) if made.kind == "undo"]
    assert [made.state for made in flips] == ["off", "off", "on"]


def test_what_was_undone_is_not_searched_by_any_more(evolved):
    memory, first, _ = evolved
    assert memory.search("moved plans", namespace=ANN, links=False)[0].note.id == first
    memory.undo(last(memory, first, "evolve").id, namespace=ANN)
    (hit,) = [
        h
        for h in memory.search("moved plans", namespace=ANN, links=False, explain=True)
        if h.note.id == first
    ]
    assert hit.why.lexical_rank is None


def test_undo_of_an_update_brings_back_the_values_and_has_the_note_made_anew(evolved):
    memory, first, _ = evolved
    memory.update(first, namespace=ANN, content="The trip is off", metadata={"city": "Rome"})
    memory.evolve(namespace=ANN)
    assert memory.get(first, namespace=ANN).own_entry.text == "About The trip is off"
    undone = memory.undo(last(memory, first, "update").id, namespace=ANN)
    assert (undone.kind, undone.after["content"]) == ("update", "The trip is in April")
    note = memory.get(first, namespace=ANN)
    assert (note.content, note.metadata) == ("The trip is in April", {})
    assert (note.state, note.own_entry) == ("pending", None)
    memory.evolve(namespace=ANN)
    assert memory.get(first, namespace=ANN).own_entry.text == "About The trip is in April"
    memory.undo(undone.id, namespace=ANN)
    note = memory.get(first, namespace=ANN)
    assert (note.content, note.metadata) == ("The trip is off", {"city": "Rome"})


def test_an_undone_construction_is_made_anew_or_had_again(evolved):
    memory, first, _ = evolved
    made = last(memory, first, "construct")
    memory.undo(made.id, namespace=ANN)
    assert memory.evolve(namespace=ANN).done == (first,)
    new = memory.get(first, namespace=ANN).own_entry.change
    assert new != made.id
    for shown in (made.id, new):  # the one that was switched on last shows
        memory.undo(made.id, namespace=ANN)
        assert memory.get(first, namespace=ANN).own_entry.change == shown


def test_undo_names_the_later_change_of_the_same_field(evolved):
    memory, first, _ = evolved
    memory.update(first, namespace=ANN, content="B")
    one = last(memory, first, "update")
    memory.update(first, namespace=ANN, content="C")
    two = last(memory, first, "update")
    with pytest.raises(RevisionConflictError, match=two.id):
        memory.undo(one.id, namespace=ANN)
    assert memory.get(first, namespace=ANN).content == "C"
    # Once that one is undone, it stands in the way no more; what touched other fields never did.
    memory.update(first, namespace=ANN, metadata={"city": "Rome"})
    memory.undo(two.id, namespace=ANN)
    undone = memory.undo(one.id, namespace=ANN)
    note = memory.get(first, namespace=ANN)
    assert (note.content, note.metadata) == ("The trip is in April", {"city": "Rome"})
    with pytest.raises(RevisionConflictError, match=undone.id):
        memory.undo(one.id, namespace=ANN)


def test_a_switch_that_was_set_again_since_names_the_later_change(evolved):
    memory, first, _ = evolved
    made = last(memory, first, "evolve")
    undone = memory.undo(made.id, namespace=ANN)
    redone = memory.undo(made.id, namespace=ANN)
    with pytest.raises(RevisionConflictError, match=redone.id):
        memory.undo(undone.id, namespace=ANN)
    assert len(memory.get(first, namespace=ANN).contexts) == 2


def test_what_cannot_be_undone_says_what_to_do_instead(open_memory):
    answers = iter(["no json", "no json"])
    memory = open_memory(
        models.model(
            models.update_first("word " * 61),
            lambda request: next(answers, None) or models.construct(request),
        )
    )
    first = memory.add("one", namespace=ANN, thread="t")
    second = memory.add("two", namespace=ANN, thread="t")
    memory.add("three", namespace=ANN, thread="t")
    fourth = memory.add("four", namespace=ANN, thread="t")
    waiting, other, *_ = memory.proposals(namespace=ANN)
    rejected = memory.reject(other.id, namespace=ANN)
    memory.delete(fourth.id, namespace=ANN)
    (failed, *_) = [c for c in memory.history(first.id, namespace=ANN) if c.state == "failed"]
    for made, advice in (
        (last(memory, second.id, "add"), r"delete\(\)"),
        (failed, r"evolve\(\)"),
        (waiting, r"approve\(\) or reject\(\)"),
        (rejected, r"approve\(\) the proposal"),
        (last(memory, fourth.id, "delete"), "gone for good"),
    ):
        with pytest.raises(InvalidInputError, match=advice):
            memory.undo(made.id, namespace=ANN)


def test_what_was_on_at_a_time_is_known_then_whatever_was_switched_since(evolved):
    memory, first, second = evolved
    times = [datetime.now(UTC)]

    def known(time):
        note = memory.get(first, namespace=ANN, known_at=time)
        return [entry.text for entry in note.contexts], list(note.links), note.superseded_by

    whole = (["About The trip is in April", "It was moved to May."], [second], None)
    assert known(times[0]) == whole
    undone = [
        memory.undo(last(memory, first, kind).id, namespace=ANN) for kind in ("evolve", "link")
    ]
    times.append(datetime.now(UTC))
    memory.undo(last(memory, first, "construct").id, namespace=ANN)
    memory.supersede(first, second, namespace=ANN)
    times.append(datetime.now(UTC))
    memory.undo(undone[0].id, namespace=ANN)
    assert known(times[0]) == whole
    assert known(times[1]) == (["About The trip is in April"], [], None)
    assert known(times[2]) == ([], [], second)
    assert known(None) == (["It was moved to May."], [], second)


def test_a_proposal_is_believed_from_the_time_on_at_which_it_was_approved(open_memory):
    memory = open_memory(models.model(models.update_first("It was moved.")), review=True)
    first = memory.add("The trip is in April", namespace=ANN, thread="t")
    memory.add("The trip is in May now", namespace=ANN, thread="t")
    before = datetime.now(UTC)
    memory.approve([made.id for made in memory.proposals(namespace=ANN)], namespace=ANN)
    note = memory.get(first.id, namespace=ANN, known_at=before)
    assert (len(note.contexts), note.links) == (1, {})
    assert len(memory.get(first.id, namespace=ANN).contexts) == 2


# clear


def test_clear_removes_everything_of_one_namespace_and_nothing_of_another(evolved):
    memory, _, second = evolved
    mine = memory.add("Bob's", namespace=BOB)
    memory.delete(second, namespace=ANN)
    memory.clear(namespace=ANN)
    assert memory.get_all(namespace=ANN) == []
    assert memory.search("trip", namespace=ANN) == []
    assert memory.namespaces() == [BOB]
    left = memory.history(None, namespace=ANN)
    assert [change.kind for change in left] == ["delete", "delete"]
    assert memory.get(mine.id, namespace=BOB) == mine
    assert [c.kind for c in memory.history(mine.id, namespace=BOB)] == ["add", "construct"]
    memory.clear(namespace=ANN)
    assert memory.add("The trip is in April", namespace=ANN).state == "done"
