"""A key that is revoked in the middle of work: the caller is told, and nothing said is lost."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

from amem_integrations import (
    AgenticMemory,
    ConfigurationError,
    MemoryConfig,
    OpenAIChatModel,
    OpenAIEmbedder,
)
from amem_integrations.testing import HashEmbedder

ANN = ("ann",)
LINES = [f"Turn {number} of the rehearsal" for number in range(6)]
pytestmark = pytest.mark.enable_socket


def every_note(payload):
    shown = re.findall(r"^\[(n\d+)", payload["messages"][-1]["content"], flags=re.MULTILINE)
    return json.dumps({"notes": [{"id": alias, "context": "It was said."} for alias in shown]})


@pytest.fixture
def server(openai_server):
    openai_server.answer = every_note
    return openai_server


def revoke_after(server, calls):
    """Take no key any more after so many chat completions."""
    left = [calls]

    def answer(payload):
        left[0] -= 1
        if not left[0]:
            server.key = "sk-new"
        return every_note(payload)

    server.answer = answer


def opened(server, *, embedder=None, **settings):
    options = {"base_url": server.base_url, "api_key": "sk-old", "max_retries": 0}
    return AgenticMemory.open(
        ":memory:",
        model=OpenAIChatModel("small", **options),
        embedder=embedder or OpenAIEmbedder("embed", dimensions=64, **options),
        config=MemoryConfig(batch_size=2, max_concurrency=1, **settings),
    )


def add(memory, lines, *, asynchronous, **options):
    if asynchronous:
        return asyncio.run(memory.aadd_many(lines, namespace=ANN, **options))
    return memory.add_many(lines, namespace=ANN, **options)


def states(memory):
    return [note.state for note in memory.get_all(namespace=ANN)]


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("on_model_error", ["log", "raise"])
def test_of_a_model_in_the_middle_of_many_notes(server, asynchronous, on_model_error):
    revoke_after(server, 2)
    with opened(
        server, embedder=HashEmbedder(), link=False, on_model_error=on_model_error
    ) as memory:
        with pytest.raises(ConfigurationError, match="check the API key") as caught:
            add(memory, LINES, asynchronous=asynchronous)
        assert "sk-old" not in str(caught.value)
        assert [note.content for note in memory.get_all(namespace=ANN)] == LINES
        assert states(memory)[:4] == ["done"] * 4
        assert set(states(memory)[4:]) <= {"pending", "done"}
        memory.add_many(LINES[:1], namespace=ANN)  # which is there, and asks no model
        server.key = None
        assert memory.evolve().failed == {}
        assert states(memory) == ["done"] * 6


def test_of_a_model_that_had_finished_the_first_of_two_steps(server):
    with opened(server, embedder=HashEmbedder()) as memory:
        memory.add("We rehearsed", namespace=ANN, thread="t")
        revoke_after(server, 1)
        with pytest.raises(ConfigurationError, match="check the API key"):
            memory.add("We sang", namespace=ANN, thread="t")
        assert states(memory) == ["done", "constructed"]
        asked = len(server.requests)
        server.key, server.answer = None, every_note
        memory.evolve()
        assert states(memory) == ["done", "done"]
        assert len(server.requests) - asked == 1  # the first step is not done again


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("evolve", [True, False])
@pytest.mark.parametrize("asynchronous", [True, False])
def test_of_an_embedder(server, status, evolve, asynchronous):
    with opened(server) as memory:
        memory.add("We rehearsed", namespace=ANN, thread="t")
        server.failures.append(status)
        with pytest.raises(ConfigurationError, match="check the API key"):
            add(memory, ["We sang"], asynchronous=asynchronous, evolve=evolve)
        assert states(memory) == ["done", "pending"]
        (note,) = memory.get_all(namespace=ANN, where={"state": "pending"})
        (hit,) = [h for h in memory.search("sang", namespace=ANN) if h.note.id == note.id]
        assert hit.similarity is None  # by its words
        assert memory.evolve().done == (note.id,)
        (hit,) = [h for h in memory.search("sang", namespace=ANN) if h.note.id == note.id]
        assert hit.similarity > 0.1


def test_of_an_embedder_while_notes_are_evolved_and_searched(server):
    with opened(server) as memory:
        note = memory.add("We rehearsed", namespace=ANN, evolve=False)
        server.key = "sk-new"
        with pytest.raises(ConfigurationError, match="check the API key"):
            memory.evolve()
        with pytest.raises(ConfigurationError, match="check the API key"):
            memory.search("choir practice", namespace=ANN)
        assert memory.get(note.id, namespace=ANN).state == "pending"
        server.key = None
        assert memory.evolve().done == (note.id,)
        assert memory.search("choir practice", namespace=ANN)
