"""Every engine and agent: called, awaited and streamed, with no loop, in a running loop, in a worker thread.

Agents and workflows are asynchronous only; everything else is tried in all combinations.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from llama_index.core import Document, MockEmbedding, VectorStoreIndex
from llama_index.core.agent.workflow import AgentWorkflow, CodeActAgent, FunctionAgent, ReActAgent
from llama_index.core.chat_engine import (
    CondensePlusContextChatEngine,
    CondenseQuestionChatEngine,
    ContextChatEngine,
    SimpleChatEngine,
)
from llama_index.core.query_engine import RetrieverQueryEngine
from llamaindex_fakes import ANN, Chatbot, Toolbot

from llamaindex_amem import AMemMemory, AMemRetriever

QUESTION = "What is my dog called?"


def index() -> VectorStoreIndex:
    documents = [Document(text="Lisbon is warm in May.")]
    return VectorStoreIndex.from_documents(documents, embed_model=MockEmbedding(8))


def retriever(memory: AMemMemory) -> AMemRetriever:
    memory.block.memory.add("Lisbon is warm in May.", namespace=("documents",), evolve=False)
    return AMemRetriever(memory.block.memory, ("documents",))


def condense_question(memory: AMemMemory, llm: Chatbot) -> CondenseQuestionChatEngine:
    engine = RetrieverQueryEngine.from_args(index().as_retriever(), llm=llm)
    return CondenseQuestionChatEngine.from_defaults(engine, memory=memory, llm=llm)


def chat_mode(mode: str) -> Callable[[AMemMemory, Chatbot], Any]:
    def make(memory: AMemMemory, llm: Chatbot) -> Any:
        return index().as_chat_engine(chat_mode=mode, memory=memory, llm=llm)

    return make


ENGINES: dict[str, Callable[[AMemMemory, Chatbot], Any]] = {
    "simple": lambda memory, llm: SimpleChatEngine.from_defaults(memory=memory, llm=llm),
    "context": lambda memory, llm: ContextChatEngine.from_defaults(
        retriever(memory), memory=memory, llm=llm
    ),
    "condense_plus_context": lambda memory, llm: CondensePlusContextChatEngine.from_defaults(
        retriever(memory), memory=memory, llm=llm
    ),
    "condense_question": condense_question,
}
INDEXED = {"as_chat_engine(best)": chat_mode("best")}  # makes an engine of the classes above


def execute(code: str) -> str:
    return "42"


def multi_agent(llm: Any) -> AgentWorkflow:
    helper = FunctionAgent(name="helper", description="Helps.", llm=Toolbot(), tools=[])
    first = FunctionAgent(name="first", description="Starts.", llm=llm, tools=[])
    return AgentWorkflow(agents=[first, helper], root_agent="first")


AGENTS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "function": lambda: (FunctionAgent(llm=(llm := Toolbot()), tools=[]), llm),
    "react": lambda: (ReActAgent(llm=(llm := Chatbot("Thought: I know.\nAnswer: Yes."))), llm),
    "codeact": lambda: (CodeActAgent(code_execute_fn=execute, llm=(llm := Chatbot("Yes."))), llm),
    "workflow": lambda: (multi_agent(llm := Toolbot()), llm),
}


# --- ways to ask


async def chat(engine: Any, text: str) -> str:
    return str(engine.chat(text))


async def stream_chat(engine: Any, text: str) -> str:
    return "".join(engine.stream_chat(text).response_gen)


async def achat(engine: Any, text: str) -> str:
    return str(await engine.achat(text))


async def astream_chat(engine: Any, text: str) -> str:
    response = await engine.astream_chat(text)
    return "".join([token async for token in response.async_response_gen()])


async def run(agent: Any, text: str) -> str:
    return str(await agent(text))


async def stream_events(agent: Any, text: str) -> str:
    handler = agent(text)
    assert [event async for event in handler.stream_events()]
    return str(await handler)


Form = Callable[[Any, str], Coroutine[Any, Any, str]]
OF_ENGINES: list[Form] = [chat, stream_chat, achat, astream_chat]
OF_AGENTS: list[Form] = [run, stream_events]


def without_a_loop(form: Form, engine: Any, text: str) -> str:
    """Call what is synchronous as a program does that knows no loop, and await in a loop of one's own."""
    if form is chat:
        return str(engine.chat(text))
    if form is stream_chat:
        return "".join(engine.stream_chat(text).response_gen)
    return asyncio.run(form(engine, text))


