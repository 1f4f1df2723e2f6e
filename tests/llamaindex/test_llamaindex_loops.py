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


async def test_the_users_models_are_called_in_threads_and_leave_every_loop_free() -> None:
    ticks, threads = 0, set[int]()

    class Slow(Chatbot):
        def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
            threads.add(threading.get_ident())
            threading.Event().wait(0.2)
            return ChatResponse(message=assistant(annotated_text(messages)))

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    memory, _ = open_memory(LlamaIndexChatModel(Slow()))
    ticking = asyncio.create_task(tick())
    await memory.aadd("My dog is called Rex.", namespace=ANN)
    stock = Memory.from_defaults(memory_blocks=[block := AMemMemoryBlock(memory, ANN)])
    await stock.aput(user("My cat is called Tom."))
    await stock.aput(assistant("Good."))
    await block.aflush_from(stock)
    await memory.aflush(timeout=10)
    ticking.cancel()

    assert threading.get_ident() not in threads
    assert ticks >= 20
    assert {note.state for note in memory.get_all(namespace=ANN)} == {"done"}
