"""LangChain's models for the memory: `LangChainChatModel`, `LangChainEmbedder`, and `open_memory` with both."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from os import PathLike
from typing import Any, Unpack

import numpy as np
from langchain_core.embeddings import Embeddings
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.base import RunnableBindingBase, RunnableSequence
from langchain_core.runnables.configurable import DynamicRunnable
from langchain_core.runnables.fallbacks import RunnableWithFallbacks
from numpy.typing import NDArray

from amem_integrations import AgenticMemory, ConfigurationError, adapting
from amem_integrations.adapting import Call
from amem_integrations.errors import needed
from amem_integrations.ports import ChatModel, Completion, Embedder, ModelRequest

log = logging.getLogger("langchain_amem")

# Where each kind of runnable that goes round a model has what is within.
WITHIN: dict[type[Any], str] = {
    RunnableSequence: "last",
    RunnableWithFallbacks: "runnable",
    RunnableBindingBase: "bound",
    DynamicRunnable: "default",
}
NAMES = ("model_name", "model", "model_id", "deployment_name")


class LangChainChatModel:
    """A LangChain chat model for the memory to think with.

    The calls are the memory's own: they inherit no callbacks and carry the tag `nostream`, so that they
    do not show up in the token stream of the agent they happen in. Pass `config` to trace them.
    https://reference.langchain.com/python/langchain_core/language_models/

    Attributes:
        name: What the notes record as their model.
    """

    def __init__(
        self,
        model: Runnable[Any, Any],
        *,
        structured: adapting.Structured = "auto",
        config: RunnableConfig | None = None,
        name: str | None = None,
    ) -> None:
        """Wrap a model; nothing is sent yet.

        Args:
            model: Any chat model, also with retries, fallbacks, bound arguments or configurable fields.
            structured: `"auto"` asks by schema (`with_structured_output`), and in words from then on if
                the model cannot; `"schema"` and `"words"` settle it.
            config: For every call: callbacks, tags, metadata.
            name: What to record; by default the model's own name.

        Raises:
            ConfigurationError: It does not end in a chat model, or `structured` is unknown.
        """
        self._forms = adapting.Forms(structured, log)
        self.name = name or name_of(_innermost(model))
        self._model, self._config = model, config or {}

    async def _generate(self, call: Call, request: ModelRequest) -> Completion:
        """Return the model's answer."""
        messages = [SystemMessage(request.system), HumanMessage(request.prompt)]
        mine: RunnableConfig = {"run_name": f"amem:{request.task}", "callbacks": []}
        tags = [*(self._config.get("tags") or []), "nostream"]
        options: RunnableConfig = {**mine, **self._config, "tags": tags}

        async def ask(by_schema: bool) -> Completion:
            model = _by_schema(self._model, request.reply) if by_schema else self._model
            return _completion(await call(model.invoke, messages, options))

        return await self._forms.answer(ask, self._model)

    generate, agenerate = adapting.both(_generate)


def _innermost(model: Runnable[Any, Any]) -> object:
    """Return the chat model that a runnable ends in.

    Raises:
        ConfigurationError: The runnable ends in something else, such as a parser.
    """
    for kind, within in WITHIN.items():
        if isinstance(model, kind):
            return _innermost(getattr(model, within))
    if hasattr(model, "bind_tools"):
        return model  # a chat model, or what `init_chat_model` returns without one
    raise ConfigurationError(
        f"model={model!r} does not end in a LangChain chat model; give one, such as "
        "init_chat_model('openai:gpt-5-mini'), without a parser or a function after it"
    )


def _by_schema(model: Any, reply: type[Any]) -> Runnable[Any, Any]:
    """Return a runnable whose chat model is asked by schema; all that goes round the model stays as it was.

    Raises:
        NotImplementedError: What goes round the model would be lost.
    """
    if isinstance(model, RunnableSequence):
        return RunnableSequence(*model.steps[:-1], _by_schema(model.last, reply))
    if isinstance(model, RunnableWithFallbacks):
        others = [_by_schema(one, reply) for one in model.fallbacks]
        changed = {"runnable": _by_schema(model.runnable, reply), "fallbacks": others}
        return model.model_copy(update=changed)
    if isinstance(model, RunnableBindingBase) and not model.kwargs:
        return model.model_copy(update={"bound": _by_schema(model.bound, reply)})
    if isinstance(model, RunnableBindingBase | DynamicRunnable):
        raise NotImplementedError(f"{type(model).__name__} takes no schema")
    by_schema: Runnable[Any, Any] = model.with_structured_output(reply, include_raw=True)
    return by_schema


