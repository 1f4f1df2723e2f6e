"""Taking back all that a model did since a time, and having it again."""

from __future__ import annotations

import dataclasses
import random
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from support import models

from amem_integrations import AgenticMemory, AmemError, InvalidInputError, MemoryConfig, NoteInput
from amem_integrations.notes import Attempts
from amem_integrations.testing import HashEmbedder, ScriptedModel

ANN, BOB = ("ann",), ("bob",)
BARE = ({}, {}, (), "pending")
SAID = ("The trip is in April", "The trip is in May now", "The trip goes to Rome")


def named(name, evolve):
    return ScriptedModel({"construct": models.construct, "evolve": evolve}, name=name)


def evolving(name, text="More is said of it."):
    return named(name, models.update_first(text))


def opened(folder, model, **settings):
    config = MemoryConfig(**{"min_gate_similarity": -1.0, "batch_size": 2, **settings})
    return AgenticMemory.open(folder, model=model, embedder=HashEmbedder(), config=config)


@pytest.fixture
def memory():
    """A memory of three notes, made, linked and evolved by the model `good`."""
    with opened(":memory:", named("good", models.supersede_first)) as memory:
        memory.add_many(SAID, namespace=ANN)
        assert memory.get_all(namespace=ANN)[0].superseded_by is not None
        yield memory


def state(memory):
    """The notes, but for which attempt comes next."""
    notes = memory.get_all(namespace=ANN)
    return [dataclasses.replace(note, next_attempts=Attempts()) for note in notes]


def bare(notes):
    return [
        (dict(note.links), dict(note.supersessions), note.contexts, note.state) for note in notes
    ]


def agree(memory):
    """Both ends of every link hold it, unless one has room for stronger ones only."""
    notes = {note.id: note for note in memory.get_all(namespace=ANN)}
    most = memory.config.max_links
    return all(
        i in notes[target].links or len(notes[target].links) == most
        for i, note in notes.items()
        for target in note.links
    )


def test_all_that_a_model_did_is_taken_back_last_first_and_can_be_had_again(memory):
    memory.add(SAID[0], namespace=BOB)
    before, bobs = state(memory), memory.get_all(namespace=BOB)
    assert memory.undo(model="nobody", namespace=ANN).undone == ()
    links = [c.id for c in memory.history(None, namespace=ANN) if c.kind == "link"]
    memory.undo(memory.undo(links[0], namespace=ANN).id, namespace=ANN)
    assert state(memory) == before
    report = memory.undo(model="good", namespace=ANN)
    without, history = state(memory), memory.history(None, namespace=ANN)
    assert bare(without) == [BARE] * 3
    assert [note.content for note in without] == list(SAID)
    kinds = {change.id: change.kind for change in history}
    assert {kinds[i] for i in report.undone} == {"construct", "link", "evolve", "supersede"}
    assert {kinds[i] for i in report.changes} == {"undo"}
    assert (len(report.undone), report.skipped) == (len(report.changes), {})
    taken = [change.at for i in report.undone for change in history if change.id == i]
    assert taken == sorted(taken, reverse=True)
    twice = memory.undo(model="good", namespace=ANN)
    assert (twice.undone, twice.changes, twice.skipped) == ((), (), {})
    assert memory.history(None, namespace=ANN) == history
    again = memory.undo(report.changes, namespace=ANN)
    assert state(memory) == before
    assert (set(again.undone), again.skipped) == (set(report.changes), {})
    again = memory.undo(model="good", namespace=ANN)
    assert (state(memory), again.skipped) == (without, {})
    for change_id in reversed(again.changes):
        memory.undo(change_id, namespace=ANN)
        assert agree(memory)
    assert state(memory) == before
    assert memory.get_all(namespace=BOB) == bobs


