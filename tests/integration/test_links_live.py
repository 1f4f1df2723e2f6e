"""Links live: a new note strengthens, weakens or removes links; the weakest go where there are too many."""

from __future__ import annotations

import dataclasses

import pytest
from support import models

from amem_integrations import InvalidInputError, NoteInput
from amem_integrations.cli.changes import diff

ANN, BOB = ("ann",), ("bob",)
NEW = "By the way, Zoe says that the boat trip was in Norway"


def relinking(change, between=None, reason="the new note shows it"):
    """Return an answer that links notes, and changes the link of the first two when the third comes."""

    def answer(request):
        reply = models.link_to_first(request)
        for note in reply["notes"]:
            links = request.inputs["links"]
            if request.inputs["notes"][0]["content"] == NEW:
                pair = [one for link in links for one in link["between"]]
                note["links"] = []
                note["relinks"] = [
                    {
                        "between": pair if between is None else between,
                        "change": change,
                        "reason": reason,
                    }
                ]
        return reply

    return answer


@pytest.fixture
def open_memory(open_memory):
    """Opens memories whose model gives this answer when it links."""

    def open_(answer=models.link_to_first, **settings):
        model = models.model(answer)
        memory = open_memory(model, **settings)
        memory.model = model
        return memory

    return open_


def linked(memory, namespace=ANN):
    """Add two notes that the model links."""
    first = memory.add("We went on a boat trip", namespace=namespace, thread="t")
    second = memory.add("Norway was cold", namespace=namespace, thread="t")
    return first.id, second.id


def link_of(memory, one, other, namespace=ANN):
    """Return the link between two notes, None if there is none; both ends must say the same."""
    link = memory.get(one, namespace=namespace).links.get(other)
    back = memory.get(other, namespace=namespace).links.get(one)
    if link is not None:
        turned = "in" if link.direction == "out" else "out"
        assert back == dataclasses.replace(link, direction=turned)
    else:
        assert back is None
    return link


def relinks(memory, note_id):
    return [c for c in memory.history(note_id, namespace=ANN) if c.kind == "relink"]


# The evolve step


@pytest.mark.parametrize(
    ("change", "strength"), [("strengthen", 0.9), ("weaken", 0.4), ("remove", None)]
)
def test_a_new_note_changes_a_link_between_earlier_ones_at_both_ends(open_memory, change, strength):
    memory = open_memory(relinking(change))
    first, second = linked(memory)
    assert link_of(memory, first, second).strength == 0.8
    new = memory.add(NEW, namespace=ANN, thread="t")
    link = link_of(memory, first, second)
    assert (link and link.strength) == (strength and pytest.approx(strength))
    for end in (first, second):
        (made,) = relinks(memory, end)
        assert (made.note_id, made.after["to"], made.by) == (second, first, "scripted")
        assert made.before == {"strength": 0.8}
        assert made.after["strength"] == pytest.approx(strength or 0.0)
        assert (made.after["reason"], made.after["cause"]) == ("the new note shows it", new.id)


@pytest.mark.parametrize("change", ["strengthen", "weaken", "remove"])
@pytest.mark.parametrize("end", [0, 1])
def test_a_changed_link_is_undone_and_redone_at_both_ends_from_either(open_memory, change, end):
    memory = open_memory(relinking(change))
    ids = linked(memory)
    before = link_of(memory, *ids)
    memory.add(NEW, namespace=ANN, thread="t")
    after = link_of(memory, *ids)
    assert after != before
    (made,) = relinks(memory, ids[end])
    undone = memory.undo(made.id, namespace=ANN)
    assert link_of(memory, *ids) == before
    assert relinks(memory, ids[1 - end])[0].state == "off"
    memory.undo(undone.id, namespace=ANN)
    assert link_of(memory, *ids) == after


def test_the_report_counts_a_changed_link_once(open_memory):
    memory = open_memory(relinking("weaken"))
    linked(memory)
    memory.add(NEW, namespace=ANN, thread="t", evolve=False)
    report = memory.evolve(namespace=ANN)
    assert (report.relinked, report.links, report.dropped) == (
        1,
        1,
        0,
    )  # it follows the turn before


def test_the_model_is_shown_the_links_between_the_notes_that_it_is_shown(open_memory):
    memory = open_memory(models.link_to_first)
    linked(memory)
    memory.add(NEW, namespace=ANN, thread="t")
    request = memory.model.asked("evolve")[-1]
    (link,) = request.inputs["links"]
    assert {"relation": "continues", "strength": 0.8}.items() <= link.items()
    one, other = link["between"]
    assert f"{one}-{other} continues, strong" in request.prompt


