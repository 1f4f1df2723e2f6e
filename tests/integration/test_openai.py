import asyncio
import gc
import json
import re
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from support.dialects import call, form
from support.openai_server import Manners, OpenAIServer

from amem_integrations.errors import (
    ConfigurationError,
    MissingExtraError,
    ModelReplyError,
    ModelUnavailableError,
)
from amem_integrations.ports import Completion, ModelRequest
from amem_integrations.prompts import ConstructReply, EvolveReply
from amem_integrations.prompts.parse import parse

pytest.importorskip("openai")

from amem_integrations.providers import OpenAIChatModel, OpenAIEmbedder

pytestmark = pytest.mark.enable_socket

ASKED = ModelRequest(
    task="construct", system="You annotate.", prompt="Describe n1.", reply=ConstructReply, inputs={}
)
REPLY = '{"notes": [{"id": "n1", "context": "Ann paints."}]}'


def chat(server: OpenAIServer, **options: Any) -> OpenAIChatModel:
    return OpenAIChatModel(
        "tiny", **{"base_url": server.base_url, "api_key": "sk-secret"} | options
    )


def formats(server: OpenAIServer) -> list[str | None]:
    return [form(payload) for payload in server.requests]


def test_a_reply_is_asked_for_by_strict_schema_and_tokens_are_counted(
    openai_server: OpenAIServer,
) -> None:
    openai_server.answer = lambda _: REPLY

    completion = chat(openai_server, max_tokens=500).generate(ASKED)

    assert completion == Completion(text=REPLY, input_tokens=25, output_tokens=len(REPLY))
    assert parse(completion.text, ConstructReply).notes[0].context == "Ann paints."
    (payload,) = openai_server.requests
    assert payload["messages"] == [
        {"role": "system", "content": "You annotate."},
        {"role": "user", "content": "Describe n1."},
    ]
    assert (payload["model"], payload["temperature"], payload["max_tokens"]) == ("tiny", 0.0, 500)
    wanted = payload["response_format"]["json_schema"]
    assert (wanted["name"], wanted["strict"]) == ("ConstructReply", True)


def test_a_strict_schema_closes_every_object_and_requires_every_field(
    openai_server: OpenAIServer,
) -> None:
    chat(openai_server).generate(
        ModelRequest(task="evolve", system="", prompt="?", reply=EvolveReply, inputs={})
    )

    schema = openai_server.requests[0]["response_format"]["json_schema"]["schema"]
    objects = [schema, *schema["$defs"].values()]
    assert len(objects) == 4
    for part in objects:
        assert part["additionalProperties"] is False
        assert part["required"] == list(part["properties"])
    assert "default" not in json.dumps(schema)
    assert openai_server.requests[0]["messages"] == [{"role": "user", "content": "?"}]


@pytest.mark.parametrize(
    ("manners", "tried"),
    [
        ("schema", ["json_schema"]),
        ("tools", ["json_schema", "tools"]),
        ("json", ["json_schema", "tools", "json_object"]),
        ("words", ["json_schema", "tools", "json_object", None]),
    ],
)
def test_what_an_endpoint_takes_is_found_out_once(
    openai_server: OpenAIServer, manners: Manners, tried: list[str | None]
) -> None:
    openai_server.manners = manners
    model = chat(openai_server)

    model.generate(ASKED)
    model.generate(ASKED)

    assert formats(openai_server) == [*tried, tried[-1]]
    shown = openai_server.requests[-1]["messages"][-1]["content"]
    assert ("JSON schema" in shown) == (manners == "words")


@pytest.mark.parametrize(
    ("structured", "sent"),
    [("schema", "json_schema"), ("tools", "tools"), ("json", "json_object"), ("words", None)],
)
def test_a_settled_way_to_ask_is_kept_to(
    openai_server: OpenAIServer, structured: Any, sent: str | None
) -> None:
    model = chat(openai_server, structured=structured)
    model.generate(ASKED)
    openai_server.refuse = lambda _: "response_format is not supported"

    with pytest.raises(ModelReplyError, match="refused the request"):
        model.generate(ASKED)

    assert formats(openai_server) == [sent, sent]


