"""With `MemoryConfig(review=True)` a person decides about everything that is proposed for earlier notes."""

from __future__ import annotations

import pytest
from support import models

from amem_integrations import AgenticMemory, InvalidInputError, NoteInput
from amem_integrations.testing import HashEmbedder

ANN, BOB = ("ann",), ("bob",)
SAID = ("The trip is in April", "The trip is in May now", "The trip goes to Rome")
EVOLVING = models.update_first("It was moved to May.", tags=("plans",))


@pytest.fixture
def open_memory(open_memory):
    """Opens memories with a review, unless they are told otherwise."""

    def open_(evolve=EVOLVING, **settings):
        return open_memory(models.model(evolve), **{"review": True, **settings})

    return open_


@pytest.fixture
def waiting(open_memory):
    """A memory of two notes, with a link and an entry that wait for a decision."""
    memory = open_memory()
    first = memory.add(SAID[0], namespace=ANN, thread="t")
    second = memory.add(SAID[1], namespace=ANN, thread="t")
    return memory, first.id, second.id


def proposed(memory, kind):
    """The proposals of a kind: `evolve`, `link` or `supersede`."""
    return [made for made in memory.proposals(namespace=ANN) if made.kind == kind]


def state(memory):
    return memory.get_all(namespace=ANN)


def test_nothing_proposed_is_written_or_searched_by_and_the_notes_are_done(open_memory):
    memory = open_memory()
    first, second = memory.add_many(
        [NoteInput(content=text, thread="t") for text in SAID[:2]], namespace=ANN, evolve=False
    )
    report = memory.evolve(namespace=ANN)
    assert (report.links, report.evolved, len(report.done)) == (0, (), 2)
    assert set(report.proposals) == {made.id for made in memory.proposals(namespace=ANN)}
    notes = memory.get_all(namespace=ANN)
    assert [(n.state, dict(n.links), len(n.contexts)) for n in notes] == [("done", {}, 1)] * 2
    hits = memory.search("plans moved", namespace=ANN, explain=True)
    assert all(hit.via == "match" and hit.why.lexical_rank is None for hit in hits)
    (link,), (entry,) = proposed(memory, "link"), proposed(memory, "evolve")
    for proposal in (link, entry):
        assert (proposal.by, proposal.state) == ("scripted", "waiting")
        assert proposal.after["why"] == "it waits for a review"
    made = {"to": first.id, "relation": "continues", "reason": "goes on with it", "strength": 0.8}
    assert (link.note_id, link.after) == (second.id, {**made, "why": "it waits for a review"})
    assert (entry.note_id, entry.after["cause"]) == (first.id, second.id)
    assert entry.after["context"] == "It was moved to May."
    assert memory.proposals(namespace=BOB) == []
    with pytest.raises(KeyError):
        memory.approve(link.id, namespace=BOB)


@pytest.fixture
def outdated(open_memory):
    """A memory of two notes, of which the second is linked to the first, adds to it and is to take its place."""
    memory = open_memory(models.supersede_first)
    first = memory.add(SAID[0], namespace=ANN, thread="t")
    second = memory.add(SAID[1], namespace=ANN, thread="t")
    return memory, first.id, second.id


@pytest.mark.parametrize("kind", ["evolve", "link", "supersede"])
def test_what_is_approved_counts_and_can_be_undone_rejected_and_approved_again(outdated, kind):
    memory, first, second = outdated
    (proposal,) = proposed(memory, kind)
    before = state(memory)
    made = memory.approve(proposal.id, namespace=ANN)
    assert (made.kind, made.id, made.by, made.state) == (kind, proposal.id, "scripted", "on")
    one, two = approved = state(memory)
    if kind == "link":
        assert (one.links[second].direction, two.links[first].direction) == ("in", "out")
    if kind == "supersede":
        assert (one.superseded_by, made.note_id) == (second, first)
    if kind == "evolve":
        entry = one.contexts[-1]
        assert (entry.cause, entry.change, entry.model) == (second, proposal.id, "scripted")
    assert proposed(memory, kind) == []
    for call in (memory.approve, memory.reject):
        with pytest.raises(InvalidInputError, match=f"{proposal.id}.* was approved"):
            call(proposal.id, namespace=ANN)
    undone = memory.undo(made.id, namespace=ANN)
    assert (state(memory), proposed(memory, kind)) == (before, [proposal])
    memory.undo(undone.id, namespace=ANN)
    assert (state(memory), proposed(memory, kind)) == (approved, [])
    memory.undo(made.id, namespace=ANN)
    record = memory.reject(proposal.id, namespace=ANN)
    assert (record.id, record.kind, record.state) == (proposal.id, kind, "rejected")
    assert record.after["why"] == proposal.after["why"]
    assert (state(memory), proposed(memory, kind)) == (before, [])
    memory.approve(proposal.id, namespace=ANN)
    assert state(memory) == approved


