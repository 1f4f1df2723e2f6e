from __future__ import annotations

import asyncio
import gc
import json
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import httpx
import openai
import pytest
from openai_kit import FORMATS, REPLY, REQUEST, chat, embedder, formats

from amem_integrations.errors import ConfigurationError, ModelReplyError, ModelUnavailableError
from amem_integrations.ports import Completion
from amem_integrations.prompts.parse import parse
from amem_integrations.prompts.replies import ConstructReply, EvolveReply
from amem_integrations.providers import OpenAIChatModel, OpenAIEmbedder

pytestmark = pytest.mark.enable_socket


def test_a_reply_is_requested_by_strict_schema_and_tokens_are_counted(openai_server):
    openai_server.answer = lambda _: REPLY
    own = {"max_tokens": 500, "extra_body": {"reasoning_effort": "none"}}
    completion = chat(openai_server, **own).generate(REQUEST)
    assert completion == Completion(text=REPLY, input_tokens=25, output_tokens=len(REPLY))
    (payload,) = openai_server.requests
    assert payload["messages"] == [
        {"role": "system", "content": "You annotate."},
        {"role": "user", "content": "Describe n1."},
    ]
    assert (payload["model"], payload["temperature"], payload["max_tokens"]) == ("tiny", 0.0, 500)
    assert payload["reasoning_effort"] == "none"
    wanted = payload["response_format"]["json_schema"]
    assert (wanted["name"], wanted["strict"]) == ("ConstructReply", True)


def test_a_strict_schema_closes_every_object_and_requires_every_field(openai_server):
    chat(openai_server).generate(replace(REQUEST, system="", prompt="?", reply=EvolveReply))

    schema = openai_server.requests[0]["response_format"]["json_schema"]["schema"]
    objects = [schema, *schema["$defs"].values()]
    assert len(objects) == 6
    for part in objects:
        assert part["additionalProperties"] is False
        assert part["required"] == list(part["properties"])
    assert "default" not in json.dumps(schema)
    named = {
        name.rpartition("/")[2] for name in re.findall(r'"\$ref": "([^"]*)"', json.dumps(schema))
    }
    assert named == schema["$defs"].keys()
    assert openai_server.requests[0]["messages"] == [{"role": "user", "content": "?"}]


def test_the_format_that_an_endpoint_accepts_is_found_once(openai_server):
    for accepted, tried in [("schema", ["json_schema"]), ("words", ["json_schema", None])]:
        openai_server.accepts = accepted
        openai_server.requests.clear()
        model = chat(openai_server)

        model.generate(REQUEST)
        model.generate(REQUEST)

        assert formats(openai_server) == [*tried, tried[-1]]
        prompt = openai_server.requests[-1]["messages"][-1]["content"]
        assert ("JSON schema" in prompt) == (accepted == "words")


def test_a_fixed_format_has_no_fallback(openai_server):
    openai_server.refuse = lambda _: "response_format is not supported"
    for structured, sent in FORMATS.items():
        openai_server.requests.clear()
        with pytest.raises(ModelReplyError, match="refused the request"):
            chat(openai_server, structured=structured).generate(REQUEST)
        assert formats(openai_server) == [sent]


REFUSED_PARAMETERS = {
    "'temperature' does not support 0.0": lambda payload: "temperature" in payload,
    "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.": (
        lambda payload: "max_tokens" in payload
    ),
    "System role not supported": lambda payload: len(payload["messages"]) > 1,
}


def test_a_parameter_that_a_model_refuses_is_omitted_from_then_on(openai_server):
    for refusal, violates in REFUSED_PARAMETERS.items():
        openai_server.requests.clear()
        openai_server.refuse = lambda payload, r=refusal, v=violates: r if v(payload) else None
        model = chat(openai_server, max_tokens=9)

        model.generate(REQUEST)
        model.generate(REQUEST)

        assert formats(openai_server) == ["json_schema"] * 3
        assert [violates(payload) for payload in openai_server.requests] == [True, False, False]
        assert "You annotate." in openai_server.requests[-1]["messages"][0]["content"]


def test_a_request_that_is_refused_in_every_format_changes_nothing_for_the_next(openai_server):
    openai_server.refuse = lambda _: "not today"
    model = chat(openai_server)

    with pytest.raises(ModelReplyError, match=r"'tiny' at .* refused .* 400 - .*not today"):
        model.generate(REQUEST)
    openai_server.refuse = lambda _: None
    model.generate(REQUEST)

    assert formats(openai_server) == ["json_schema", None, "json_schema"]