@pytest.mark.parametrize(
    ("complaint", "offends"),
    [
        ("'temperature' does not support 0.0", lambda payload: "temperature" in payload),
        (
            "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
            lambda payload: "max_tokens" in payload,
        ),
        ("System role not supported", lambda payload: len(payload["messages"]) > 1),
    ],
)
def test_what_a_model_does_not_take_is_left_out_from_then_on(
    openai_server: OpenAIServer, complaint: str, offends: Any
) -> None:
    openai_server.refuse = lambda payload: complaint if offends(payload) else None
    model = chat(openai_server, max_tokens=9)

    model.generate(ASKED)
    model.generate(ASKED)

    assert formats(openai_server) == ["json_schema"] * 3
    assert [offends(payload) for payload in openai_server.requests] == [True, False, False]
    assert "You annotate." in openai_server.requests[-1]["messages"][0]["content"]


def test_a_request_that_is_refused_in_every_manner_changes_nothing_for_the_next(
    openai_server: OpenAIServer,
) -> None:
    openai_server.refuse = lambda _: "not today"
    model = chat(openai_server)

    with pytest.raises(ModelReplyError, match=r"'tiny' at .* refused .* 400 - .*not today"):
        model.generate(ASKED)
    openai_server.refuse = lambda _: None
    model.generate(ASKED)

    tried = ["json_schema", "tools", "json_object", None]
    assert formats(openai_server) == [*tried, "json_schema"]


@pytest.mark.parametrize(
    ("complaint", "error"),
    [
        ("This model's maximum context length is 9 tokens.", ModelReplyError),
        (
            "'max_tokens' or 'max_completion_tokens' is too large: 9. This model's maximum context length is 8",
            ModelReplyError,
        ),
        ("The prompt (total length 9) is too long to fit into the model", ModelReplyError),
        ("The response was filtered: content_filter", ModelReplyError),
        ("model_not_found", ConfigurationError),
    ],
)
def test_a_complaint_that_is_not_about_the_form_is_not_answered_with_another_form(
    openai_server: OpenAIServer, complaint: str, error: type[Exception]
) -> None:
    openai_server.refuse = lambda _: complaint

    with pytest.raises(error, match=re.escape(complaint[:30])):
        chat(openai_server).generate(ASKED)

    assert formats(openai_server) == ["json_schema"]


def test_a_function_is_offered_and_has_to_be_called(openai_server: OpenAIServer) -> None:
    openai_server.answer = lambda _: REPLY

    completion = chat(openai_server, structured="tools").generate(ASKED)

    assert completion.text == REPLY
    (payload,) = openai_server.requests
    (tool,) = payload["tools"]
    assert tool["type"] == "function"
    assert tool["function"]["name"] == "ConstructReply"
    assert tool["function"]["parameters"]["required"] == ["notes"]
    assert payload["tool_choice"] == {"type": "function", "function": {"name": "ConstructReply"}}
    assert "response_format" not in payload


@pytest.mark.parametrize(
    ("complaint", "taken"),
    [
        ("Invalid tool_choice type: 'object'.", "required"),
        ("tool_choice must be 'auto' or 'none'", "auto"),
    ],
)
def test_a_function_is_asked_for_as_firmly_as_the_endpoint_takes(
    openai_server: OpenAIServer, complaint: str, taken: str
) -> None:
    openai_server.refuse = lambda payload: (
        None if payload.get("tool_choice") == taken else complaint
    )
    openai_server.answer = lambda _: REPLY
    model = chat(openai_server, structured="tools")

    assert [model.generate(ASKED).text, model.generate(ASKED).text] == [REPLY, REPLY]
    choices = [payload["tool_choice"] for payload in openai_server.requests]
    assert choices[-2:] == [taken, taken]
    assert len(choices) == {"required": 3, "auto": 4}[taken]


SECOND = '{"notes": [{"id": "n2", "context": "Bob runs."}]}'