def in_a_running_loop(form: Form, engine: Any, text: str) -> str:
    return asyncio.run(form(engine, text))


def in_a_thread(form: Form, engine: Any, text: str) -> str:
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(without_a_loop, form, engine, text).result()


PLACES = [without_a_loop, in_a_running_loop, in_a_thread]


def made(name: str, chat_memory: AMemMemory) -> tuple[Any, Any, list[Form]]:
    """Return an engine, or the runs of an agent, with the model behind it and the ways to ask."""
    if name in AGENTS:
        agent, llm = AGENTS[name]()
        return lambda text: agent.run(text, memory=chat_memory), llm, OF_AGENTS
    bot = Chatbot("Well, well.")
    return (ENGINES | INDEXED)[name](chat_memory, bot), bot, OF_ENGINES


@pytest.mark.parametrize("name", [*ENGINES, *INDEXED, *AGENTS])
def test_an_engine_or_agent_remembers_however_it_is_asked(memory, name):
    forms = OF_AGENTS if name in AGENTS else OF_ENGINES
    of_an_index = name.startswith("as_chat_engine")  # one of the other engines
    for place in PLACES[:1] if of_an_index else PLACES:
        for form in [achat, stream_chat] if of_an_index else forms:
            whose = (place.__name__, form.__name__)
            for session, text in (("one", "My dog is called Rex."), ("two", QUESTION)):
                chat_memory = AMemMemory.from_defaults(
                    memory=memory, namespace=whose, session_id=session
                )
                engine, llm, _ = made(name, chat_memory)
                assert place(form, engine, text)
            memory.flush(timeout=10)
            notes = memory.get_all(namespace=whose)
            assert [note.source for note in notes] == ["user", "assistant"] * 2
            assert [note.content for note in notes][::2] == ["My dog is called Rex.", QUESTION]
            assert [note.thread for note in notes] == ["one", "one", "two", "two"]
            assert {note.state for note in notes} == {"done"}
            assert any("Rex" in prompt and QUESTION in prompt for prompt in llm.prompts)


# Here the history ends in the question; the other engines ask outside of it.
ASKS_IN_ITS_HISTORY = {"simple", *AGENTS}


@pytest.mark.parametrize("name", [*ENGINES, *AGENTS])
async def test_recalled_text_goes_where_the_model_sees_it_beside_the_question(memory, name):
    memory.add("My dog is called Rex.", namespace=ANN)
    engine, llm, forms = made(name, AMemMemory.from_defaults(memory=memory, user_id="ann"))
    for text in ("Hello there", QUESTION):
        await forms[-1](engine, text)

    *_, last = [prompt for prompt in llm.prompts if "Rex" in prompt]
    assert last.count("called Rex") == last.count(QUESTION) == 1
    if name in ASKS_IN_ITS_HISTORY:
        assert last.endswith(f"</memory>\n{QUESTION}")
        assert "user: Hello there\n" in last
    else:
        assert "system: <memory>" in last
        assert "</memory>\nuser: Hello there\n" in last


@pytest.mark.parametrize("name", [*ENGINES, *AGENTS])
def test_an_engine_or_agent_answers_while_the_store_is_down(memory, store, name, caplog):
    for form in OF_AGENTS if name in AGENTS else OF_ENGINES:
        caplog.clear()
        chat_memory = AMemMemory.from_defaults(memory=memory, user_id="ann")
        store.down = False
        engine, _, _ = made(name, chat_memory)
        store.down = True
        answer = without_a_loop(form, engine, QUESTION)

        assert answer in {"Well, well.", "Empty Response", "Done.", "Yes."}
        assert chat_memory.failures.keys() == {"recall", "write"}
        assert "does not answer" in caplog.text
