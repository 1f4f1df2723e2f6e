"""A LangChain agent with long-term memory: middleware that remembers, tools that search and correct.

Runs offline: the chat model below follows a script, and the memory works without a language model. To use
real ones:

    from langchain.chat_models import init_chat_model
    from langchain_amem import open_memory

    chat = init_chat_model("openai:gpt-5-mini")
    memory = open_memory("./memory", model=chat)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver

from amem_integrations import AgenticMemory
from amem_integrations.testing import HashEmbedder
from langchain_amem import AMemMiddleware, memory_tools


class ScriptedChat(BaseChatModel):
    """Stands in for a chat model: looks for words in what it is shown, and answers."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - LangChain's signature
        """Take note of no tool: the script knows them."""
        del tools, kwargs
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:  # noqa: ANN401
        del args, kwargs
        return ChatResult(generations=[ChatGeneration(message=reply(messages))])


def reply(messages: list[BaseMessage]) -> AIMessage:
    """Return what the script says next."""
    known = "\n".join(m.text for m in messages if isinstance(m, SystemMessage))
    asked, last = next(m.text for m in reversed(messages) if m.type == "human"), messages[-1]
    if last.type == "tool" and "<memories>" in last.text:
        old = re.search(r"\[([\w-]+)\] [^\n]*Oslo", last.text)
        return use("correct_memory", note_id=old[1] if old else "", content="Ann lives in Bergen.")
    if last.type == "tool":
        return AIMessage("I have corrected that: you live in Bergen.")
    if "moved on" in asked:
        return use("search_memory", query="Where does Ann live?")
    if asked.startswith("Where"):
        city = next((name for name in ("Bergen", "Oslo") if name in known), None)
        return AIMessage(f"You live in {city}." if city else "I do not know yet.")
    return AIMessage("Thank you, I will remember that.")


def use(tool: str, **arguments: str) -> AIMessage:
    """Return a call of a tool."""
    call = {"name": tool, "args": arguments, "id": f"call-{tool}", "type": "tool_call"}
    return AIMessage("", tool_calls=[call])


@dataclass
class Context:
    """What the application knows of a run: who is talking."""

    user_id: str


def user(run: Any) -> tuple[str, ...]:  # noqa: ANN401 - a Run, or a ToolRuntime
    """Return whose memory a run is about."""
    return (run.context.user_id,)


def main() -> None:
    """Talk to the agent in four conversations, one of them by somebody else."""
    memory = AgenticMemory.open(":memory:", embedder=HashEmbedder())
    middleware = AMemMiddleware(memory, namespace=user)
    agent = create_agent(
        ScriptedChat(),
        tools=memory_tools(memory, namespace=user),
        middleware=[middleware],
        context_schema=Context,
        checkpointer=InMemorySaver(),
    )
    for thread, name, text in (
        ("monday", "ann", "I live in Oslo since last week."),
        ("tuesday", "ann", "Where do I live?"),
        ("tuesday", "bob", "Where does Ann live?"),
        ("sunday", "ann", "I have moved on, I live in Bergen now."),
        ("later", "ann", "Where do I live?"),
    ):
        config = {"configurable": {"thread_id": f"{name}-{thread}"}}
        state = agent.invoke({"messages": [("user", text)]}, config=config, context=Context(name))
        print(f"\n{name.title()}, {thread}: {text}")
        for message in state["messages"]:
            for call in getattr(message, "tool_calls", []):
                print(f"    [{call['name']}] {call['args']}")
        print(f"Agent: {state['messages'][-1].text}")
        memory.flush()
    print("\nWhat is kept of Ann:")
    for note in memory.get_all(namespace=("ann",)):
        print(f"  - {note.speaker or note.source}: {note.content}  {list(note.tags)}")
    memory.close()


if __name__ == "__main__":
    main()
