"""A whole memory with a model and an embedder behind an OpenAI-compatible endpoint."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys

import pytest
from openai_kit import FORMATS, chat, embedder, every_note, formats
from support import models

from amem_integrations import ConfigurationError
from amem_integrations.testing import HashEmbedder

ANN = ("ann",)
ONE_BY_ONE = {"batch_size": 2, "max_concurrency": 1}
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


def opened(server, **settings):
    model, vectors = chat(server, max_retries=0), embedder(server, dimensions=64, max_retries=0)
    return models.opened(model=model, embedder=settings.pop("embedder", vectors), **settings)


def add(memory, content, *, asynchronous, **options):
    """Add one text, or several if `content` is a list."""
    name = "add_many" if isinstance(content, list) else "add"
    if asynchronous:
        return asyncio.run(getattr(memory, f"a{name}")(content, namespace=ANN, **options))
    return getattr(memory, name)(content, namespace=ANN, **options)


def states(memory):
    return [note.state for note in memory.get_all(namespace=ANN)]


def test_notes_are_made_linked_and_evolved_in_every_format(openai_server):
    for accepts, asynchronous in (("schema", False), ("words", True)):
        openai_server.accepts, openai_server.answer = accepts, answer
        openai_server.requests.clear()
        with opened(openai_server) as memory:
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
        refused = list(FORMATS).index(accepts)
        assert formats(openai_server)[refused:] == [FORMATS[accepts]] * 3


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
    command = [sys.executable, "-c", COLD, openai_server.base_url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.strip() == "done None", done.stdout + done.stderr[-2000:]


# A key that is revoked while the memory works: the caller gets an error, and no content is lost.


@pytest.mark.parametrize(("asynchronous", "on_model_error"), [(False, "log"), (True, "raise")])
def test_a_key_of_the_model_revoked_between_batches_loses_nothing(
    openai_server, asynchronous, on_model_error
):
    def counted(payload):
        if len(openai_server.requests) == 2:
            openai_server.key = "sk-new"
        return every_note(payload)

    openai_server.answer = counted
    settings = {"link": False, "on_model_error": on_model_error, **ONE_BY_ONE}
    with opened(openai_server, embedder=HashEmbedder(), **settings) as memory:
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


def test_a_key_of_the_embedder_revoked_leaves_the_note_found_by_its_words_alone(openai_server):
    openai_server.answer = every_note
    refused = pytest.raises(ConfigurationError, match="check the API key")
    for asynchronous, status, evolve in ((True, 401, True), (False, 403, False)):
        with opened(openai_server) as memory:
            memory.add("We rehearsed", namespace=ANN, thread="t")
            openai_server.failures.append(status)
            with refused:
                add(memory, "We sang", asynchronous=asynchronous, evolve=evolve)
            assert states(memory) == ["done", "pending"]
            (hit,) = memory.search("sang", namespace=ANN, where={"state": "pending"})
            assert hit.similarity is None
            openai_server.key = "sk-new"
            with refused:
                memory.evolve()
            with refused:
                memory.search("choir practice", namespace=ANN)
            openai_server.key = None
            assert memory.evolve().done == (hit.note.id,)
            (hit,) = memory.search("sang", namespace=ANN, where={"id": hit.note.id})
            assert hit.similarity > 0.1
