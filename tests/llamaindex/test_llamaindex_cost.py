"""What a turn costs: calls of the embedder, and the texts it is given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.chat_engine import ContextChatEngine, SimpleChatEngine
from llama_index.core.chat_engine.types import BaseChatEngine
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llamaindex_fakes import Chatbot, annotated, assistant, open_memory, user

from amem_integrations.testing import HashEmbedder, ScriptedModel
from llamaindex_amem import AMemMemory

TURNS = 6


class Counting(HashEmbedder):
    """Counts its calls, and keeps the texts of each."""

    def __init__(self) -> None:
        super().__init__(256)
        self.calls: list[list[str]] = []
        self._inside = False

    def embed_documents(self, texts: Sequence[str]) -> Any:
        self.calls.append(list(texts))
        self._inside = True
        try:
            return super().embed_documents(texts)
        finally:
            self._inside = False

    def embed_query(self, text: str) -> Any:
        if not self._inside:
            self.calls.append([text])
        return super().embed_query(text)


class Garden(BaseRetriever):
    """Finds a document, for an engine that wants one."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [NodeWithScore(node=TextNode(text="The garden is large."), score=1.0)]


def engine_of(kind: str, chat_memory: AMemMemory, model: Chatbot) -> BaseChatEngine:
    if kind == "simple":
        return SimpleChatEngine.from_defaults(memory=chat_memory, llm=model)
    return ContextChatEngine.from_defaults(retriever=Garden(), memory=chat_memory, llm=model)


# A query; question and answer together.
@pytest.mark.parametrize("asynchronous", [False, True], ids=["chat", "achat"])
@pytest.mark.parametrize("kind", ["simple", "context"])
async def test_a_turn_encodes_its_question_and_its_messages_by_two_calls(kind, asynchronous):
    embedder = Counting()
    memory, _ = open_memory(ScriptedModel(annotated), embedder=embedder)
    memory.add_many(
        [f"Tree {n} grows in the garden." for n in range(40)], namespace=("bob",), evolve=False
    )
    memory.info()  # finds the thresholds of the embedder, once
    chat_memory = AMemMemory.from_defaults(memory=memory, user_id="ann", evolve=False)
    replies = [f"Answer {n}: well done." for n in range(TURNS)]
    engine = engine_of(kind, chat_memory, Chatbot(*replies, "Bye."))

    for n in range(TURNS):
        embedder.calls.clear()
        question = f"Did I plant tree number {n} in the garden?"
        await engine.achat(question) if asynchronous else engine.chat(question)
        assert len(embedder.calls) == 2
        texts = [text for call in embedder.calls for text in call]
        assert len(texts) == 3
        documents = [text for text in texts if text != question]
        assert len(documents) == len(set(documents))
        hits = memory.search(question, namespace=("ann",))
        assert all(hit.similarity is not None for hit in hits)


def test_a_question_whose_turn_never_ended_is_found_and_embedded_with_the_next():
    embedder = Counting()
    memory, _ = open_memory(embedder=embedder)
    chat_memory = AMemMemory.from_defaults(memory=memory, user_id="ann", evolve=False)
    chat_memory.put(user("I moved to Oslo."))
    assert embedder.calls == []
    (hit,) = memory.search("Oslo", namespace=("ann",))
    assert hit.similarity is None
    embedder.calls.clear()
    chat_memory.put(user("I have a dog."))
    chat_memory.put(assistant("How nice."))
    assert [len(texts) for texts in embedder.calls] == [3]
    assert memory.search("Oslo", namespace=("ann",))[0].similarity is not None


def test_a_turn_that_is_put_as_a_whole_is_encoded_by_two_calls():
    embedder = Counting()
    memory, _ = open_memory(embedder=embedder)
    memory.info()  # finds the thresholds of the embedder, once
    chat_memory = AMemMemory.from_defaults(memory=memory, user_id="ann", evolve=False)
    for n in range(TURNS):
        embedder.calls.clear()
        chat_memory.get(input=f"Where is tree {n}?")
        chat_memory.put_messages([user(f"Where is tree {n}?"), assistant(f"Answer {n}.")])

        assert [len(texts) for texts in embedder.calls] == [1, 2]
