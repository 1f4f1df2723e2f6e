"""`LangChainChatModel`: any LangChain chat model, for the memory to think with."""

from __future__ import annotations

import json
from typing import Any, Literal

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import Runnable, RunnableConfig

from amem_integrations import Completion, ConfigurationError, ModelRequest

from ._names import name_of

Structured = Literal["auto", "schema", "words"]

# A server says by these that it does not take a request in this form, rather than that it is down.
REFUSALS = {400, 404, 415, 422, 501}


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
        model: BaseChatModel,
        *,
        structured: Structured = "auto",
        config: RunnableConfig | None = None,
        name: str | None = None,
    ) -> None:
        """Wrap a model; nothing is sent yet.

        Args:
            model: Any chat model.
            structured: `"auto"` asks by schema (`with_structured_output`), and in words from then on if
                the model cannot; `"schema"` and `"words"` settle it.
            config: For every call: callbacks, tags, metadata.
            name: What to record; by default the model's own name.

        Raises:
            ConfigurationError: It is no chat model, or `structured` is unknown.
        """
        if not isinstance(model, BaseChatModel):
            raise ConfigurationError(f"model={model!r} is no LangChain chat model")
        if structured not in ("auto", "schema", "words"):
            raise ConfigurationError(f"structured={structured!r} must be 'auto', 'schema', 'words'")
        self.name = name or name_of(model)
        self._model = model
        self._fixed = structured != "auto"
        self._words = structured == "words"
        self._config = config or {}

    def generate(self, request: ModelRequest) -> Completion:
        """Return the model's answer."""
        if not self._words:
            try:
                found = self._by_schema(request).invoke(_messages(request), self._options(request))
                return _completion(found)
            except Exception as error:
                if not self._cannot_do_schemas(error):
                    raise
                self._words = True
        return _completion(self._model.invoke(_messages(request), self._options(request)))

    async def agenerate(self, request: ModelRequest) -> Completion:
        """Return the model's answer, on the running event loop."""
        if not self._words:
            try:
                asked = self._by_schema(request)
                return _completion(await asked.ainvoke(_messages(request), self._options(request)))
            except Exception as error:
                if not self._cannot_do_schemas(error):
                    raise
                self._words = True
        return _completion(await self._model.ainvoke(_messages(request), self._options(request)))

    def _by_schema(self, request: ModelRequest) -> Runnable[Any, Any]:
        return self._model.with_structured_output(request.reply, include_raw=True)

    def _cannot_do_schemas(self, error: Exception) -> bool:
        """Return whether to ask in words from now on. Each vendor has error classes of its own."""
        return not self._fixed and (
            isinstance(error, NotImplementedError) or _status(error) in REFUSALS
        )

    def _options(self, request: ModelRequest) -> RunnableConfig:
        tags = [*(self._config.get("tags") or []), "nostream"]
        mine = RunnableConfig(run_name=f"amem:{request.task}", callbacks=[])
        return {**mine, **self._config, "tags": tags}


def _status(error: Exception) -> int | None:
    status = getattr(error, "status_code", None)
    return status if isinstance(status, int) else None


def _messages(request: ModelRequest) -> list[BaseMessage]:
    return [SystemMessage(request.system), HumanMessage(request.prompt)]


def _completion(answer: Any) -> Completion:  # noqa: ANN401 - a message, or a dict with one
    """Return what was parsed as JSON, else what was said, for the core to read what it can."""
    parsed = answer.get("parsed") if isinstance(answer, dict) else None
    raw: AIMessage = answer["raw"] if isinstance(answer, dict) else answer
    usage: Any = raw.usage_metadata or {}
    if parsed is not None:
        text = parsed.model_dump_json()
    elif not (text := str(raw.text)) and raw.tool_calls:
        text = json.dumps(raw.tool_calls[0]["args"])
    return Completion(
        text=text,
        input_tokens=usage.get("input_tokens", 0),
        output_tokens=usage.get("output_tokens", 0),
    )
