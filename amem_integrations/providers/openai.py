"""Chat models and embedders behind an OpenAI-compatible endpoint.

OpenAI itself, and with `base_url` also vLLM, Ollama, SGLang, LM Studio, llama.cpp and the many others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from ..errors import ConfigurationError, ModelReplyError
from ..ports import Completion, ModelRequest
from ._openai_answer import text_of, tokens
from ._openai_embedder import OpenAIEmbedder
from ._openai_errors import is_about_form, said
from ._openai_manner import Manner
from ._openai_sdk import Endpoint, sdk

__all__ = ["OpenAIChatModel", "OpenAIEmbedder"]

_STRUCTURED = ("auto", "schema", "tools", "json", "words")


class OpenAIChatModel:
    """Asks a chat model by the Chat Completions API.

    With `structured="auto"` the reply is asked for by JSON schema; if the endpoint refuses that, as the
    arguments of a function that has to be called; if it refuses that, as any JSON object; and at last in
    words. What worked is remembered by this instance. `"schema"`, `"tools"`, `"json"` and `"words"`
    settle it. Whatever was asked for, the answer is read where it is: in a call, or in plain content.

    Rate limits, time-outs and errors of the server are retried `max_retries` times with growing
    pauses. One instance serves many threads and event loops. It holds no connection that has to be
    closed; `close` lets go of idle ones at once.

    Args:
        model: The model's name.
        base_url: The endpoint, which often ends in /v1; OpenAI's own without one.
        api_key: The key; `OPENAI_API_KEY` of the environment without one.
        timeout: Seconds for one request.
        max_retries: How often a request is repeated.
        temperature: Of the sampling; None leaves it to the endpoint.
        max_tokens: Most tokens of an answer, thoughts included; None leaves it to the endpoint.
        structured: How the reply is asked for, see above.
        extra_body: Fields that are added to every request, for what only some endpoints know:
            `{"reasoning_effort": "none"}`, `{"chat_template_kwargs": {"enable_thinking": False}}`, …
        client_options: Passed on to the SDK's client (`default_headers`, `organization`, …).

    Attributes:
        name: The model's name.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = 60.0,
        max_retries: int = 2,
        temperature: float | None = 0.0,
        max_tokens: int | None = None,
        structured: Literal["auto", "schema", "tools", "json", "words"] = "auto",
        extra_body: Mapping[str, Any] | None = None,
        **client_options: Any,  # noqa: ANN401 - the SDK's own
    ) -> None:
        """Prepare the client; nothing is sent yet.

        Raises:
            MissingExtraError: The openai package is not installed.
            ConfigurationError: There is no API key, or `structured` is unknown.
        """
        if structured not in _STRUCTURED:
            known = ", ".join(map(repr, _STRUCTURED))
            raise ConfigurationError(f"structured={structured!r} is unknown; use one of {known}")
        self.name = model
        self._temperature = temperature
        self._max_tokens = max_tokens
        self._extra_body = dict(extra_body or {})
        self._fixed = structured != "auto"
        self._manner = Manner("schema" if structured == "auto" else structured)
        self._endpoint = Endpoint(
            base_url, api_key, timeout=timeout, max_retries=max_retries, **client_options
        )

    def __repr__(self) -> str:
        """Return the model and where it is, without the key."""
        return f"{type(self).__name__}({self.name!r}, base_url={self._endpoint.address!r})"

    def generate(self, request: ModelRequest) -> Completion:
        """Return the model's answer; a refusal is returned as its text.

        Raises:
            ModelUnavailableError: No answer after all retries.
            ModelReplyError: The endpoint does not accept this request (too long, filtered, …), or the
                model used up its tokens before it answered.
            ConfigurationError: The key, the model's name or the base URL is wrong.
        """
        create = self._endpoint.client.chat.completions.create
        manner = self._manner
        with self._endpoint.errors(self.name):
            while True:
                try:
                    answer = create(**self._arguments(request, manner))
                except sdk().APIStatusError as error:
                    manner = self._next(manner, error)
                else:
                    return self._completion(answer, manner)

    async def agenerate(self, request: ModelRequest) -> Completion:
        """Return the model's answer, like `generate`, on the running event loop."""
        create = self._endpoint.async_client().chat.completions.create
        manner = self._manner
        with self._endpoint.errors(self.name):
            while True:
                try:
                    answer = await create(**self._arguments(request, manner))
                except sdk().APIStatusError as error:
                    manner = self._next(manner, error)
                else:
                    return self._completion(answer, manner)

    def close(self) -> None:
        """Close idle connections. The instance can be used no more in a synchronous way."""
        self._endpoint.close()

    def _arguments(self, request: ModelRequest, manner: Manner) -> dict[str, Any]:
        asked = manner.arguments(
            request, temperature=self._temperature, max_tokens=self._max_tokens
        )
        extra = {"extra_body": self._extra_body} if self._extra_body else {}
        return {"model": self.name, **asked, **extra}

    def _next(self, manner: Manner, error: Exception) -> Manner:
        """Return the manner to try after a refusal; raise the error if none would help."""
        helps = is_about_form(error)
        humbler = manner.humbler(said(error).lower(), fixed=self._fixed) if helps else None
        if humbler is None:
            raise error
        return humbler

    def _completion(self, answer: Any, manner: Manner) -> Completion:  # noqa: ANN401 - of the SDK
        choice = next(iter(getattr(answer, "choices", None) or ()), None)
        message = getattr(choice, "message", None)
        if choice is None or message is None:
            raise self._endpoint.not_understood(self.name, answer)
        called = bool(getattr(message, "tool_calls", None))
        self._manner = manner.after(called=called, fixed=self._fixed)
        text = text_of(message)
        if not text and choice.finish_reason == "length":
            raise ModelReplyError(
                f"{self!r} used up its tokens before it answered; raise max_tokens, or switch its "
                "thinking off"
            )
        return Completion(
            text=text,
            input_tokens=tokens(answer, "prompt_tokens"),
            output_tokens=tokens(answer, "completion_tokens"),
        )
