"""langmem's tools and its store manager work on our store as they are."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

with warnings.catch_warnings():
    # langmem depends on a package that uses imports LangGraph has moved.
    warnings.simplefilter("ignore")
    langmem = pytest.importorskip("langmem")

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_kit import Talker

from amem_integrations import AgenticMemory
from langchain_amem import AMemStore

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

PLACE = ("memories", "{langgraph_user_id}")


def of(user: str) -> Any:
    return {"configurable": {"langgraph_user_id": user, "thread_id": "1"}}


def calling(name: str, **arguments: Any) -> Talker:
    """Return a model that calls a tool once."""

    def answer(messages: list[Any]) -> AIMessage:
        if messages[-1].type == "tool":
            return AIMessage(messages[-1].text)
        call = {"name": name, "args": arguments, "id": "1", "type": "tool_call"}
        return AIMessage("", tool_calls=[call])

    return Talker(answer=answer)


def run(store: AMemStore, user: str, model: Talker) -> Any:
    tools = [
        langmem.create_manage_memory_tool(namespace=PLACE),
        langmem.create_search_memory_tool(namespace=PLACE, response_format="content_and_artifact"),
    ]
    agent = create_agent(model, tools, store=store)
    return agent.invoke({"messages": [HumanMessage("Go.")]}, of(user))["messages"]


def test_its_tools_write_and_search_for_one_user(memory: AgenticMemory) -> None:
    store = AMemStore(memory)
    run(store, "ann", calling("manage_memory", content="Ann moved to Oslo.", action="create"))
    (item,) = store.search(("memories", "ann"))
    assert item.value == {"content": "Ann moved to Oslo."}
    seek = calling("search_memory", query="Where does Ann live?")
    artifact = run(store, "ann", seek)[2].artifact
    assert [found.key for found in artifact] == [item.key]
    assert run(store, "bob", seek)[2].artifact == []


def test_its_tools_update_and_delete(memory: AgenticMemory) -> None:
    store = AMemStore(memory)
    run(store, "ann", calling("manage_memory", content="Ann moved to Oslo.", action="create"))
    (item,) = store.search(("memories", "ann"))
    change = calling("manage_memory", content="Ann moved to Rome.", action="update", id=item.key)
    run(store, "ann", change)
    assert store.get(("memories", "ann"), item.key).value == {"content": "Ann moved to Rome."}  # type: ignore[union-attr]
    run(store, "ann", calling("manage_memory", action="delete", id=item.key))
    assert store.search(("memories", "ann")) == []


def test_its_store_manager_keeps_what_a_model_extracts(memory: AgenticMemory) -> None:
    store = AMemStore(memory, evolve=True)
    manager = langmem.create_memory_store_manager(
        calling("Memory", content="Ann moved to Oslo."), namespace=PLACE, store=store
    )
    manager.invoke({"messages": [HumanMessage("I moved to Oslo.")]}, config=of("ann"))
    (item,) = store.search(("memories", "ann"))
    assert item.value == {"kind": "Memory", "content": {"content": "Ann moved to Oslo."}}
    memory.flush()
    assert store.note(("memories", "ann"), item.key).state == "done"  # type: ignore[union-attr]
    found = manager.search(query="Oslo", config=of("ann"))
    assert [hit.key for hit in found] == [item.key]
