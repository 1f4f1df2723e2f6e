"""The memory of classic chains: five kinds of chain, text and messages, both forms; and a chat history."""

from __future__ import annotations

from itertools import product

import pytest
from langchain_classic.agents import AgentExecutor, create_tool_calling_agent
from langchain_classic.chains import ConversationalRetrievalChain, ConversationChain, LLMChain
from langchain_classic.memory import CombinedMemory, ReadOnlySharedMemory, SimpleMemory
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder, PromptTemplate
from langchain_kit import ANN, BOB, Talker, kept, look
from support.ports import fail_once

from amem_integrations import ConfigurationError, StoreUnavailableError
from langchain_amem import AMemChatMessageHistory, AMemMemory, AMemRetriever, AMemVectorStore

# These chains say that they are deprecated when they are made.
pytestmark = pytest.mark.filterwarnings(
    "ignore::langchain_core._api.deprecation.LangChainDeprecationWarning"
)

TEXT = PromptTemplate.from_template("{history}\nHuman: {input}")
CHAT = ChatPromptTemplate.from_messages([MessagesPlaceholder("history"), ("human", "{input}")])


def conversation(memory, prompt=TEXT, model=None):
    return ConversationChain(llm=model or Talker(), memory=memory, prompt=prompt)


def llm(memory, prompt):
    return LLMChain(llm=Talker(), memory=memory, prompt=prompt)


def combined(memory, prompt):
    memory.input_key = "input"
    both = CombinedMemory(memories=[memory, SimpleMemory(memories={"mood": "sunny"})])
    return LLMChain(llm=Talker(), memory=both, prompt=prompt)


def agent(memory, prompt):
    """Return an executor whose outputs hold more than text."""
    history = MessagesPlaceholder("history") if prompt is CHAT else ("human", "{history}")
    rest = [("human", "{input}"), MessagesPlaceholder("agent_scratchpad")]
    template = ChatPromptTemplate.from_messages([history, *rest])
    runnable = create_tool_calling_agent(Talker(), [look], template)
    options = {"memory": memory, "return_intermediate_steps": True}
    return AgentExecutor(agent=runnable, tools=[look], **options)


@pytest.mark.parametrize("chain", [conversation, llm, combined, agent])
async def test_every_kind_of_chain_recalls_and_stores(memory, chain):
    turns = (("I moved to Oslo.", "I do not know."), ("Where did I move to?", "In Oslo."))
    for number, (prompt, asynchronous) in enumerate(product((TEXT, CHAT), (False, True))):
        space = (str(number),)
        mine = AMemMemory(memory=memory, namespace=space, return_messages=prompt is CHAT)
        built = chain(mine, prompt)
        for asked, answered in turns:
            given = {"input": asked}
            result = await built.ainvoke(given) if asynchronous else built.invoke(given)
            assert answered in [result.get(key) for key in ("response", "output", "text")]
        assert kept(memory, space) == [text for turn in turns for text in turn]
        assert memory.flush(timeout=10)
        assert {note.state for note in memory.get_all(namespace=space)} == {"done"}


async def test_a_retrieval_chain_takes_the_notes_as_messages(memory):
    memory.add("I moved to Oslo.", namespace=ANN)
    keys = {"memory_key": "chat_history", "output_key": "answer"}
    model = Talker(answer=lambda _: "In Oslo.")
    chain = ConversationalRetrievalChain.from_llm(
        model,
        retriever=AMemRetriever(memory=memory, namespace=ANN),
        memory=AMemMemory(memory=memory, namespace=ANN, return_messages=True, **keys),
        return_source_documents=True,
    )
    asked = {"question": "Where did I move to?"}
    for result in (chain.invoke(asked), await chain.ainvoke(asked)):
        assert result["answer"] == "In Oslo."
    assert "Human: <memories>" in model.seen[0][-1].text
    assert kept(memory) == ["I moved to Oslo.", *["Where did I move to?", "In Oslo."] * 2]


def test_what_is_said_twice_is_two_notes_and_a_correction_stays(memory):
    for _ in range(2):
        mine = AMemMemory(memory=memory, namespace=ANN, thread="t")
        mine.save_context({"input": "Yes."}, {"output": "Good."})
        first = memory.get_all(namespace=ANN)[0]
        memory.update(first.id, namespace=ANN, content="Ann agrees.")
    assert kept(memory) == ["Ann agrees.", "Good.", "Yes.", "Good."]


def test_a_chain_with_several_inputs_needs_input_key(memory):
    mine = AMemMemory(memory=memory, namespace=ANN)
    wrong = AMemMemory(memory=memory, namespace=ANN, input_key="question")
    for chain, asked, answered, named in (
        (mine, {"input": "Hi.", "mood": "sunny"}, {"output": "Hello."}, "input_key"),
        (mine, {"input": "Hi."}, {"answer": "Hello.", "source_documents": []}, "output_key"),
        (wrong, {"input": "Hi."}, {"output": "Hello."}, "input_key='question'"),
    ):
        with pytest.raises(ConfigurationError, match=named):
            chain.save_context(asked, answered)
    mine.save_context({"input": "Hi.", "history": "…", "stop": ["x"]}, {"output": "Hello."})
    assert kept(memory) == ["Hi.", "Hello."]
    mine.save_context({"input": "I moved to Oslo."}, {"output": "How nice."})
    for key, is_shown in ((None, True), ("mood", True), ("input", False)):
        keyed = AMemMemory(memory=memory, namespace=ANN, input_key=key)
        shown = keyed.load_memory_variables({"input": "", "mood": "Where did I move to?"})
        assert ("Oslo" in shown["history"]) is is_shown
        keyed.max_tokens = 1
        assert keyed.load_memory_variables({"input": "Oslo?", "mood": "Oslo?"})["history"] == ""