def test_several_changes_are_taken_back_texts_too_whatever_their_order(memory):
    first, second, third = before = state(memory)
    memory.update(first.id, namespace=ANN, content="The trip is in June", metadata={"n": 1})
    memory.update(first.id, namespace=ANN, content="The trip is in July")
    memory.update(second.id, namespace=ANN, metadata={"n": 2})
    ids = [c.id for c in memory.history(None, namespace=ANN) if c.kind == "update"]
    link = next(c.id for c in memory.history(third.id, namespace=ANN) if c.kind == "link")
    report = memory.undo([*ids, link], namespace=ANN)
    assert len(report.undone) == 3 + 1
    assert [note.content for note in state(memory)] == list(SAID)
    assert [note.metadata for note in state(memory)] == [note.metadata for note in before]
    assert agree(memory)
    memory.undo(report.changes, namespace=ANN)
    assert state(memory)[0].content == "The trip is in July"
    assert memory.get(second.id, namespace=ANN).links.keys() == second.links.keys()


def test_if_one_of_several_can_never_be_undone_none_is(memory):
    before = state(memory)
    changes = memory.history(before[0].id, namespace=ANN)
    ids = [change.id for change in changes]
    with pytest.raises(InvalidInputError, match="delete"):
        memory.undo(ids, namespace=ANN)
    assert state(memory) == before
    assert memory.undo([], namespace=ANN).undone == ()


def test_only_what_was_done_since_a_time_is_taken_back(memory):
    before = state(memory)
    since = datetime.now(UTC)
    memory.add("The trip is off", namespace=ANN)
    assert state(memory)[:3] != before
    memory.undo(since=since, namespace=ANN)
    assert bare(state(memory)[:3]) == bare(before)
    assert bare(state(memory)[3:]) == [BARE]
    assert memory.undo(since=since + timedelta(hours=1), namespace=ANN).undone == ()


def test_what_the_user_corrected_or_superseded_afterwards_is_left(memory):
    first, second, third = state(memory)
    memory.supersede(second.id, third.id, namespace=ANN)
    memory.update(first.id, namespace=ANN, content="The trip was never planned")
    report = memory.undo(model="good", namespace=ANN)
    note = memory.get(first.id, namespace=ANN)
    assert (note.content, dict(note.links)) == ("The trip was never planned", {})
    assert report.skipped == {}  # what was made of the old text is void already
    made = memory.history(first.id, namespace=ANN)
    assert {change.state for change in made if change.kind == "construct"} == {"void"}
    assert list(memory.get(second.id, namespace=ANN).supersessions) == [third.id]
    assert memory.undo(since=datetime(2024, 5, 8, tzinfo=UTC), namespace=ANN).undone == ()


def test_what_an_upgrade_has_switched_off_is_passed_over_until_that_is_taken_back(tmp_path):
    with opened(tmp_path, None) as memory:
        memory.add_many([NoteInput(content=text, thread="t") for text in SAID], namespace=ANN)
        by_rules = state(memory)
        assert any(note.links for note in by_rules)
    with opened(tmp_path, evolving("better")) as memory:
        memory.evolve(namespace=ANN, upgrade=True)
        before = state(memory)
        report = memory.undo(model="rules", namespace=ANN)
        assert (state(memory), report.undone, report.skipped) == (before, (), {})
        memory.undo(model="better", namespace=ANN)
        now = state(memory)
        assert [(n.contexts, n.links) for n in now] == [(n.contexts, n.links) for n in by_rules]
        assert memory.undo(model="rules", namespace=ANN).skipped == {}
        assert bare(state(memory)) == [BARE] * 3
        assert len(memory.evolve(namespace=ANN).done) == 3  # by the model there is
        assert {note.attributes_source for note in state(memory)} == {"better"}


def test_what_a_reviewer_approved_stays_and_open_proposals_are_rejected(tmp_path):
    with opened(tmp_path, evolving("good"), review=True) as memory:
        memory.add_many(SAID, namespace=ANN)
        one, *others = memory.proposals(namespace=ANN)
        made = memory.approve(one.id, namespace=ANN)
        report = memory.undo(model="good", namespace=ANN)
        assert set(report.skipped) >= {made.id}
        assert set(report.skipped.values()) == {"a reviewer approved it"}
        assert set(report.rejected) == {proposal.id for proposal in others}
        assert memory.proposals(namespace=ANN) == []
        assert memory.undo(model="good", namespace=ANN).rejected == ()


