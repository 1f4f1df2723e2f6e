"""`amem stats` and `stats()`: how much is in a memory, and what in it needs a look."""

from __future__ import annotations

import json

from support import models

from amem_integrations import Completion
from amem_integrations.testing import ScriptedModel

ANN, BOB = ("ann",), ("bob",)


def test_links_and_notes_without_any_are_counted():
    model = models.model(models.link_to_first)
    with models.opened(model=model, recent=1, candidates=1) as memory:
        found = memory.stats(namespace=ANN)
        assert (found["notes"], found["states"], found["without_links"]) == (0, {}, 0)
        for number in range(3):
            memory.add(f"bead {number}", namespace=ANN, thread="a chain")
        memory.add("A bead alone", namespace=ANN, evolve=False)
        found = memory.stats(namespace=ANN)
        assert (found["links"], found["without_links"]) == (2, 1)
        assert (found["threads"], found["evolved"]) == (1, 0)
    with models.opened(model=models.model(models.update_first("It is red."))) as memory:
        for number in range(2):
            memory.add(f"bead {number}", namespace=ANN)
        assert memory.stats(namespace=ANN)["evolved"] == 1


def test_what_is_superseded_now_is_counted_and_its_share():
    with models.opened(model=models.model()) as memory:
        ids = [memory.add(f"The trip is in month {n}", namespace=ANN).id for n in range(4)]
        memory.supersede(ids[0], ids[1], namespace=ANN)
        memory.supersede(ids[1], ids[2], namespace=ANN)
        found = memory.stats(namespace=ANN)
        assert (found["superseded"], found["superseded_share"]) == (2, 0.5)
        assert found["threads"] == 0
        # What took the place of the first is itself retracted: the first is current again.
        memory.supersede(ids[1], ids[3], namespace=ANN, relation="retracts")
        assert memory.stats(namespace=ANN)["superseded"] == 1


def test_the_same_words_again_are_a_duplicate_in_their_namespace_only():
    with models.opened(model=models.model()) as memory:
        for key, text in enumerate(["I moved to Oslo.", "i moved  to OSLO", "I moved to Rome."]):
            memory.add(text, namespace=ANN, key=str(key))
        memory.add("I moved to Oslo.", namespace=BOB)
        for texts in [("C", "C++"), ("日本", "日木"), ("🦊", "🐻"), ("é", "e"), ("?", "!")]:
            memory.add_many(texts, namespace=texts)
            assert memory.stats(namespace=texts)["duplicates"] == 0, texts
        counts = [memory.stats(namespace=space)["duplicates"] for space in (ANN, BOB, None)]
        assert counts == [1, 0, 1]


def test_proposals_that_wait_are_counted_by_model():
    model = models.model(models.update_first("More is said."))
    with models.opened(model=model, review=True) as memory:
        memory.add("The trip is in April", namespace=ANN)
        memory.add("The trip is in May", namespace=ANN)
        assert memory.stats(namespace=ANN)["proposals"] == {"scripted": 2}
        memory.reject(memory.proposals(namespace=ANN)[0].id, namespace=ANN)
        assert memory.stats(namespace=ANN)["proposals"] == {"scripted": 1}
    with models.opened(model=models.model(construct=lambda _request: "no json")) as memory:
        memory.add("The trip is in April", namespace=ANN)
        found = memory.stats(namespace=ANN)
        assert (found["rejected_replies"], found["states"]) == ({"scripted": 2}, {"failed": 1})


def test_the_command_prints_what_the_method_returns(wedding):
    wedding("supersede", "first", "second")
    values = wedding.json("stats")
    assert (values["notes"], values["links"], values["superseded"]) == (2, 1, 1)
    text = wedding("stats").stdout
    assert "superseded share: 0.50" in text
    assert "cost" not in text
    wedding("add", "My sister Lena's wedding in Porto is on 28 June.", "--review")
    assert "proposals: rules " in wedding("stats").stdout
    text = json.dumps({"notes": [{"id": "n1", "context": "Oslo", "keywords": [], "tags": []}]})
    paid = Completion(text=text, input_tokens=90, output_tokens=10)
    wedding.model = ScriptedModel(lambda _request: paid)
    wedding("add", "I moved to Rome", "--model", "m", namespace="bo/x")
    values = wedding.json("stats", namespace=None)
    assert values["notes"] == 4
    assert [one["namespace"] for one in values["by_namespace"]] == [["ann"], ["bo", "x"]]
    assert values["by_namespace"][1]["cost"]["tokens_per_note"] == 100.0
    text = wedding("stats", namespace=None).stdout
    assert "bo/x" in text
    assert "cost: calls 1, input_tokens 90, output_tokens 10, tokens_per_note 25.00" in text
