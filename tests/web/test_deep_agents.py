"""Deep Agents with the middleware, and with the store behind their files."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from amem_integrations import AgenticMemory
from amem_integrations.testing import HashEmbedder
from langchain_amem import AMemMiddleware, AMemStore

sys.path.insert(0, str(Path(__file__).parents[1] / "langchain"))
from langchain_kit import ANN, Talker, User, oslo, user

pytestmark = pytest.mark.web


def test_a_deep_agent_remembers_by_the_middleware():
    from deepagents import create_deep_agent  # noqa: PLC0415 - of this environment alone

    with AgenticMemory.open(":memory:", embedder=HashEmbedder()) as memory:
        kept = AMemMiddleware(memory, namespace=user)
        agent = create_deep_agent(Talker(answer=oslo), middleware=[kept], context_schema=User)
        for text in ("I moved to Oslo.", "Where did I move to?"):
            given = {"messages": [HumanMessage(text)]}
            state = agent.invoke(given, context=User("ann"))
        assert state["messages"][-1].text == "In Oslo."
        said = [note.content for note in memory.get_all(namespace=ANN) if note.source == "user"]
        assert said == ["I moved to Oslo.", "Where did I move to?"]


def test_files_of_a_deep_agent_are_items_that_are_found_by_their_words():
    from deepagents import create_deep_agent  # noqa: PLC0415 - of this environment alone
    from deepagents.backends import StoreBackend  # noqa: PLC0415 - as above

    def write(messages):
        if messages[-1].type == "tool":
            return AIMessage(messages[-1].text)
        arguments = {"file_path": "/plan.txt", "content": "Prune the quince in March."}
        call = {"name": "write_file", "args": arguments, "id": "1", "type": "tool_call"}
        return AIMessage("", tool_calls=[call])

    with AgenticMemory.open(":memory:", embedder=HashEmbedder()) as memory:
        store = AMemStore(memory, fields=["content"])
        backend = StoreBackend(store=store, namespace=lambda _: ("files", "ann"))
        agent = create_deep_agent(Talker(answer=write), backend=backend, store=store)
        agent.invoke({"messages": [HumanMessage("Write the plan.")]})
        (item,) = store.search(("files", "ann"), query="quince")
        assert item.key == "/plan.txt"
        assert "Prune the quince" in str(item.value["content"])
        assert memory.search("quince", namespace=("files", "ann"))
