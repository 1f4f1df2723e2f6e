"""`LlamaIndexChatModel`: any LlamaIndex LLM, for the memory to think with."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from llama_index.core import Settings
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, MessageRole, ToolCallBlock
from llama_index.core.llms import LLM
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.program.function_program import get_function_tool
from llama_index.core.utils import get_tokenizer

from amem_integrations import (
    AmemError,
    Completion,
    ConfigurationError,
    ModelReplyError,
    ModelRequest,
    ModelUnavailableError,
)
from amem_integrations.adapting import Call, both, directly, in_thread

log = logging.getLogger("llamaindex_amem")

Structured = Literal["auto", "schema", "words"]

# A server says by these that it does not take a request in this form, rather than that it is down.
REFUSALS = {400, 404, 415, 422, 501}

FORBIDDEN = {401, 403}
UNKNOWN = 404
LATER = {408, 409, 425, 429}
OF_THE_SERVER = 500
LONGEST_DETAIL = 300

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
        if structured not in ("auto", "schema", "words"):
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
        if self._llm is not None:
            return self._llm
        try:
            return Settings.llm
        except (ImportError, ValueError) as error:
            raise ConfigurationError(
                "there is no language model: set `Settings.llm`, or give `LlamaIndexChatModel(llm)`"
            ) from error

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
            messages = _messages(request, llm)
            if (caller := self._by_schema(llm)) is not None:
                tools = [get_function_tool(request.reply)]
                try:
                    answer = await call(
                        caller.chat_with_tools, tools, chat_history=messages, tool_required=True
                    )
                    return _completion(messages, answer, caller)
                except Exception as error:
                    if self._structured == "schema" or not _refuses_tools(error):
                        raise
                    log.info(
                        "%s takes no tools, it is asked in words from now on: %r", self.name, error
                    )
            answer = await call(llm.chat, messages)
            self._wordy = llm
            return _completion(messages, answer)

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


# --- the core's request as chat messages, and an LLM's response as the core's `Completion`


def _messages(request: ModelRequest, llm: LLM) -> list[ChatMessage]:
    """Return the request as messages.

    Not through a prompt template: braces in what a user said are not placeholders.
    """
    system = ChatMessage(role=llm.metadata.system_role, content=request.system)
    return [system, ChatMessage(role=MessageRole.USER, content=request.prompt)]


def _completion(
    messages: Sequence[ChatMessage],
    response: ChatResponse,
    caller: FunctionCallingLLM | None = None,
) -> Completion:
    """Return what was answered, and what it cost; where nobody says so, that is estimated.

    Args:
        messages: What was asked.
        response: The answer.
        caller: The model, if it was to call a function; the arguments are the answer then.
    """
    text = (_arguments(response, caller) if caller else "") or response.message.content or ""
    count = get_tokenizer()
    return Completion(
        text=text,
        input_tokens=_reported(response, ASKED)
        or sum(len(count(message.content or "")) for message in messages),
        output_tokens=_reported(response, ANSWERED) or len(count(text)),
    )


def _arguments(response: ChatResponse, caller: FunctionCallingLLM) -> str:
    """Return the arguments of all calls as JSON, the way the model wrote them where that is known.

    An integration makes nothing, or an error, of broken JSON; the core can often mend it.
    """
    blocks = [block for block in response.message.blocks if isinstance(block, ToolCallBlock)]
    # Integrations of an older date have no such blocks.
    calls = blocks or caller.get_tool_calls_from_response(response, error_on_no_tool_call=False)
    texts = [text for call in calls if (text := _as_json(call.tool_kwargs)) != "{}"]
    if len(texts) < 2:  # noqa: PLR2004 - one, or none
        return "".join(texts)
    # Each says a part of the reply. Where the last one breaks off, the list is to be seen to do so.
    return f"[{', '.join(texts)}{']' if texts[-1].endswith('}') else ''}"


def _as_json(arguments: dict[str, Any] | str) -> str:
    if isinstance(arguments, str):
        return arguments.strip() or "{}"
    return json.dumps(arguments, ensure_ascii=False, default=str)


def _reported(response: ChatResponse, names: Sequence[str]) -> int:
    """Return how many tokens the integration speaks of, or 0."""
    usage = (_part(response.raw, "usage"), _part(response.raw, "usage_metadata"))
    counts = (
        _part(place, name) for place in (response.additional_kwargs, *usage) for name in names
    )
    return next((count for count in counts if isinstance(count, int) and count > 0), 0)


def _part(whole: object, name: str) -> Any:  # noqa: ANN401 - each vendor has classes of its own
    return whole.get(name) if isinstance(whole, Mapping) else getattr(whole, name, None)


# --- what goes wrong in a vendor's package, in the words of the core


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
    if status in FORBIDDEN:
        # The message may hold parts of the key.
        return ConfigurationError(f"{name!r} refused access (HTTP {status}); check the API key")
    detail = " ".join(repr(error).split())[:LONGEST_DETAIL]
    if status == UNKNOWN:
        return ConfigurationError(
            f"{name!r} was not found ({detail}); check the name of the model and its address"
        )
    if status is None or status in LATER or status >= OF_THE_SERVER:
        return ModelUnavailableError(f"{name!r} did not answer ({detail}); try again later")
    return refused(f"{name!r} refused the request ({detail})")


def _refuses_tools(error: Exception) -> bool:
    """Return whether the same may be asked again without functions."""
    return isinstance(error, NotImplementedError) or _status(error) in REFUSALS


def _status(error: BaseException | None) -> int | None:
    """Return the HTTP status of an error, or of what caused it, if one of them has one."""
    while error is not None:
        response = getattr(error, "response", None)
        found = (
            getattr(error, "status_code", None),
            getattr(error, "code", None),
            getattr(response, "status_code", None),
        )
        for status in found:
            if isinstance(status, int):
                return status
        error = error.__cause__
    return None
