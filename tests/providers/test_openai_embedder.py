from __future__ import annotations

import numpy as np
import pytest
from openai_kit import embedder

from amem_integrations.errors import ConfigurationError

pytestmark = pytest.mark.enable_socket


async def test_vectors_are_unit_length_and_in_the_order_of_the_texts(openai_server):
    model, texts = embedder(openai_server, batch_size=2), ["a b", "c", ""]
    vectors = model.embed_documents(texts)
    assert (vectors.shape, vectors.dtype) == ((3, 8), np.float32)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(vectors[1], model.embed_query("c"), rtol=1e-5)
    assert [payload["input"] for payload in openai_server.requests] == [["a b", "c"], [" "], ["c"]]
    assert model.dimensions == 8
    assert len(openai_server.requests) == 3
    np.testing.assert_array_equal(vectors, await model.aembed_documents(texts))
    np.testing.assert_array_equal(model.embed_query("a"), await model.aembed_query("a"))
    assert (await embedder(openai_server).aembed_documents([])).shape == (0, 8)


async def test_of_a_text_that_is_too_long_the_beginning_is_embedded(openai_server, caplog):
    openai_server.refuse = lambda payload: (
        "This model's maximum context length is 999 tokens"
        if any(len(text) > 1000 for text in payload["input"])
        else None
    )
    model, texts = embedder(openai_server, batch_size=2), ["a " * 2000, "b", "c", "d " * 900]
    vectors = model.embed_documents(texts)
    np.testing.assert_allclose(vectors[0], model.embed_query("a"), rtol=1e-5)
    np.testing.assert_allclose(vectors[1], model.embed_query("b"), rtol=1e-5)
    assert model.truncated == 2
    assert caplog.text.count("reads only the beginning of a text") == 1
    np.testing.assert_array_equal(vectors, await model.aembed_documents(texts))
    # A server may cut in silence: long texts are counted by their length.
    openai_server.refuse = lambda _: None
    model = embedder(openai_server, max_tokens=100)
    model.embed_documents(["a " * 300, "b"])
    assert (model.truncated, model.max_tokens) == (1, 100)


def test_dimensions_are_found_once_or_requested(openai_server):
    probed = embedder(openai_server)
    requested = embedder(openai_server, dimensions=4)

    assert (probed.dimensions, probed.dimensions, requested.dimensions) == (8, 8, 4)
    assert len(openai_server.requests) == 1
    assert requested.embed_query("x").shape == (4,)
    assert openai_server.requests[-1]["dimensions"] == 4
    assert requested.embed_documents([]).shape == (0, 4)


def test_vectors_of_another_length_or_number_than_requested_are_refused(openai_server, monkeypatch):
    embeddings = openai_server.embeddings
    for given in ({"dimensions": 5}, {"input": ["x", "y"]}):
        monkeypatch.setattr(openai_server, "embeddings", lambda p, g=given: embeddings({**p, **g}))
        with pytest.raises(ConfigurationError, match="leave dimensions out"):
            embedder(openai_server, dimensions=4).embed_query("x")


async def test_a_model_is_given_the_prefixes_that_it_wants_or_those_of_the_caller(openai_server):
    known = embedder(openai_server, "nomic-embed-text:v1.5")
    own = embedder(openai_server, "nomic-embed-text", query_prefix="ask: ", document_prefix="")
    for model in (known, own):
        model.embed_documents(["a"])
        model.embed_query("b")
        await model.aembed_documents(["a"])
        await model.aembed_query("b")
    sent = [payload["input"] for payload in openai_server.requests]
    assert sent == [["search_document: a"], ["search_query: b"]] * 2 + [["a"], ["ask: b"]] * 2
    names = [payload["model"] for payload in openai_server.requests[3:5]]
    assert names == ["nomic-embed-text:v1.5", "nomic-embed-text"]
    assert (known.name, own.name) == ("nomic-embed-text:v1.5", "nomic-embed-text (ask: | )")
