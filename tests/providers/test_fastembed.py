"""`FastEmbedEmbedder` over the library, if it is installed, and over a stand-in, with a model of a few hundred numbers."""

from __future__ import annotations

import logging
import shutil
import sys
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from support import tiny_bert
from tokenizers import Tokenizer

from amem_integrations import AgenticMemory, ConfigurationError, FastEmbedEmbedder, MiniLmEmbedder

ENCODER = Path(__file__).parents[1] / "data" / "tiny_encoder.onnx"


MODELS = ("tiny/plain", "tiny/e5-small")


class TextEmbedding:
    """Stands in for the class of the library: a model run by `MiniLmEmbedder`, of which parts of the vectors are taken."""

    def __init__(self, model_name, specific_model_path=""):
        if model_name not in MODELS or not Path(specific_model_path).is_dir():
            raise ValueError(f"{model_name} is not supported")
        tokenizer = Tokenizer.from_file(f"{specific_model_path}/tokenizer.json")
        tokenizer.enable_truncation(20)
        self.model = SimpleNamespace(tokenizer=tokenizer)
        self._bert = MiniLmEmbedder(specific_model_path)

    def passage_embed(self, texts, batch_size):
        for start in range(0, len(texts), batch_size):
            yield from self._bert.embed_documents(texts[start : start + batch_size])[:, :8]

    query_embed = passage_embed


@cache
def real_library():
    found = pytest.importorskip(
        "fastembed", reason="the extra fastembed is in none of the environments"
    )
    from fastembed.common.model_description import ModelSource, PoolingType  # noqa: PLC0415

    given = {"pooling": PoolingType.MEAN, "normalization": False, "model_file": "model.onnx"}
    for name in MODELS:
        source = ModelSource(hf="nobody/nothing")
        found.TextEmbedding.add_custom_model(name, sources=source, dim=8, **given)


@pytest.fixture(params=["stand-in", "library"], autouse=True)
def library(request, monkeypatch):
    if request.param == "library":
        real_library()
    else:
        monkeypatch.setitem(sys.modules, "fastembed", SimpleNamespace(TextEmbedding=TextEmbedding))


@pytest.fixture
def folder(tmp_path):
    tiny_bert.write(tmp_path)
    (tmp_path / "special_tokens_map.json").write_text('{"pad_token": "[PAD]"}')
    shutil.copy(ENCODER, tmp_path / "model.onnx")
    return tmp_path


def embedder(folder, model="tiny/plain", **options):
    return FastEmbedEmbedder(model, specific_model_path=str(folder), **options)


def test_vectors_are_unit_length_and_in_the_order_of_the_texts(folder):
    model = embedder(folder, batch_size=2)
    rows = model.embed_documents(["the train", "tea", "the train is late"])
    assert (rows.shape, rows.dtype, model.dimensions) == ((3, 8), np.float32, 8)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(rows[1], model.embed_query("tea"), rtol=1e-5)
    assert model.name == "fastembed:tiny/plain"
    assert model.embed_documents([]).shape == (0, 8)


def test_a_model_is_given_the_prefixes_that_it_wants_or_those_of_the_caller(folder):
    plain, known = embedder(folder), embedder(folder, "tiny/e5-small")
    own = embedder(folder, "tiny/e5-small", query_prefix="the ", document_prefix="")
    for model, query, document in ((known, "query: tea", "passage: tea"), (own, "the tea", "tea")):
        np.testing.assert_allclose(model.embed_query("tea"), plain.embed_query(query), rtol=1e-5)
        expected = plain.embed_documents([document])
        np.testing.assert_allclose(model.embed_documents(["tea"]), expected, rtol=1e-5)
    assert known.name == "fastembed:tiny/e5-small"
    assert own.name == "fastembed:tiny/e5-small (the | )"


def test_texts_of_which_the_beginning_is_read_are_counted_and_told_once(folder, caplog):
    model = embedder(folder)
    assert model.max_tokens == 20
    with caplog.at_level(logging.WARNING, logger="amem_integrations"):
        model.embed_documents(["tea", "the train is late " * 10, "tea is late " * 10, "late " * 40])
        model.embed_documents(["is the train late " * 10])
    assert model.truncated == 4
    assert caplog.text.count("reads only the first 20 tokens") == 1


def test_a_memory_works_with_it_and_remembers_its_name(folder, tmp_path):
    with AgenticMemory.open(tmp_path / "memory", embedder=embedder(folder)) as memory:
        memory.add("The train is late.", namespace=("ann",))
        assert memory.search("train", namespace=("ann",))[0].note.content == "The train is late."
        assert memory.info()["embedder"] == "fastembed:tiny/plain"


def test_a_model_that_is_unknown_or_not_there_is_an_error_that_says_so(tmp_path):
    with pytest.raises(ConfigurationError, match="could not be loaded by FastEmbed"):
        FastEmbedEmbedder("nobody/no-such-model")
    with pytest.raises(ConfigurationError, match="could not be loaded by FastEmbed"):
        embedder(tmp_path / "missing")