@pytest.mark.parametrize(
    ("message", "read"),
    [
        ({"content": REPLY}, ["n1"]),
        ({"content": f"Sure:\n```json\n{REPLY}\n```", "tool_calls": []}, ["n1"]),
        ({"content": REPLY, "tool_calls": [call({"name": "f", "arguments": "{}"})]}, ["n1"]),
        ({"content": None, "tool_calls": [call({"name": "other", "arguments": REPLY})]}, ["n1"]),
        ({"tool_calls": [call({"name": "f", "arguments": json.loads(REPLY)})]}, ["n1"]),
        (
            {"tool_calls": [call({"name": "f", "arguments": text}) for text in (REPLY, SECOND)]},
            ["n1", "n2"],
        ),
        (
            {"tool_calls": [call({"name": "f", "arguments": t}) for t in (REPLY[:-1], SECOND)]},
            ["n1", "n2"],
        ),
        ({"tool_calls": [call({"name": "f", "arguments": REPLY[:-2]})]}, ["n1"]),
        (
            {"tool_calls": [call({"name": "f", "arguments": t}) for t in (REPLY, SECOND[:40])]},
            ["n1"],
        ),
        ({"content": f'<tool_call>{{"name": "f", "arguments": {REPLY}}}</tool_call>'}, ["n1"]),
        ({"content": f'[TOOL_CALLS] [{{"name": "f", "arguments": {REPLY}}}]'}, ["n1"]),
        ({"content": [{"type": "thinking"}, {"type": "text", "text": REPLY}]}, ["n1"]),
        ({"content": None, "reasoning_content": REPLY}, ["n1"]),
        ({"content": "", "reasoning": f" {REPLY}"}, ["n1"]),
    ],
)
def test_an_answer_is_read_wherever_it_is(
    openai_server: OpenAIServer, message: Any, read: list[str]
) -> None:
    openai_server.message = {"content": None, "tool_calls": None, **message}

    text = chat(openai_server, structured="tools").generate(ASKED).text

    assert [note.id for note in parse(text, ConstructReply).notes] == read


@pytest.mark.parametrize(
    "message",
    [
        {"content": None, "reasoning_content": f"Perhaps {REPLY}? No."},
        {"content": "", "reasoning": "Hm."},
        {"tool_calls": [call({"name": "f", "arguments": None})]},
        {"tool_calls": [{"id": "call_1"}]},
        {"content": [{"type": "thinking", "thinking": REPLY}]},
    ],
)
def test_thoughts_are_no_answer(openai_server: OpenAIServer, message: Any) -> None:
    openai_server.message = {"content": None, "tool_calls": None, **message}

    assert chat(openai_server).generate(ASKED).text == ""


def test_a_function_that_is_not_called_is_asked_for_no_more(openai_server: OpenAIServer) -> None:
    openai_server.manners = "tools"
    openai_server.message = {"content": REPLY, "tool_calls": None}
    model = chat(openai_server)

    assert [model.generate(ASKED).text, model.generate(ASKED).text] == [REPLY, REPLY]
    assert formats(openai_server) == ["json_schema", "tools", "json_object"]


@pytest.mark.parametrize("structured", ["auto", "tools"])
def test_tokens_used_up_by_thoughts_are_an_error_that_says_so(
    openai_server: OpenAIServer, structured: Any
) -> None:
    openai_server.message = {"content": None, "tool_calls": None, "reasoning": "First, I "}
    openai_server.finish = "length"

    with pytest.raises(ModelReplyError, match="raise max_tokens"):
        chat(openai_server, structured=structured).generate(ASKED)


def test_fields_of_ones_own_are_sent_along(openai_server: OpenAIServer) -> None:
    chat(openai_server, extra_body={"reasoning_effort": "none"}).generate(ASKED)

    assert openai_server.requests[0]["reasoning_effort"] == "none"


@pytest.mark.parametrize("counts", [None, {}, {"prompt_tokens": None}, {"prompt_tokens": "9"}])
def test_an_endpoint_that_counts_no_tokens_is_read_all_the_same(
    openai_server: OpenAIServer, monkeypatch: pytest.MonkeyPatch, counts: Any
) -> None:
    openai_server.answer = lambda _: REPLY
    whole = openai_server.completion
    monkeypatch.setattr(openai_server, "completion", lambda sent: {**whole(sent), "usage": counts})

    assert chat(openai_server).generate(ASKED) == Completion(text=REPLY)


def test_a_refusal_and_an_empty_answer_are_returned_as_text(openai_server: OpenAIServer) -> None:
    openai_server.answer = lambda _: None
    model = chat(openai_server)

    assert model.generate(ASKED).text == ""
    openai_server.message = {"refusal": "I can't help with that."}
    assert model.generate(ASKED).text == "I can't help with that."


def test_a_busy_endpoint_is_asked_again(openai_server: OpenAIServer) -> None:
    openai_server.failures.extend([429, 500])
    openai_server.answer = lambda _: REPLY

    assert chat(openai_server).generate(ASKED).text == REPLY
    assert len(openai_server.requests) == 3


