"""The retriever: LangChain's own suite, and what is ours beyond it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.load import dumpd
from langchain_core.runnables import ConfigurableField
from langchain_kit import ANN, BOB, Silent
from langchain_tests.integration_tests import RetrieversIntegrationTests

from amem_integrations import (
    AgenticMemory,
    InvalidInputError,
    ModelUnavailableError,
    NamespaceError,
    StoreUnavailableError,
)
from amem_integrations.testing import HashEmbedder
from langchain_amem import AMemRetriever, LangChainEmbedder


@pytest.fixture
def retriever(seeded: AgenticMemory) -> AMemRetriever:
    return AMemRetriever(memory=seeded, namespace=ANN)


class TestStandardSuite(RetrieversIntegrationTests):
    @pytest.fixture(autouse=True)
    def _memory(self, seeded: AgenticMemory) -> None:
        self.memory = seeded

    @property
    def retriever_constructor(self) -> type[AMemRetriever]:
        return AMemRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"memory": self.memory, "namespace": ANN}

    @property
    def retriever_query_example(self) -> str:
        return "Where does Ann live?"


def test_a_document_is_a_note_word_for_word(retriever: AMemRetriever) -> None:
    found = retriever.invoke("moved to Oslo")[0]
    assert found.page_content == "I moved to Oslo."
    assert found.id == found.metadata["note_id"]
    assert found.metadata["speaker"] == "Ann"
    assert found.metadata["tags"] == ["talk", "evolved"]
    assert 0 < found.metadata["similarity"] <= 1
    assert found.metadata["score"] > 0
    json.dumps(found.metadata)


def test_metadata_shows_the_links_that_led_to_a_note(retriever: AMemRetriever) -> None:
    found = retriever.invoke("moved Oslo", k=4)
    paths = [document.metadata["via"] for document in found]
    assert "match" in paths
    ids = {document.id for document in found}
    assert all(step["note_id"] in ids for path in paths if path != "match" for step in path)


def test_k_and_namespace_and_filters_are_taken_per_call(retriever: AMemRetriever) -> None:
    assert len(retriever.invoke("cat", k=1)) == 1
    assert [d.page_content for d in retriever.invoke("moved", namespace=BOB)] == [
        "I moved to Rome."
    ]
    assert retriever.invoke("moved", where={"speaker": "Nobody"}) == []
    assert retriever.invoke("moved", min_similarity=0.999) == []


async def test_call_options_reach_the_asynchronous_form(retriever: AMemRetriever) -> None:
    assert len(await retriever.ainvoke("cat", k=1)) == 1
    found = await retriever.ainvoke("moved", namespace=BOB)
    assert [document.page_content for document in found] == ["I moved to Rome."]


def test_the_namespace_can_be_a_configurable_field(retriever: AMemRetriever) -> None:
    configurable = retriever.configurable_fields(namespace=ConfigurableField(id="whose"))
    found = configurable.invoke("moved", config={"configurable": {"whose": BOB}})
    assert [document.page_content for document in found] == ["I moved to Rome."]
    assert "I moved to Oslo." in [d.page_content for d in configurable.invoke("moved")]


@pytest.mark.parametrize("namespace", [None, (), ("",)])
def test_without_a_namespace_nothing_is_searched(seeded: AgenticMemory, namespace: Any) -> None:
    with pytest.raises(NamespaceError):
        AMemRetriever(memory=seeded, namespace=namespace).invoke("moved")


class Recorder(BaseCallbackHandler):
    """Keeps the metadata of the retriever runs it sees."""

    def __init__(self) -> None:
        self.metadata: dict[str, Any] = {}

    def on_retriever_start(self, *args: Any, **kwargs: Any) -> None:
        self.metadata = kwargs["metadata"]


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_trace_says_what_was_searched_and_with_which_embedder(
    retriever: AMemRetriever, asynchronous: bool
) -> None:
    recorder = Recorder()
    config: Any = {"callbacks": [recorder]}
    if asynchronous:
        await retriever.ainvoke("cat", config=config)
    else:
        retriever.invoke("cat", config=config)
    told = {name: value for name, value in recorder.metadata.items() if name.startswith("ls_")}
    assert told == {
        "ls_retriever_name": "amem",
        "ls_vector_store_provider": "Qdrant",
        "ls_embedding_provider": "HashEmbedder",
        "ls_embedding_model": retriever.memory.embedder.name,
    }


def test_a_trace_names_the_langchain_embeddings_and_not_our_wrapper() -> None:
    embeddings = DeterministicFakeEmbedding(size=8)
    embedder = LangChainEmbedder(embeddings, name="fake-8")
    with AgenticMemory.open(":memory:", embedder=embedder) as memory:
        params = AMemRetriever(memory=memory, namespace=ANN)._get_ls_params()
    assert params["ls_embedding_provider"] == "DeterministicFakeEmbedding"
    assert params["ls_embedding_model"] == "fake-8"


def test_the_memory_is_neither_shown_nor_serialised(retriever: AMemRetriever) -> None:
    assert "memory" not in retriever.model_dump()
    assert "AgenticMemory" not in repr(retriever)
    assert "AgenticMemory" not in json.dumps(dumpd(retriever)["id"])


async def test_when_the_store_is_down_nothing_is_found_and_that_is_counted() -> None:
    with Silent.open(":memory:", embedder=HashEmbedder()) as memory:
        memory.add("I moved to Oslo.", namespace=ANN)
        memory.down = True
        retriever = AMemRetriever(memory=memory, namespace=ANN)
        assert retriever.invoke("Oslo") == []
        assert await retriever.ainvoke("Oslo") == []
        assert retriever.failures == {"recall": 2}
        strict = AMemRetriever(memory=memory, namespace=ANN, on_error="raise")
        with pytest.raises(StoreUnavailableError):
            strict.invoke("Oslo")


class DeafEmbedder(HashEmbedder):
    """An embedder that does not answer to queries."""

    def embed_query(self, text: str) -> Any:
        raise ModelUnavailableError("the embedder is down")


def test_when_the_embedder_is_down_notes_are_found_by_their_words() -> None:
    with AgenticMemory.open(":memory:", embedder=DeafEmbedder()) as memory:
        memory.add("I moved to Oslo.", namespace=ANN)
        retriever = AMemRetriever(memory=memory, namespace=ANN)
        assert [found.page_content for found in retriever.invoke("Oslo")] == ["I moved to Oslo."]


def test_a_mistake_is_raised_whatever_on_error_says(retriever: AMemRetriever) -> None:
    with pytest.raises(InvalidInputError, match="unknown field"):
        retriever.invoke("cat", where={"colour": "red"})
    with pytest.raises(TypeError):
        retriever.invoke("cat", kk=3)
