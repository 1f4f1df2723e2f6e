"""LangChain's models as the memory's own: schemas or words, both forms, and nothing in the user's stream."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import numpy as np
import pytest
from langchain.agents import create_agent
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.runnables import RunnableLambda
from langchain_kit import ANN, Talker, User, oslo, user

from amem_integrations import AgenticMemory, ConfigurationError, RuleModel
from amem_integrations.testing import HashEmbedder
from langchain_amem import (
    AMemMiddleware,
    LangChainChatModel,
    LangChainEmbedder,
    open_memory,
)

NOTE = {"context": "Secret thought.", "keywords": ["x"], "tags": ["t"]}
WORDS = json.dumps({"notes": [{"id": "n1", **NOTE}, {"id": "n2", **NOTE}]})
NOTHING = '{"notes": []}'


def in_words(messages: list[Any]) -> str:
    """Answer as a model that knows no schema."""
    return WORDS if "annotate" in messages[0].text else NOTHING


def by_schema(messages: list[Any]) -> AIMessage:
    """Answer as a model that calls tools."""
    name, args = "EvolveReply", {"notes": []}
    if "annotate" in messages[0].text:
        name, args = "ConstructReply", json.loads(WORDS)
    call = {"name": name, "args": args, "id": "1", "type": "tool_call"}
    usage = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}
    return AIMessage("", tool_calls=[call], usage_metadata=usage)


class Wordy(Talker):
    """A model without tools."""

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


class RefusalError(Exception):
    """What a server answers that takes no tools."""

    status_code = 400


class Refusing(Talker):
    """A model whose server takes no tools."""

    def _generate(self, messages: Any, stop: Any = None, run: Any = None, **kwargs: Any) -> Any:
        if kwargs.get("tools"):
            raise RefusalError("this model does not support tools")
        return super()._generate(messages)


class Down(Talker):
    """A model that cannot be reached."""

    def _generate(self, *args: Any, **kwargs: Any) -> Any:
        raise ConnectionError("no route")


@pytest.mark.parametrize(
    "chat",
    [Talker(answer=by_schema), Wordy(answer=in_words), Refusing(answer=in_words)],
    ids=["by schema", "in words", "in words after a refusal"],
)
@pytest.mark.parametrize("asynchronous", [False, True])
async def test_any_chat_model_can_make_notes(chat: Talker, asynchronous: bool) -> None:
    model = LangChainChatModel(chat)
    with AgenticMemory.open(":memory:", model=model, embedder=HashEmbedder()) as memory:
        for text in ("I moved to Oslo.", "I like it."):
            if asynchronous:
                note = await memory.aadd(text, namespace=ANN)
            else:
                note = memory.add(text, namespace=ANN)
            assert (note.state, note.attributes_source) == ("done", type(chat).__name__)
            assert note.contexts[0].text == "Secret thought."


def test_a_plain_fake_model_of_langchain_works_in_words() -> None:
    chat = GenericFakeChatModel(messages=iter([AIMessage(WORDS)]))
    with AgenticMemory.open(
        ":memory:", model=LangChainChatModel(chat), embedder=HashEmbedder()
    ) as memory:
        assert memory.add("I moved to Oslo.", namespace=ANN).state == "done"


def test_after_a_refusal_schemas_are_not_tried_again() -> None:
    chat = Refusing(answer=in_words, seen=[])
    model = LangChainChatModel(chat)
    with AgenticMemory.open(":memory:", model=model, embedder=HashEmbedder()) as memory:
        memory.add("I moved to Oslo.", namespace=ANN)
        assert model._words
        strict = LangChainChatModel(chat, structured="schema")
        memory2 = AgenticMemory.open(":memory:", model=strict, embedder=HashEmbedder())
        assert memory2.add("I moved to Oslo.", namespace=ANN).state == "failed"


def test_a_model_that_is_down_leaves_the_note_pending() -> None:
    model = LangChainChatModel(Down(answer=oslo))
    with AgenticMemory.open(":memory:", model=model, embedder=HashEmbedder()) as memory:
        assert memory.add("I moved to Oslo.", namespace=ANN).state == "pending"
        assert memory.stats()["usage"]["total"]["unavailable"] == 1
        assert not model._words


@pytest.mark.parametrize(
    "wrap",
    [
        lambda chat: chat.with_retry(),
        lambda chat: chat.with_fallbacks([chat]),
        lambda chat: chat.with_config(tags=["mine"]),
        lambda chat: chat.with_retry().with_fallbacks([chat]),
        lambda chat: chat.bind(stop=["x"]),
    ],
)
def test_a_chat_model_may_be_wrapped(wrap: Any) -> None:
    model = LangChainChatModel(wrap(Talker(answer=by_schema)))
    with AgenticMemory.open(":memory:", model=model, embedder=HashEmbedder()) as memory:
        assert memory.add("I moved to Oslo.", namespace=ANN).state == "done"
    with pytest.raises(ConfigurationError, match="does not end in"):
        LangChainChatModel(wrap(Talker(answer=by_schema)) | StrOutputParser())


def test_tokens_are_counted() -> None:
    model = LangChainChatModel(Talker(answer=by_schema))
    with AgenticMemory.open(":memory:", model=model, embedder=HashEmbedder()) as memory:
        memory.add("I moved to Oslo.", namespace=ANN)
        counted = memory.stats()["usage"]["construct"]
        assert (counted["input_tokens"], counted["output_tokens"]) == (7, 3)


class Listener(BaseCallbackHandler):
    """Keeps the names, tags and texts of the model runs it sees."""

    def __init__(self) -> None:
        self.runs: list[tuple[str, list[str]]] = []

    def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None:
        self.runs.append((str(kwargs.get("name")), kwargs["tags"]))


def test_config_traces_the_memorys_calls() -> None:
    listener = Listener()
    model = LangChainChatModel(
        Wordy(answer=in_words), config={"callbacks": [listener], "tags": ["mine"]}
    )
    with AgenticMemory.open(":memory:", model=model, embedder=HashEmbedder()) as memory:
        memory.add("I moved to Oslo.", namespace=ANN)
    assert [name for name, _ in listener.runs] == ["amem:construct"]
    assert {"mine", "nostream"} <= set(listener.runs[0][1])


def remembering() -> tuple[Any, AgenticMemory]:
    model = LangChainChatModel(Wordy(answer=in_words))
    memory = AgenticMemory.open(":memory:", model=model, embedder=HashEmbedder())
    agent = create_agent(
        Talker(answer=oslo),
        [],
        middleware=[AMemMiddleware(memory, namespace=user)],
        context_schema=User,
    )
    return agent, memory


def asked() -> Any:
    """Return a new message: LangGraph gives it an id, by which it is known ever after."""
    return {"messages": [HumanMessage("Where do I live?")]}


def test_the_memorys_thoughts_are_not_in_the_users_token_stream() -> None:
    agent, memory = remembering()
    parts = agent.stream(asked(), context=User("ann"), stream_mode="messages")
    assert "".join(chunk.text for chunk, _ in parts) == "I do not know."
    assert memory.flush(timeout=10)
    assert memory.stats(namespace=ANN)["states"] == {"done": 2}


async def test_nor_in_the_asynchronous_stream_nor_among_the_events() -> None:
    agent, memory = remembering()
    parts = [p async for p in agent.astream(asked(), context=User("ann"), stream_mode="messages")]
    assert "".join(chunk.text for chunk, _ in parts) == "I do not know."
    events = [e async for e in agent.astream_events(asked(), context=User("ann"), version="v2")]
    spoken = [event for event in events if event["event"].startswith("on_chat_model")]
    assert spoken
    assert "Secret thought" not in str(spoken)  # a recalled note may show what was made of it
    assert await memory.aflush(timeout=10)
    assert memory.stats(namespace=ANN)["states"] == {"done": 4}


def test_the_memorys_thoughts_reach_no_callback_of_the_caller() -> None:
    listener = Listener()
    model = LangChainChatModel(Wordy(answer=in_words))
    with AgenticMemory.open(":memory:", model=model, embedder=HashEmbedder()) as memory:
        step = RunnableLambda(lambda text: memory.add(text, namespace=ANN).state)
        assert step.invoke("I moved.", config={"callbacks": [listener]}) == "done"
    assert listener.runs == []


class Native(Embeddings):
    """Embeddings with an asynchronous form of their own."""

    def __init__(self) -> None:
        self.loops: set[Any] = set()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [[3.0, 4.0] for _ in texts]

    def embed_query(self, text: str) -> list[float]:
        return [0.0, 2.0]

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        self.loops.add(asyncio.get_running_loop())
        return self.embed_documents(texts)

    async def aembed_query(self, text: str) -> list[float]:
        self.loops.add(asyncio.get_running_loop())
        return self.embed_query(text)


def test_vectors_are_of_unit_length_and_know_their_dimensions() -> None:
    embedder = LangChainEmbedder(Native())
    assert embedder.dimensions == 2
    rows = embedder.embed_documents(["a", "b"])
    assert (rows.shape, rows.dtype) == ((2, 2), np.float32)
    np.testing.assert_allclose(rows[0], [0.6, 0.8], rtol=1e-6)
    np.testing.assert_allclose(embedder.embed_query("a"), [0, 1])


async def test_native_asynchronous_embeddings_are_awaited_on_the_callers_loop() -> None:
    native = Native()
    with AgenticMemory.open(":memory:", embedder=LangChainEmbedder(native)) as memory:
        await memory.aadd("I moved.", namespace=ANN)
        await memory.asearch("moved", namespace=ANN)
    assert native.loops == {asyncio.get_running_loop()}


@pytest.mark.parametrize("wrong", [None, "gpt", object()])
def test_what_is_no_model_is_refused_at_once(wrong: Any) -> None:
    with pytest.raises(ConfigurationError):
        LangChainChatModel(wrong)
    with pytest.raises(ConfigurationError):
        LangChainEmbedder(wrong)
    with pytest.raises(ConfigurationError):
        LangChainChatModel(Talker(answer=oslo), structured="yaml")  # type: ignore[arg-type]


def test_a_memory_with_langchains_models_takes_one_line() -> None:
    embeddings = DeterministicFakeEmbedding(size=32)
    with open_memory(":memory:", model=Wordy(answer=in_words), embedder=embeddings) as memory:
        note = memory.add("I moved to Oslo.", namespace=ANN)
        assert note.attributes_source == "Wordy"
        assert memory.search("Oslo", namespace=ANN)


def test_ports_of_the_core_are_taken_as_they_are() -> None:
    with open_memory(":memory:", model=RuleModel(), embedder=HashEmbedder()) as memory:
        assert memory.add("I moved.", namespace=ANN).attributes_source == "rules"


def test_names_are_given_to_langchain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "langchain.chat_models.init_chat_model", lambda name: Wordy(answer=in_words)
    )
    monkeypatch.setattr(
        "langchain.embeddings.init_embeddings", lambda name: DeterministicFakeEmbedding(size=8)
    )
    with open_memory(":memory:", model="some:chat", embedder="some:embeddings") as memory:
        assert memory.add("I moved.", namespace=ANN).attributes_source == "Wordy"


class Recording(Embeddings):
    """Embeddings that keep what they were given."""

    def __init__(self) -> None:
        self.given: list[str] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.given += texts
        return [[1.0, 0.0] for _ in texts]

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


def test_prefixes_stand_before_the_texts_and_are_in_the_name() -> None:
    model = Recording()
    embedder = LangChainEmbedder(
        model, dimensions=2, query_prefix="query: ", document_prefix="passage: "
    )
    embedder.embed_documents(["a"])
    embedder.embed_query("b")
    assert model.given == ["passage: a", "query: b"]
    assert embedder.name == "Recording (query: | passage:)"
