"""Every engine and agent: called, awaited and streamed, with no loop, in a running loop, in a worker thread.

Agents and workflows are asynchronous only; everything else is tried in all combinations.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import llamaindex_fakes as kit
import pytest
from llama_index.core import Document, MockEmbedding, VectorStoreIndex
from llama_index.core.agent.workflow import AgentWorkflow, CodeActAgent, FunctionAgent, ReActAgent
from llama_index.core.base.llms.types import ChatMessage, ChatResponse
from llama_index.core.chat_engine import (
    CondensePlusContextChatEngine,
    CondenseQuestionChatEngine,
    ContextChatEngine,
    SimpleChatEngine,
)
from llama_index.core.memory import Memory
from llama_index.core.query_engine import RetrieverQueryEngine
from llamaindex_fakes import ANN
from support.qdrant_server import FakeQdrant, serving

from amem_integrations import AgenticMemory
from amem_integrations.testing import HashEmbedder
from llamaindex_amem import AMemMemory, AMemRetriever, LlamaIndexChatModel

QUESTION = "What is my dog called?"


@cache
def index() -> VectorStoreIndex:
    documents = [Document(text="Lisbon is warm in May.")]
    return VectorStoreIndex.from_documents(documents, embed_model=MockEmbedding(8))


def retriever(memory: AMemMemory) -> AMemRetriever:
    memory.block.memory.add("Lisbon is warm in May.", namespace=("documents",), evolve=False)
    return AMemRetriever(memory.block.memory, ("documents",))


def condense_question(memory: AMemMemory, llm: kit.Chatbot) -> CondenseQuestionChatEngine:
    engine = RetrieverQueryEngine.from_args(index().as_retriever(), llm=llm)
    return CondenseQuestionChatEngine.from_defaults(engine, memory=memory, llm=llm)


def best(memory: AMemMemory, llm: kit.Chatbot) -> Any:
    """Return what an index makes: an engine of the classes below."""
    return index().as_chat_engine(chat_mode="best", memory=memory, llm=llm)


ENGINES: dict[str, Callable[[AMemMemory, kit.Chatbot], Any]] = {
    "simple": lambda memory, llm: SimpleChatEngine.from_defaults(memory=memory, llm=llm),
    "context": lambda memory, llm: ContextChatEngine.from_defaults(
        retriever(memory), memory=memory, llm=llm
    ),
    "condense_plus_context": lambda memory, llm: CondensePlusContextChatEngine.from_defaults(
        retriever(memory), memory=memory, llm=llm
    ),
    "condense_question": condense_question,
}


def execute(code: str) -> str:
    return "42"


def multi_agent(llm: Any) -> AgentWorkflow:
    """Return two agents, of which the first hands each question to the second."""
    handoff = kit.Toolbot(*[("handoff", {"to_agent": "helper", "reason": "It knows."})] * 2)
    helper = FunctionAgent(name="helper", description="Helps.", llm=llm, tools=[])
    first = FunctionAgent(name="first", description="Starts.", llm=handoff, tools=[])
    return AgentWorkflow(agents=[first, helper], root_agent="first")


AGENTS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "function": lambda: (FunctionAgent(llm=(llm := kit.Toolbot()), tools=[]), llm),
    "react": lambda: (ReActAgent(llm=(llm := kit.Chatbot("Thought: I know.\nAnswer: Yes."))), llm),
    "codeact": lambda: (
        CodeActAgent(code_execute_fn=execute, llm=(llm := kit.Chatbot("Yes."))),
        llm,
    ),
    "workflow": lambda: (multi_agent(llm := kit.Toolbot()), llm),
}


# --- ways to ask


def chat(engine: Any, text: str) -> str:
    return str(engine.chat(text))


def stream_chat(engine: Any, text: str) -> str:
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


Form = Callable[[Any, str], Any]
OF_ENGINES: list[Form] = [chat, stream_chat, achat, astream_chat]
OF_AGENTS: list[Form] = [run, stream_events]


def without_a_loop(form: Form, engine: Any, text: str) -> str:
    """Call what is synchronous as a program does that knows no loop, and await in a loop of one's own."""
    if asyncio.iscoroutinefunction(form):
        return in_a_running_loop(form, engine, text)
    return str(form(engine, text))


def in_a_running_loop(form: Form, engine: Any, text: str) -> str:
    async def called() -> str:
        answer = form(engine, text)
        return str(await answer if asyncio.iscoroutine(answer) else answer)

    return asyncio.run(called())


def in_a_thread(form: Form, engine: Any, text: str) -> str:
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(without_a_loop, form, engine, text).result()


PLACES = [without_a_loop, in_a_running_loop, in_a_thread]