def _completion(answer: Any) -> Completion:
    """Return the parsed reply as JSON, else what the model wrote, of which the core reads what it can.

    That is the arguments of its calls, which with several are parts of one reply, or its text.
    """
    is_dict = isinstance(answer, dict)
    parsed, raw = (answer["parsed"], answer["raw"]) if is_dict else (None, answer)
    # Some integrations answer by a message of another kind, which has no calls and no usage.
    calls = [*getattr(raw, "tool_calls", ()), *getattr(raw, "invalid_tool_calls", ())]
    given = [one["args"] for one in calls if one["args"]]
    text = str(raw.text)
    if parsed is not None and len(given) <= 1:
        text = parsed.model_dump_json()
    elif given and (is_dict or not text):
        texts = [one if isinstance(one, str) else json.dumps(one) for one in given]
        text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    usage = getattr(raw, "usage_metadata", None) or {}
    asked, answered = usage.get("input_tokens", 0), usage.get("output_tokens", 0)
    return Completion(text=text, input_tokens=asked, output_tokens=answered)


class LangChainEmbedder(adapting.WrappedEmbedder):
    """LangChain embeddings as the memory's embedder."""

    def __init__(self, embeddings: Embeddings, **options: Unpack[adapting.EmbedderOptions]) -> None:
        """Wrap embeddings.

        Args:
            embeddings: Any embeddings.
            options: `name`, what a collection remembers of the embedder (by default the model's own, with the prefixes);
                `dimensions`, the length of a vector (by default a word is encoded to find out); `query_prefix` and
                `document_prefix`, what stands before a text, if the model wants that and its class does not give it;
                `max_tokens`, how much of a text the model reads: longer content has passages, and texts that are too
                long by an estimate are counted in `truncated`.

        Raises:
            ConfigurationError: They are no embeddings, or an option has a value it cannot have.
        """
        if not isinstance(embeddings, Embeddings):
            raise ConfigurationError(f"embeddings={embeddings!r} are no LangChain embeddings")
        super().__init__(
            embeddings.embed_documents, embeddings.embed_query, name_of(embeddings), **options
        )
        self._embeddings = embeddings

    async def aembed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Asynchronous twin of `embed_documents`."""
        return self._unit(await self._embeddings.aembed_documents(self._read(texts)))

    async def aembed_query(self, text: str) -> NDArray[np.float32]:
        """Asynchronous twin of `embed_query`."""
        return self._unit(await self._embeddings.aembed_query(self._prefixes.query + text))


def open_memory(
    location: str | PathLike[str],
    *,
    model: Runnable[Any, Any] | ChatModel | str | None = None,
    embedder: Embeddings | Embedder | str | None = None,
    **options: Any,
) -> AgenticMemory:
    """Return `AgenticMemory.open(…)` with LangChain's models in it.

    Args:
        location: `":memory:"`, a folder, or the URL of a Qdrant server.
        model: A chat model (see `LangChainChatModel`), or its name for LangChain (`"openai:gpt-5-mini"`); None works without one.
        embedder: Embeddings, or their name (`"openai:text-embedding-3-small"`); None takes MiniLM.
        options: What else `AgenticMemory.open` takes, such as `config` and `collection`.

    Raises:
        ConfigurationError: An option that `AgenticMemory.open` does not know.
        MissingExtraError: A name was given, and langchain is not installed.
    """
    chat: Any = model
    encoder: Any = embedder
    if isinstance(model, str):
        chat = needed("langchain.chat_models", "langchain").init_chat_model(model)
    if isinstance(embedder, str):
        encoder = needed("langchain.embeddings", "langchain").init_embeddings(embedder)
    if isinstance(chat, Runnable):
        chat = LangChainChatModel(chat)
    if isinstance(encoder, Embeddings):
        encoder = LangChainEmbedder(encoder)
    return AgenticMemory.open(location, model=chat, embedder=encoder, **options)


def name_of(model: object) -> str:
    """Return the name of the model behind an object, or that of its class."""
    found = (getattr(model, attribute, None) for attribute in NAMES)
    return next((name for name in found if isinstance(name, str) and name), type(model).__name__)
