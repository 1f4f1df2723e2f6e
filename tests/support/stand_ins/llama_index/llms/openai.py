"""Stands in for the package llama-index-llms-openai: pages are run without a network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, LLMMetadata, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.tools import BaseTool


def respond(
    messages: Sequence[ChatMessage], tools: Sequence[BaseTool] = (), **_: Any
) -> ChatMessage:
    """Look a question up, if there is a tool for that, and answer with what the prompt ends in."""
    said = messages[-1].content or ""
    if messages[-1].role == "user" and any(tool.metadata.name == "recall" for tool in tools):
        asked = {"query": said.splitlines()[-1]}
        call = ToolCallBlock(tool_call_id="1", tool_name="recall", tool_kwargs=asked)
        return ChatMessage(role="assistant", blocks=[call])
    return ChatMessage(role="assistant", content=f"What I know: {said}")


class OpenAI(MockFunctionCallingLLM):
    """Knows what its prompt says."""

    def __init__(self, model: str, **_: Any) -> None:
        super().__init__(response_generator=respond)
        self._model = model

    _model: str

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(
            model_name=self._model, is_chat_model=True, is_function_calling_model=True
        )