@pytest.mark.parametrize("failure", [429, 500, 503, "drop"])
def test_an_endpoint_that_stays_down_is_unavailable(
    openai_server: OpenAIServer, failure: int | str
) -> None:
    openai_server.failures.extend([failure] * 2)

    with pytest.raises(ModelUnavailableError, match=r"'tiny' at http://127\.0\.0\.1") as caught:
        chat(openai_server, max_retries=1).generate(ASKED)

    assert len(openai_server.requests) == 2
    assert "sk-secret" not in str(caught.value)


def test_an_endpoint_that_does_not_answer_in_time_is_unavailable(
    openai_server: OpenAIServer,
) -> None:
    openai_server.failures.append("hang")

    with pytest.raises(ModelUnavailableError, match="timed out"):
        chat(openai_server, timeout=0.2, max_retries=0).generate(ASKED)


def test_an_endpoint_that_is_not_there_is_unavailable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    model = OpenAIChatModel("tiny", base_url=f"http://127.0.0.1:{port}/v1", max_retries=0)

    with pytest.raises(ModelUnavailableError, match=rf"127\.0\.0\.1:{port}"):
        model.generate(ASKED)


@pytest.mark.parametrize(
    ("status", "advice"), [(401, "API key"), (403, "API key"), (404, "name of the model")]
)
def test_a_wrong_setting_is_named_without_the_key(
    openai_server: OpenAIServer, status: int, advice: str
) -> None:
    openai_server.failures.append(status)

    with pytest.raises(ConfigurationError, match=advice) as caught:
        chat(openai_server).generate(ASKED)

    assert len(openai_server.requests) == 1
    assert "sk-secret" not in str(caught.value)


@pytest.mark.parametrize(
    "garbage",
    [
        "<html>Welcome to the proxy</html>",
        "{not json",
        '{"error": {"message": "no"}}',
        '{"choices": []}',
        '{"choices": [{"message": null}]}',
        "[]",
        "",
    ],
)
def test_an_answer_that_is_none_of_the_api_is_unavailable(
    openai_server: OpenAIServer, garbage: str
) -> None:
    openai_server.failures.extend([garbage] * 2)

    with pytest.raises(ModelUnavailableError, match="base_url"):
        chat(openai_server).generate(ASKED)
    with pytest.raises(ModelUnavailableError, match="base_url"):
        OpenAIEmbedder("tiny-embed", base_url=openai_server.base_url).embed_query("x")


def test_the_key_is_in_no_repr(openai_server: OpenAIServer) -> None:
    url = openai_server.base_url.replace("//", "//user:password@")
    for provider in (chat(openai_server, base_url=url), OpenAIEmbedder("tiny", base_url=url)):
        assert repr(provider).endswith(f"('tiny', base_url={openai_server.base_url!r})")


async def test_the_asynchronous_form_does_the_same(openai_server: OpenAIServer) -> None:
    openai_server.manners = "words"
    openai_server.failures.append(429)
    openai_server.answer = lambda _: REPLY
    model = chat(openai_server)

    completions = [await model.agenerate(ASKED), await model.agenerate(ASKED)]

    assert [completion.text for completion in completions] == [REPLY, REPLY]
    tried = ["json_schema", "json_schema", "tools", "json_object", None]
    assert formats(openai_server) == [*tried, None]
    openai_server.failures.append(401)
    with pytest.raises(ConfigurationError, match="API key"):
        await model.agenerate(ASKED)


def test_one_instance_serves_many_event_loops_and_threads(openai_server: OpenAIServer) -> None:
    model = chat(openai_server)
    embedder = OpenAIEmbedder("tiny-embed", base_url=openai_server.base_url)

    async def use() -> None:
        await asyncio.gather(*(model.agenerate(ASKED) for _ in range(4)))
        await embedder.aembed_query("pottery")

    for _ in range(3):
        asyncio.run(use())
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: asyncio.run(use()), range(4)))
        list(pool.map(lambda _: model.generate(ASKED), range(8)))
    gc.collect()

    assert len(openai_server.requests) == 7 * 5 + 8
    assert len(model._endpoint._by_loop) <= 1


