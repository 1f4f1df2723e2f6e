"""`amem stats` and `stats()`: how much is in a memory, and what in it needs a look."""

from __future__ import annotations

from support import models

from amem_integrations import AgenticMemory, MemoryConfig
from amem_integrations.testing import HashEmbedder

ANN, BOB = ("ann",), ("bob",)
NOTHING = {
    "namespaces": 1,
    "notes": 0,
    "states": {},
    "threads": 0,
    "links": 0,
    "evolved": 0,
    "without_links": 0,
    "degree": {"min": 0, "median": 0, "p90": 0, "max": 0, "histogram": []},
    "superseded": 0,
    "superseded_share": 0.0,
    "duplicates": 0,
    "proposals": {},
    "rejected_replies": {},
}


def opened(evolve=models.nothing, construct=models.construct, **settings):
    return AgenticMemory.open(
        ":memory:",
        model=models.model(evolve, construct),
        embedder=HashEmbedder(),
        config=MemoryConfig(**{"min_gate_similarity": -1.0, **settings}),
    )


def to_hub(request):
    """Link every note to the one called hub."""
    reply = models.link_to_first(request)
    for note, asked in zip(reply["notes"], request.inputs["notes"], strict=True):
        hub = [c for c in request.inputs["candidates"] if c["content"] == "hub"]
        note |= {"id": asked["alias"]}
        note["links"][0]["to"] = hub[0]["alias"]
    return reply


def test_an_empty_namespace_counts_nothing():
    with opened() as memory:
        found = memory.stats(namespace=ANN)
        assert {name: found[name] for name in NOTHING} == NOTHING


def test_links_a_note_are_told_as_a_distribution():
    with opened(to_hub, recent=0) as memory:
        for text in ("hub", "hub spoke 1", "hub spoke 2", "hub spoke 3"):
            memory.add(text, namespace=ANN)
        found = memory.stats(namespace=ANN)
        assert found["degree"] == {
            "min": 1,
            "median": 1,
            "p90": 3,
            "max": 3,
            "histogram": [0, 3, 0, 1],
        }
        assert (found["links"], found["without_links"]) == (3, 0)


def test_what_is_superseded_now_is_counted_and_its_share():
    with opened() as memory:
        ids = [memory.add(f"The trip is in month {n}", namespace=ANN).id for n in range(4)]
        memory.supersede(ids[0], ids[1], namespace=ANN)
        memory.supersede(ids[1], ids[2], namespace=ANN)
        found = memory.stats(namespace=ANN)
        assert (found["superseded"], found["superseded_share"]) == (2, 0.5)
        # What took the place of the first is itself retracted: the first is current again.
        memory.supersede(ids[1], ids[3], namespace=ANN, relation="retracts")
        assert memory.stats(namespace=ANN)["superseded"] == 1


def test_the_same_words_again_are_a_duplicate_in_their_namespace_only():
    with opened() as memory:
        for key, text in enumerate(["I moved to Oslo.", "i moved  to OSLO", "I moved to Rome."]):
            memory.add(text, namespace=ANN, key=str(key))
        memory.add("I moved to Oslo.", namespace=BOB)
        assert memory.stats(namespace=ANN)["duplicates"] == 1
        assert memory.stats(namespace=BOB)["duplicates"] == 0
        assert memory.stats()["duplicates"] == 1


OTHER_WORDS = [("C", "C++"), ("日本", "日木"), ("🦊", "🐻"), ("é", "e"), ("?", "!")]


def test_other_words_are_no_duplicate():
    for texts in OTHER_WORDS:
        with opened() as memory:
            for text in texts:
                memory.add(text, namespace=ANN)
            assert memory.stats(namespace=ANN)["duplicates"] == 0


def test_proposals_that_wait_are_counted_by_model():
    with opened(models.update_first("More is said."), review=True) as memory:
        memory.add("The trip is in April", namespace=ANN)
        memory.add("The trip is in May", namespace=ANN)
        assert memory.stats(namespace=ANN)["proposals"] == {"scripted": 2}
        memory.reject(memory.proposals(namespace=ANN)[0].id, namespace=ANN)
        assert memory.stats(namespace=ANN)["proposals"] == {"scripted": 1}


def test_replies_that_could_not_be_used_are_counted_by_model():
    with opened(construct=lambda _request: "no json") as memory:
        memory.add("The trip is in April", namespace=ANN)
        found = memory.stats(namespace=ANN)
        assert found["rejected_replies"] == {"scripted": 2}
        assert found["states"] == {"failed": 1}


def test_the_command_prints_what_the_method_returns(wedding):
    wedding("supersede", "first", "second")
    values = wedding.json("stats")
    assert (values["notes"], values["links"], values["superseded"]) == (2, 1, 1)
    assert values["by_namespace"][0]["namespace"] == ["ann"]
    text = wedding("stats").stdout
    assert "links a note: 1 to 1, median 1, nine of ten have at most 1" in text
    assert "superseded: 50.0% of the notes" in text
    (made,) = [c for c in wedding.json("history", "first") if c["kind"] == "supersede"]
    wedding("undo", made["id"])
    assert wedding.json("stats")["superseded_share"] == 0.0
    assert "superseded: 0.0% of the notes" in wedding("stats").stdout


def test_the_command_names_the_models_whose_proposals_wait(wedding):
    wedding("add", "My sister Lena's wedding in Porto is on 28 June.", "--review")
    assert "proposals that wait: rules" in wedding("stats").stdout
