"""What the LlamaIndex tests share: a store that counts and fails, models that answer without a network."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    ChatResponseAsyncGen,
    ChatResponseGen,
    CompletionResponse,
    LLMMetadata,
    ToolCallBlock,
)
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.llms import MockLLM
from llama_index.core.llms.mock import MockFunctionCallingLLM

from amem_integrations import AgenticMemory, ModelRequest, QdrantStore, StoreUnavailableError
from amem_integrations.testing import HashEmbedder, ScriptedModel

ANN, BOB = ("ann",), ("bob",)


def annotated(request: ModelRequest) -> dict[str, Any]:
    """Answer every task the way a model would that finds keywords and no links."""
    notes = request.inputs["notes"]
    if request.task == "construct":
        return {
            "notes": [
                {
                    "id": note["alias"],
                    "context": f"{note['speaker']} said: {note['content']}",
                    "keywords": [note["content"].split()[-1].strip(".?!")],
                    "tags": ["talk"],
                }
                for note in notes
            ]
        }
    return {"notes": []}


def annotated_text(messages: Sequence[ChatMessage]) -> str:
    """Answer the core's prompts from their text, for language models that see nothing else."""
    aliases = dict.fromkeys(re.findall(r"\bn\d+\b", messages[-1].content or ""))
    notes = [
        {"id": alias, "context": "Something was said.", "keywords": ["said"], "tags": ["talk"]}
        for alias in aliases
    ]
    return json.dumps({"notes": notes})


class Probe:
    """A store that counts what is asked of it, and can be switched off."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.calls: Counter[str] = Counter()
        self.down = False
        self.delay = 0.0

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._store, name)
        if not callable(attribute):
            return attribute

        def counted(*args: Any, **kwargs: Any) -> Any:
            self.calls[name] += 1
            if self.down and name != "close":
                time.sleep(self.delay)
                raise StoreUnavailableError("the Qdrant server does not answer")
            return attribute(*args, **kwargs)

        return counted


def open_memory(model: Any = None, *, embedder: Any = None) -> tuple[AgenticMemory, Probe]:
    """Return a memory over Qdrant's `:memory:`, and the probe around its store."""
    embedder = embedder or HashEmbedder(256)
    store = Probe(QdrantStore(":memory:", dimensions=embedder.dimensions, embedder=embedder.name))
    return AgenticMemory(store, embedder, model or ScriptedModel(annotated)), store


def user(text: str) -> ChatMessage:
    return ChatMessage(role="user", content=text)


def assistant(text: str) -> ChatMessage:
    return ChatMessage(role="assistant", content=text)


def shown(messages: Sequence[ChatMessage]) -> str:
    """Return what a model was shown, as one text."""
    return "\n".join(f"{message.role.value}: {message.content}" for message in messages)


class Chatbot(MockLLM):
    """Answers with the next of `replies` (the last one again and again), and keeps what it was shown."""

    _replies: list[str] = PrivateAttr()
    _prompts: list[str] = PrivateAttr(default_factory=list)

    def __init__(self, *replies: str) -> None:
        super().__init__(is_chat_model=True)
        self._replies = list(replies) or ["Noted."]

    @property
    def prompts(self) -> list[str]:
        """What each call was shown."""
        return self._prompts

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(is_chat_model=True, model_name="chatbot", context_window=8000)

    def _answer(self, prompt: str) -> str:
        self._prompts.append(prompt)
        return self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return CompletionResponse(text=self._answer(prompt))

    async def acomplete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> CompletionResponse:
        return self.complete(prompt)

    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        return ChatResponse(message=assistant(self._answer(shown(messages))))

    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        return self.chat(messages)

    def stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseGen:
        answer = self._answer(shown(messages))

        def chunks() -> ChatResponseGen:
            said = ""
            for delta in re.findall(r"\S+\s*", answer):
                said += delta
                yield ChatResponse(message=assistant(said), delta=delta)

        return chunks()

    async def astream_chat(
        self, messages: Sequence[ChatMessage], **kwargs: Any
    ) -> ChatResponseAsyncGen:
        stream = self.stream_chat(messages)

        async def chunks() -> ChatResponseAsyncGen:
            for chunk in stream:
                yield chunk

        return chunks()


class Toolbot(MockFunctionCallingLLM):
    """Calls the tools it is told to, one at a time, then answers; keeps what it was shown."""

    _prompts: list[str] = PrivateAttr(default_factory=list)

    def __init__(self, *calls: tuple[str, dict[str, Any]], answer: str = "Done.") -> None:
        super().__init__(is_chat_model=True)
        waiting = list(calls)

        def respond(messages: Sequence[ChatMessage], **kwargs: Any) -> ChatMessage:
            self._prompts.append(shown(messages))
            if not waiting:
                return assistant(answer)
            name, arguments = waiting.pop(0)
            call = ToolCallBlock(tool_call_id=name, tool_name=name, tool_kwargs=arguments)
            return ChatMessage(role="assistant", blocks=[call])

        self.response_generator = respond

    @property
    def prompts(self) -> list[str]:
        """What each call was shown."""
        return self._prompts
