"""What the tests of the LangChain adapter share: two users, and a model that links and evolves."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from pydantic import Field

from amem_integrations import AgenticMemory, ModelRequest, StoreUnavailableError
from amem_integrations.testing import ScriptedModel

ANN = ("ann",)
BOB = ("bob",)

Contents = Callable[[tuple[str, ...]], list[str]]


@dataclass
class User:
    """What an application passes as `context`."""

    user_id: str


def user(run: Any) -> tuple[str, ...]:
    """Return the namespace of a run from its context."""
    return (run.context.user_id,)


def construct(request: ModelRequest) -> dict[str, Any]:
    """Give every note a context and keywords made of its own words."""
    return {
        "notes": [
            {
                "id": note["alias"],
                "context": f"It was said: {note['content']}",
                "keywords": note["content"].split()[:3],
                "tags": ["talk"],
            }
            for note in request.inputs["notes"]
        ]
    }


def evolve(request: ModelRequest) -> dict[str, Any]:
    """Link every note to its first candidate, and tell that one about it."""
    shown = {c["alias"]: c for c in (*request.inputs["candidates"], *request.inputs["notes"])}
    return {
        "notes": [
            {
                "id": note["alias"],
                "links": [{"to": to, "relation": "about", "reason": "same talk", "strength": 0.9}],
                "updates": [
                    {
                        "to": to,
                        "context": f"{shown[to]['content']} Later: {note['content']}",
                        "tags": ["evolved"],
                    }
                ],
            }
            for note in request.inputs["notes"]
            for to in [candidate["alias"] for candidate in note["candidates"]][:1]
        ]
    }


class Silent(AgenticMemory):
    """A memory whose store can be made to stop answering."""

    _down = False

    @property
    def down(self) -> bool:
        """Whether the store does not answer."""
        return self._down

    @down.setter
    def down(self, down: bool) -> None:
        def refuse(*_: Any, **__: Any) -> Any:
            raise StoreUnavailableError("the server does not answer")

        store: Any = self._runtime.store
        for name in ("notes", "find_notes", "insert_notes", "swap_notes", "search", "scan"):
            if down:
                setattr(store, name, refuse)
            elif self._down:
                delattr(store, name)
        self._down = down


def scripted() -> ScriptedModel:
    """Return a model that constructs, links and evolves in a fixed way."""
    return ScriptedModel({"construct": construct, "evolve": evolve})


class Talker(BaseChatModel):
    """A chat model that says what `answer` makes of the messages, and streams it word by word."""

    answer: Callable[[list[BaseMessage]], AIMessage | str]
    seen: list[list[BaseMessage]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "talker"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools])

    def _reply(self, messages: list[BaseMessage]) -> AIMessage:
        self.seen.append(messages)
        answer = self.answer(messages)
        return AIMessage(answer) if isinstance(answer, str) else answer

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._reply(messages))])

    def _stream(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Any:
        reply = self._reply(messages)
        if reply.tool_calls:
            chunk = AIMessageChunk(content=reply.text, tool_calls=reply.tool_calls)
            yield ChatGenerationChunk(message=chunk)
            return
        for word in re.findall(r"\S+\s*", reply.text):
            yield ChatGenerationChunk(message=AIMessageChunk(content=word))


def system_text(messages: list[BaseMessage]) -> str:
    """Return the text of the system messages."""
    return "\n".join(message.text for message in messages if isinstance(message, SystemMessage))


def oslo(messages: list[BaseMessage]) -> str:
    """Answer from what was recalled, and from nothing else."""
    shown = "\n".join(message.text for message in messages if "<memories>" in message.text)
    return "In Oslo." if "Oslo" in shown else "I do not know."


def sequence(state: type[Any], **steps: Any) -> Any:
    """Return a graph of these steps, one after the other, with checkpoints."""
    builder = StateGraph(state, context_schema=User).add_sequence(list(steps.items()))
    return builder.add_edge(START, next(iter(steps))).compile(checkpointer=InMemorySaver())
