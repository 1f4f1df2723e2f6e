"""Clients that belong to an event loop outlive none: whose loop is what runs on?"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage, ChatResponse
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.memory import Memory
from llamaindex_fakes import ANN, Chatbot, annotated_text, assistant, open_memory, user
from support.qdrant_server import FakeQdrant, serving

from amem_integrations import AgenticMemory
from amem_integrations.testing import HashEmbedder
from llamaindex_amem import AMemMemoryBlock, LlamaIndexChatModel

QUESTION = "What is my dog called?"


@pytest.mark.enable_socket
def test_a_server_is_reached_from_every_loop_and_thread():
    llm = Chatbot()
    with serving(FakeQdrant()) as qdrant:
        memory = AgenticMemory.open(qdrant.url, embedder=HashEmbedder(64))
        memory.add("My dog is called Rex.", namespace=ANN)
        block = AMemMemoryBlock(memory, ANN, on_error="raise")
        chat_memory = Memory.from_defaults(memory_blocks=[block])
        engine = SimpleChatEngine.from_defaults(memory=chat_memory, llm=llm)

        async def inside_a_loop() -> None:
            engine.chat(QUESTION)
            await engine.achat(QUESTION)

        engine.chat(QUESTION)
        asyncio.run(engine.achat(QUESTION))
        asyncio.run(inside_a_loop())
        for target in (lambda: engine.chat(QUESTION), lambda: asyncio.run(inside_a_loop())):
            thread = threading.Thread(target=target)
            thread.start()
            thread.join()
        "".join(engine.stream_chat(QUESTION).response_gen)
        memory.close()

    assert len(llm.prompts) == 8
    assert all("My dog is called Rex." in prompt for prompt in llm.prompts)
    assert qdrant.connections < len(qdrant.requests) / 3


async def test_the_users_models_are_called_in_threads_and_leave_every_loop_free():
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
