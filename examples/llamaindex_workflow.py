"""Two agents that hand over to each other share what a user said, in a web server or a script. No network needed.

    python examples/llamaindex_workflow.py

The language models are scripts, so that the run is the same each time. For real ones, take
`OpenAI("gpt-5-mini")` of `llama_index.llms.openai` in place of `Scripted(…)`, and give the memory a model:
`open_memory("./memory", model=OpenAI("gpt-5-mini"))`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM

from amem_integrations import AgenticMemory
from amem_integrations.testing import HashEmbedder
from llamaindex_amem import AMemMemory, AMemRetriever, AMemToolSpec

# Whose turn it is: a web server sets it for each request, and agents that are made once read it.
USER: ContextVar[str] = ContextVar("user")


class Scripted(MockFunctionCallingLLM):
    """A language model that says, or calls, what it is told to, one after the other."""

    def __init__(self, *replies: str | tuple[str, dict[str, Any]]) -> None:
        """Take texts, and names of tools with their arguments."""
        left = list(replies)

        def respond(messages: Sequence[ChatMessage], **_: Any) -> ChatMessage:  # noqa: ANN401, ARG001
            reply = left.pop(0)
            if isinstance(reply, str):
                return ChatMessage(role="assistant", content=reply)
            block = ToolCallBlock(tool_call_id="1", tool_name=reply[0], tool_kwargs=reply[1])
            return ChatMessage(role="assistant", blocks=[block])

        super().__init__(response_generator=respond)


def made(memory: AgenticMemory) -> AgentWorkflow:
    """Return a workflow for all users: a host, who hands over to a cook with tools for the memory."""
    tools = AMemToolSpec(memory, lambda: (USER.get(),)).to_tool_list()
    host = FunctionAgent(
        name="host",
        description="Welcomes guests.",
        llm=Scripted(
            "Welcome! I shall tell the cook.",
            ("handoff", {"to_agent": "cook", "reason": "It is about food."}),
        ),
        can_handoff_to=["cook"],
    )
    cook = FunctionAgent(
        name="cook",
        description="Knows food.",
        tools=[*tools],
        llm=Scripted(("recall", {"query": "allergic to"}), "No peanuts for you: rice with mango."),
    )
    return AgentWorkflow(agents=[host, cook], root_agent="host")


async def ask(workflow: AgentWorkflow, memory: AgenticMemory, user: str, question: str) -> None:
    """Serve one request of one user."""
    USER.set(user)
    chat_memory = AMemMemory.from_defaults(memory=memory, user_id=user, session_id=f"{user}-1")
    print(f"{user}: {question}")
    answer: Any = await workflow.run(question, memory=chat_memory)
    for used in answer.tool_calls:
        lines = used.tool_output.content.splitlines()
        print(f"  {used.tool_name}: {next((s for s in lines if s[0] == '-'), lines[0])}")
    print(f"{answer.current_agent_name}: {answer}")


async def run() -> None:
    """Hold two turns, and show what another user's memory holds of them."""
    with AgenticMemory.open(":memory:", embedder=HashEmbedder(256)) as memory:
        workflow = made(memory)
        await ask(workflow, memory, "ann", "I am allergic to peanuts.")
        await ask(workflow, memory, "ann", "What can I eat?")
        found = await AMemRetriever(memory, ("bob",)).aretrieve("allergic to peanuts")
        print(f"bob's memory: {len(found)} notes; ann's: {len(memory.get_all(namespace=('ann',)))}")


if __name__ == "__main__":
    asyncio.run(run())