@pytest.mark.parametrize(
    "between", [["c1", "c9"], ["c1", "c1"], ["c1"], ["n1", "c1"], ["c1", "c2", "n1"], []]
)
def test_what_names_no_link_that_was_shown_is_dropped_and_counted(open_memory, between):
    memory = open_memory(relinking("remove", between))
    first, second = linked(memory)
    memory.add(NEW, namespace=ANN, thread="t", evolve=False)
    report = memory.evolve(namespace=ANN)
    assert (report.relinked, report.dropped) == (0, 1)
    assert link_of(memory, first, second).strength == 0.8


def test_without_evolution_no_link_is_changed(open_memory):
    memory = open_memory(relinking("remove"), evolve=False)
    first, second = linked(memory)
    memory.add(NEW, namespace=ANN, thread="t")
    assert link_of(memory, first, second).strength == 0.8


def test_with_review_a_changed_link_waits_and_is_written_when_it_is_approved(open_memory):
    memory = open_memory(relinking("remove"), review=True)
    first, second = linked(memory)
    (made,) = memory.proposals(namespace=ANN)
    memory.approve(made.id, namespace=ANN)
    memory.add(NEW, namespace=ANN, thread="t")
    before = link_of(memory, first, second)
    (proposal,) = memory.proposals(namespace=ANN)
    assert (proposal.kind, proposal.note_id, proposal.after["to"]) == ("relink", second, first)
    assert proposal.after["strength"] == 0.0
    approved = memory.approve(proposal.id, namespace=ANN)
    assert link_of(memory, first, second) is None
    assert (approved.id, approved.state) == (proposal.id, "on")
    assert memory.proposals(namespace=ANN) == []
    with pytest.raises(InvalidInputError, match="was approved"):
        memory.approve(proposal.id, namespace=ANN)
    memory.undo(approved.id, namespace=ANN)
    assert link_of(memory, first, second) == before
    assert [p.id for p in memory.proposals(namespace=ANN)] == [proposal.id]
    memory.reject(proposal.id, namespace=ANN)
    assert memory.proposals(namespace=ANN) == []


@pytest.mark.parametrize(("change", "stopped"), [("weaken", True), ("strengthen", False)])
def test_a_link_that_the_user_brought_back_is_weakened_only_if_the_user_agrees(
    open_memory, change, stopped
):
    memory = open_memory(relinking(change))
    first, second = linked(memory)
    (made,) = [c for c in memory.history(first, namespace=ANN) if c.kind == "link"]
    gone = memory.undo(made.id, namespace=ANN)
    memory.undo(gone.id, namespace=ANN)
    memory.add(NEW, namespace=ANN, thread="t")
    waiting = memory.proposals(namespace=ANN)
    assert bool(waiting) == stopped
    assert (link_of(memory, first, second).strength == 0.8) == stopped
    for proposal in waiting:
        assert "a person" in proposal.after["why"]


def test_the_diff_of_a_changed_link_shows_both_strengths_and_the_reason(open_memory):
    memory = open_memory(relinking("weaken"))
    first, _ = linked(memory)
    memory.add(NEW, namespace=ANN, thread="t")
    (made,) = relinks(memory, first)
    lines = "\n".join(diff(made))
    for part in ("-strength: 0.80", "+strength: 0.40", "the new note shows it"):
        assert part in lines


# Strength


def found_over_a_link(memory):
    """Add two linked notes among others; return their ids and the hit that a link led to."""
    ids = linked(memory)
    memory.add_many(
        [NoteInput(content=f"Decoy {number}") for number in range(80)], namespace=ANN, evolve=False
    )
    match, _, hit = memory.search("boat trip", namespace=ANN, k=3)
    assert (match.note.id, match.via) == (ids[0], "match")
    assert (hit.note.id, [step.note_id for step in hit.via]) == (ids[1], [ids[0]])
    return ids, hit


def test_the_graph_and_hits_have_the_strength_of_a_link(open_memory):
    memory = open_memory()
    (first, second), hit = found_over_a_link(memory)
    assert memory.get(first, namespace=ANN).links[second].strength == 0.8
    assert memory.graph(namespace=ANN).edges[second, first]["strength"] == 0.8
    assert hit.via[0].strength == 0.8
