"""Every engine and agent: sync, async, streaming, with no loop, in a running loop, in a worker thread.

Agents and workflows are asynchronous only; everything else is tried in all combinations.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
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
from llamaindex_fakes import ANN, Chatbot, Probe, Toolbot

from amem_integrations import AgenticMemory
from llamaindex_amem import AMemMemory, AMemRetriever

QUESTION = "What is my dog called?"
Form = Callable[[Any, str], Any]


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
# They make engines of the classes above.
MODES = ("best", "context", "condense_question", "condense_plus_context", "simple")


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


def chat(engine: Any, text: str) -> str:
    return str(engine.chat(text))


def stream_chat(engine: Any, text: str) -> str:
    response = engine.stream_chat(text)
    answer = "".join(response.response_gen)
    assert answer
    return answer


async def achat(engine: Any, text: str) -> str:
    return str(await engine.achat(text))


async def astream_chat(engine: Any, text: str) -> str:
    response = await engine.astream_chat(text)
    answer = "".join([token async for token in response.async_response_gen()])
    assert answer
    return answer


SYNCHRONOUS: list[Form] = [chat, stream_chat]
ASYNCHRONOUS: list[Callable[[Any, str], Awaitable[str]]] = [achat, astream_chat]


def in_thread(work: Callable[[], Any]) -> None:
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - handed on to the test
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]


def two_sessions(
    memory: AgenticMemory, ask: Callable[[AMemMemory, str], Any]
) -> tuple[list[str], list[str]]:
    """Say something in one session, ask for it in the next; return what is stored, and by whom."""
    for session, text in (("one", "My dog is called Rex."), ("two", QUESTION)):
        ask(AMemMemory.from_defaults(memory=memory, user_id="ann", session_id=session), text)
    notes = memory.get_all(namespace=ANN)
    return [note.content for note in notes], [note.source for note in notes]


def check(llm: Any, memory: AgenticMemory) -> None:
    memory.flush(timeout=10)
    notes = memory.get_all(namespace=ANN)
    assert [note.source for note in notes] == ["user", "assistant"] * 2
    assert [note.content for note in notes][::2] == ["My dog is called Rex.", QUESTION]
    assert {note.thread for note in notes} == {"one", "two"}
    assert {note.state for note in notes} == {"done"}
    assert any("Rex" in prompt and QUESTION in prompt for prompt in llm.prompts)


@pytest.mark.parametrize("form", SYNCHRONOUS)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("where", ["no loop", "after asyncio.run", "worker thread"])
def test_an_engine_remembers_when_called_synchronously(
    memory: AgenticMemory, engine: str, form: Form, where: str
) -> None:
    llm = Chatbot("Well, well.")

    def ask(chat_memory: AMemMemory, text: str) -> None:
        form(ENGINES[engine](chat_memory, llm), text)

    if where == "after asyncio.run":
        asyncio.run(asyncio.sleep(0))
    if where == "worker thread":
        in_thread(lambda: two_sessions(memory, ask))
    else:
        two_sessions(memory, ask)
    check(llm, memory)


@pytest.mark.parametrize("form", SYNCHRONOUS)
@pytest.mark.parametrize("engine", ENGINES)
async def test_an_engine_remembers_when_called_synchronously_in_a_running_loop(
    memory: AgenticMemory, engine: str, form: Form
) -> None:
    llm = Chatbot("Well, well.")
    two_sessions(memory, lambda m, text: form(ENGINES[engine](m, llm), text))
    check(llm, memory)


@pytest.mark.parametrize("form", ASYNCHRONOUS)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("where", ["no loop", "worker thread"])
def test_an_engine_remembers_when_each_call_has_a_loop_of_its_own(
    memory: AgenticMemory, engine: str, form: Any, where: str
) -> None:
    llm = Chatbot("Well, well.")

    def ask(chat_memory: AMemMemory, text: str) -> None:
        asyncio.run(form(ENGINES[engine](chat_memory, llm), text))

    if where == "worker thread":
        in_thread(lambda: two_sessions(memory, ask))
    else:
        two_sessions(memory, ask)
    check(llm, memory)


@pytest.mark.parametrize("form", ASYNCHRONOUS)
@pytest.mark.parametrize("engine", ENGINES)
async def test_an_engine_remembers_when_awaited(
    memory: AgenticMemory, engine: str, form: Any
) -> None:
    llm = Chatbot("Well, well.")
    for session, text in (("one", "My dog is called Rex."), ("two", QUESTION)):
        chat_memory = AMemMemory.from_defaults(memory=memory, user_id="ann", session_id=session)
        await form(ENGINES[engine](chat_memory, llm), text)
    check(llm, memory)


@pytest.mark.parametrize("mode", MODES)
async def test_an_engine_made_of_an_index_remembers(memory: AgenticMemory, mode: str) -> None:
    llm = Chatbot("Well, well.")
    made = chat_mode(mode)
    for session, text in (("one", "My dog is called Rex."), ("two", QUESTION)):
        chat_memory = AMemMemory.from_defaults(memory=memory, user_id="ann", session_id=session)
        engine = made(chat_memory, llm)
        await achat(engine, text) if session == "one" else stream_chat(engine, text)
    check(llm, memory)


async def run(agent: Any, chat_memory: AMemMemory, text: str, *, streaming: bool) -> None:
    handler = agent.run(text, memory=chat_memory)
    if streaming:
        assert [event async for event in handler.stream_events()]
    await handler


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("agent", AGENTS)
async def test_an_agent_remembers_when_awaited(
    memory: AgenticMemory, agent: str, streaming: bool
) -> None:
    made, llm = AGENTS[agent]()
    for session, text in (("one", "My dog is called Rex."), ("two", QUESTION)):
        chat_memory = AMemMemory.from_defaults(memory=memory, user_id="ann", session_id=session)
        await run(made, chat_memory, text, streaming=streaming)
    check(llm, memory)


@pytest.mark.parametrize(("where", "streaming"), [("no loop", True), ("worker thread", False)])
@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_remembers_when_each_run_has_a_loop_of_its_own(
    memory: AgenticMemory, agent: str, streaming: bool, where: str
) -> None:
    made, llm = AGENTS[agent]()

    def ask(chat_memory: AMemMemory, text: str) -> None:
        asyncio.run(run(made, chat_memory, text, streaming=streaming))

    if where == "worker thread":
        in_thread(lambda: two_sessions(memory, ask))
    else:
        two_sessions(memory, ask)
    check(llm, memory)


# --- where recalled text goes

# Here the history ends in the question; the other engines ask outside of it.
ASKS_IN_ITS_HISTORY = {"simple", *AGENTS}


@pytest.mark.parametrize("name", [*ENGINES, *AGENTS])
async def test_recalled_text_goes_where_the_model_sees_it_beside_the_question(
    memory: AgenticMemory, name: str
) -> None:
    memory.add("My dog is called Rex.", namespace=ANN)
    chat_memory = AMemMemory.from_defaults(memory=memory, user_id="ann")
    if name in ENGINES:
        llm: Any = Chatbot("Well, well.")
        engine = ENGINES[name](chat_memory, llm)
        await achat(engine, "Hello there")
        await achat(engine, QUESTION)
    else:
        agent, llm = AGENTS[name]()
        await run(agent, chat_memory, "Hello there", streaming=False)
        await run(agent, chat_memory, QUESTION, streaming=False)

    *_, last = [prompt for prompt in llm.prompts if "Rex" in prompt]
    assert last.count("called Rex") == last.count(QUESTION) == 1
    if name in ASKS_IN_ITS_HISTORY:
        assert last.endswith(f"</memory>\n{QUESTION}")
        assert "user: Hello there\n" in last
    else:
        assert "system: <memory>" in last
        assert "</memory>\nuser: Hello there\n" in last


# --- while the store is down


@pytest.mark.parametrize("form", [*SYNCHRONOUS, *ASYNCHRONOUS])
@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_answers_while_the_store_is_down(
    memory: AgenticMemory, store: Probe, engine: str, form: Any, caplog: pytest.LogCaptureFixture
) -> None:
    llm = Chatbot("Well, well.")
    chat_memory = AMemMemory.from_defaults(memory=memory, user_id="ann")
    made = ENGINES[engine](chat_memory, llm)
    store.down = True

    answer = form(made, QUESTION)
    answer = asyncio.run(answer) if form in ASYNCHRONOUS else answer

    assert answer in {"Well, well.", "Empty Response"}
    assert chat_memory.block.failures.keys() == {"recall", "write"}
    assert "does not answer" in caplog.text


@pytest.mark.parametrize("agent", AGENTS)
async def test_an_agent_answers_while_the_store_is_down(
    memory: AgenticMemory, store: Probe, agent: str, caplog: pytest.LogCaptureFixture
) -> None:
    made, _ = AGENTS[agent]()
    chat_memory = AMemMemory.from_defaults(memory=memory, user_id="ann")
    store.down = True

    await run(made, chat_memory, QUESTION, streaming=False)

    assert chat_memory.block.failures.keys() == {"recall", "write"}
    assert "does not answer" in caplog.text