def test_what_to_undo_has_to_be_said_once(memory):
    before = state(memory)
    for arguments in (
        {},
        {"change_id": "00000000-0000-4000-8000-000000000001", "model": "good"},
        {"since": datetime(2024, 5, 8)},  # noqa: DTZ001 - without a zone
        {"since": "yesterday"},
    ):
        with pytest.raises(InvalidInputError):
            memory.undo(**arguments, namespace=ANN)
    assert state(memory) == before


def at_random(dice):
    """A model that links, evolves and supersedes at random."""

    def answer(request):
        notes = []
        for note in request.inputs["notes"]:
            to = [candidate["alias"] for candidate in note["candidates"]]
            strong = {"relation": "r", "reason": "why", "strength": dice.random()}
            updates = [{"to": a, "context": f"More {a}"} for a in to if dice.random() < 0.3]
            gone = [{"to": a, "relation": "updates"} for a in to if dice.random() < 0.2]
            links = [{"to": a, **strong} for a in to if dice.random() < 0.6]
            one = {"id": note["alias"], "links": links, "updates": updates, "supersedes": gone}
            notes.append(one)
        return {"notes": notes}

    return named("good", answer)


def act(memory, dice, step):
    """Do something that changes the memory; what is refused changes nothing."""
    notes = [note.id for note in memory.get_all(namespace=ANN)]
    acts = {
        "add": lambda: memory.add_many([f"part {step} of {n}" for n in range(3)], namespace=ANN),
        "update": lambda: memory.update(dice.choice(notes), namespace=ANN, content=f"new {step}"),
        "delete": lambda: memory.delete(dice.choice(notes), namespace=ANN),
        "supersede": lambda: memory.supersede(notes[0], notes[-1], namespace=ANN),
        "evolve": lambda: memory.evolve(namespace=ANN),
        "undo": lambda: memory.undo(
            dice.choice(memory.history(None, namespace=ANN)).id, namespace=ANN
        ),
        "approve": lambda: memory.approve(
            [made.id for made in memory.proposals(namespace=ANN)[:3]], namespace=ANN
        ),
    }
    with suppress(AmemError):
        acts[dice.choice(list(acts)) if notes else "add"]()


@pytest.mark.parametrize("seed", range(6))
def test_whatever_happened_before_taking_all_back_is_itself_taken_back_exactly(seed):
    dice = random.Random(seed)
    settings = {"max_links": dice.choice([2, 3, 32]), "review": dice.random() < 0.3}
    with opened(":memory:", at_random(dice), **settings) as memory:
        for step in range(10):
            act(memory, dice, step)
        before = state(memory)
        report = memory.undo(model="good", namespace=ANN)
        without = state(memory)
        assert agree(memory)
        assert memory.undo(model="good", namespace=ANN).undone == ()
        again = memory.undo(report.changes, namespace=ANN)
        assert agree(memory)
        assert again.skipped == {}
        assert state(memory) == before
        memory.undo(again.changes, namespace=ANN)
        assert state(memory) == without


def test_after_a_kill_it_goes_on_where_it_was(tmp_path):
    folder, left = tmp_path / "m", [3]
    memory = opened(folder, named("good", models.link_to_first), batch_size=8)
    memory.add_many([f"The trip, part {n}" for n in range(40)], namespace=ANN)
    records = memory._runtime.store._records
    original = records.swap

    def killed(*args, **kwargs):
        left[0] -= 1
        if left[0] <= 0:
            raise KeyboardInterrupt
        return original(*args, **kwargs)

    records.swap = killed
    with pytest.raises(KeyboardInterrupt):
        memory.undo(model="good", namespace=ANN)
    memory._runtime.store.close()
    with opened(folder, named("good", models.link_to_first)) as memory:
        assert agree(memory)
        undone = [c for c in memory.history(None, namespace=ANN) if c.kind == "undo"]
        left = memory.undo(model="good", namespace=ANN)
        assert 0 < len(undone) < 40 + 39
        assert len(undone) + len(left.undone) == 40 + 39
        assert left.skipped == {}
        assert bare(state(memory)) == [BARE] * 40
