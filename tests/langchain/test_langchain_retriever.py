"""The retriever: LangChain's own suite, and what is ours beyond it; and the runs that a trace shows."""

from __future__ import annotations

import json

import pytest
from langchain.agents import create_agent
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.load import dumpd
from langchain_core.messages import AIMessage
from langchain_core.runnables import ConfigurableField
from langchain_core.tools import ToolException
from langchain_kit import ANN, BOB, Talker, ask, called, calling
from langchain_tests.integration_tests import RetrieversIntegrationTests

from amem_integrations import InvalidInputError, NamespaceError
from langchain_amem import AMemMiddleware, AMemRetriever, memory_tools, recall_node


@pytest.fixture
def retriever(seeded):
    return AMemRetriever(memory=seeded, namespace=ANN)


class TestStandardSuite(RetrieversIntegrationTests):
    retriever_constructor = AMemRetriever
    retriever_constructor_params = None
    retriever_query_example = "Where does Ann live?"

    @pytest.fixture(autouse=True)
    def _memory(self, seeded):
        self.retriever_constructor_params = {"memory": seeded, "namespace": ANN}


def texts(found):
    return [document.page_content for document in found]


def test_a_document_is_a_note_word_for_word(retriever):
    found = retriever.invoke("moved to Oslo")[0]
    assert found.page_content == "I moved to Oslo."
    known = {"note_id": found.id, "speaker": "Ann", "tags": ["talk", "evolved"]}
    assert known.items() <= found.metadata.items()
    assert 0 < found.metadata["similarity"] <= 1
    assert found.metadata["score"] > 0
    json.dumps(found.metadata)
    given = {"source": "letter.txt", "tags": "mine", "score": 7, "passage": "first"}
    retriever.memory.add("I have two dogs.", namespace=ANN, metadata=given)
    assert given.items() <= retriever.invoke("two dogs")[0].metadata.items()


def test_metadata_shows_the_links_that_led_to_a_note(retriever):
    found = retriever.invoke("moved Oslo", k=4)
    paths = [document.metadata["via"] for document in found]
    assert "match" in paths
    ids = {document.id for document in found}
    assert all(step["note_id"] in ids for path in paths if path != "match" for step in path)


async def test_k_and_namespace_and_filters_are_taken_per_call(retriever):
    assert len(retriever.invoke("cat", k=1)) == len(await retriever.ainvoke("cat", k=1)) == 1
    rome = retriever.invoke("moved", namespace=BOB), await retriever.ainvoke("moved", namespace=BOB)
    assert [texts(found) for found in rome] == [["I moved to Rome."]] * 2
    assert retriever.invoke("moved", where={"speaker": "Nobody"}) == []
    assert retriever.invoke("moved", min_similarity=0.999) == []
    assert retriever.invoke(" ") == []
    assert retriever.invoke("moved", k=None, namespace=None) == retriever.invoke("moved")
    assert retriever.failures == {}


def test_options_that_are_set_later_count(memory):
    def found(asked):
        return {document.page_content for document in asked.invoke("tea")}

    memory.add("I like tea.", namespace=ANN, evolve=False)
    memory.add("Our tea is a secret.", namespace=BOB, evolve=False)
    retriever = AMemRetriever(memory=memory, namespace=ANN, also={"bob": BOB})
    assert found(retriever) == {"I like tea.", "Our tea is a secret."}
    assert found(retriever.model_copy(update={"also": {}})) == {"I like tea."}
    retriever.also = None
    assert found(retriever) == {"I like tea."}
    retriever.where = {"metadata.public": True}
    assert found(retriever) == set()


def test_the_namespace_can_be_a_configurable_field(retriever):
    configurable = retriever.configurable_fields(namespace=ConfigurableField(id="whose"))
    found = configurable.invoke("moved", config={"configurable": {"whose": BOB}})
    assert texts(found) == ["I moved to Rome."]
    assert "I moved to Oslo." in texts(configurable.invoke("moved"))


def test_a_mistake_is_raised_whatever_on_error_says(retriever):
    for namespace in (None, (), ("",)):
        with pytest.raises(NamespaceError):
            AMemRetriever(memory=retriever.memory, namespace=namespace).invoke("moved")
        if namespace is not None:
            with pytest.raises(NamespaceError):
                retriever.invoke("moved", namespace=namespace)
    with pytest.raises(InvalidInputError, match="unknown field"):
        retriever.invoke("cat", where={"colour": "red"})
    with pytest.raises(TypeError):
        retriever.invoke("cat", kk=3)
    with pytest.raises(TypeError, match="unknown option 'window'"):
        retriever.invoke("cat", window=3)


def test_the_memory_is_neither_shown_nor_serialised(retriever):
    assert "memory" not in retriever.model_dump()
    assert "AgenticMemory" not in repr(retriever)
    assert "AgenticMemory" not in json.dumps(dumpd(retriever)["id"])


# Tracing


class Watching(BaseCallbackHandler):
    """Keeps what callback handlers are told about retriever runs."""

    def __init__(self):
        self.started, self.found, self.failed = [], [], []

    def on_retriever_start(self, serialized, query, **options):
        self.started.append({"query": query, **options})

    def on_retriever_end(self, documents, **_):
        self.found.append(texts(documents))

    def on_retriever_error(self, error, **_):
        self.failed.append(error)


def recalling(memory):
    """Return what recalls in a run of its own, below that of an agent or node."""
    middleware = AMemMiddleware(memory, namespace=ANN, remember=False)
    tools = memory_tools(memory, namespace=ANN, kinds=["search"])
    return {
        "middleware": create_agent(Talker(), middleware=[middleware]),
        "node": recall_node(memory, namespace=ANN),
        "tool": create_agent(calling(called("search_memory", query="moved?")), tools),
    }


async def test_recall_is_a_retriever_run_below_that_of_the_agent(seeded):
    for runnable in recalling(seeded).values():
        watching = Watching()
        config = {"callbacks": [watching]}
        asked = ask("moved?", AIMessage("One moment."))
        runnable.invoke(asked, config)
        await runnable.ainvoke(asked, config)
        for started, found in zip(watching.started, watching.found, strict=True):
            assert (started["query"], started["name"]) == ("moved?", "AMemRecall")
            assert started["parent_run_id"] is not None
            assert "I moved to Oslo." in found
        assert len(watching.found) == 2


async def test_a_recall_that_fails_is_a_run_that_fails(memory):
    memory.down = True
    watching = Watching()
    config = {"callbacks": [watching]}
    agent = recalling(memory)["middleware"]
    agent.invoke(ask("moved?"), config)
    await agent.ainvoke(ask("moved?"), config)
    (search,) = memory_tools(memory, namespace=ANN, kinds=["search"])
    search.handle_tool_error = False
    with pytest.raises(ToolException):
        search.invoke({"query": "moved?"}, config)
    assert (len(watching.failed), watching.found) == (3, [])
