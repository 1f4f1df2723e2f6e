"""LlamaIndex's models for the memory: `LlamaIndexChatModel`, `LlamaIndexEmbedder`, and `open_memory` with both.

The memory calls the synchronous methods of both, in asynchronous calls in a thread: no loop waits for a model, and none of
the model's clients is bound to a loop that is closed one day. What goes wrong in a model the core translates.
"""

from __future__ import annotations

import json
from contextlib import suppress
from os import PathLike
from typing import Any, Unpack

from llama_index.core import Settings
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.types import ChatMessage, MessageRole, ToolCallBlock
from llama_index.core.callbacks.token_counting import get_tokens_from_response
from llama_index.core.llms import LLM
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.program.function_program import get_function_tool
from pydantic import BaseModel

from amem_integrations import AgenticMemory, ConfigurationError, adapting
from amem_integrations.ports import ChatModel, Completion, Embedder, ModelRequest

from .events import log


class LlamaIndexChatModel:
    """A LlamaIndex LLM for the memory to think with; its `name` is recorded with what it wrote.

    https://developers.llamaindex.ai/python/framework/module_guides/models/llms/
    """

    def __init__(
        self,
        llm: LLM | None = None,
        *,
        structured: adapting.Structured = "auto",
        name: str | None = None,
    ) -> None:
        """Wrap a model; nothing is sent yet.

        Args:
            llm: Any LLM; None takes `Settings.llm`, whatever that is at the time of each call.
            structured: `"auto"` asks by schema (a function that the model has to call) where the model
                calls functions, and in words from then on if that is refused; `"schema"` and `"words"`
                settle it.
            name: What the notes record as their model; by default the model's own name.

        Raises:
            ConfigurationError: It is no LLM, or `structured` is unknown.
        """
        if not isinstance(llm, LLM | None):
            raise ConfigurationError(f"llm={llm!r} is no LlamaIndex LLM")
        self._forms = adapting.Forms(structured, log)
        self._llm, self.name = llm, name or ("Settings.llm" if llm is None else _name_of(llm))

    async def _generate(self, _: adapting.Call, request: ModelRequest) -> Completion:
        """Return the model's answer.

        Raises:
            ConfigurationError: The model calls no functions, with `structured="schema"`.
        """
        llm = self._llm or Settings.llm
        # Not through a prompt template: braces in what a user said are not placeholders.
        messages = [
            ChatMessage(role=llm.metadata.system_role, content=request.system),
            ChatMessage(role=MessageRole.USER, content=request.prompt),
        ]

        async def ask(by_schema: bool) -> Completion:
            return _answer(llm, messages, request.reply if by_schema else None)

        return await self._forms.answer(ask, llm)

    generate = adapting.both(_generate)[0]


class LlamaIndexEmbedder(adapting.WrappedEmbedder):
    """Any LlamaIndex embedding model as the memory's embedder.

    https://developers.llamaindex.ai/python/framework/module_guides/models/embeddings/
    """

    def __init__(
        self, model: BaseEmbedding | None = None, **options: Unpack[adapting.EmbedderOptions]
    ) -> None:
        """Wrap an embedding model; nothing is sent yet.

        Args:
            model: The model; None takes what `Settings.embed_model` is now.
            options: `name`, what a collection remembers of the embedder (by default the model's own, with the prefixes);
                `dimensions`, the length of a vector (by default a word is encoded to find out); `query_prefix` and
                `document_prefix`, what stands before a text, if the model wants that and its class does not give it;
                `max_tokens`, how much of a text the model reads: longer content has passages, and texts that are too
                long by an estimate are counted in `truncated`.

        Raises:
            ConfigurationError: It is no LlamaIndex embedding model, or an option has a value it cannot have.
        """
        used = Settings.embed_model if model is None else model
        if not isinstance(used, BaseEmbedding):
            raise ConfigurationError(f"model={model!r} is no LlamaIndex embedding model")
        super().__init__(
            used.get_text_embedding_batch,
            used.get_query_embedding,
            f"{used.class_name()}:{used.model_name}",
            **options,
        )


def open_memory(
    location: str | PathLike[str],
    *,
    model: LLM | ChatModel | None = None,
    embedder: BaseEmbedding | Embedder | None = None,
    **options: Any,  # noqa: ANN401 - those of AgenticMemory.open
) -> AgenticMemory:
    """Return `AgenticMemory.open(…)` with LlamaIndex's models in it.

    Args:
        location: `":memory:"`, a folder, or the URL of a Qdrant server.
        model: An LLM, or a model of the memory's own; None works without one. `LlamaIndexChatModel()` is
            whatever `Settings.llm` is.
        embedder: Embeddings, or an embedder of the memory's own; None takes MiniLM.
        options: What else `AgenticMemory.open` takes, such as `config` and `collection`.

    Raises:
        ConfigurationError: `model` or `embedder` is none, or an option is one that `AgenticMemory.open` does not know.
    """
    chat = LlamaIndexChatModel(model) if isinstance(model, LLM) else model
    encoder = LlamaIndexEmbedder(embedder) if isinstance(embedder, BaseEmbedding) else embedder
    return AgenticMemory.open(location, model=chat, embedder=encoder, **options)


def _name_of(llm: LLM) -> str:
    return llm.metadata.model_name or llm.class_name()


def _answer(llm: LLM, messages: list[ChatMessage], reply: type[BaseModel] | None) -> Completion:
    """Return the answer of a model, with its tokens where the integration counts them; the core estimates them otherwise.

    For a `reply` the model has to call a function: the answer is the arguments as the model wrote them, if that is known,
    as the core mends broken JSON. The arguments of several calls are parts of one reply.

    Raises:
        ConfigurationError: The model calls no functions.
    """
    if reply is None:
        answer, given = llm.chat(messages), list[Any]()
    elif isinstance(llm, FunctionCallingLLM) and llm.metadata.is_function_calling_model:
        tools = [get_function_tool(reply)]
        answer = llm.chat_with_tools(tools, chat_history=messages, tool_required=True)
        blocks = [block for block in answer.message.blocks if isinstance(block, ToolCallBlock)]
        # Integrations of an older date have no such blocks.
        calls = blocks or llm.get_tool_calls_from_response(answer, error_on_no_tool_call=False)
        given = [one.tool_kwargs for one in calls if one.tool_kwargs not in ({}, "{}", "")]
    else:
        raise ConfigurationError(f"{_name_of(llm)!r} calls no functions; use structured='auto'")
    texts = [one if isinstance(one, str) else json.dumps(one, default=str) for one in given]
    text = f"[{', '.join(texts)}]" if len(texts) > 1 else "".join(texts)
    asked = answered = 0
    with suppress(TypeError, ValueError, AttributeError):  # `raw` is anything
        asked, answered = get_tokens_from_response(answer)
    said = text or answer.message.content or ""
    return Completion(text=said, input_tokens=asked, output_tokens=answered)