def test_vectors_are_unit_length_and_in_the_order_of_the_texts(
    openai_server: OpenAIServer,
) -> None:
    embedder = OpenAIEmbedder("tiny-embed", base_url=openai_server.base_url, batch_size=2)

    vectors = embedder.embed_documents(["a b", "c", ""])

    assert vectors.shape == (3, 8)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(vectors[1], embedder.embed_query("c"), rtol=1e-5)
    assert [payload["input"] for payload in openai_server.requests] == [["a b", "c"], [" "], ["c"]]
    assert embedder.dimensions == 8
    assert len(openai_server.requests) == 3


async def test_of_a_text_that_is_too_long_the_beginning_counts(
    openai_server: OpenAIServer,
) -> None:
    openai_server.refuse = lambda payload: (
        "This model's maximum context length is 999 tokens"
        if any(len(text) > 1000 for text in payload["input"])
        else None
    )
    embedder = OpenAIEmbedder("tiny-embed", base_url=openai_server.base_url, batch_size=2)
    texts = ["a " * 2000, "b", "c"]

    vectors = embedder.embed_documents(texts)

    np.testing.assert_allclose(vectors[0], embedder.embed_query("a"), rtol=1e-5)
    np.testing.assert_allclose(vectors[1], embedder.embed_query("b"), rtol=1e-5)
    np.testing.assert_array_equal(vectors, await embedder.aembed_documents(texts))


def test_what_an_embedder_refuses_for_another_reason_is_an_error(
    openai_server: OpenAIServer,
) -> None:
    openai_server.refuse = lambda _: "no such thing"

    with pytest.raises(ModelReplyError, match="no such thing"):
        OpenAIEmbedder("tiny-embed", base_url=openai_server.base_url).embed_query("a" * 2000)
    assert len(openai_server.requests) == 1


def test_dimensions_are_found_out_once_or_asked_for(openai_server: OpenAIServer) -> None:
    probed = OpenAIEmbedder("tiny-embed", base_url=openai_server.base_url)
    asked = OpenAIEmbedder("tiny-embed", base_url=openai_server.base_url, dimensions=4)

    assert (probed.dimensions, probed.dimensions, asked.dimensions) == (8, 8, 4)
    assert len(openai_server.requests) == 1
    assert asked.embed_query("x").shape == (4,)
    assert openai_server.requests[-1]["dimensions"] == 4
    assert asked.embed_documents([]).shape == (0, 4)


def test_vectors_of_another_length_than_asked_for_are_refused(
    openai_server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    embeddings = openai_server.embeddings
    monkeypatch.setattr(
        openai_server, "embeddings", lambda payload: embeddings({**payload, "dimensions": 5})
    )

    with pytest.raises(ConfigurationError, match="leave dimensions out"):
        OpenAIEmbedder("tiny", base_url=openai_server.base_url, dimensions=4).embed_query("x")


async def test_asynchronous_vectors_are_the_same(openai_server: OpenAIServer) -> None:
    embedder = OpenAIEmbedder("tiny-embed", base_url=openai_server.base_url)

    np.testing.assert_array_equal(
        embedder.embed_documents(["a", "b"]), await embedder.aembed_documents(["a", "b"])
    )
    np.testing.assert_array_equal(embedder.embed_query("a"), await embedder.aembed_query("a"))


def test_without_a_key_and_an_endpoint_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    with pytest.raises(ConfigurationError, match="OPENAI_API_KEY"):
        OpenAIChatModel("gpt-4o-mini")
    with pytest.raises(ConfigurationError, match="'strict' is unknown"):
        OpenAIChatModel("gpt-4o-mini", structured="strict")  # type: ignore[arg-type]


def test_without_the_sdk_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)

    with pytest.raises(MissingExtraError, match=r"amem-integrations\[openai\]"):
        OpenAIChatModel("tiny", api_key="x")
    with pytest.raises(MissingExtraError, match=r"amem-integrations\[openai\]"):
        OpenAIEmbedder("tiny", api_key="x")


def test_a_closed_model_lets_go_of_its_connections(openai_server: OpenAIServer) -> None:
    model = chat(openai_server)
    embedder = OpenAIEmbedder("tiny-embed", base_url=openai_server.base_url)
    model.generate(ASKED)

    model.close()
    embedder.close()

    assert model._endpoint.client.is_closed()
    assert embedder._endpoint.client.is_closed()
