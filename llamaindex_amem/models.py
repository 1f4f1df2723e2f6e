"""`LlamaIndexChatModel`: any LlamaIndex LLM, for the memory to think with."""

from __future__ import annotations

import asyncio
from typing import Literal

from llama_index.core import Settings
from llama_index.core.llms import LLM
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.program.function_program import get_function_tool

from amem_integrations import Completion, ConfigurationError, ModelRequest

from ._llm_errors import refuses_tools, translated
from ._replies import to_completion, to_messages

Structured = Literal["auto", "schema", "words"]


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

    def generate(self, request: ModelRequest) -> Completion:
        """Return the model's answer.

        Raises:
            ModelUnavailableError: The model did not answer.
            ModelReplyError: It does not accept this request (too long, filtered, …).
            ConfigurationError: There is no model, its key or name is wrong, or it calls no functions
                with `structured="schema"`.
        """
        llm = self.llm
        with translated(self.name):
            messages = to_messages(request, llm)
            if (caller := self._by_schema(llm)) is not None:
                tools = [get_function_tool(request.reply)]
                try:
                    answer = caller.chat_with_tools(
                        tools, chat_history=messages, tool_required=True
                    )
                    return to_completion(messages, answer, caller)
                except Exception as error:
                    if self._structured == "schema" or not refuses_tools(error):
                        raise
            answer = llm.chat(messages)
            self._wordy = llm
            return to_completion(messages, answer)

    async def agenerate(self, request: ModelRequest) -> Completion:
        """Asynchronous twin of `generate`."""
        if self._in_thread:
            return await asyncio.to_thread(self.generate, request)
        llm = self.llm
        with translated(self.name):
            messages = to_messages(request, llm)
            if (caller := self._by_schema(llm)) is not None:
                tools = [get_function_tool(request.reply)]
                try:
                    answer = await caller.achat_with_tools(
                        tools, chat_history=messages, tool_required=True
                    )
                    return to_completion(messages, answer, caller)
                except Exception as error:
                    if self._structured == "schema" or not refuses_tools(error):
                        raise
            answer = await llm.achat(messages)
            self._wordy = llm
            return to_completion(messages, answer)

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