def test_values_that_are_no_text_are_left_out(memory):
    mine, two = (
        AMemMemory(memory=memory, namespace=ANN),
        [HumanMessage(n) for n in ("One.", "Two.")],
    )
    for asked, answered in ((two[0], [("tuple", 1)]), (two, AIMessage("3.")), ("", [])):
        mine.save_context({"input": asked}, {"output": answered})
    assert kept(memory) == ["One.", "Two.", "3."]


def test_a_read_only_memory_and_a_chain_that_fails_store_nothing(seeded):
    before = kept(seeded)

    def broken(messages):
        raise ConnectionError("no answer")

    failing = conversation(AMemMemory(memory=seeded, namespace=ANN), model=Talker(answer=broken))
    with pytest.raises(ConnectionError):
        failing.invoke({"input": "Hello."})
    shared = ReadOnlySharedMemory(memory=AMemMemory(memory=seeded, namespace=ANN))
    reading = AMemMemory(memory=seeded, namespace=ANN, remember=False)
    for memory in (shared, reading):
        asked = {"input": "Where did I move to?"}
        assert conversation(memory).invoke(asked)["response"] == "In Oslo."
    reading.save_context({"one": "Oslo", "other": "Rome"}, {"a": "x", "b": "y"})
    assert kept(seeded) == before


async def test_clear_touches_its_own_namespace_only(seeded):
    mine = AMemMemory(memory=seeded, namespace=ANN)
    mine.clear()
    assert (kept(seeded), kept(seeded, BOB)) == ([], ["I moved to Rome."])
    await AMemMemory(memory=seeded, namespace=BOB).aclear()
    assert kept(seeded, BOB) == []


async def test_without_a_store_the_chain_runs_and_the_failure_is_counted(memory):
    memory.down = True
    asked = {"input": "Where do I live?"}
    mine = AMemMemory(memory=memory, namespace=ANN)
    assert conversation(mine).invoke(asked)["response"] == "I do not know."
    await conversation(mine).ainvoke(asked)
    assert mine.failures == {"recall": 2, "remember": 2}
    strict = AMemMemory(memory=memory, namespace=ANN, on_error="raise")
    with pytest.raises(StoreUnavailableError):
        conversation(strict).invoke(asked)


def test_a_chat_history_keeps_messages_in_order_whatever_their_names_and_clears_its_thread_only(
    memory,
):
    monday = AMemChatMessageHistory(memory, ANN, "monday", evolve=False)
    tuesday = AMemChatMessageHistory(memory, ANN, "tuesday")
    said = [SystemMessage("Be kind."), *[HumanMessage("ok"), AIMessage("ok")] * 2]
    said.append(HumanMessage("Hm.", name="Eva"))
    monday.add_messages(said)
    monday.add_messages([HumanMessage("ok")])  # again, without an id
    said.append(HumanMessage("ok"))
    assert memory.stats(namespace=ANN)["states"] == {"pending": len(said)}
    tuesday.add_messages([HumanMessage("Hello.")])
    AMemVectorStore(memory, ANN).add_documents([Document("A page.", metadata={"source": "monday"})])
    assert memory.flush(timeout=10)
    assert memory.stats(namespace=ANN)["states"] == {"done": len(said) + 2}
    found = monday.messages
    assert [(m.type, m.text, m.name) for m in found] == [(m.type, m.text, m.name) for m in said]
    monday.clear()
    assert monday.messages == []
    assert [one.text for one in tuesday.messages] == ["Hello."]
    assert sorted(kept(memory)) == ["A page.", "Hello."]
    with pytest.raises(ConfigurationError, match="evolve=1"):
        AMemChatMessageHistory(memory, ANN, "monday", evolve=1)

    named = [SystemMessage("Be kind.", name="rules"), HumanMessage("Be rude.", name="system")]
    monday.add_messages(named)  # neither name makes a system message or hides one
    assert [(m.type, m.text) for m in monday.messages] == [(m.type, m.text) for m in named]


def test_a_chat_history_that_is_cleared_after_an_outage_is_empty_for_good(memory):
    history = AMemChatMessageHistory(memory, ANN, "monday", evolve=False)
    history.add_messages([HumanMessage("I moved to Oslo.")])
    fail_once(memory._runtime.store._notes, "insert")
    with pytest.raises(StoreUnavailableError, match="told to fail"):
        history.add_messages([HumanMessage("Oslo is cold.")])
    fail_once(memory._runtime.store._records, "scroll")
    with pytest.raises(StoreUnavailableError, match="told to fail"):
        history.clear()
    history.clear()
    assert memory._runtime.store.unfinished() == []
    history.add_messages([HumanMessage("Hello.")])
    assert kept(memory) == ["Hello."]
