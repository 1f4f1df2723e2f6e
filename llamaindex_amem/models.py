"""LlamaIndex's models for the memory: `LlamaIndexChatModel`, `LlamaIndexEmbedder`, and `open_memory` with both."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import Any, Literal, get_args

import numpy as np
from llama_index.core import Settings
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, MessageRole, ToolCallBlock
from llama_index.core.llms import LLM
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.program.function_program import get_function_tool
from numpy.typing import NDArray

from amem_integrations import (
    AgenticMemory,
    AmemError,
    ChatModel,
    Completion,
    ConfigurationError,
    Embedder,
    ModelReplyError,
    ModelRequest,
    ModelUnavailableError,
)
from amem_integrations.adapting import (
    Call,
    Prefixes,
    Truncation,
    both,
    check_counts,
    directly,
    in_thread,
)

from .events import log

Structured = Literal["auto", "schema", "words"]

# A server says by these that it does not take a request in this form, rather than that it is down.
REFUSALS = {400, 404, 415, 422, 501}
WRONG = {401: "check the API key", 403: "check the API key", 404: "check its name and its address"}
LATER = {408, 409, 425, 429}
OF_THE_SERVER = 500

# What integrations call the tokens of prompt and answer.
ASKED = ("prompt_tokens", "input_tokens", "prompt_token_count")
ANSWERED = ("completion_tokens", "output_tokens", "candidates_token_count")


class LlamaIndexChatModel:
    """A LlamaIndex LLM for the memory to think with.

    In asynchronous calls the LLM's own asynchronous methods are awaited on the caller's loop.
    https://developers.llamaindex.ai/python/framework/module_guides/models/llms/
    """

    def __init__(
        self,
        llm: LLM | None = None,
        *,
        structured: Structured = "auto",
        in_thread: bool = False,
        name: str | None = None,
    ) -> None:
        """Wrap a model; nothing is sent yet.

        Args:
            llm: The model; None takes `Settings.llm`, whatever that is at the time of each call.
            structured: `"auto"` asks by schema (a function that the model has to call) where the model
                calls functions, and in words from then on if that is refused; `"schema"` and `"words"`
                settle it.
            in_thread: Call the synchronous methods in a thread instead of the asynchronous ones. For
                models whose asynchronous methods block the loop, as those of a plain `CustomLLM` do.
            name: What the notes record as their model; by default the model's own name.

        Raises:
            ConfigurationError: It is no LLM, or `structured` is unknown.
        """
        if not isinstance(llm, LLM | None):
            raise ConfigurationError(f"llm={llm!r} is no LlamaIndex LLM")
        if structured not in get_args(Structured):
            raise ConfigurationError(f"structured={structured!r} must be 'auto', 'schema', 'words'")
        self._llm, self._structured = llm, structured
        self._in_thread, self._name = in_thread, name
        # The model that was last asked in words. Another one in `Settings` may know schemas.
        self._wordy: LLM | None = None

    @property
    def name(self) -> str:
        """The model's name, recorded with what it wrote."""
        if self._name or self._llm is None:
            return self._name or "Settings.llm"
        return self._llm.metadata.model_name or self._llm.class_name()

    @property
    def llm(self) -> LLM:
        """The model in use.

        Raises:
            ConfigurationError: There is none.
        """
        return self._llm or _of_settings("llm", "language model", "LlamaIndexChatModel")

    async def _generate(self, call: Call, request: ModelRequest) -> Completion:
        """Return the model's answer.

        Raises:
            ModelUnavailableError: The model did not answer.
            ModelReplyError: It does not accept this request (too long, filtered, …).
            ConfigurationError: There is no model, its key or name is wrong, or it calls no functions
                with `structured="schema"`.
        """
        llm = self.llm
        call = in_thread if self._in_thread and call is not directly else call
        with translated(self.name):
            # Not through a prompt template: braces in what a user said are not placeholders.
            messages = [
                ChatMessage(role=llm.metadata.system_role, content=request.system),
                ChatMessage(role=MessageRole.USER, content=request.prompt),
            ]
            if (caller := self._by_schema(llm)) is not None:
                tools = [get_function_tool(request.reply)]
                options: dict[str, Any] = {"chat_history": messages, "tool_required": True}
                try:
                    return _completion(await call(caller.chat_with_tools, tools, **options), caller)
                except Exception as error:
                    refused = isinstance(error, NotImplementedError) or _status(error) in REFUSALS
                    if self._structured == "schema" or not refused:
                        raise
                    log.info(
                        "%s takes no tools, from now on it is asked in words: %r", self.name, error
                    )
            answer = await call(llm.chat, messages)
            self._wordy = llm
            return _completion(answer)

    generate, agenerate = both(_generate)

    def _by_schema(self, llm: LLM) -> FunctionCallingLLM | None:
        """Return the model if it is to be asked by schema."""
        if self._structured == "words" or (self._structured == "auto" and llm is self._wordy):
            return None
        if isinstance(llm, FunctionCallingLLM) and llm.metadata.is_function_calling_model:
            return llm
        if self._structured == "schema":
            raise ConfigurationError(
                f"{self.name!r} calls no functions, so it cannot be asked by schema; use structured='auto'"
            )
        return None


