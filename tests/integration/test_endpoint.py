"""The whole memory with a model and an encoder behind an OpenAI-compatible endpoint."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

from amem_integrations import AgenticMemory, MemoryConfig, OpenAIChatModel, OpenAIEmbedder

ANN = ("ann",)
pytestmark = pytest.mark.enable_socket


def answer(payload) -> str:
    """Answer from the prompt alone, as a model has to, wrapped as small models do."""
    prompt = payload["messages"][-1]["content"]
    shown = dict(re.findall(r"^\[([nc]\d+)[,\]][^\]]*\]? ?(.*)$", prompt, flags=re.MULTILINE))
    new = prompt.rpartition("New notes:")[2]
    notes = re.findall(r"^\[(n\d+)", new, flags=re.MULTILINE)
    if "Candidates:" not in prompt:
        reply = {"notes": [{"id": n, "context": f"{shown[n]}.", "tags": ["chat"]} for n in notes]}
    else:
        offers = re.findall(
            r"^\[(n\d+).*\n(?:.*\n)?    \(candidates: (\w+)", new, flags=re.MULTILINE
        )
        reply = {
            "notes": [
                {
                    "id": note,
                    "links": [{"to": first, "relation": "continues", "reason": "the next turn"}],
                    "updates": [{"to": first, "context": "It went on.", "tags": ["chat"]}],
                }
                for note, first in offers
                if first != "none"
            ]
        }
    return f"<think>Let me see.</think>\nHere you are:\n```json\n{json.dumps(reply)}\n```"


@pytest.fixture
def memory(openai_server, request):
    openai_server.manners, openai_server.answer = request.param, answer
    options = {"base_url": openai_server.base_url, "api_key": "sk-test"}
    with AgenticMemory.open(
        ":memory:",
        model=OpenAIChatModel("small", **options),
        embedder=OpenAIEmbedder("embed", dimensions=64, **options),
        config=MemoryConfig(min_gate_similarity=-1.0),
    ) as opened:
        yield opened


@pytest.mark.parametrize("memory", ["schema", "json", "words"], indirect=True)
def test_notes_are_made_linked_and_evolved_in_every_manner(memory):
    first = memory.add("I joined a choir", namespace=ANN, thread="t")
    second = memory.add("We sing on Mondays", namespace=ANN, thread="t")
    assert (first.state, first.tags) == ("done", ("chat",))
    assert second.links[first.id].reason == "the next turn"
    assert memory.get(first.id, namespace=ANN).contexts[1].text == "It went on."
    assert memory.get(first.id, namespace=ANN).contexts[1].model == "small"
    assert memory.search("choir", namespace=ANN, k=1)[0].note.id == first.id
    usage = memory.usage()["total"]
    assert usage["calls"] == 3
    assert usage["input_tokens"] > 0


@pytest.mark.parametrize("memory", ["words"], indirect=True)
def test_one_memory_serves_one_event_loop_after_the_other_and_sync_calls_between(memory):
    async def chat(number):
        notes = await asyncio.gather(
            *(memory.aadd(f"turn {number} {n}", namespace=ANN, thread="t") for n in range(3))
        )
        return [note.state for note in notes]

    for number in range(3):
        assert asyncio.run(chat(number)) == ["done"] * 3
        assert memory.add(f"said in between {number}", namespace=ANN).state == "done"
    assert memory.stats()["states"] == {"done": 12}


@pytest.mark.parametrize("memory", ["words"], indirect=True)
def test_an_endpoint_that_fails_for_a_while_costs_time_and_no_note(memory, openai_server):
    openai_server.failures.extend([500, 429])
    assert memory.add("I joined a choir", namespace=ANN).state == "done"
