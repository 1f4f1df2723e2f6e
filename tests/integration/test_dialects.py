"""The common servers, each spoken to as it speaks: what is asked, what is read, what its errors become."""

from __future__ import annotations

import json
import re

import pytest
from support.dialects import MISSING, SERVERS, WINDOW, form

from amem_integrations import (
    AgenticMemory,
    ConfigurationError,
    MemoryConfig,
    ModelReplyError,
    ModelRequest,
    OpenAIChatModel,
)
from amem_integrations.prompts import ConstructReply
from amem_integrations.prompts.parse import parse
from amem_integrations.testing import HashEmbedder

ANN = ("ann",)
ASKED = ModelRequest(
    task="construct", system="You annotate.", prompt="Describe n1.", reply=ConstructReply, inputs={}
)
REPLY = '{"notes": [{"id": "n1", "context": "Ann paints."}]}'
FORMS = {"schema": "json_schema", "tools": "tools", "json": "json_object", "words": None}
pytestmark = pytest.mark.enable_socket


@pytest.fixture(params=SERVERS)
def server(openai_server, request):
    openai_server.dialect = SERVERS[request.param]
    openai_server.answer = lambda _: REPLY
    return openai_server


def chat(server, model="small", **options):
    return OpenAIChatModel(model, base_url=server.base_url, api_key="sk-secret", **options)


# What the automatic choice comes to; all but these take a schema at once.
TRIED = {
    "SGLang": ["json_schema", "json_schema"],  # without the system role then
    "llama.cpp": ["json_schema", "tools", "json_object"],
}


def test_the_reply_is_read_and_the_way_to_ask_remembered(server, request):
    model = chat(server, max_retries=0)

    texts = [model.generate(ASKED).text for _ in range(2)]

    for text in texts:
        assert parse(text, ConstructReply).notes[0].context == "Ann paints."
    name = request.node.callspec.params["server"]
    tried = TRIED.get(name, ["json_schema"])
    assert [form(payload) for payload in server.requests] == [*tried, tried[-1]]


# Who refuses what even if it is all that is asked for.
REFUSED = {
    ("an older Ollama", "tools"),
    ("LM Studio", "json"),
    ("a newer LM Studio", "json"),
    ("llama.cpp", "schema"),
    ("llama.cpp", "tools"),
}


@pytest.mark.parametrize("structured", FORMS)
async def test_every_settled_manner_is_answered_or_refused_by_a_typed_error(
    server, structured, request
):
    model = chat(server, structured=structured, max_retries=0)
    name = request.node.callspec.params["server"]

    if (name, structured) in REFUSED:
        with pytest.raises((ModelReplyError, ConfigurationError)) as caught:
            await model.agenerate(ASKED)
        assert "sk-secret" not in str(caught.value)
        return
    completions = [model.generate(ASKED), await model.agenerate(ASKED)]

    for completion in completions:
        assert parse(completion.text, ConstructReply).notes[0].context == "Ann paints."
        assert (completion.output_tokens > 0) == server.dialect.counts
    assert {form(payload) for payload in server.requests} == {FORMS[structured]}


def test_a_model_that_is_not_there_is_named(server):
    with pytest.raises(ConfigurationError, match=rf"'{MISSING}' at .*check the name of the model"):
        chat(server, MISSING, structured="words", max_retries=0).generate(ASKED)


def test_a_key_that_is_refused_is_named_and_not_shown(server):
    server.key = "sk-other"

    with pytest.raises(ConfigurationError, match="check the API key") as caught:
        chat(server).generate(ASKED)

    assert "sk-secret" not in str(caught.value)
    assert len(server.requests) == 1


def every_note(payload):
    shown = re.findall(r"^\[(n\d+)", payload["messages"][-1]["content"], flags=re.MULTILINE)
    return json.dumps({"notes": [{"id": alias, "context": "Words."} for alias in shown]})


def test_a_batch_that_is_too_long_is_done_note_by_note(server, request):
    server.answer = every_note
    config = MemoryConfig(split=False, link=False)
    model = chat(server, max_retries=0)
    with AgenticMemory.open(
        ":memory:", model=model, embedder=HashEmbedder(), config=config
    ) as memory:
        texts = [f"{name} " * (WINDOW // 8) for name in ("one", "two", "six")]
        notes = memory.add_many(texts, namespace=ANN)
        if request.node.callspec.params["server"] not in {"Ollama", "an older Ollama"}:
            assert all("refused the request" in (note.failure or "") for note in notes)
            assert all("context" in note.failure for note in notes)
        memory.evolve()
        assert memory.stats()["states"] == {"done": 3}
    # What is too long is not put in other forms: the batch and its three notes are four requests.
    name = request.node.callspec.params["server"]
    assert len(server.requests) <= 4 * len(TRIED.get(name, ["json_schema"]))
