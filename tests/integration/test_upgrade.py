"""Notes made without a language model are made again once there is one."""

from __future__ import annotations

import shutil
from contextlib import suppress

import pytest
from support import models

from amem_integrations import (
    AgenticMemory,
    MemoryConfig,
    ModelUnavailableError,
    NoteInput,
)
from amem_integrations.stores.store import PointStore
from amem_integrations.testing import HashEmbedder, ScriptedModel

ANN, BOB = ("ann",), ("bob",)
CONFIG = MemoryConfig(min_gate_similarity=-1.0, batch_size=2)
TURNS = [
    ("The cat sat on the red mat", "monday"),
    ("It is a very old mat", "monday"),
    ("The cat sat on the red mat again", "friday"),
]


@pytest.fixture
def folder(tmp_path):
    """A memory made without a model: links by rules, and a first note that a third one evolved."""
    with AgenticMemory.open(tmp_path, embedder=HashEmbedder(), config=CONFIG) as memory:
        items = [NoteInput(content=content, thread=thread) for content, thread in TURNS]
        memory.add_many(items, namespace=ANN)
        notes = memory.get_all(namespace=ANN)
        assert {note.attributes_source for note in notes} == {"rules"}
        assert sum(len(note.links) for note in notes) == 4
        assert [len(note.contexts) for note in notes] == [2, 1, 1]
    return tmp_path


def reopened(folder, model):
    return AgenticMemory.open(folder, model=model, embedder=HashEmbedder(), config=CONFIG)


def test_upgrade_makes_rule_notes_again_and_removes_what_rules_made(folder):
    with reopened(folder, models.model()) as memory:
        before = memory.get_all(namespace=ANN)
        report = memory.evolve(namespace=ANN, upgrade=True)
        notes = memory.get_all(namespace=ANN)
        assert report.done == report.constructed == tuple(note.id for note in notes)
        assert [note.content for note in notes] == [content for content, _ in TURNS]
        assert [note.seq for note in notes] == [note.seq for note in before]
        assert {note.state for note in notes} == {"done"}
        assert {entry.model for note in notes for entry in note.contexts} == {"scripted"}
        relations = [[link.relation for link in note.links.values()] for note in notes]
        assert relations == [["follows"], ["follows"], []]  # of the turns of one thread
        history = memory.history(notes[0].id, namespace=ANN)
        made = [(change.by, change.state) for change in history if change.kind == "construct"]
        assert made == [("rules", "off"), ("scripted", "on")]
        assert {change.state for change in history if change.by == "rules"} == {"off"}


def test_upgrade_is_done_once_and_costs_nothing_again(folder):
    model = models.model(models.link_to_first)
    with reopened(folder, model) as memory:
        memory.evolve(namespace=ANN, upgrade=True)
        notes, calls = memory.get_all(namespace=ANN), len(model.requests)
        assert memory.evolve(namespace=ANN, upgrade=True).done == ()
        assert (memory.get_all(namespace=ANN), len(model.requests)) == (notes, calls)


def test_upgrade_leaves_what_a_model_made(folder):
    with reopened(folder, models.model(models.update_first("Seen by a model."))) as memory:
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
    answers = iter([ModelUnavailableError("it is down")])
    model = models.model(lambda r: next(answers, None) or models.link_to_first(r))
    with reopened(folder, model) as memory:
        assert memory.evolve(namespace=ANN, upgrade=True).interrupted
        assert "constructed" in {note.state for note in memory.get_all(namespace=ANN)}
        memory.evolve(namespace=ANN)
        memory.evolve(namespace=ANN, upgrade=True)
        notes = memory.get_all(namespace=ANN)
        assert {(note.state, note.attributes_source) for note in notes} == {("done", "scripted")}


@pytest.mark.parametrize("write", [1, 3, 5, 11])
def test_a_kill_at_any_write_of_an_upgrade_leaves_one_set_of_links(
    folder, tmp_path_factory, monkeypatch, write
):
    whole = tmp_path_factory.mktemp("whole") / "copy"
    shutil.copytree(folder, whole)
    with reopened(whole, models.model()) as memory:
        memory.evolve(namespace=ANN, upgrade=True)
        wanted = [
            (note.links.keys(), note.contexts[0].text) for note in memory.get_all(namespace=ANN)
        ]
    left = [write]

    def counted(method):
        def writes(*args):
            left[0] -= 1
            if not left[0]:
                raise KeyboardInterrupt
            return method(*args)

        return writes

    with monkeypatch.context() as patch:
        for name in ("swap_notes", "insert_records", "swap_records"):
            patch.setattr(PointStore, name, counted(getattr(PointStore, name)))
        with reopened(folder, models.model()) as memory, suppress(KeyboardInterrupt):
            memory.evolve(namespace=ANN, upgrade=True)
    with reopened(folder, models.model()) as memory:
        memory.evolve(namespace=ANN)
        memory.evolve(namespace=ANN, upgrade=True)
        notes = memory.get_all(namespace=ANN)
        assert [(note.links.keys(), note.contexts[0].text) for note in notes] == wanted
        assert {(note.state, note.attributes_source) for note in notes} == {("done", "scripted")}
        changes = [change for note in notes for change in memory.history(note.id, namespace=ANN)]
        assert {made.state for made in changes if made.by == "rules"} == {"off"}
