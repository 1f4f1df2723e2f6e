"""LlamaIndex's models as ports of the core."""

from __future__ import annotations

import numpy as np
import pytest
from llama_index.core import MockEmbedding, Settings
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.llms import MockLLM
from llamaindex_fakes import REQUEST, Chatbot, annotated
from pydantic import Field

from amem_integrations import ConfigurationError
from amem_integrations.testing import HashEmbedder, ScriptedModel
from llamaindex_amem import LlamaIndexChatModel, LlamaIndexEmbedder, open_memory


class Words(BaseEmbedding):
    """Encodes words, at any length; tells queries from texts."""

    scale: float = 3.0

    def _vector(self, text: str) -> list[float]:
        return [self.scale * float(x) for x in HashEmbedder(32).embed_query(text)]

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._vector(text)

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._vector(f"query {query}")

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_query_embedding(query)


@pytest.fixture(autouse=True)
def settings():
    before = Settings._llm, Settings._embed_model
    yield
    Settings._llm, Settings._embed_model = before


# --- chat models


def test_the_prompt_reaches_the_model_as_it_is():
    llm = Chatbot("one", "two")
    model = LlamaIndexChatModel(llm)

    answers = [model.generate(REQUEST).text for _ in range(2)]

    assert answers == ["one", "two"]
    assert set(llm.prompts) == {f"system: Be brief.\nuser: {REQUEST.prompt}"}


def test_settings_are_read_at_each_call():
    model = LlamaIndexChatModel()
    answers = []
    for answer in ("first", "second"):
        Settings.llm = Chatbot(answer)
        answers.append(model.generate(REQUEST).text)

    assert answers == ["first", "second"]
    assert model.name == "Settings.llm"
    assert LlamaIndexChatModel(Chatbot()).name == "chatbot"
    assert LlamaIndexChatModel(MockLLM()).name == "unknown"


# --- embedders


def test_vectors_have_unit_length_and_the_right_type():
    embedder = LlamaIndexEmbedder(Words())
    rows = [
        embedder.embed_documents(["one", "two"]),
        np.stack([embedder.embed_query("one"), embedder.embed_query("two")]),
    ]

    for some in rows:
        assert (some.shape, some.dtype) == ((2, 32), np.float32)
        assert np.allclose(np.linalg.norm(some, axis=1), 1)
    assert embedder.embed_documents([]).shape == (0, 32)


def test_queries_are_encoded_as_queries():
    embedder = LlamaIndexEmbedder(Words())

    assert not np.array_equal(embedder.embed_query("one"), embedder.embed_documents(["one"])[0])


def test_it_says_who_it_is_and_how_long_its_vectors_are():
    embedder = LlamaIndexEmbedder(MockEmbedding(8, model_name="mock-8"))

    assert (embedder.name, embedder.dimensions) == ("MockEmbedding:mock-8", 8)
    given = LlamaIndexEmbedder(MockEmbedding(8), name="mine", dimensions=8)
    assert (given.name, given.dimensions) == ("mine", 8)


def test_the_embedder_of_settings_is_kept():
    Settings.embed_model = MockEmbedding(8)
    embedder = LlamaIndexEmbedder()

    Settings.embed_model = MockEmbedding(16)

    assert embedder.embed_query("text").shape == (8,)


class Recording(MockEmbedding):
    """An embedding model that keeps what it was given."""

    given: list[str] = Field(default_factory=list)

    def _get_text_embedding(self, text: str) -> list[float]:
        self.given.append(text)
        return super()._get_text_embedding(text)

    def _get_query_embedding(self, query: str) -> list[float]:
        self.given.append(query)
        return super()._get_query_embedding(query)


def test_prefixes_stand_before_the_texts_and_are_in_the_name():
    model = Recording(8)
    embedder = LlamaIndexEmbedder(model, dimensions=8, query_prefix="query: ")
    embedder.embed_documents(["a"])
    embedder.embed_query("b")
    assert model.given == ["a", "query: b"]
    assert embedder.name.endswith("(query: | )")


def test_texts_that_are_too_long_by_an_estimate_are_counted_and_told_once(caplog):
    embedder = LlamaIndexEmbedder(MockEmbedding(8), max_tokens=10)
    embedder.embed_documents(["a" * 100, "b", "c" * 100])
    assert embedder.truncated == 2
    assert caplog.text.count("reads only the first 10 tokens") == 1


# The door


def test_a_memory_is_opened_with_models_of_the_framework(tmp_path):
    embedder = MockEmbedding(8)
    with open_memory(tmp_path, model=Chatbot("{}"), embedder=embedder, collection="c") as memory:
        assert memory.embedder.dimensions == 8
        assert memory.info()["model"] == "chatbot"


def test_a_memory_is_opened_with_models_of_its_own(tmp_path):
    model, embedder = ScriptedModel(annotated), HashEmbedder(32)
    with open_memory(":memory:", model=model, embedder=embedder) as memory:
        assert memory.embedder is embedder
    with open_memory(":memory:", embedder=embedder) as memory:
        assert memory.info()["model"] == "rules"
    with pytest.raises(ConfigurationError, match="model="):
        open_memory(":memory:", model="gpt-5-mini", embedder=embedder)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="colour"):
        open_memory(str(tmp_path), embedder=embedder, colour="red")