class LlamaIndexEmbedder:
    """Any LlamaIndex embedding model as the memory's embedder.

    https://developers.llamaindex.ai/python/framework/module_guides/models/embeddings/
    """

    def __init__(
        self,
        model: BaseEmbedding | None = None,
        *,
        name: str | None = None,
        dimensions: int | None = None,
        query_prefix: str = "",
        document_prefix: str = "",
        max_tokens: int | None = None,
        in_thread: bool = False,
    ) -> None:
        """Wrap an embedding model; nothing is sent yet.

        Args:
            model: The model; None takes `Settings.embed_model` as it is at first use, and stays with it:
                vectors of two models cannot be compared.
            name: What a collection remembers of the embedder; None makes it of class and model.
            dimensions: Length of a vector; None finds out by encoding a word.
            query_prefix: What stands before a query, if the model wants that and its class does not give it, as
                those with a `query_instruction` do.
            document_prefix: The same for a document.
            max_tokens: How much of a text the model reads, if that is known: longer content is split accordingly, and
                texts that are too long by an estimate are counted in `truncated`.
            in_thread: Call the synchronous methods in a thread, for models whose asynchronous ones block.

        Raises:
            ConfigurationError: It is no LlamaIndex embedding model, or an option has a value it cannot have.
        """
        if not isinstance(model, BaseEmbedding | None):
            raise ConfigurationError(f"model={model!r} is no LlamaIndex embedding model")
        self._model, self._name, self._dimensions = model, name, dimensions
        self._in_thread, self.max_tokens = in_thread, max_tokens
        sizes = {"dimensions": dimensions, "max_tokens": max_tokens}
        check_counts(**{name: size for name, size in sizes.items() if size is not None})
        self._prefixes = Prefixes(query_prefix, document_prefix)
        self._truncation = Truncation(name or type(self).__name__, max_tokens)

    @property
    def model(self) -> BaseEmbedding:
        """The model in use.

        Raises:
            ConfigurationError: There is none.
        """
        if self._model is None:
            self._model = _of_settings("embed_model", "embedder", "LlamaIndexEmbedder")
        return self._model

    @property
    def name(self) -> str:
        """Identifies the embedder; a collection remembers it."""
        made = f"{self.model.class_name()}:{self.model.model_name}"
        return self._name or self._prefixes.named(made)

    @property
    def truncated(self) -> int:
        """How many documents were longer than `max_tokens`, by an estimate; the first is told in the log."""
        return self._truncation.count

    @property
    def dimensions(self) -> int:
        """Length of a vector.

        Raises:
            ConfigurationError: There is no model, or its key is wrong.
            ModelUnavailableError: It did not answer.
        """
        if self._dimensions is None:
            with translated(self.name, refused=ModelUnavailableError):
                self._dimensions = len(self.model.get_text_embedding("length"))
        return self._dimensions

    async def _embed_documents(self, call: Call, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a float32 array [len(texts), dimensions] of unit-length rows.

        Raises:
            ConfigurationError: There is no model, or its key or name is wrong.
            ModelUnavailableError: It did not answer, or refused the texts.
        """
        given = [self._prefixes.document + text for text in texts]
        self._truncation.estimate(given)
        with translated(self.name, refused=ModelUnavailableError):
            rows = await self._form(call)(self.model.get_text_embedding_batch, given)
        return _unit(rows) if rows else np.empty((0, self.dimensions), dtype=np.float32)

    async def _embed_query(self, call: Call, text: str) -> NDArray[np.float32]:
        """Return a float32 array [dimensions] of unit length; errors as for documents."""
        given = self._prefixes.query + text
        with translated(self.name, refused=ModelUnavailableError):
            return _unit(await self._form(call)(self.model.get_query_embedding, given))

    embed_documents, aembed_documents = both(_embed_documents)
    embed_query, aembed_query = both(_embed_query)

    def _form(self, call: Call) -> Call:
        return in_thread if self._in_thread and call is not directly else call


def _unit(values: Sequence[Any]) -> NDArray[np.float32]:
    vectors = np.asarray(values, dtype=np.float32)
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1), dtype=np.float32)


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


def _completion(response: ChatResponse, caller: FunctionCallingLLM | None = None) -> Completion:
    """Return what was answered, and what it cost where the integration says so; the core estimates it otherwise.

    With a `caller`, which was to call a function, the arguments are the answer, as the model wrote them where that is
    known: the core mends broken JSON. The arguments of several calls are parts of one reply.
    """
    given: list[Any] = []
    if caller is not None:
        blocks = [block for block in response.message.blocks if isinstance(block, ToolCallBlock)]
        # Integrations of an older date have no such blocks.
        calls = blocks or caller.get_tool_calls_from_response(response, error_on_no_tool_call=False)
        given = [call.tool_kwargs for call in calls if call.tool_kwargs not in ({}, "{}", "")]
    texts = [text if isinstance(text, str) else json.dumps(text, default=str) for text in given]
    return Completion(
        text=(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]" if texts else "")
        or response.message.content
        or "",
        input_tokens=_reported(response, ASKED),
        output_tokens=_reported(response, ANSWERED),
    )


def _reported(response: ChatResponse, names: Sequence[str]) -> int:
    """Return how many tokens the integration speaks of, or 0."""
    usage = (_part(response.raw, "usage"), _part(response.raw, "usage_metadata"))
    places = (response.additional_kwargs, *usage)
    counts = (_part(place, name) for place in places for name in names)
    return next((count for count in counts if isinstance(count, int) and count > 0), 0)


def _part(whole: object, name: str) -> Any:  # noqa: ANN401 - each vendor has classes of its own
    return whole.get(name) if isinstance(whole, Mapping) else getattr(whole, name, None)


@contextmanager
def translated(name: str, refused: type[AmemError] = ModelReplyError) -> Iterator[None]:
    """Raise what goes wrong in the model `name` as an `AmemError`, a refused request as `refused`."""
    try:
        yield
    except AmemError:
        raise
    except Exception as error:
        raise _translated(error, name, refused) from error


def _translated(error: Exception, name: str, refused: type[AmemError]) -> AmemError:
    status = _status(error)
    if status in WRONG:  # the message of the server may hold parts of the key
        return ConfigurationError(f"{name!r} refused access (HTTP {status}); {WRONG[status]}")
    detail = " ".join(repr(error).split())[:300]
    if status is None or status in LATER or status >= OF_THE_SERVER:
        return ModelUnavailableError(f"{name!r} did not answer ({detail}); try again later")
    return refused(f"{name!r} refused the request ({detail})")


def _status(error: BaseException | None) -> int | None:
    """Return the HTTP status of an error, or of what caused it, if one of them has one."""
    while error is not None:
        response = getattr(error, "response", None)
        places = ("status_code", error), ("code", error), ("status_code", response)
        for name, place in places:
            if isinstance(status := getattr(place, name, None), int):
                return status
        error = error.__cause__
    return None


def _of_settings(name: str, what: str, wrapper: str) -> Any:  # noqa: ANN401 - a model
    try:
        return getattr(Settings, name)
    except (ImportError, ValueError) as error:
        raise ConfigurationError(
            f"there is no {what}: set `Settings.{name}`, or give `{wrapper}(…)` a model"
        ) from error
