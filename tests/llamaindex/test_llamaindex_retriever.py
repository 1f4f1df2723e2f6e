"""`AMemRetriever`: notes as nodes."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.chat_engine import ContextChatEngine
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.schema import MetadataMode, QueryBundle
from llama_index.core.tools import RetrieverTool
from llamaindex_fakes import ANN, BOB, Chatbot, Toolbot, annotated, open_memory

from amem_integrations import AgenticMemory, ConfigurationError, ModelRequest, NamespaceError
from amem_integrations.testing import ScriptedModel
from llamaindex_amem import AMemRetriever

QUESTION = "What is my dog called?"


def to_the_insurance(request: ModelRequest) -> dict[str, Any]:
    """Link each new note to the one about an insurance, if it is shown."""
    if request.task != "evolve":
        return annotated(request)
    shown = [c["alias"] for c in request.inputs["candidates"] if "insurance" in c["content"]]
    links = [
        {"to": alias, "relation": "paid for", "reason": "same dog", "strength": 0.9}
        for alias in shown
    ]
    return {"notes": [{"id": note["alias"], "links": links} for note in request.inputs["notes"]]}


@pytest.fixture
def kennel(memory: AgenticMemory) -> AgenticMemory:
    memory.add(
        "My dog is called Rex.", namespace=ANN, speaker="Ann", at=datetime(2023, 5, 8, tzinfo=UTC)
    )
    memory.add("My dog is called Max.", namespace=BOB)
    return memory


def test_a_node_is_a_note(kennel: AgenticMemory) -> None:
    (found,) = AMemRetriever(kennel, ANN).retrieve(QUESTION)
    (note,) = kennel.get_all(namespace=ANN)

    assert (found.node_id, found.text) == (note.id, note.content)
    assert found.score == kennel.search(QUESTION, namespace=ANN)[0].score
    assert found.metadata["via"] == "match"
    assert found.metadata["tags"] == ["talk"]
    assert found.metadata["speaker"] == "Ann"
    assert found.metadata["similarity"] > 0


def test_a_model_is_shown_who_said_it_and_when_and_no_ids(kennel: AgenticMemory) -> None:
    (found,) = AMemRetriever(kennel, ANN).retrieve(QUESTION)

    text = found.node.get_content(MetadataMode.LLM)

    assert "speaker: Ann" in text
    assert "2023-05-08" in text
    assert found.node_id not in text
    assert found.node.get_content(MetadataMode.EMBED) == "My dog is called Rex."


async def test_linked_notes_carry_the_path_that_led_to_them() -> None:
    memory, _ = open_memory(ScriptedModel(to_the_insurance))
    memory.add("The insurance has number 4711.", namespace=ANN, thread="t")
    dogs = [memory.add(f"My dog {n} is called Rex.", namespace=ANN, thread="t") for n in range(3)]
    memory.add_many([f"A dog called {n}." for n in range(60)], namespace=ANN, evolve=False)
    retriever = AMemRetriever(memory, ANN, k=4)

    nodes = retriever.retrieve("my dog is called")

    assert nodes == await retriever.aretrieve(QueryBundle("my dog is called"))
    (linked,) = [node for node in nodes if node.metadata["via"] != "match"]
    assert linked.text == "The insurance has number 4711."
    assert {step["note_id"] for step in linked.metadata["via"]} == {dog.id for dog in dogs}
    assert {step["relation"] for step in linked.metadata["via"]} == {"paid for"}
    assert json.loads(json.dumps(linked.metadata)) == linked.metadata
    assert set(linked.metadata["links"]) == {dog.id for dog in dogs}
    unlinked = AMemRetriever(memory, ANN, k=4, links=False).retrieve("my dog is called")
    assert {node.metadata["via"] for node in unlinked} == {"match"}


async def test_both_forms_give_the_same(kennel: AgenticMemory) -> None:
    retriever = AMemRetriever(kennel, ANN)

    assert retriever.retrieve(QUESTION) == await retriever.aretrieve(QueryBundle(QUESTION))


def test_the_arguments_of_search_are_passed_on(kennel: AgenticMemory) -> None:
    kennel.add("My dog is called Bello now.", namespace=ANN, metadata={"city": "Oslo"})

    where = AMemRetriever(kennel, ANN, where={"metadata.city": "Oslo"}, links=False)
    assert [node.text for node in where.retrieve(QUESTION)] == ["My dog is called Bello now."]
    assert len(AMemRetriever(kennel, ANN, k=1).retrieve(QUESTION)) == 1
    assert AMemRetriever(kennel, ANN, min_similarity=0.999).retrieve(QUESTION) == []


async def test_an_empty_question_finds_nothing(kennel: AgenticMemory) -> None:
    assert AMemRetriever(kennel, ANN).retrieve("  ") == []
    assert await AMemRetriever(kennel, ANN).aretrieve("") == []


def test_a_namespace_is_needed(kennel: AgenticMemory) -> None:
    with pytest.raises(NamespaceError):
        AMemRetriever(kennel, ())


def test_a_number_that_cannot_be_used_is_refused_at_once(kennel: AgenticMemory) -> None:
    with pytest.raises(ConfigurationError, match="k=0 must be a whole number"):
        AMemRetriever(kennel, ANN, k=0)
    with pytest.raises(TypeError, match="top_k"):
        AMemRetriever(kennel, ANN, top_k=3)  # type: ignore[call-arg]


def test_it_is_a_retriever() -> None:
    assert issubclass(AMemRetriever, BaseRetriever)


async def test_in_a_query_engine(kennel: AgenticMemory) -> None:
    llm = Chatbot("Rex.")
    engine = RetrieverQueryEngine.from_args(AMemRetriever(kennel, ANN), llm=llm)

    answers = [engine.query(QUESTION), await engine.aquery(QUESTION)]

    assert [str(answer) for answer in answers] == ["Rex.", "Rex."]
    assert all("My dog is called Rex." in prompt for prompt in llm.prompts)
    assert not any("Max" in prompt for prompt in llm.prompts)


async def test_in_a_chat_engine(kennel: AgenticMemory) -> None:
    llm = Chatbot("Rex.")
    engine = ContextChatEngine.from_defaults(AMemRetriever(kennel, ANN), llm=llm)

    engine.chat(QUESTION)
    await engine.achat(QUESTION)

    assert all("My dog is called Rex." in prompt for prompt in llm.prompts)


async def test_as_a_tool_of_an_agent(kennel: AgenticMemory) -> None:
    llm = Toolbot(("memory", {"input": QUESTION}))
    tool = RetrieverTool.from_defaults(
        AMemRetriever(kennel, ANN), name="memory", description="What the user said before."
    )

    await FunctionAgent(llm=llm, tools=[tool]).run(QUESTION)

    assert "My dog is called Rex." in llm.prompts[1]


def test_in_a_fusion_of_retrievers_which_runs_them_on_a_loop_of_its_own(
    kennel: AgenticMemory,
) -> None:
    fusion = QueryFusionRetriever(
        [AMemRetriever(kennel, ANN)], llm=Chatbot(), num_queries=1, use_async=True
    )
    asyncio.run(asyncio.sleep(0))

    assert [node.text for node in fusion.retrieve(QUESTION)] == ["My dog is called Rex."]


def test_placeholders_in_notes_are_not_filled_in(memory: AgenticMemory) -> None:
    memory.add("The riddle says {query_str} and {context_str}.", namespace=ANN)
    llm = Chatbot("?")
    retriever = AMemRetriever(memory, ANN)

    RetrieverQueryEngine.from_args(retriever, llm=llm).query("What says the riddle?")
    ContextChatEngine.from_defaults(retriever, llm=llm).chat("What says the riddle?")

    assert all(prompt.count("What says the riddle?") == 1 for prompt in llm.prompts)
    assert all("says {query_str} and {context_str}" in prompt for prompt in llm.prompts)