LENGTH = "'max_tokens' or 'max_completion_tokens' is too large: 9. This model's maximum context length is 8"
REFUSALS = {
    "This model's maximum context length is 9 tokens.": ModelReplyError,
    LENGTH: ModelReplyError,
    "The prompt (total length 9) is too long to fit into the model": ModelReplyError,
    "The response was filtered: content_filter": ModelReplyError,
    "model_not_found": ConfigurationError,
    "API key not valid. Please pass a valid API key.": ConfigurationError,
    "Invalid API key: sk-secret": ConfigurationError,
    "the API_KEY is invalid": ConfigurationError,
}


def test_an_error_that_is_not_about_the_format_has_no_fallback(openai_server):
    for refusal, error in REFUSALS.items():
        openai_server.requests.clear()
        openai_server.refuse = lambda _, refusal=refusal: refusal
        refused = "refused access (HTTP 400); check the API key"
        said = re.escape(refused if "key" in refusal.lower() else refusal[:30])
        with pytest.raises(error, match=said) as caught:
            chat(openai_server).generate(REQUEST)
        assert formats(openai_server) == ["json_schema"], refusal
        assert "sk-secret" not in str(caught.value)
    for length in range(200, 300, 3):  # nor is a part of the key left where a long message is cut
        openai_server.refuse = lambda _, length=length: f"{'x' * length}sk-secret: content_filter"
        with pytest.raises(ModelReplyError) as caught:
            chat(openai_server).generate(REQUEST)
        assert "sk-" not in str(caught.value)


def test_an_answer_is_read_wherever_it_is(openai_server):
    for message in [
        {"content": REPLY},
        {"content": f"Sure:\n```json\n{REPLY}\n```", "tool_calls": []},
        {"content": f'<tool_call>{{"name": "f", "arguments": {REPLY}}}</tool_call>'},
        {"content": f'[TOOL_CALLS] [{{"name": "f", "arguments": {REPLY}}}]'},
        {"content": [{"type": "thinking"}, {"type": "text", "text": REPLY}]},
        {"content": None, "reasoning_content": REPLY},
        {"content": "", "reasoning": f" {REPLY}"},
    ]:
        openai_server.message = {"content": None, "tool_calls": None, **message}

        text = chat(openai_server).generate(REQUEST).text

        assert [note.id for note in parse(text, ConstructReply).notes] == ["n1"], message


def test_reasoning_is_no_answer(openai_server):
    for message in [
        {"content": None, "reasoning_content": f"Perhaps {REPLY}? No."},
        {"content": "", "reasoning": "Hm."},
        {"content": [{"type": "thinking", "thinking": REPLY}]},
    ]:
        openai_server.message = {"content": None, "tool_calls": None, **message}
        assert chat(openai_server).generate(REQUEST).text == "", message
    openai_server.message = {"content": None, "refusal": "I cannot help with that."}
    assert chat(openai_server).generate(REQUEST).text == "I cannot help with that."
    openai_server.message = {"content": None, "tool_calls": None, "reasoning": "First, I "}
    openai_server.finish = "length"
    for structured in ("auto", "words"):
        with pytest.raises(ModelReplyError, match="raise max_tokens"):
            chat(openai_server, structured=structured).generate(REQUEST)
    openai_server.message = {"content": f"{REPLY}, and"}  # what there is of a cut answer counts
    assert chat(openai_server).generate(REQUEST).text == f"{REPLY}, and"


def test_a_response_without_token_counts_is_read(openai_server, monkeypatch):
    openai_server.answer = lambda _: REPLY
    whole = openai_server.completion
    for counts in (None, {}, {"prompt_tokens": None}, {"prompt_tokens": "9"}):
        said = {"usage": counts}
        monkeypatch.setattr(openai_server, "completion", lambda sent, n=said: {**whole(sent), **n})

        assert chat(openai_server).generate(REQUEST) == Completion(text=REPLY), counts


def test_a_busy_endpoint_is_retried_and_one_that_stays_down_is_unavailable(openai_server):
    openai_server.answer = lambda _: REPLY
    openai_server.failures.extend([429, 500])
    assert chat(openai_server).generate(REQUEST).text == REPLY
    assert len(openai_server.requests) == 3
    once = {"max_retries": 1, "timeout": 0.3}
    for failure in (429, 500, 503, "drop", "hang"):
        for ask in (
            lambda: chat(openai_server, **once).generate(REQUEST),
            lambda: embedder(openai_server, "tiny", **once).embed_query("x"),
        ):
            openai_server.requests.clear()
            openai_server.failures.extend([failure] * 2)
            with pytest.raises(ModelUnavailableError, match=r"'tiny' at http://127\.0") as caught:
                ask()
            assert len(openai_server.requests) == 2, failure
            assert "sk-secret" not in str(caught.value)


