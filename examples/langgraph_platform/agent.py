"""A graph that keeps what a user says in the store of the deployment, and answers with what belongs to it."""

from __future__ import annotations

import uuid
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from typing_extensions import TypedDict


class Context(TypedDict):
    """Who asks."""

    user_id: str


async def answer(state: MessagesState, runtime: Runtime[Context]) -> dict[str, Any]:
    """Answer with what this user said before, and keep what is said now."""
    if runtime.store is None:
        raise RuntimeError("the deployment has no store; see langgraph.json")
    said, space = state["messages"][-1].text, ("memories", runtime.context["user_id"])
    found = await runtime.store.asearch(space, query=said, limit=3)
    await runtime.store.aput(space, str(uuid.uuid4()), {"text": said})
    known = "; ".join(item.value["text"] for item in found)
    return {"messages": [AIMessage(f"You said: {known}" if known else "I will keep that in mind.")]}


builder = StateGraph(MessagesState, context_schema=Context)
builder.add_node("answer", answer)
builder.add_edge(START, "answer")
graph = builder.compile()
