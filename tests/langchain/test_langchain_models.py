"""LangChain's models as the memory's own: schemas or words, both forms, and nothing in the user's stream."""

from __future__ import annotations

import asyncio
import json
from itertools import product
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ChatMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.runnables import ConfigurableField, RunnableLambda
from langchain_kit import ANN, Talker, User, agent_of, ask, called
from pydantic import Field

from amem_integrations import AgenticMemory, ConfigurationError, ModelUnavailableError, RuleModel
from amem_integrations.testing import HashEmbedder
from langchain_amem import LangChainChatModel, LangChainEmbedder, open_memory

NOTE = {"context": "Secret thought.", "keywords": ["x"], "tags": ["t"]}
WORDS = json.dumps({"notes": [{"id": "n1", **NOTE}, {"id": "n2", **NOTE}]})


def in_words(messages):
    """Answer as a model that knows no schema."""
    return WORDS if "annotate" in messages[0].text else '{"notes": []}'


def by_schema(messages):
    """Answer as a model that calls tools."""
    name = "ConstructReply" if "annotate" in messages[0].text else "EvolveReply"
    reply = called(name, **json.loads(in_words(messages)))
    reply.usage_metadata = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}
    return reply


class Wordy(Talker):
    """A model without tools."""

    def bind_tools(self, tools, **kwargs):
        raise NotImplementedError


class RefusalError(Exception):
    """What a server answers that takes no tools."""

    status_code = 400


class Noting(Talker):
    """A model that keeps in which form it was asked."""

    forms: list[str] = Field(default_factory=list)

    def _generate(self, messages, stop=None, run=None, **kwargs):
        self.forms.append("schema" if kwargs.get("tools") else "words")
        return super()._generate(messages)


class Refusing(Noting):
    """A model whose server takes no tools, or only so many words."""

    length: int = 99_999

    def _reply(self, messages):
        if self.forms[-1] == "schema" or len(str(messages)) > self.length:
            raise RefusalError("this model does not support that")
        return super()._reply(messages)


def opened(chat, **options):
    model = LangChainChatModel(chat, **options)
    return AgenticMemory.open(":memory:", model=model, embedder=HashEmbedder())


def add(memory, text="I moved to Oslo."):
    return memory.add(text, namespace=ANN)


async def test_any_chat_model_can_make_notes():
    plain = GenericFakeChatModel(messages=iter([AIMessage(WORDS), *[AIMessage("{}")] * 3]))
    answering = Talker(answer=by_schema), Wordy(answer=in_words), Refusing(answer=in_words)
    for chat in (*answering, plain):
        with opened(chat) as memory:
            note = add(memory)
            assert (note.state, note.attributes_source) == ("done", type(chat).__name__)
            assert note.contexts[0].text == "Secret thought."
            if chat is not plain:
                note = await memory.aadd("I like it.", namespace=ANN)
                assert (note.state, note.contexts[0].text) == ("done", "Secret thought.")


def test_after_a_refusal_schemas_are_not_tried_again():
    chat = Refusing(answer=in_words)
    with opened(chat) as memory:
        add(memory)
        add(memory, "I like it.")
        assert chat.forms == ["schema", *["words"] * len(chat.seen)]
    for settled in (chat, chat.with_fallbacks([chat])):
        with opened(settled, structured="schema") as memory:
            assert add(memory).state == "failed"