def made(name: str, chat_memory: AMemMemory) -> tuple[Any, Any]:
    """Return an engine, or the runs of an agent, with the model behind it."""
    if name in AGENTS:
        agent, llm = AGENTS[name]()
        return lambda text: agent.run(text, memory=chat_memory), llm
    bot = kit.Chatbot("Well, well.")
    return {**ENGINES, "best": best}[name](chat_memory, bot), bot


@pytest.mark.parametrize("name", [*ENGINES, "best", *AGENTS])
def test_an_engine_or_agent_remembers_however_it_is_asked(memory, name):
    places, forms = PLACES, OF_AGENTS if name in AGENTS else OF_ENGINES
    if name == "best":
        places, forms = PLACES[:1], [achat, stream_chat]
    for place, form in itertools.product(places, forms):
        whose = place.__name__, form.__name__
        for session, text in (("one", "My dog is called Rex."), ("two", QUESTION)):
            engine, llm = made(name, kit.ann(memory, namespace=whose, session_id=session))
            assert place(form, engine, text)
        memory.flush(timeout=10)
        notes = memory.get_all(namespace=whose)
        assert [note.source for note in notes] == ["user", "assistant"] * 2
        assert [note.content for note in notes][::2] == ["My dog is called Rex.", QUESTION]
        assert [note.thread for note in notes] == ["one", "one", "two", "two"]
        assert {note.state for note in notes} == {"done"}
        assert any("Rex" in prompt and QUESTION in prompt for prompt in llm.prompts)


@pytest.mark.parametrize("name", [*ENGINES, *AGENTS])
async def test_recalled_text_goes_where_the_model_sees_it_beside_the_question(memory, name):
    memory.add("My dog is called Rex.", namespace=ANN)
    engine, llm = made(name, kit.ann(memory))
    for text in ("Hello there", QUESTION):
        await (stream_events if name in AGENTS else astream_chat)(engine, text)

    *_, last = [prompt for prompt in llm.prompts if "Rex" in prompt]
    assert last.count("called Rex") == last.count(QUESTION) == 1
    # Here the history ends in the question, or in the handoff; the others ask outside of it.
    if name in {"simple", *AGENTS}:
        assert f"</memory>\n{QUESTION}" in last
        assert last.endswith(QUESTION) == (name != "workflow")
        assert "user: Hello there\n" in last
    else:
        assert "system: <memory>" in last
        assert "</memory>\nuser: Hello there\n" in last


@pytest.mark.parametrize("name", [*ENGINES, *AGENTS])
def test_an_engine_or_agent_answers_while_the_store_is_down(memory, name, caplog):
    for form in OF_AGENTS if name in AGENTS else OF_ENGINES:
        caplog.clear()
        memory.down = False
        engine, _ = made(name, chat_memory := kit.ann(memory))
        memory.down = True

        answer = without_a_loop(form, engine, QUESTION)

        assert answer in {"Well, well.", "Empty Response", "Done.", "Yes."}
        assert chat_memory.failures.keys() == {"recall", "write"}
        assert "does not answer" in caplog.text


# --- whose loop is what runs on?


@pytest.mark.enable_socket
def test_a_server_is_reached_from_every_loop_and_thread():
    llm, given = kit.Chatbot(), HashEmbedder(64)
    with serving(FakeQdrant()) as qdrant, AgenticMemory.open(qdrant.url, embedder=given) as memory:
        memory.add("My dog is called Rex.", namespace=ANN)
        stock = Memory.from_defaults(memory_blocks=[kit.block_of(memory, on_error="raise")])
        engine = SimpleChatEngine.from_defaults(memory=stock, llm=llm)
        for place, form in itertools.product(PLACES, (chat, achat, stream_chat)):
            place(form, engine, QUESTION)

    assert len(llm.prompts) == 9
    assert all("My dog is called Rex." in prompt for prompt in llm.prompts)
    assert qdrant.connections < len(qdrant.requests) / 3


async def test_the_users_models_are_called_in_threads_and_leave_every_loop_free():
    loop, threads = asyncio.get_running_loop(), set[int]()

    class Slow(kit.Chatbot):
        """Answers when the loop of the test has gone round meanwhile."""

        def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
            threads.add(threading.get_ident())
            gone_round = threading.Event()
            loop.call_soon_threadsafe(gone_round.set)
            assert gone_round.wait(5)
            return ChatResponse(message=kit.assistant(kit.annotated_text(messages)))

    memory = kit.open_memory(LlamaIndexChatModel(Slow()))
    await memory.aadd("My dog is called Rex.", namespace=ANN)

    assert threads
    assert threading.get_ident() not in threads
    assert kit.states(memory) == {"done"}