def test_a_reviewers_words_are_for_one_sentence_only_and_take_its_place(waiting):
    memory, first, _ = waiting
    (link,), (entry,) = proposed(memory, "link"), proposed(memory, "evolve")
    with pytest.raises(InvalidInputError, match="no sentence"):
        memory.approve(link.id, namespace=ANN, context="Other words.")
    with pytest.raises(InvalidInputError, match="single proposal"):
        memory.approve([entry.id], namespace=ANN, context="Other words.")
    with pytest.raises(InvalidInputError, match="61 words"):
        memory.approve(entry.id, namespace=ANN, context="word " * 61)
    assert memory.get(first, namespace=ANN).links == {}
    words = {"context": "It got a bell.", "keywords": ["bell"], "tags": []}
    made = memory.approve(entry.id, namespace=ANN, **words)
    entry = memory.get(first, namespace=ANN).contexts[-1]
    assert (entry.text, entry.keywords, entry.tags) == ("It got a bell.", ("bell",), ())
    assert (made.by, made.after["context"]) == ("user", "It got a bell.")
    assert (entry.model, entry.change) == ("user", made.id)


def test_only_a_proposal_is_approved_or_rejected_and_an_empty_one_needs_a_text(open_memory):
    memory = open_memory(models.update_first(""), review=False)
    first = memory.add("one", namespace=ANN, thread="t")
    memory.add("two", namespace=ANN, thread="t")
    added = memory.history(first.id, namespace=ANN)[0]
    for call in (memory.approve, memory.reject):
        with pytest.raises(InvalidInputError, match="not a proposal"):
            call(added.id, namespace=ANN)
    (proposal,) = memory.proposals(namespace=ANN)
    with pytest.raises(InvalidInputError, match="context="):
        memory.approve(proposal.id, namespace=ANN)
    memory.approve(proposal.id, namespace=ANN, context="More is said of it.")
    assert memory.get(first.id, namespace=ANN).contexts[-1].text == "More is said of it."


def test_a_plan_says_what_would_wait_and_a_decision_writes_it(open_memory):
    memory = open_memory()
    memory.add(SAID[0], namespace=ANN)
    raw = memory.add(SAID[1], namespace=ANN, evolve=False)
    memory.construct([raw.id], namespace=ANN)
    plan = memory.propose([raw.id], namespace=ANN)
    link, update = (models.item_of(plan, kind) for kind in ("link", "sentence"))
    for key in (link, update):
        assert plan.items[key].data["why"] == "it waits for a review"
    for answers in ({link: {"context": "x"}}, {"nobody": True}):
        with pytest.raises(InvalidInputError):
            memory.commit(plan, namespace=ANN, answers=answers)
    report = memory.commit(plan, namespace=ANN, answers={link: True, update: False})
    assert (report.links, report.evolved, report.proposals) == (1, (), ())
    assert memory.proposals(namespace=ANN) == []
    (no,) = [c for c in memory.history(None, namespace=ANN) if c.kind == "evolve"]
    assert (no.state, no.after["why"]) == ("rejected", "rejected by a reviewer")
    memory.approve(no.id, namespace=ANN)  # after all
    assert len(memory.get_all(namespace=ANN)[0].contexts) == 2


@pytest.mark.parametrize("gone", [0, 1])
def test_a_proposal_goes_with_either_of_its_notes(waiting, gone):
    memory, *ids = waiting
    memory.delete(ids[gone], namespace=ANN)
    assert memory.proposals(namespace=ANN) == []
    if gone:
        assert "goes on with it" not in repr(memory.history(None, namespace=ANN))


def test_without_a_review_only_what_the_gate_stopped_waits(open_memory):
    memory = open_memory(review=False)
    memory.add_many(SAID, namespace=ANN)
    assert memory.proposals(namespace=ANN) == []
    assert any(note.links for note in memory.get_all(namespace=ANN))


def test_proposals_survive_an_export(waiting, tmp_path):
    memory, _, _ = waiting
    memory.export(tmp_path / "x.jsonl", namespace=ANN)
    with AgenticMemory.open(":memory:", embedder=HashEmbedder()) as other:
        other.import_(tmp_path / "x.jsonl", namespace=ANN)
        assert other.proposals(namespace=ANN) == memory.proposals(namespace=ANN) != []
