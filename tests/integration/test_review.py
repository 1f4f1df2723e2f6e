"""Plans: what waits for a person, what a person decides, and what became of a plan on its way."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from support import models

from amem_integrations import InvalidInputError, NamespaceError, NoteInput
from amem_integrations.journal.writer import MOST_EARLIER

ANN, BOB = ("ann",), ("bob",)
SAID = ("The trip is in April", "The trip is in May now", "The trip goes to Rome")
WAITS = {"why": "it waits for a review"}


def proposed(memory, kind):
    """The only proposal of a kind: `evolve`, `link` or `supersede`."""
    (made,) = [made for made in memory.proposals(namespace=ANN) if made.kind == kind]
    return made


@pytest.fixture
def outdated(open_memory):
    """A memory of two notes, of which the second is to be linked to the first, add to it and take its place."""
    memory = open_memory(models.model(models.supersede_first), review=True)
    items = [NoteInput(content=text, thread="t") for text in SAID[:2]]
    first, second = memory.add_many(items, namespace=ANN, evolve=False)
    report = memory.evolve(namespace=ANN)
    assert (report.links, report.evolved, len(report.done)) == (0, (), 2)
    assert set(report.proposals) == {made.id for made in memory.proposals(namespace=ANN)}
    return memory, first.id, second.id


def test_nothing_proposed_is_written_or_searched_by_and_the_notes_are_done(outdated, tmp_path):
    memory, first, second = outdated
    notes = memory.get_all(namespace=ANN)
    assert [(n.state, dict(n.links), len(n.contexts)) for n in notes] == [("done", {}, 1)] * 2
    hits = memory.search("moved", namespace=ANN, explain=True)
    assert all(hit.via == "match" and hit.why.lexical_rank is None for hit in hits)
    link, entry = proposed(memory, "link"), proposed(memory, "evolve")
    assert {(made.by, made.state) for made in (link, entry)} == {("scripted", "waiting")}
    made = {"to": first, "relation": "continues", "reason": "goes on with it", "strength": 0.8}
    assert (link.note_id, link.after) == (second, {**made, **WAITS})
    assert (entry.note_id, entry.after["cause"]) == (first, second)
    assert entry.after["context"] == "It was moved to May."
    assert memory.proposals(namespace=BOB) == []
    memory.export(tmp_path / "x.jsonl", namespace=ANN)
    with models.opened() as other:
        other.import_(tmp_path / "x.jsonl", namespace=ANN)
        assert other.proposals(namespace=ANN) == memory.proposals(namespace=ANN)


@pytest.mark.parametrize("kind", ["evolve", "link", "supersede"])
def test_what_is_approved_counts_and_can_be_undone_rejected_and_approved_again(outdated, kind):
    memory, first, second = outdated
    proposal, before = proposed(memory, kind), memory.get_all(namespace=ANN)

    def waits():
        return proposal in memory.proposals(namespace=ANN)

    then = datetime.now(UTC)
    made = memory.approve(proposal.id, namespace=ANN)
    assert (made.kind, made.id, made.by, made.state) == (kind, proposal.id, "scripted", "on")
    assert memory.get_all(namespace=ANN, known_at=then) == before
    one, two = approved = memory.get_all(namespace=ANN)
    if kind == "link":
        assert (one.links[second].direction, two.links[first].direction) == ("in", "out")
    if kind == "supersede":
        assert (one.superseded_by, made.note_id) == (second, first)
    if kind == "evolve":
        entry = one.contexts[-1]
        assert (entry.cause, entry.change, entry.model) == (second, proposal.id, "scripted")
    assert not waits()
    for call in (memory.approve, memory.reject):
        with pytest.raises(InvalidInputError, match=f"{proposal.id}.* was approved"):
            call(proposal.id, namespace=ANN)
    undone = memory.undo(made.id, namespace=ANN)
    assert (memory.get_all(namespace=ANN), waits()) == (before, True)
    memory.undo(undone.id, namespace=ANN)
    assert (memory.get_all(namespace=ANN), waits()) == (approved, False)
    memory.undo(made.id, namespace=ANN)
    record = memory.reject(proposal.id, namespace=ANN)
    assert (record.id, record.kind, record.state) == (proposal.id, kind, "rejected")
    changes = memory.history(None, namespace=ANN)
    assert memory.reject(proposal.id, namespace=ANN) == record  # as after an answer that was lost
    assert memory.history(None, namespace=ANN) == changes
    assert record.after["why"] == proposal.after["why"]
    assert (memory.get_all(namespace=ANN), waits()) == (before, False)
    memory.approve(proposal.id, namespace=ANN)
    assert memory.get_all(namespace=ANN) == approved


def test_a_reviewers_words_are_for_one_sentence_only_and_take_its_place(outdated):
    memory, first, _ = outdated
    link, entry = proposed(memory, "link"), proposed(memory, "evolve")
    other, long = "Other words.", "word " * 61
    wrong = (
        (link.id, other, "no sentence"),
        ([entry.id], other, "single"),
        (entry.id, long, "61 words"),
    )
    for named, text, said in wrong:
        with pytest.raises(InvalidInputError, match=said):
            memory.approve(named, namespace=ANN, context=text)
    words = {"context": "It got a bell.", "keywords": ["bell"], "tags": ["bikes"]}
    made = memory.approve(entry.id, namespace=ANN, **words)
    entry = memory.get(first, namespace=ANN).contexts[-1]
    assert (entry.text, entry.keywords, entry.tags) == ("It got a bell.", ("bell",), ("bikes",))
    assert (made.by, made.after["context"]) == ("user", "It got a bell.")
    assert (entry.model, entry.change) == ("user", made.id)


def test_without_a_review_only_what_the_gate_stopped_waits(open_memory):
    memory = open_memory(models.model(models.update_first("")))
    first = memory.add("one", namespace=ANN, thread="t")
    second = memory.add("two", namespace=ANN, thread="t")
    assert second.links
    added = memory.history(first.id, namespace=ANN)[0]
    for call in (memory.approve, memory.reject):
        with pytest.raises(InvalidInputError, match="not a proposal"):
            call(added.id, namespace=ANN)
    (proposal,) = memory.proposals(namespace=ANN)
    with pytest.raises(InvalidInputError, match="context="):
        memory.approve(proposal.id, namespace=ANN)
    memory.approve(proposal.id, namespace=ANN, context="More is said of it.")
    assert memory.get(first.id, namespace=ANN).contexts[-1].text == "More is said of it."


@pytest.mark.parametrize("gone", [0, 1])
def test_a_proposal_goes_with_either_of_its_notes(outdated, gone):
    memory, *ids = outdated
    memory.delete(ids[gone], namespace=ANN)
    assert memory.proposals(namespace=ANN) == []
    if gone:
        assert "goes on with it" not in repr(memory.history(None, namespace=ANN))


# A plan, and its commit


def planned(memory):
    """Two notes, and the plan by which the second links, updates and replaces the first."""
    one = memory.add(SAID[0], namespace=ANN, thread="t")
    two = memory.add(SAID[1], namespace=ANN, thread="t", evolve=False)
    memory.construct([two.id], namespace=ANN)
    return one, two, memory.propose([two.id], namespace=ANN)


@pytest.fixture
def memory(open_memory):
    """A memory whose model links each note to the one before it, adds a sentence to that and replaces it."""
    return open_memory(models.model(models.supersede_first))


def test_a_plan_says_what_would_wait_and_a_decision_writes_it(open_memory):
    memory = open_memory(models.model(models.update_first("It was moved.")), review=True)
    one, _, plan = planned(memory)
    link, update = (models.item_of(plan, kind) for kind in ("link", "sentence"))
    for key in (link, update):
        assert plan.items[key].data["why"] == WAITS["why"]
    assert -1 <= plan.items[update].data["similarity"] <= 1
    bad = [{}, {"context": 5}, {"context": ""}, {"context": "w " * 61}, {"context": "合唱" * 5000}]
    refused = [{update: answer} for answer in (*bad, {"keywords": "abc"}, {"x": 1}, 7)]
    for answers in (*refused, {link: {"context": "x"}}, {"nobody": True}, ["x"], {1: True}):
        with pytest.raises(InvalidInputError):
            memory.commit(plan, namespace=ANN, answers=answers)
    report = memory.commit(plan, namespace=ANN, answers={link: True, update: False})
    assert (report.links, report.evolved, report.proposals) == (1, (), ())
    assert memory.proposals(namespace=ANN) == []
    (no,) = [c for c in memory.history(None, namespace=ANN) if c.kind == "evolve"]
    assert (no.state, no.after["why"]) == ("rejected", "rejected by a reviewer")
    memory.approve(no.id, namespace=ANN)  # after all
    assert len(memory.get(one.id, namespace=ANN).contexts) == 2


def test_a_plan_for_what_was_corrected_since_is_not_written(memory):
    one, two, plan = planned(memory)
    memory.update(two.id, namespace=ANN, content="three")
    memory.construct([two.id], namespace=ANN)
    report = memory.commit(plan, namespace=ANN)
    assert (report.done, report.links, report.evolved) == ((), 0, ())
    assert len(memory.get(one.id, namespace=ANN).contexts) == 1


def test_what_was_taken_back_since_does_not_come_back_by_committing_again(memory):
    def busy(note_id):
        """Write a note so often that its earliest edits are forgotten."""
        for number in range(MOST_EARLIER + 1):
            memory.update(note_id, namespace=ANN, metadata={"n": number})

    one, _, plan = planned(memory)
    busy(one.id)
    report = memory.commit(plan, namespace=ANN)
    assert (report.links, report.evolved, report.superseded) == (1, (one.id,), (one.id,))
    assert replace(report + report, links=1) == report  # ids once each
    for kind in ("evolve", "link"):
        (made,) = [c for c in memory.history(one.id, namespace=ANN) if c.kind == kind]
        memory.undo(made.id, namespace=ANN)
    busy(one.id)
    before = memory.get_all(namespace=ANN), memory.history(None, namespace=ANN)
    report = memory.commit(plan, namespace=ANN)
    assert (report.links, report.evolved) == (0, ())
    assert (memory.get_all(namespace=ANN), memory.history(None, namespace=ANN)) == before


def test_a_plan_leaves_out_what_is_gone_and_keeps_the_rest(memory):
    one, two, plan = planned(memory)
    memory.delete(one.id, namespace=ANN)
    report = memory.commit(plan, answers={models.item_of(plan, "sentence"): True}, namespace=ANN)
    assert (report.done, report.links) == ((two.id,), 0)
    assert memory.get(two.id, namespace=ANN).links == {}


def test_what_was_deleted_while_earlier_notes_were_worked_on_is_shown_to_no_model(open_memory):
    def construct(request):
        if models.said_in(request) == ["one"]:
            memory.delete(last.id, namespace=ANN)
        return models.construct(request)

    memory = open_memory(models.model(construct=construct), batch_size=1, max_concurrency=1)
    *_, last = memory.add_many(["one", "two", "My PIN is 4711"], namespace=ANN, evolve=False)
    memory.evolve()
    assert [models.said_in(request) for request in memory.model.asked("construct")] == [
        ["one"],
        ["two"],
    ]


# A plan that was changed on its way is refused, or what does not belong to it is left out


def of_kind(plan, kind):
    """The id of the only item of a kind in the JSON of a plan, and the item."""
    (found,) = [one for one in plan["notes"][0]["items"].items() if one[1]["kind"] == kind]
    return found


def state(memory, namespace):
    return memory.get_all(namespace=namespace), memory.history(None, namespace=namespace)


NO_ITEMS = [
    ("link", "strength", {"data": {"relation": "r", "strength": 7.0}}),
    ("link", "strength", {"data": {"relation": "r", "strength": float("nan")}}),
    ("link", "relation", {"data": {"relation": "r" * 1000, "strength": 0.5}}),
    ("link", "colour", {"data": {"relation": "r", "colour": "red"}}),
    ("link", "an item of kind|no item of kind", {"kind": "entry"}),
    ("link", "no item of kind", {"kind": "form"}),
    ("supersession", "reason", {"text": "r" * 1000}),
    ("supersession", "relation", {"data": {"relation": "likes"}}),
    ("supersession", "strength", {"kind": "relink", "other": "x"}),
    ("sentence", "similarity", {"data": {"similarity": float("inf")}}),
    ("sentence", "text", {"text": "r" * 10_000}),
]
NO_PLANS = [
    ("since", {"since": -1}),
    ("since", {"since": 10**30}),
    ("cost", {"cost": [{"task": "evolve", "input_tokens": -5}]}),
    ("cost", {"cost": [{"task": "evolve", "output_tokens": 10**30}]}),
    ("id", {"id": "mine"}),
]


def test_what_no_plan_has_is_refused_and_named(memory):
    *_, plan = planned(memory)
    plan, before = plan.to_dict(), state(memory, ANN)
    edited = [(named, {**plan, **values}) for named, values in NO_PLANS]
    for kind, named, values in NO_ITEMS:
        edited.append((named, deepcopy(plan)))
        of_kind(edited[-1][1], kind)[1].update(values)
    for named, one in edited:
        with pytest.raises(InvalidInputError, match=f"no plan that propose gave(.|\n)*({named})"):
            memory.commit(one, namespace=ANN)
    decision = memory.get_all(namespace=ANN)[0].own_entry.change.split(":")[0]
    call = memory._runtime.store.records(ANN, [decision])[decision].call
    for earlier in (decision, call):
        with pytest.raises(InvalidInputError, match="made under another id"):
            memory.commit({**plan, "id": earlier}, namespace=ANN)
    assert state(memory, ANN) == before


def test_a_note_is_neither_linked_to_itself_nor_superseded_by_itself(memory):
    _, two, plan = planned(memory)
    plan = plan.to_dict()
    for kind in ("link", "supersession"):
        of_kind(plan, kind)[1]["to"] = two.id
    memory.commit(plan, namespace=ANN)
    note = memory.get(two.id, namespace=ANN)
    assert (note.state, note.links, note.supersessions) == ("done", {}, {})


def test_the_id_of_another_change_takes_no_place_in_the_history(memory):
    *_, plan = planned(memory)
    plan, earlier = plan.to_dict(), memory.history(None, namespace=ANN)
    items = plan["notes"][0]["items"]
    for kind in ("sentence", "supersession"):
        key, item = of_kind(plan, kind)
        del items[key]
        items[earlier[0].id] = {**item, "log": [["on", "user", 1, "x"]], "switch": "off"}
    memory.commit(plan, namespace=ANN)
    later = memory.history(None, namespace=ANN)
    assert later[: len(earlier)] == earlier
    assert {made.state for made in later[len(earlier) :]} == {"on"}


def test_a_text_whose_sources_were_taken_out_goes_with_them_all_the_same(memory):
    one, two, plan = planned(memory)
    plan = plan.to_dict()
    of_kind(plan, "sentence")[1].update(sources=[], text="It was moved to May.")
    memory.commit({**plan, "shown": []}, namespace=ANN)
    assert len(memory.get(one.id, namespace=ANN).contexts) == 2
    memory.delete(two.id, namespace=ANN)
    assert len(memory.get(one.id, namespace=ANN).contexts) == 1


def test_nothing_of_another_namespace_is_touched(memory):
    other = memory.add("My bank is in Graz", namespace=BOB).id
    _, two, plan = planned(memory)
    plan, before = plan.to_dict(), state(memory, BOB)
    with pytest.raises(NamespaceError):
        memory.commit(plan, namespace=BOB)
    edits = [lambda p: p["notes"][0].update(id=other), lambda p: p["shown"].append([other, 1])]
    edits += [lambda p, k=kind: of_kind(p, k)[1].update(to=other) for kind in ("link", "sentence")]
    edits.append(lambda p: of_kind(p, "sentence")[1].update(sources=[[other, 1]]))
    for edit in edits:
        edited = deepcopy(plan)
        edit(edited)
        memory.commit({**edited, "failed": {other: "no"}}, namespace=ANN)
    assert state(memory, BOB) == before
    assert other not in memory.get(two.id, namespace=ANN).links


def test_an_edited_sentence_is_cleaned_as_those_of_models_are(memory):
    one, _, plan = planned(memory)
    words = [" ", "a\nb", *map(str, range(500))]
    edit = {"context": "It is\n[in May]", "keywords": words, "tags": words}
    memory.commit(plan, answers={models.item_of(plan, "sentence"): edit}, namespace=ANN)
    entry = memory.get(one.id, namespace=ANN).contexts[-1]
    assert (entry.text, entry.keywords[0], len(entry.keywords)) == ("It is [in May]", "a b", 8)
