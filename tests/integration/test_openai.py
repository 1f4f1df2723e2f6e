import asyncio
import gc
import json
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
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
    return [payload.get("response_format", {}).get("type") for payload in server.requests]


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
        ("json", ["json_schema", "json_object"]),
        ("words", ["json_schema", "json_object", None]),
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
    ("structured", "sent"), [("schema", "json_schema"), ("json", "json_object"), ("words", None)]
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
    openai_server.refuse = lambda _: "maximum context length exceeded"
    model = chat(openai_server)

    with pytest.raises(
        ModelReplyError, match=r"'tiny' at .* refused .* 400 - maximum context length"
    ):
        model.generate(ASKED)
    openai_server.refuse = lambda _: None
    model.generate(ASKED)

    assert formats(openai_server) == ["json_schema", "json_object", None, "json_schema"]


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
    ["<html>Welcome to the proxy</html>", "{not json", '{"error": {"message": "no"}}', "[]", ""],
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
    assert formats(openai_server) == ["json_schema", "json_schema", "json_object", None, None]
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
