"""What a turn costs: calls of the embedder, and the texts it is given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_kit import ANN, Talker, User, scripted, user
from langgraph.graph import START, MessagesState, StateGraph

from amem_integrations import AgenticMemory
from amem_integrations.testing import HashEmbedder
from langchain_amem import AMemMiddleware, MemoryState, evolve_node, recall_node, remember_node

TURNS = 4
RAW, EVOLVED = 2, 4  # calls of a turn, without and with evolution


class Counting(HashEmbedder):
    """Keeps the texts of each of its calls."""

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


class Talk(MessagesState, MemoryState):
    """A conversation with a memory."""


def agent_of(memory: AgenticMemory, evolves: bool) -> Any:
    middleware = AMemMiddleware(memory, namespace=user, evolve=evolves)
    replies = iter(f"Answer {n}." for n in range(TURNS))
    model = Talker(answer=lambda _: next(replies))
    return create_agent(model, [], middleware=[middleware], context_schema=User)


def graph_of(memory: AgenticMemory, evolves: bool) -> Any:
    replies = iter(f"Answer {n}." for n in range(TURNS))
    steps: list[Any] = [
        ("recall", recall_node(memory, namespace=ANN)),
        ("answer", lambda _: {"messages": [AIMessage(next(replies))]}),
        ("remember", remember_node(memory, namespace=ANN)),
    ]
    if evolves:
        steps.append(("evolve", evolve_node(memory, namespace=ANN)))
    builder = StateGraph(Talk).add_sequence(steps)
    builder.add_edge(START, "recall")
    return builder.compile()


@pytest.mark.parametrize("asynchronous", [False, True], ids=["invoke", "ainvoke"])
@pytest.mark.parametrize("made", [agent_of, graph_of], ids=["middleware", "nodes"])
@pytest.mark.parametrize("evolves", [False, True])
async def test_a_turn_encodes_its_question_and_its_messages_by_two_calls(
    evolves: bool, made: Any, asynchronous: bool
) -> None:
    embedder = Counting()
    with AgenticMemory.open(":memory:", model=scripted(), embedder=embedder) as memory:
        memory.info()  # finds the thresholds of the embedder, once
        runnable = made(memory, evolves)
        context: Any = {"context": User("ann")} if made is agent_of else {}
        for turn in range(TURNS):
            embedder.calls.clear()
            asked = {"messages": [HumanMessage(f"Where is tree {turn}?")]}
            if asynchronous:
                await runnable.ainvoke(asked, **context)
            else:
                runnable.invoke(asked, **context)
            memory.flush()
            assert len(embedder.calls) <= (EVOLVED if evolves else RAW)
            documents = [t for call in embedder.calls for t in call if not t.startswith("Where")]
            assert len(documents) == len(set(documents))
            if not evolves:
                assert sum(map(len, embedder.calls)) == 3
