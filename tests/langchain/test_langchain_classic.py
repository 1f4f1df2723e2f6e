"""The memory of classic chains: five kinds of chain, text and messages, both forms."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("langchain_classic")

from langchain_classic.agents import AgentExecutor, create_tool_calling_agent
from langchain_classic.chains import ConversationalRetrievalChain, ConversationChain, LLMChain
from langchain_classic.memory import CombinedMemory, ReadOnlySharedMemory, SimpleMemory
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder, PromptTemplate
from langchain_core.tools import tool
from langchain_kit import ANN, BOB, Contents, Silent, Talker, scripted

from amem_integrations import (
    AgenticMemory,
    ConfigurationError,
    StoreUnavailableError,
)
from amem_integrations.testing import HashEmbedder
from langchain_amem import AMemMemory, AMemRetriever

# These chains say that they are deprecated when they are made.
pytestmark = pytest.mark.filterwarnings(
    "ignore::langchain_core._api.deprecation.LangChainDeprecationWarning"
)

TEXT = PromptTemplate.from_template("{history}\nHuman: {input}")
CHAT = ChatPromptTemplate.from_messages([MessagesPlaceholder("history"), ("human", "{input}")])


def oslo(messages: list[BaseMessage]) -> str:
    """Answer from what was recalled, and from nothing else."""
    shown = "\n".join(message.text for message in messages)
    block = shown.partition("<memories>")[2].partition("</memories>")[0]
    return "In Oslo." if "Oslo" in block else "I do not know."


@tool
def look(what: str) -> str:
    """Look something up."""
    return f"{what}: 42"


def conversation(memory: AMemMemory, prompt: Any) -> Any:
    return ConversationChain(llm=Talker(answer=oslo), memory=memory, prompt=prompt)


def llm(memory: AMemMemory, prompt: Any) -> Any:
    return LLMChain(llm=Talker(answer=oslo), memory=memory, prompt=prompt)


def combined(memory: AMemMemory, prompt: Any) -> Any:
    memory.input_key = "input"
    both = CombinedMemory(memories=[memory, SimpleMemory(memories={"mood": "sunny"})])
    return LLMChain(llm=Talker(answer=oslo), memory=both, prompt=prompt)


def agent(memory: AMemMemory, prompt: Any) -> Any:
    """Return an executor whose outputs hold more than text."""
    with_scratchpad = ChatPromptTemplate.from_messages(
        [
            *(
                [MessagesPlaceholder("history")]
                if memory.return_messages
                else [("human", "{history}")]
            ),
            ("human", "{input}"),
            MessagesPlaceholder("agent_scratchpad"),
        ]
    )
    runnable = create_tool_calling_agent(Talker(answer=oslo), [look], with_scratchpad)
    return AgentExecutor(
        agent=runnable, tools=[look], memory=memory, return_intermediate_steps=True
    )


CHAINS = [conversation, llm, combined, agent]


async def call(chain: Any, text: str, asynchronous: bool) -> str:
    result = await chain.ainvoke({"input": text}) if asynchronous else chain.invoke({"input": text})
    key = next(key for key in ("response", "output", "text") if key in result)
    return str(result[key])


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("messages", [False, True], ids=["text", "messages"])
@pytest.mark.parametrize("chain", CHAINS)
async def test_every_kind_of_chain_recalls_and_stores(
    memory: AgenticMemory, contents: Contents, chain: Any, messages: bool, asynchronous: bool
) -> None:
    mine = AMemMemory(memory=memory, namespace=ANN, return_messages=messages)
    built = chain(mine, CHAT if messages else TEXT)
    assert await call(built, "I moved to Oslo.", asynchronous) == "I do not know."
    assert await call(built, "Where did I move to?", asynchronous) == "In Oslo."
    assert contents(ANN) == [
        "I moved to Oslo.",
        "I do not know.",
        "Where did I move to?",
        "In Oslo.",
    ]
    assert memory.flush(timeout=10)
    assert {note.state for note in memory.get_all(namespace=ANN)} == {"done"}


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
async def test_a_retrieval_chain_takes_the_notes_as_messages(
    memory: AgenticMemory, contents: Contents, asynchronous: bool
) -> None:
    memory.add("I moved to Oslo.", namespace=ANN)
    seen: list[str] = []

    def answer(messages: list[BaseMessage]) -> str:
        seen.append(messages[-1].text)
        return "In Oslo."

    mine = AMemMemory(
        memory=memory,
        namespace=ANN,
        memory_key="chat_history",
        output_key="answer",
        return_messages=True,
    )
    chain = ConversationalRetrievalChain.from_llm(
        Talker(answer=answer),
        retriever=AMemRetriever(memory=memory, namespace=ANN),
        memory=mine,
        return_source_documents=True,
    )
    asked = {"question": "Where did I move to?"}
    result = await chain.ainvoke(asked) if asynchronous else chain.invoke(asked)
    assert result["answer"] == "In Oslo."
    assert "Human: <memories>" in seen[0]
    assert contents(ANN) == ["I moved to Oslo.", "Where did I move to?", "In Oslo."]


def test_what_was_recalled_is_never_stored_again(memory: AgenticMemory, contents: Contents) -> None:
    chain = conversation(AMemMemory(memory=memory, namespace=ANN), TEXT)
    for _ in range(4):
        chain.invoke({"input": "Where is Oslo?"})
    assert not any("<memories>" in text for text in contents(ANN))
    assert len(contents(ANN)) == 8


def test_what_is_said_twice_is_two_notes_and_a_correction_stays(memory: AgenticMemory) -> None:
    mine = AMemMemory(memory=memory, namespace=ANN, thread="t")
    mine.save_context({"input": "Yes."}, {"output": "Good."})
    first = memory.get_all(namespace=ANN)[0]
    memory.update(first.id, namespace=ANN, content="Ann agrees.")
    again = AMemMemory(memory=memory, namespace=ANN, thread="t")
    again.save_context({"input": "Yes."}, {"output": "Good."})
    assert [note.content for note in memory.get_all(namespace=ANN)] == [
        "Ann agrees.",
        "Good.",
        "Yes.",
        "Good.",
    ]


def test_a_chain_with_several_inputs_needs_input_key(memory: AgenticMemory) -> None:
    mine = AMemMemory(memory=memory, namespace=ANN)
    with pytest.raises(ConfigurationError, match="input_key"):
        mine.save_context({"input": "Hi.", "mood": "sunny"}, {"output": "Hello."})
    with pytest.raises(ConfigurationError, match="output_key"):
        mine.save_context({"input": "Hi."}, {"answer": "Hello.", "source_documents": []})
    mine.save_context({"input": "Hi.", "history": "…", "stop": ["x"]}, {"output": "Hello."})
    assert memory.stats(namespace=ANN)["notes"] == 2


def test_values_that_are_no_text_are_left_out(memory: AgenticMemory, contents: Contents) -> None:
    mine = AMemMemory(memory=memory, namespace=ANN)
    mine.save_context({"input": HumanMessage("Hello.")}, {"output": [("tuple", 1)]})  # type: ignore[dict-item]
    mine.save_context(
        {"input": [HumanMessage("One."), HumanMessage("Two.")]}, {"output": AIMessage("3.")}
    )  # type: ignore[dict-item]
    mine.save_context({"input": ""}, {"output": ""})
    assert contents(ANN) == ["Hello.", "Two.", "3."]


def test_a_read_only_memory_stores_nothing(seeded: AgenticMemory, contents: Contents) -> None:
    before = contents(ANN)
    shared = ReadOnlySharedMemory(memory=AMemMemory(memory=seeded, namespace=ANN))
    chain = conversation(shared, TEXT)  # type: ignore[arg-type]
    assert chain.invoke({"input": "Where did I move to?"})["response"] == "In Oslo."
    assert contents(ANN) == before


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
async def test_clear_touches_its_own_namespace_only(
    seeded: AgenticMemory, contents: Contents, asynchronous: bool
) -> None:
    mine = AMemMemory(memory=seeded, namespace=ANN)
    await mine.aclear() if asynchronous else mine.clear()
    assert contents(ANN) == []
    assert contents(BOB) == ["I moved to Rome."]


async def test_without_a_store_the_chain_runs_and_the_failure_is_counted() -> None:
    with Silent.open(":memory:", model=scripted(), embedder=HashEmbedder()) as memory:
        memory.down = True
        mine = AMemMemory(memory=memory, namespace=ANN)
        chain = conversation(mine, TEXT)
        assert chain.invoke({"input": "Where do I live?"})["response"] == "I do not know."
        await chain.ainvoke({"input": "Where do I live?"})
        assert mine.failures["recall"] == 2
        strict = AMemMemory(memory=memory, namespace=ANN, on_error="raise")
        with pytest.raises(StoreUnavailableError):
            conversation(strict, TEXT).invoke({"input": "Where do I live?"})


def test_a_chain_that_fails_stores_nothing(memory: AgenticMemory, contents: Contents) -> None:
    def broken(messages: list[BaseMessage]) -> str:
        raise ConnectionError("no answer")

    mine = AMemMemory(memory=memory, namespace=ANN)
    chain = ConversationChain(llm=Talker(answer=broken), memory=mine, prompt=TEXT)
    with pytest.raises(ConnectionError):
        chain.invoke({"input": "Hello."})
    assert contents(ANN) == []
