"""An agent that streams, waits for a person before it forgets something, and goes on after a restart.

Runs offline: the chat model below follows a script. The checkpoints of LangGraph are in a file, for which it needs
`pip install langgraph-checkpoint-sqlite`; the memory is in a folder, so the second half of the program could be another
process.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command

from amem_integrations.testing import HashEmbedder
from langchain_amem import AMemMiddleware, described_call, open_memory

MIRA = ("mira",)
THREAD: Any = {"configurable": {"thread_id": "monday"}}


class ScriptedChat(BaseChatModel):
    """Stands in for a chat model: looks up what is to be forgotten, asks for it to be forgotten, and says so."""

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

    def _stream(
        self,
        messages: list[BaseMessage],
        *args: Any,  # noqa: ANN401 - LangChain's signature
        **kwargs: Any,  # noqa: ANN401 - as above
    ) -> Iterator[ChatGenerationChunk]:
        """Yield an answer word by word."""
        del args, kwargs
        answer = reply(messages)
        for word in re.findall(r"\S+\s*", answer.text) or [""]:
            chunk = AIMessageChunk(word, tool_calls=answer.tool_calls)
            yield ChatGenerationChunk(message=chunk)


def reply(messages: list[BaseMessage]) -> AIMessage:
    """Return what the script says next."""
    last = messages[-1]
    if last.type == "human" and "Forget" in last.text:
        return use("search_memory", query="where the key is")
    if last.type == "tool" and "<memories>" in last.text:
        found = re.search(r"\[([\w-]+)\][^\n]*key", last.text)
        return use("forget_memory", note_id=found[1] if found else "")
    if last.type == "tool":
        return AIMessage("I have forgotten where the key is.")
    return AIMessage("Thank you, I will remember that.")


def use(tool: str, **arguments: str) -> AIMessage:
    """Return a call of a tool."""
    call = {"name": tool, "args": arguments, "id": f"call-{tool}", "type": "tool_call"}
    return AIMessage("", tool_calls=[call])


@contextmanager
def program(folder: Path) -> Iterator[tuple[Any, Any]]:
    """Yield the agent and its memory, as each start of the program makes them."""
    with (
        open_memory(folder / "memory", embedder=HashEmbedder(), worker=True) as memory,
        SqliteSaver.from_conn_string(str(folder / "checkpoints.sqlite")) as saver,
    ):
        asks: Any = {
            "allowed_decisions": ["approve", "reject"],
            "description": described_call(memory, namespace=MIRA),
        }
        human: Any = HumanInTheLoopMiddleware({"forget_memory": asks})
        kept = AMemMiddleware(memory, namespace=MIRA, tools=("search", "forget"))
        agent = create_agent(ScriptedChat(), middleware=[human, kept], checkpointer=saver)
        yield agent, memory
        memory.flush(timeout=10)  # what is pending after that goes on at the next start


def say(agent: Any, given: Any) -> None:  # noqa: ANN401 - a graph and what it takes
    """Stream the answer to what is given, word by word, and show what a person is asked."""
    for mode, part in agent.stream(given, THREAD, stream_mode=["messages", "updates"]):
        if mode == "messages" and isinstance(part[0], AIMessageChunk):
            print(part[0].text, end="")
        for waiting in part.get("__interrupt__", ()) if mode == "updates" else ():
            print("A person is asked:", waiting.value["action_requests"][0]["description"])
    print()


def main() -> None:
    """Run the program twice."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with program(folder) as (agent, memory):
            say(agent, {"messages": [HumanMessage("My key is under the flower pot.")]})
            say(agent, {"messages": [HumanMessage("Forget where my key is.")]})
        print("-- the program is started again --")
        with program(folder) as (agent, memory):
            say(agent, Command(resume={"decisions": [{"type": "approve"}]}))
            print([note.content for note in memory.get_all(namespace=MIRA)])


if __name__ == "__main__":
    main()
