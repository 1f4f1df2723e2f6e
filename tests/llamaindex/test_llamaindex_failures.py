"""A memory that is down does not take the conversation with it; a mistake is not hidden."""

from __future__ import annotations

from typing import Any

import pytest
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.memory import Memory
from llamaindex_fakes import ANN, Chatbot, assistant, open_memory, user

from amem_integrations import (
    AgenticMemory,
    AmemError,
    ConfigurationError,
    ModelUnavailableError,
    StoreClosedError,
    StoreUnavailableError,
)
from amem_integrations.testing import HashEmbedder
from llamaindex_amem import (
    AMemMemory,
    AMemMemoryBlock,
    AMemRetriever,
    AMemToolSpec,
    LlamaIndexEmbedder,
)

ASKED = [user("What is my dog called?")]


class Unwell(HashEmbedder):
    """An embedder that raises what it is told to."""

    error: Exception | None = None

    def embed_query(self, text: str) -> Any:
        if self.error:
            raise self.error
        return super().embed_query(text)


class RefusalError(Exception):
    """What a vendor's package raises for an answer that is an error."""

    def __init__(self, status: int) -> None:
        super().__init__("key sk-secret is wrong")
        self.status_code = status


class Vendor(BaseEmbedding):
    """A LlamaIndex embedding model whose server answers with an error, if told to."""

    error: Exception | None = None

    def _get_text_embedding(self, text: str) -> list[float]:
        if self.error:
            raise self.error
        return HashEmbedder(256).embed_query(text).tolist()

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)


def contents(memory: AgenticMemory) -> list[str]:
    return [note.content for note in memory.get_all(namespace=ANN)]


async def test_a_store_that_is_down_is_logged_counted_and_done_without(memory, store, caplog):
    block = AMemMemoryBlock(memory, ANN)
    store.down = True

    assert await block.aget(ASKED) == ""
    await block.aput([user("My dog is called Rex.")])

    assert block.failures == {"recall": 1, "write": 1}
    assert caplog.text.count("the Qdrant server does not answer") == 2


async def test_what_was_said_while_the_store_was_down_is_written_when_it_is_back(memory, store):
    block = AMemMemoryBlock(memory, ANN)
    store.down = True
    await block.aput([user("one"), assistant("two")])
    await block.aput([user("three")])
    store.down = False

    await block.aput([user("four")])

    assert contents(memory) == ["one", "two", "three", "four"]


async def test_what_the_framework_has_archived_is_not_lost_with_the_store_down(memory, store):
    block = AMemMemoryBlock(memory, ANN)
    chat_memory = Memory.from_defaults(
        memory_blocks=[block], token_limit=40, chat_history_token_ratio=0.1, token_flush_size=4
    )
    store.down = True
    for n in range(4):
        await chat_memory.aput(user(f"I planted tree {n}"))
        await chat_memory.aput(assistant(f"Noted {n}"))
    store.down = False
    await block.aflush_from(chat_memory)

    assert sorted(contents(memory)) == sorted(
        text for n in range(4) for text in (f"I planted tree {n}", f"Noted {n}")
    )


@pytest.mark.parametrize("operation", ["recall", "write"])
async def test_it_raises_where_that_was_asked_for(memory, store, operation):
    block = AMemMemoryBlock(memory, ANN, on_error="raise")
    store.down = True

    with pytest.raises(StoreUnavailableError):
        await (block.aget(ASKED) if operation == "recall" else block.aput(list(ASKED)))

    assert block.failures == {operation: 1}


async def test_an_embedder_that_is_away_or_refused_is_counted_and_words_count():
    for error in [
        ModelUnavailableError("away"),
        ConnectionError("refused"),
        ConfigurationError("a refused key"),
    ]:
        embedder = Unwell(256)
        memory, _ = open_memory(embedder=embedder)
        memory.info()  # finds the thresholds of the embedder, once
        block, strict = AMemMemoryBlock(memory, ANN), AMemMemoryBlock(memory, ANN, on_error="raise")
        embedder.error = error

        await block.aput([user("My dog is called Rex."), assistant("Good.")])

        assert contents(memory) == ["My dog is called Rex.", "Good."]
        found = await block.aget([user("What is the name of my dog?")])
        assert ("Rex" in found) == (not isinstance(error, ConfigurationError))
        assert block.failures == {"write": 1, "recall": 1}
        retriever, spec = AMemRetriever(memory, ANN), AMemToolSpec(memory, ANN)
        assert bool(retriever.retrieve("Rex")) == ("Rex" in spec.recall("Rex")) == ("Rex" in found)
        assert retriever.failures == spec.failures == {"recall": 1}
        with pytest.raises(AmemError):
            await strict.aget([user("What is the name of my dog?")])
        with pytest.raises(AmemError):
            await strict.aput([user("My cat is called Tom."), assistant("Good.")])


@pytest.mark.parametrize("hook", ["should_store", "where", "metadata", "namespace"])
async def test_an_error_of_a_callback_costs_no_answer(memory, hook):
    def broken(*_: object) -> Any:
        raise AttributeError(hook)

    options: dict[str, Any] = {"namespace": ANN, hook: broken}
    block = AMemMemoryBlock(memory, **options)
    strict = AMemMemoryBlock(memory, **options, on_error="raise")

    await block.aput([user("My dog is called Rex."), assistant("Good.")])
    await block.aget(ASKED)
    assert block.failures
    with pytest.raises(AttributeError, match=hook):
        await (strict.aget(ASKED) if hook == "where" else strict.aput(list(ASKED)))


async def test_a_closed_memory_raises_at_every_door(memory):
    block, retriever, spec = AMemMemoryBlock(memory, ANN), AMemRetriever(memory, ANN), None
    spec = AMemToolSpec(memory, ANN)
    memory.close()

    with pytest.raises(StoreClosedError):
        await block.aget(ASKED)
    with pytest.raises(StoreClosedError):
        await block.aput(list(ASKED))
    with pytest.raises(StoreClosedError):
        retriever.retrieve("dog")
    with pytest.raises(StoreClosedError):
        spec.recall("dog")


# --- a store that is full or damaged


# --- a key that is wrong


def vendor_memory() -> tuple[AgenticMemory, Vendor]:
    vendor = Vendor()
    return open_memory(embedder=LlamaIndexEmbedder(vendor))[0], vendor


async def test_a_key_revoked_after_the_answer_costs_no_answer(caplog):
    memory, vendor = vendor_memory()

    class Revoking(Chatbot):
        def _answer(self, prompt: str, **kwargs: Any) -> Any:
            vendor.error = RefusalError(401)
            return super()._answer(prompt)

    chat_memory = AMemMemory.from_defaults(memory=memory, user_id="ann")
    made = SimpleChatEngine.from_defaults(memory=chat_memory, llm=Revoking("Rex."))

    assert str(made.chat("What is my dog called?")) == "Rex."
    assert chat_memory.block.failures["write"] >= 1
    assert "check the API key" in caplog.text

    vendor.error = None
    await chat_memory.aput(user("Is he old?"))
    assert contents(memory) == ["What is my dog called?", "Rex.", "Is he old?"]
