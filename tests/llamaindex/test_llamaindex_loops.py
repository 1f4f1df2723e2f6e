"""Clients that belong to an event loop outlive none: whose loop is what runs on?

The server is on 127.0.0.2: for localhost, qdrant-client turns keep-alive off, which hides the fault.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage, ChatResponse
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.memory import Memory
from llamaindex_fakes import ANN, Chatbot, annotated_text, assistant, open_memory, user
from support.qdrant_server import FakeQdrant

from amem_integrations import AgenticMemory
from amem_integrations.testing import HashEmbedder
from llamaindex_amem import AMemMemory, AMemMemoryBlock, LlamaIndexChatModel

QUESTION = "What is my dog called?"


class Annotator(Chatbot):
    """A language model that notes the loop its asynchronous method is awaited on (None: it was not)."""

    def __init__(self) -> None:
        super().__init__()
        self._loops: list[asyncio.AbstractEventLoop | None] = []

    @property
    def loops(self) -> list[asyncio.AbstractEventLoop | None]:
        return self._loops

    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        self._loops.append(None)
        return ChatResponse(message=assistant(annotated_text(messages)))

    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        self._loops.append(asyncio.get_running_loop())
        return ChatResponse(message=assistant(annotated_text(messages)))


@pytest.fixture
def qdrant() -> Iterator[FakeQdrant]:
    """A server that keeps connections alive, and counts them in `connections`."""
    fake = FakeQdrant()
    fake.connections = 0  # type: ignore[attr-defined]

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1

        def setup(self) -> None:
            fake.connections += 1  # type: ignore[attr-defined]
            super().setup()

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            fake.requests.append((self.command, self.path, dict(self.headers)))
            path = self.path.partition("?")[0]
            status, answer = fake.answer(self.command, path, json.loads(body) if body else None)
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_PUT = do_POST = handle_any  # noqa: N815 - names given by http.server

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.2", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        fake.url = f"http://127.0.0.2:{server.server_port}"
        yield fake
        server.shutdown()
        thread.join()


@pytest.mark.enable_socket
@pytest.mark.parametrize("kind", ["AMemMemory", "stock Memory"])
def test_a_server_is_reached_from_every_loop_and_thread(qdrant: FakeQdrant, kind: str) -> None:
    llm = Chatbot()
    memory = AgenticMemory.open(qdrant.url, embedder=HashEmbedder(64))
    memory.add("My dog is called Rex.", namespace=ANN)
    if kind == "AMemMemory":
        chat_memory: Memory = AMemMemory.from_defaults(
            memory=memory, user_id="ann", on_error="raise"
        )
    else:
        block = AMemMemoryBlock(memory, ANN, on_error="raise")
        chat_memory = Memory.from_defaults(memory_blocks=[block])
    engine = SimpleChatEngine.from_defaults(memory=chat_memory, llm=llm)

    async def inside_a_loop() -> None:
        engine.chat(QUESTION)
        await engine.achat(QUESTION)

    engine.chat(QUESTION)
    asyncio.run(engine.achat(QUESTION))
    asyncio.run(engine.achat(QUESTION))
    engine.chat(QUESTION)
    asyncio.run(inside_a_loop())
    for target in (lambda: engine.chat(QUESTION), lambda: asyncio.run(inside_a_loop())):
        thread = threading.Thread(target=target)
        thread.start()
        thread.join()
    "".join(engine.stream_chat(QUESTION).response_gen)
    memory.close()

    assert len(llm.prompts) == 10
    assert all("My dog is called Rex." in prompt for prompt in llm.prompts)
    assert qdrant.connections < len(qdrant.requests) / 3  # type: ignore[attr-defined]


async def test_awaited_the_users_model_stays_on_the_callers_loop() -> None:
    llm = Annotator()
    memory, _ = open_memory(LlamaIndexChatModel(llm))
    engine = SimpleChatEngine.from_defaults(
        memory=AMemMemory.from_defaults(memory=memory, user_id="ann"), llm=Chatbot()
    )

    await engine.achat("My dog is called Rex.")
    response = await engine.astream_chat("My dog likes me.")
    assert [token async for token in response.async_response_gen()]

    assert set(llm.loops) == {asyncio.get_running_loop()}
    assert {note.state for note in memory.get_all(namespace=ANN)} == {"done"}


async def test_called_synchronously_the_users_model_is_on_no_loop() -> None:
    llm = Annotator()
    memory, _ = open_memory(LlamaIndexChatModel(llm))
    engine = SimpleChatEngine.from_defaults(
        memory=AMemMemory.from_defaults(memory=memory, user_id="ann"), llm=Chatbot()
    )

    engine.chat("My dog is called Rex.")
    await asyncio.to_thread(engine.chat, "My dog likes me.")

    assert set(llm.loops) == {None}
    assert {note.state for note in memory.get_all(namespace=ANN)} == {"done"}


def test_in_a_stock_memory_and_in_the_background_the_users_model_is_on_no_loop() -> None:
    llm = Annotator()
    memory, _ = open_memory(LlamaIndexChatModel(llm))
    block = AMemMemoryBlock(memory, ANN)
    chat_memory = Memory.from_defaults(memory_blocks=[block])
    chat_memory.put(user("My dog is called Rex."))
    asyncio.run(block.aflush_from(chat_memory))
    later = AMemMemory.from_defaults(memory=memory, user_id="bob", evolve="background")
    asyncio.run(later.aput_messages([user("I like tea."), assistant("So do I.")]))
    later.block.flush(timeout=10)

    assert len(llm.loops) >= 3
    assert set(llm.loops) == {None}


async def test_evolution_in_the_callers_time_leaves_the_loop_free_with_a_stock_memory() -> None:
    ticks = 0

    class Slow(Annotator):
        def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
            threading.Event().wait(0.2)
            return super().chat(messages)

    memory, _ = open_memory(LlamaIndexChatModel(Slow()))

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    ticking = asyncio.create_task(tick())
    await AMemMemoryBlock(memory, ANN).aput([user("My dog is called Rex.")])
    ticking.cancel()

    assert ticks >= 10