def test_a_model_that_refuses_both_forms_is_asked_by_schema_again():
    with opened(chat := Refusing(length=0)) as memory:
        assert add(memory).state == add(memory).state == "failed"
    assert chat.forms == ["schema", "words"] * (len(chat.forms) // 2)


def test_what_can_be_read_of_a_reply_is_read():
    by_alias = {"n1": NOTE, "n2": NOTE}  # not in the form that was asked for
    calls = [
        called("ConstructReply", notes=[{"id": name, **NOTE}]).tool_calls[0] for name in by_alias
    ]
    broken = {"name": "ConstructReply", "args": f"{WORDS[:-1]},}}", "id": "1", "error": None}
    for reply in (
        called("ConstructReply", "Here it is:", notes=by_alias),
        AIMessage("", tool_calls=calls),
        AIMessage("", invalid_tool_calls=[broken | {"type": "invalid_tool_call"}]),
        ChatMessage(WORDS, role="model"),
    ):
        chat = Talker(
            answer=lambda said, reply=reply: reply if "annotate" in said[0].text else "{}"
        )
        with opened(chat) as memory:
            memory.add_many(["I moved to Oslo.", "I like it."], namespace=ANN)
            texts = [note.contexts[0].text for note in memory.get_all(namespace=ANN)]
            assert texts == ["Secret thought."] * 2
            assert memory.stats()["usage"]["construct"]["calls"] == 1


def test_a_model_that_is_down_leaves_the_note_pending_and_one_that_says_nothing_a_failed_one():
    def down(_):
        raise ConnectionError("no route")

    with opened(Talker(answer=down)) as memory:
        assert add(memory).state == "pending"
        assert memory.stats()["usage"]["total"]["unavailable"] == 1
    with opened(Wordy(answer=lambda _: "")) as memory:
        assert add(memory).state == "failed"


def test_a_chat_model_may_be_wrapped_and_is_asked_by_schema_where_the_wrapping_lets_it():
    for wrap, by_schema_too in (
        (lambda chat: chat.with_retry(), True),
        (lambda chat: chat.with_fallbacks([chat]), True),
        (lambda chat: chat.with_config(tags=["mine"]), True),
        (lambda chat: chat.with_retry().with_fallbacks([chat]), True),
        (lambda chat: RunnableLambda(lambda asked: asked) | chat, True),
        (lambda chat: chat.bind(stop=["x"]), False),
        (lambda chat: chat.configurable_alternatives(ConfigurableField("it"), other=chat), False),
    ):
        wrapped = wrap(chat := Noting(answer=by_schema))
        with opened(wrapped) as memory:
            assert add(memory).state == "done"
        assert set(chat.forms) == {"schema" if by_schema_too else "words"}
        with pytest.raises(ConfigurationError, match="does not end in"):
            LangChainChatModel(wrapped | StrOutputParser())
    with opened(Talker(answer=by_schema), name="mine") as memory:
        assert add(memory).attributes_source == "mine"
        counted = memory.stats()["usage"]["construct"]
        assert (counted["input_tokens"], counted["output_tokens"]) == (7, 3)


def test_a_model_is_recorded_by_the_first_of_its_names_that_is_a_text():
    class Named(Talker):
        model_name: str | None = None
        model: Any = None
        model_id: str = ""

    for names, known_as in (
        ({"model_name": "gpt", "model_id": "other"}, "gpt"),
        ({"model_name": "", "model": object(), "model_id": "llama"}, "llama"),
        ({}, "Named"),
    ):
        assert LangChainChatModel(Named(**names)).name == known_as


# The memory's own thoughts


class Listener(BaseCallbackHandler):
    """Keeps the names and tags of the model runs it sees."""

    def __init__(self):
        self.runs: list[tuple[str, list[str]]] = []

    def on_chat_model_start(self, *args, **kwargs):
        self.runs.append((str(kwargs.get("name")), kwargs["tags"]))


def test_config_traces_the_memorys_calls_and_no_callback_of_the_caller_does():
    mine, callers = Listener(), Listener()
    for config in (None, {"callbacks": [mine], "tags": ["mine"]}):
        with opened(Wordy(answer=in_words), config=config) as memory:
            step = RunnableLambda(lambda _, memory=memory: add(memory).state)
            assert step.invoke("", config={"callbacks": [callers]}) == "done"
    ((name, tags),) = mine.runs
    assert (name, {"mine", "nostream"} <= set(tags)) == ("amem:construct", True)
    assert callers.runs == []


async def test_the_memorys_thoughts_are_not_in_the_users_token_stream():
    asked = "Where do I live?"
    given = {"context": User("ann")}
    with opened(Wordy(answer=in_words)) as memory:
        agent = agent_of(memory, keeps=False)
        parts = list(agent.stream(ask(asked), stream_mode="messages", **given))
        awaited = [p async for p in agent.astream(ask(asked), stream_mode="messages", **given)]
        for streamed in (parts, awaited):
            assert "".join(chunk.text for chunk, _ in streamed) == "I do not know."
        events = [e async for e in agent.astream_events(ask(asked), version="v2", **given)]
        spoken = [event for event in events if event["event"].startswith("on_chat_model")]
        assert spoken
        assert "Secret thought" not in str(spoken)  # a recalled note may show what was made of it
        assert await memory.aflush(timeout=10)
        assert memory.stats(namespace=ANN)["states"] == {"done": 6}


# Embeddings


class Native(Embeddings):
    """Embeddings with an asynchronous form of their own, which keep what they were given."""

    def __init__(self):
        self.loops: set[Any] = set()
        self.given: list[str] = []

    def embed_documents(self, texts):
        self.given += texts
        return [[3.0, 4.0] for _ in texts]

    def embed_query(self, text):
        self.given.append(text)
        return [0.0, 2.0]

    async def aembed_documents(self, texts):
        self.loops.add(asyncio.get_running_loop())
        return self.embed_documents(texts)

    async def aembed_query(self, text):
        self.loops.add(asyncio.get_running_loop())
        return self.embed_query(text)


def test_vectors_are_of_unit_length_and_know_their_dimensions():
    embedder = LangChainEmbedder(Native())
    assert embedder.dimensions == 2
    rows = embedder.embed_documents(["a", "b"])
    assert (rows.shape, rows.dtype) == ((2, 2), np.float32)
    np.testing.assert_allclose(rows[0], [0.6, 0.8], rtol=1e-6)
    np.testing.assert_allclose(embedder.embed_query("a"), [0, 1])
    for nothing in ([], None):
        with (
            patch.object(Native, "embed_query", return_value=nothing),
            pytest.raises(ConfigurationError, match=r"Native gave .+; a list of numbers is due"),
        ):
            _ = LangChainEmbedder(Native()).dimensions


def test_a_memory_cannot_be_opened_while_embeddings_that_say_no_length_are_down():
    class Unreachable(Native):
        def embed_query(self, text):
            raise ConnectionError("no route")

    with pytest.raises(ModelUnavailableError, match="the embedder Unreachable did not answer"):
        open_memory(":memory:", embedder=Unreachable())


async def test_prefixes_stand_before_the_texts_and_are_in_the_name():
    native = Native()
    prefixes = {"query_prefix": "query: ", "document_prefix": "passage: "}
    embedder = LangChainEmbedder(native, dimensions=2, **prefixes)
    embedder.embed_documents(["a"])
    embedder.embed_query("b")
    await embedder.aembed_documents(["c"])
    await embedder.aembed_query("d")
    assert native.given == ["passage: a", "query: b", "passage: c", "query: d"]
    assert embedder.name == "Native (query: | passage:)"


async def test_native_asynchronous_embeddings_are_awaited_on_the_callers_loop():
    with AgenticMemory.open(":memory:", embedder=LangChainEmbedder(native := Native())) as memory:
        await memory.aadd("I moved.", namespace=ANN)
        await memory.asearch("moved", namespace=ANN)
    assert native.loops == {asyncio.get_running_loop()}


# Opening


def test_what_is_no_model_is_refused_at_once():
    for wrapper, wrong in product((LangChainChatModel, LangChainEmbedder), (None, "gpt", object())):
        with pytest.raises(ConfigurationError):
            wrapper(wrong)
    with pytest.raises(ConfigurationError):
        LangChainChatModel(Talker(), structured="yaml")


def test_a_memory_with_langchains_models_takes_one_line(monkeypatch):
    chat, embeddings = Wordy(answer=in_words), DeterministicFakeEmbedding(size=8)
    monkeypatch.setattr("langchain.chat_models.init_chat_model", {"some:chat": chat}.get)
    monkeypatch.setattr("langchain.embeddings.init_embeddings", {"some:embeddings": embeddings}.get)
    for model, embedder, name in (
        (chat, embeddings, "Wordy"),
        ("some:chat", "some:embeddings", "Wordy"),  # names are given to LangChain
        (RuleModel(), HashEmbedder(), "rules"),  # ports of the core are taken as they are
    ):
        with open_memory(":memory:", model=model, embedder=embedder) as memory:
            assert add(memory).attributes_source == name
            assert memory.search("Oslo", namespace=ANN)
