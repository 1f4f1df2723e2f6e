"""What a turn costs: calls of the embedder, and the texts it is given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from llama_index.core.chat_engine import SimpleChatEngine
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


@pytest.mark.parametrize(("evolve", "most"), [("off", 3), ("inline", 4)])
def test_a_turn_encodes_its_question_and_each_message_once(evolve: str, most: int) -> None:
    embedder = Counting()
    memory, _ = open_memory(ScriptedModel(annotated), embedder=embedder)
    memory.add_many(
        [f"Tree {n} grows in the garden." for n in range(40)], namespace=("bob",), evolve=False
    )
    chat_memory = AMemMemory.from_defaults(memory=memory, user_id="ann", evolve=evolve)
    replies = [f"Answer {n}: well done." for n in range(TURNS)]
    engine = SimpleChatEngine.from_defaults(memory=chat_memory, llm=Chatbot(*replies, "Bye."))

    for n in range(TURNS):
        embedder.calls.clear()
        engine.chat(f"Did I plant tree number {n} in the garden?")
        assert len(embedder.calls) <= most
        if evolve == "off":
            assert sum(map(len, embedder.calls)) == 3


def test_a_turn_that_is_put_as_a_whole_is_encoded_by_two_calls() -> None:
    embedder = Counting()
    memory, _ = open_memory(embedder=embedder)
    chat_memory = AMemMemory.from_defaults(memory=memory, user_id="ann", evolve="off")
    for n in range(TURNS):
        embedder.calls.clear()
        chat_memory.get(input=f"Where is tree {n}?")
        chat_memory.put_messages([user(f"Where is tree {n}?"), assistant(f"Answer {n}.")])

        assert [len(texts) for texts in embedder.calls] == [1, 2]
