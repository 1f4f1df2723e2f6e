"""A note that no model can make costs calls a few times, and notes of rules are made again once there is a model."""

from __future__ import annotations

from functools import partial

import pytest
from support import models
from support.ports import WatchedStore, fail_once
from support.processes import copy_folder

from amem_integrations import AgenticMemory, MemoryConfig, ModelUnavailableError, NoteInput
from amem_integrations.stores import FolderStore
from amem_integrations.testing import HashEmbedder, ScriptedModel

ANN, BOB = ("ann",), ("bob",)


POISON = "zebra quartz"


class Poisoned:
    """Answers of a model that one note makes speechless, until it is `cured`."""

    cured = False

    def construct(self, request):
        return self._answer(request, models.construct)

    def evolve(self, request):
        return self._answer(request, models.nothing)

    def _answer(self, request, answer):
        said = [note["content"] for note in request.inputs["notes"]]
        return "no JSON" if POISON in said and not self.cured else answer(request)


@pytest.fixture
def open_memory(open_memory):
    """Opens memories that give a note up after two attempts."""
    return partial(open_memory, max_attempts=2)


@pytest.mark.parametrize("step", ["construct", "evolve"])
def test_a_note_that_fails_again_and_again_is_left_alone_until_that_is_asked_for(open_memory, step):
    poisoned = Poisoned()
    memory = open_memory(models.model(**{step: getattr(poisoned, step)}))
    memory.add("before", namespace=ANN)
    notes = memory.add_many([POISON, "harmless"], namespace=ANN)
    where = {"state": "failed", "attempts": {"$lt": memory.config.max_attempts}}
    waiting = [note.content for note in memory.get_all(namespace=ANN, where=where)]
    assert waiting == [POISON, "harmless"]
    memory.add_many(["one", "two", "three"], namespace=BOB, evolve=False)
    report = memory.evolve(limit=3)  # what fails counts too
    assert (len(report.done), list(report.failed)) == (2, [notes[0].id])
    for _ in range(5):
        memory.evolve()
    calls = len(memory.model.requests)
    assert memory.evolve() == memory.evolve(namespace=ANN)
    assert memory.evolve().failed == {}
    assert memory.get_all(namespace=ANN, where=where) == []
    assert len(memory.model.requests) == calls
    note, other = (memory.get(note.id, namespace=ANN) for note in notes)
    assert (note.state, note.attempts, other.state) == ("failed", 2, "done")
    assert step in note.failure
    assert memory.search("quartz", namespace=ANN, k=1)[0].note.id == note.id
    assert note.id in memory.evolve(retry=True).failed
    assert memory.get(note.id, namespace=ANN).attempts == 3
    poisoned.cured = True
    assert memory.evolve().done == ()
    assert memory.evolve(retry=True).done == (note.id,)


def test_a_step_that_went_well_gives_the_next_one_all_its_tries(open_memory):
    poisoned = Poisoned()
    evolve = [ModelUnavailableError("it is down"), *["no JSON"] * 4]
    memory = open_memory(models.model(evolve, poisoned.construct))
    memory.add("before", namespace=ANN)
    note = memory.add(POISON, namespace=ANN)
    memory.evolve()
    poisoned.cured = True
    assert memory.evolve(retry=True).interrupted
    found = memory.get(note.id, namespace=ANN)
    assert (found.state, found.attempts) == ("constructed", 0)
    assert [note.id in memory.evolve().failed for _ in range(3)] == [True, True, False]


# What is idle costs nothing


def test_an_idle_evolve_asks_the_store_once_however_many_namespaces_there_are(tmp_path):
    store = WatchedStore(FolderStore(tmp_path, dimensions=64))
    config = MemoryConfig(max_attempts=1)
    model = models.model(construct=Poisoned().construct)
    with AgenticMemory._over(store, HashEmbedder(), model, config) as memory:
        for number in range(20):
            memory.add(f"note {number}", namespace=(f"user-{number}",))
        memory.add(POISON, namespace=BOB)
        store.calls.clear()
        memory.evolve()
        assert store.calls == ["namespaces"]
        memory.add("something new", namespace=ANN, evolve=False)
        store.calls.clear()
        assert len(memory.evolve().done) == 1
        # Of the one namespace: what has no vector, and what is unfinished.
        assert store.calls.count("scan") == 2


TURNS = [
    NoteInput(content="The cat sat on the red mat", thread="monday"),
    NoteInput(content="It is a very old mat", thread="monday"),
    NoteInput(content="The cat sat on the red mat again", thread="friday"),
]


@pytest.fixture
def folder(tmp_path):
    """A memory made without a model: links by rules, and a first note that a third one evolved."""
    with models.opened(tmp_path, batch_size=2) as memory:
        memory.add_many(TURNS, namespace=ANN)
        notes = memory.get_all(namespace=ANN)
        assert {note.attributes_source for note in notes} == {"rules"}
        assert sum(len(note.links) for note in notes) == 4
        assert [len(note.contexts) for note in notes] == [2, 1, 1]
    return tmp_path


