"""A whole memory with a model and an embedder behind an OpenAI-compatible endpoint."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys

import pytest
from openai_kit import FORMATS, chat, embedder, every_note, formats

from amem_integrations import AgenticMemory, ConfigurationError, MemoryConfig
from amem_integrations.testing import HashEmbedder

ANN = ("ann",)
LINES = [f"Turn {number} of the rehearsal" for number in range(6)]
pytestmark = pytest.mark.enable_socket


def answer(payload) -> str:
    """Answer from the prompt alone, as a model does, wrapped as small models do."""
    prompt = payload["messages"][-1]["content"]
    shown = dict(re.findall(r"^\[([nc]\d+)(?:,[^\]\n]*)?\] ?(.*)$", prompt, flags=re.MULTILINE))
    new = prompt.rpartition("New notes:")[2]
    if "Links between them:" in prompt:
        offers = re.findall(r"^\[(n\d+)\].*\n  ids: (\w+)", prompt, flags=re.MULTILINE)
        notes = [evolution(note, first) for note, first in offers]
    else:
        aliases = re.findall(r"^\[(n\d+)", new, flags=re.MULTILINE)
        notes = [{"id": n, "context": f"{shown[n]}.", "tags": ["chat"]} for n in aliases]
    text = json.dumps({"notes": notes})
    return f"<think>Let me see.</think>\nHere you are:\n```json\n{text}\n```"


def evolution(note, first):
    return {
        "id": note,
        "links": [{"to": first, "relation": "continues", "reason": "the next turn"}],
        "updates": [{"to": first, "context": "It went on.", "tags": ["chat"]}],
    }


@pytest.fixture
def memory(openai_server, request):
    openai_server.accepts, openai_server.answer = getattr(request, "param", "words"), answer
    with AgenticMemory.open(
        ":memory:",
        model=chat(openai_server),
        embedder=embedder(openai_server, dimensions=64),
        config=MemoryConfig(min_gate_similarity=-1.0),
    ) as opened:
        yield opened


def add(memory, content, *, asynchronous, **options):
    """Add one text, or several if `content` is a list."""
    name = "add_many" if isinstance(content, list) else "add"
    if asynchronous:
        return asyncio.run(getattr(memory, f"a{name}")(content, namespace=ANN, **options))
    return getattr(memory, name)(content, namespace=ANN, **options)


def states(memory):
    return [note.state for note in memory.get_all(namespace=ANN)]


@pytest.mark.parametrize(
    ("memory", "asynchronous"),
    [("schema", False), ("words", True)],
    indirect=["memory"],
)
def test_notes_are_made_linked_and_evolved_in_every_format(memory, openai_server, asynchronous):
    first = add(memory, "I joined a choir", asynchronous=asynchronous, thread="t")
    second = add(memory, "We sing on Mondays", asynchronous=asynchronous, thread="t")

    assert (first.state, first.tags) == ("done", ("chat",))
    assert second.links[first.id].reason == "the next turn"
    entry = memory.get(first.id, namespace=ANN).contexts[1]
    assert (entry.text, entry.model) == ("It went on.", "tiny")
    assert memory.search("choir", namespace=ANN, k=1)[0].note.id == first.id
    usage = memory.stats()["usage"]["total"]
    assert usage["calls"] == 3
    assert usage["input_tokens"] > 0
    assert "rejected_replies" not in usage
    refused = list(FORMATS).index(openai_server.accepts)
    assert formats(openai_server)[refused:] == [FORMATS[openai_server.accepts]] * 3


COLD = """
import asyncio, sys
from blockbuster import blockbuster_ctx
from amem_integrations import AgenticMemory, OpenAIChatModel, OpenAIEmbedder

async def main(memory):
    with blockbuster_ctx():
        note = await memory.aadd("I joined a choir", namespace=("ann",), thread="t")
        print(note.state, note.failure)

options = {"base_url": sys.argv[1], "api_key": "sk-secret", "max_retries": 0}
model, embedder = OpenAIChatModel("m", **options), OpenAIEmbedder("e", dimensions=8, **options)
with AgenticMemory.open(":memory:", model=model, embedder=embedder) as memory:
    asyncio.run(main(memory))
