"""Stands in for the package langchain-openai: pages are run without a network."""

from __future__ import annotations

from typing import Any

from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool


class ChatOpenAI(BaseChatModel):
    """Knows what its prompt says; calls no tool unless it has to, and then proposes nothing."""

    model: str

    @property
    def _llm_type(self) -> str:
        return "stand-in"

    def bind_tools(self, tools: Any, *, tool_choice: Any = None, **_: Any) -> Any:
        names = [convert_to_openai_tool(tool)["function"]["name"] for tool in tools]
        return self.bind(forced=tool_choice is not None, names=names)

    def _generate(
        self, messages: list[BaseMessage], *_: Any, names: Any = (), forced: bool = False, **__: Any
    ) -> ChatResult:
        said = "\n".join(message.text for message in messages)
        reply = AIMessage(f"What I know: {said}")
        if forced:
            call = {"name": names[0], "args": {"notes": []}, "id": "1", "type": "tool_call"}
            reply = AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=reply)])


class OpenAIEmbeddings(DeterministicFakeEmbedding):
    """Gives every text a direction of its own."""

    model: str
    size: int = 64