def reopened(folder, model):
    return models.opened(folder, model, batch_size=2)


def test_upgrade_makes_rule_notes_again_and_removes_what_rules_made(folder):
    model = models.model()
    with reopened(folder, model) as memory:
        before = memory.get_all(namespace=ANN)
        report = memory.evolve(namespace=ANN, upgrade=True)
        notes = memory.get_all(namespace=ANN)
        assert report.done == report.constructed == tuple(note.id for note in notes)
        kept = [[(note.content, note.seq) for note in some] for some in (before, notes)]
        assert kept[0] == kept[1]
        assert {note.state for note in notes} == {"done"}
        assert {entry.model for note in notes for entry in note.contexts} == {"scripted"}
        relations = [[link.relation for link in note.links.values()] for note in notes]
        assert relations == [["follows"], ["follows"], []]  # of the turns of one thread
        history = memory.history(notes[0].id, namespace=ANN)
        made = [(change.by, change.state) for change in history if change.kind == "construct"]
        assert made == [("rules", "off"), ("scripted", "on")]
        assert {change.state for change in history if change.by == "rules"} == {"off"}
        calls = len(model.requests)  # it is done once
        assert memory.evolve(namespace=ANN, upgrade=True).done == ()
        assert (memory.get_all(namespace=ANN), len(model.requests)) == (notes, calls)


def test_upgrade_takes_back_what_rules_proposed(tmp_path):
    with models.opened(tmp_path, review=True) as memory:
        memory.add_many(TURNS, namespace=ANN)
        assert {made.by for made in memory.proposals(namespace=ANN)} == {"rules"}
    with reopened(tmp_path, models.model()) as memory:
        memory.evolve(namespace=ANN, upgrade=True)
        assert memory.proposals(namespace=ANN) == []


def test_upgrade_leaves_what_a_model_made(folder):
    with reopened(folder, models.model(models.update_first("Seen by a model."))) as memory:
        *_, third = memory.get_all(namespace=ANN)
        report = memory.evolve(namespace=ANN, thread="friday", upgrade=True)
        assert report.done == (third.id,)
        fourth = memory.add("Where is the mat?", namespace=ANN, thread="monday")
        target = next(iter(fourth.links))
        memory.evolve(namespace=ANN, upgrade=True)
        assert target in memory.get(fourth.id, namespace=ANN).links
        evolved = memory.get(target, namespace=ANN)
        assert fourth.id in evolved.links
        assert any(entry.cause == fourth.id for entry in evolved.contexts)


def test_a_model_that_is_down_or_talks_nonsense_leaves_the_rule_notes(folder):
    for answer in (ModelUnavailableError("it is down"), "no json"):
        with reopened(folder, ScriptedModel(lambda _request, a=answer: a)) as memory:
            notes = memory.get_all(namespace=ANN)
            report = memory.evolve(namespace=ANN, upgrade=True)
            assert report.interrupted or len(report.failed) == 3
            assert memory.get_all(namespace=ANN) == notes


def test_an_interrupted_upgrade_is_resumed_by_evolve(folder):
    evolve = [ModelUnavailableError("it is down"), *[models.link_to_first] * 9]
    with reopened(folder, models.model(evolve)) as memory:
        assert memory.evolve(namespace=ANN, upgrade=True).interrupted
        assert "constructed" in {note.state for note in memory.get_all(namespace=ANN)}
        memory.evolve(namespace=ANN)
        memory.evolve(namespace=ANN, upgrade=True)
        notes = memory.get_all(namespace=ANN)
        assert {(note.state, note.attributes_source) for note in notes} == {("done", "scripted")}


def test_a_kill_at_any_write_of_an_upgrade_leaves_one_set_of_links(folder, tmp_path_factory):
    def upgraded(place):
        with reopened(place, models.model()) as memory:
            memory.evolve(namespace=ANN)
            memory.evolve(namespace=ANN, upgrade=True)
            notes = memory.get_all(namespace=ANN)
            changes = [made for note in notes for made in memory.history(note.id, namespace=ANN)]
            assert {made.state for made in changes if made.by == "rules"} == {"off"}
        assert {(note.state, note.attributes_source) for note in notes} == {("done", "scripted")}
        return [(note.links.keys(), note.contexts[0].text) for note in notes]

    kills = [("_records", "insert", 0), ("_records", "swap", 0)]
    kills += [("_records", "swap", 1), ("_notes", "swap", 1)]
    copies = [tmp_path_factory.mktemp("copy") / "m" for _ in kills]
    for copy, (collection, write, after) in zip(copies, kills, strict=True):
        copy_folder(folder, copy)
        with reopened(copy, models.model()) as memory:
            written = getattr(memory._runtime.store, collection)
            fail_once(written, write, after=after, error=KeyboardInterrupt())
            with pytest.raises(KeyboardInterrupt):
                memory.evolve(namespace=ANN, upgrade=True)
    wanted = upgraded(folder)
    assert [upgraded(copy) for copy in copies] == [wanted] * len(kills)