"""


def test_the_first_asynchronous_call_of_a_process_does_not_block_the_event_loop(openai_server):
    openai_server.answer = lambda payload: every_note(payload).replace("}]", "},]")  # to repair

    done = subprocess.run(
        [sys.executable, "-c", COLD, openai_server.base_url],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.stdout.strip() == "done None", done.stdout + done.stderr[-2000:]


@pytest.mark.parametrize(
    ("broken", "asynchronous"),
    [('{"notes": [{"id": "n1", "co', True), ("I would describe n1.", False)],
)
def test_an_answer_that_cannot_be_used_is_shown_to_the_model_once(
    memory, openai_server, broken, asynchronous
):
    def broken_at_first(payload):
        again = "could not be used" in payload["messages"][-1]["content"]
        return answer(payload) if again else broken

    openai_server.answer = broken_at_first
    note = add(memory, "I joined a choir", asynchronous=asynchronous)

    assert (note.state, note.tags) == ("done", ("chat",))
    counted = memory.stats()["usage"]["models"]["tiny"]
    assert (counted["calls"], counted["rejected_replies"]) == (2, 1)


# A key that is revoked while the memory works: the caller gets an error, and no content is lost.


def revoke_after(server, calls):
    """Accept no key any more after so many chat completions."""
    left = [calls]

    def counted(payload):
        left[0] -= 1
        if not left[0]:
            server.key = "sk-new"
        return every_note(payload)

    server.answer = counted


def keyed(server, *, own_embedder=True, **settings):
    server.answer = every_note
    return AgenticMemory.open(
        ":memory:",
        model=chat(server, max_retries=0),
        embedder=embedder(server, dimensions=64, max_retries=0) if own_embedder else HashEmbedder(),
        config=MemoryConfig(batch_size=2, max_concurrency=1, **settings),
    )


@pytest.mark.parametrize(("asynchronous", "on_model_error"), [(False, "log"), (True, "raise")])
def test_a_key_of_the_model_revoked_between_batches_loses_nothing(
    openai_server, asynchronous, on_model_error
):
    with keyed(
        openai_server, own_embedder=False, link=False, on_model_error=on_model_error
    ) as memory:
        revoke_after(openai_server, 2)
        with pytest.raises(ConfigurationError, match="check the API key") as caught:
            add(memory, LINES, asynchronous=asynchronous)
        assert "sk-secret" not in str(caught.value)
        assert [note.content for note in memory.get_all(namespace=ANN)] == LINES
        assert states(memory)[:4] == ["done"] * 4
        assert set(states(memory)[4:]) <= {"pending", "done"}
        memory.add_many(LINES[:1], namespace=ANN)  # a repeat, which needs no model
        openai_server.key = None
        assert memory.evolve().failed == {}
        assert states(memory) == ["done"] * 6


@pytest.mark.parametrize(
    ("asynchronous", "status", "evolve"), [(True, 401, True), (False, 403, False)]
)
def test_a_key_of_the_embedder_revoked_leaves_the_note_found_by_its_words(
    openai_server, status, evolve, asynchronous
):
    with keyed(openai_server) as memory:
        memory.add("We rehearsed", namespace=ANN, thread="t")
        openai_server.failures.append(status)
        with pytest.raises(ConfigurationError, match="check the API key"):
            add(memory, "We sang", asynchronous=asynchronous, evolve=evolve)
        assert states(memory) == ["done", "pending"]
        (note,) = memory.get_all(namespace=ANN, where={"state": "pending"})
        (hit,) = [h for h in memory.search("sang", namespace=ANN) if h.note.id == note.id]
        assert hit.similarity is None  # found by its words
        assert memory.evolve().done == (note.id,)
        (hit,) = [h for h in memory.search("sang", namespace=ANN) if h.note.id == note.id]
        assert hit.similarity > 0.1


def test_a_key_of_the_embedder_revoked_stops_evolve_and_search(openai_server):
    with keyed(openai_server) as memory:
        note = memory.add("We rehearsed", namespace=ANN, evolve=False)
        openai_server.key = "sk-new"
        with pytest.raises(ConfigurationError, match="check the API key"):
            memory.evolve()
        with pytest.raises(ConfigurationError, match="check the API key"):
            memory.search("choir practice", namespace=ANN)
        assert memory.get(note.id, namespace=ANN).state == "pending"
        openai_server.key = None
        assert memory.evolve().done == (note.id,)
        assert memory.search("choir practice", namespace=ANN)