def test_a_wrong_setting_is_named_without_the_key(openai_server):
    for status, advice in [(401, "API key"), (403, "API key"), (404, "check its name")]:
        openai_server.requests.clear()
        openai_server.failures.append(status)

        with pytest.raises(ConfigurationError, match=advice) as caught:
            chat(openai_server).generate(REQUEST)

        assert len(openai_server.requests) == 1, status
        assert "sk-secret" not in str(caught.value)


def test_a_response_that_is_not_of_the_api_is_unavailable(openai_server):
    for garbage in [
        "<html>Welcome to the proxy</html>",
        "{not json",
        '{"error": {"message": "no"}}',
        '{"choices": []}',
        '{"choices": [{"message": null}]}',
        "[]",
        "",
    ]:
        openai_server.failures.extend([garbage] * 2)

        with pytest.raises(ModelUnavailableError, match="base_url"):
            chat(openai_server).generate(REQUEST)
        with pytest.raises(ModelUnavailableError, match="base_url"):
            embedder(openai_server).embed_query("x")
        assert not openai_server.failures, garbage


def test_the_key_is_in_no_repr(openai_server):
    url = openai_server.base_url.replace("//", "//user:password@")
    for provider in (
        chat(openai_server, base_url=url),
        chat(openai_server, base_url=f"{url}/?key=secret#1"),
        OpenAIEmbedder("tiny", base_url=url),
    ):
        assert repr(provider).endswith(f"('tiny', base_url={openai_server.base_url!r})")


async def test_the_asynchronous_form_has_the_same_fallbacks_retries_and_errors(openai_server):
    openai_server.accepts = "words"
    openai_server.failures.append(429)
    openai_server.answer = lambda _: REPLY
    model = chat(openai_server, default_headers={"X-Team": "acme"})

    completions = [await model.agenerate(REQUEST), await model.agenerate(REQUEST)]
    assert {headers["x-team"] for headers in openai_server.headers} == {"acme"}

    assert [completion.text for completion in completions] == [REPLY, REPLY]
    assert formats(openai_server) == ["json_schema", "json_schema", None, None]
    openai_server.failures.append(401)
    with pytest.raises(ConfigurationError, match="API key"):
        await model.agenerate(REQUEST)


def test_one_instance_serves_many_event_loops_and_threads(openai_server):
    model, embeddings = chat(openai_server), embedder(openai_server)

    async def use():
        await asyncio.gather(*(model.agenerate(REQUEST) for _ in range(4)))
        await embeddings.aembed_query("pottery")

    for _ in range(2):
        asyncio.run(use())
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: asyncio.run(use()), range(4)))
        list(pool.map(lambda _: model.generate(REQUEST), range(8)))
    gc.collect()

    assert len(openai_server.requests) == 6 * 5 + 8
    # The clients of loops that ended are gone, but for the last that each instance used.
    assert sum(type(thing) is openai.AsyncOpenAI for thing in gc.get_objects()) <= 2


def test_no_two_threads_share_an_asynchronous_client_which_is_not_made_for_that(openai_server):
    model = chat(openai_server)
    here = [asyncio.run(model._async_client()) for _ in range(2)]
    with ThreadPoolExecutor(1) as pool:
        there = pool.submit(asyncio.run, model._async_client()).result()
    assert here[0] is here[1] is not there


def test_a_client_of_your_own_is_used_by_the_form_that_it_is_for(openai_server):
    with httpx.Client(headers={"x-proxy": "ours"}) as client:
        chat(openai_server, http_client=client).generate(REQUEST)
    assert openai_server.headers[-1]["x-proxy"] == "ours"


def test_closing_a_model_closes_its_client(openai_server):
    with httpx.Client() as client:
        model = chat(openai_server, http_client=client)
        model.close()
        assert client.is_closed


def test_without_a_key_that_of_the_environment_is_sent(openai_server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-environment\n")
    openai_server.key = "sk-environment"
    chat(openai_server, api_key=None).generate(REQUEST)
    assert len(openai_server.requests) == 1


def test_without_a_key_and_an_endpoint_there_is_an_error(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    url = {"base_url": "http://127.0.0.1:9/v1"}
    for options, said in (
        ({}, "OPENAI_API_KEY"),
        ({"structured": "strict"}, "'strict' is unknown"),
        ({"api_key": "sk-…secret", **url}, "API key contains characters"),
    ):
        with pytest.raises(ConfigurationError, match=said):
            OpenAIChatModel("gpt-4o-mini", **options)
    with pytest.raises(ConfigurationError, match="API key contains characters"):
        OpenAIEmbedder("tiny", api_key="sk-\nsecret", **url)
