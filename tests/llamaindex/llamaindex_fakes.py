"""What the LlamaIndex tests share: a store that counts and fails, models that answer without a network."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, get_type_hints

from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    ChatResponseGen,
    CompletionResponse,
    CompletionResponseGen,
    LLMMetadata,
    TextBlock,
    ToolCallBlock,
)
from llama_index.core.llms import CustomLLM
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.tools import BaseTool
from pydantic import BaseModel, Field, PrivateAttr
from support.models import each
from support.ports import Silent

from amem_integrations import AgenticMemory, ModelRequest
from amem_integrations.testing import HashEmbedder, ScriptedModel
from llamaindex_amem import AMemMemory, AMemMemoryBlock

ANN, BOB = ("ann",), ("bob",)


class Reply(BaseModel):
    """The reply that `REQUEST` wants."""

    notes: list[str]


REQUEST = ModelRequest(
    task="construct", system="Be brief.", prompt='{"a": {query_str}} {0}', reply=Reply, inputs={}
)


def annotated(request: ModelRequest) -> dict[str, Any]:
    """Answer every task the way a model would that finds keywords and no links."""

    def about(note: dict[str, Any]) -> dict[str, Any]:
        last, context = note["content"].split()[-1], f"{note['speaker']} said: {note['content']}"
        return {"context": context, "keywords": [last.strip(".?!")], "tags": ["talk"]}

    return each(about)(request) if request.task == "construct" else {"notes": []}


def annotated_text(messages: Sequence[ChatMessage]) -> str:
    """Answer the core's prompts from their text, for language models that see nothing else."""
    aliases = dict.fromkeys(re.findall(r"\bn\d+\b", messages[-1].content or ""))
    about = {"context": "Something was said.", "keywords": ["said"], "tags": ["talk"]}
    return json.dumps({"notes": [{"id": alias, **about} for alias in aliases]})


def contents(memory: AgenticMemory, namespace: tuple[str, ...] = ANN) -> list[str]:
    """Return what a namespace holds, oldest first."""
    return [note.content for note in memory.get_all(namespace=namespace)]


def states(memory: AgenticMemory, namespace: tuple[str, ...] = ANN) -> set[str]:
    """Return the states of the notes of a namespace."""
    return {note.state for note in memory.get_all(namespace=namespace)}


def ann(memory: AgenticMemory, **options: Any) -> AMemMemory:
    """Return Ann's memory, as an engine or an agent gets it."""
    return AMemMemory.from_defaults(memory=memory, **{"namespace": ANN, **options})


def block_of(memory: AgenticMemory, **options: Any) -> AMemMemoryBlock:
    """Return a block over Ann's notes."""
    return AMemMemoryBlock(memory, **{"namespace": ANN, **options})


def open_memory(model: Any = None, *, embedder: Any = None) -> Silent:
    """Return a memory in `:memory:`, whose store can be made to stop answering."""
    embedder = embedder or HashEmbedder(256)
    return Silent.open(":memory:", model=model or ScriptedModel(annotated), embedder=embedder)


def user(text: str) -> ChatMessage:
    return ChatMessage(role="user", content=text)


def assistant(text: str) -> ChatMessage:
    return ChatMessage(role="assistant", content=text)


def calling(tool: str, arguments: dict[str, Any] | str, *said: str) -> ChatMessage:
    """Return the message by which a model calls a tool, after what it said; the arguments may be broken JSON."""
    block = ToolCallBlock(tool_call_id=tool, tool_name=tool, tool_kwargs=arguments)
    texts = [TextBlock(text=text) for text in said]
    return ChatMessage(role="assistant", blocks=[*texts, block])


def _calls(message: ChatMessage) -> list[ToolCallBlock]:
    return [block for block in message.blocks if isinstance(block, ToolCallBlock)]


def with_types(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function with types for annotations: the framework knows a tool's context by its type."""
    function.__annotations__ = get_type_hints(function)
    return function


def shown(messages: Sequence[ChatMessage]) -> str:
    """Return messages as one text, as a model is shown them."""
    return "\n".join(f"{message.role.value}: {message.content}" for message in messages)


class Chatbot(CustomLLM):
    """Answers with the next of `replies` (the last one again and again), and keeps what it was shown."""

    prompts: list[str] = Field(default_factory=list)
    _replies: list[str] = PrivateAttr()

    def __init__(self, *replies: str) -> None:
        super().__init__()
        self._replies = list(replies) or ["Noted."]

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(is_chat_model=True, model_name="chatbot", context_window=8000)

    def _answer(self, prompt: str, **kwargs: Any) -> ChatMessage:
        self.prompts.append(prompt)
        return assistant(self._replies.pop(0) if len(self._replies) > 1 else self._replies[0])

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return CompletionResponse(text=self._answer(prompt).content or "")

    def stream_complete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> CompletionResponseGen:
        yield self.complete(prompt)

    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        return ChatResponse(message=self._answer(shown(messages), **kwargs))

    def stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseGen:
        answer = self._answer(shown(messages), **kwargs)
        said = ""
        for delta in re.findall(r"\S+\s*", answer.content or ""):
            said += delta
            message = answer.model_copy(update={"blocks": [TextBlock(text=said), *_calls(answer)]})
            yield ChatResponse(message=message, delta=delta)
        if not said:
            yield ChatResponse(message=answer, delta="")


class Toolbot(Chatbot, FunctionCallingLLM):
    """Calls the tools it is told to, one at a time, then answers; keeps what it was shown."""

    _calls: list[tuple[str, dict[str, Any]]] = PrivateAttr()

    def __init__(self, *calls: tuple[str, dict[str, Any]], answer: str = "Done.") -> None:
        super().__init__(answer)
        self._calls = list(calls)

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(is_chat_model=True, is_function_calling_model=True, model_name="toolbot")

    def _answer(self, prompt: str, **kwargs: Any) -> ChatMessage:
        answer = super()._answer(prompt)
        return calling(*self._calls.pop(0)) if self._calls else answer

    def _prepare_chat_with_tools(
        self,
        tools: Sequence[BaseTool],
        user_msg: str | ChatMessage | None = None,
        chat_history: list[ChatMessage] | None = None,
        verbose: bool = False,
        allow_parallel_tool_calls: bool = False,
        tool_required: bool = False,
        **kwargs: Any,
    ) -> dict[str, Any]:
        asked = user(user_msg) if isinstance(user_msg, str) else user_msg
        messages = [*(chat_history or []), *([asked] if asked else [])]
        return {"messages": messages, "tools": tools, "tool_required": tool_required}

    def get_tool_calls_from_response(
        self, response: ChatResponse, error_on_no_tool_call: bool = True, **kwargs: Any
    ) -> list[ToolSelection]:
        calls = [(block.tool_name, block.tool_kwargs) for block in _calls(response.message)]
        return [
            ToolSelection(tool_id=one, tool_name=one, tool_kwargs=given) for one, given in calls
        ]
