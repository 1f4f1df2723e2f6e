"""The whole memory with a model and an embedder behind an OpenAI-compatible endpoint."""

from __future__ import annotations

import asyncio
import json
import re

import pytest
from support.dialects import call, form

from amem_integrations import AgenticMemory, MemoryConfig, OpenAIChatModel, OpenAIEmbedder

ANN = ("ann",)
pytestmark = pytest.mark.enable_socket


def answer(payload) -> str:
    """Answer from the prompt alone, as a model has to, wrapped as small models do."""
    prompt = payload["messages"][-1]["content"]
    shown = dict(re.findall(r"^\[([nc]\d+)(?:,[^\]\n]*)?\] ?(.*)$", prompt, flags=re.MULTILINE))
    new = prompt.rpartition("New notes:")[2]
    notes = re.findall(r"^\[(n\d+)", new, flags=re.MULTILINE)
    if "Candidates:" not in prompt:
        reply = {"notes": [{"id": n, "context": f"{shown[n]}.", "tags": ["chat"]} for n in notes]}
    else:
        line = r"^\[(n\d+).*\n(?:    \(context: .*\n)?    \(candidates: (\w+)"
        offers = re.findall(line, new, flags=re.MULTILINE)
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
    text = json.dumps(reply)
    if "tools" in payload:
        return text
    return f"<think>Let me see.</think>\nHere you are:\n```json\n{text}\n```"


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


MANNERS = {"schema": "json_schema", "tools": "tools", "json": "json_object", "words": None}


def check(memory, server, manners, first, second):
    """Two turns were made into notes and linked, the first evolved, and all that in one manner."""
    assert (first.state, first.tags) == ("done", ("chat",))
    assert second.links[first.id].reason == "the next turn"
    assert memory.get(first.id, namespace=ANN).contexts[1].text == "It went on."
    assert memory.get(first.id, namespace=ANN).contexts[1].model == "small"
    assert memory.search("choir", namespace=ANN, k=1)[0].note.id == first.id
    usage = memory.usage()
    assert usage["total"]["calls"] == 3
    assert usage["total"]["input_tokens"] > 0
    assert "rejected_replies" not in usage["total"]
    asked = [form(payload) for payload in server.requests if "messages" in payload]
    assert asked[-3:] == [MANNERS[manners]] * 3
    assert len(asked) == 3 + list(MANNERS).index(manners)  # each refusal cost one request, once


@pytest.mark.parametrize("memory", MANNERS, indirect=True)
def test_notes_are_made_linked_and_evolved_in_every_manner(memory, openai_server):
    first = memory.add("I joined a choir", namespace=ANN, thread="t")
    second = memory.add("We sing on Mondays", namespace=ANN, thread="t")
    check(memory, openai_server, openai_server.manners, first, second)


@pytest.mark.parametrize("memory", MANNERS, indirect=True)
async def test_the_asynchronous_form_does_so_too(memory, openai_server):
    first = await memory.aadd("I joined a choir", namespace=ANN, thread="t")
    second = await memory.aadd("We sing on Mondays", namespace=ANN, thread="t")
    check(memory, openai_server, openai_server.manners, first, second)


@pytest.mark.parametrize("memory", MANNERS, indirect=True)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_what_was_stored_raw_is_evolved_later_in_every_manner(memory, asynchronous):
    lines = ["I joined a choir", "We sing on Mondays", "The alto is ill"]
    notes = [memory.add(line, namespace=ANN, thread="t", evolve=False) for line in lines]
    report = asyncio.run(memory.aevolve()) if asynchronous else memory.evolve()
    assert report.done == tuple(note.id for note in notes)
    assert (report.links, report.failed) == (2, {})
    assert report.evolved
    assert memory.usage()["total"]["calls"] == 2  # one batch: its attributes, then its links


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


BROKEN = {
    "arguments that are no JSON": {"tool_calls": [call({"name": "f", "arguments": "n1: choir"})]},
    "arguments of another shape": {"tool_calls": [call({"name": "f", "arguments": '{"a": 1}'})]},
    "arguments that break off": {
        "tool_calls": [call({"name": "f", "arguments": '{"notes": [{"id": "n1", "co'})]
    },
    "no arguments": {"tool_calls": [call({"name": "f", "arguments": ""})]},
    "no call and no content": {"tool_calls": [], "content": ""},
    "prose instead of a call": {"tool_calls": None, "content": "I would call it for n1."},
}


@pytest.mark.parametrize("memory", ["tools"], indirect=True)
@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("broken", BROKEN)
def test_a_call_that_cannot_be_used_is_shown_to_the_model_once(
    memory, openai_server, broken, asynchronous
):
    def first_broken(payload):
        asked_again = "could not be used" in payload["messages"][-1]["content"]
        openai_server.message = {} if asked_again else BROKEN[broken]
        return answer(payload)

    openai_server.answer = first_broken
    add = {"content": "I joined a choir", "namespace": ANN}
    note = asyncio.run(memory.aadd(**add)) if asynchronous else memory.add(**add)
    assert (note.state, note.tags) == ("done", ("chat",))
    counted = memory.usage()["models"]["small"]
    assert (counted["calls"], counted["rejected_replies"]) == (2, 1)


@pytest.mark.parametrize("memory", ["tools"], indirect=True)
def test_plain_content_instead_of_a_call_is_read(memory, openai_server):
    def in_words(payload):
        openai_server.message = {
            "tool_calls": None,
            "content": answer({**payload, "tools": []}) + " That is all.",
        }
        return ""

    openai_server.answer = in_words
    first = memory.add("I joined a choir", namespace=ANN, thread="t")
    second = memory.add("We sing on Mondays", namespace=ANN, thread="t")
    assert second.links[first.id].reason == "the next turn"
    forms = [form(payload) for payload in openai_server.requests if "messages" in payload]
    assert forms == ["json_schema", "tools", "json_object", "json_object"]
