"""Chat models and encoders behind an OpenAI-compatible endpoint.

OpenAI itself, and with `base_url` also vLLM, Ollama, LM Studio, llama.cpp and the many others.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Literal

from ..errors import ConfigurationError
from ..ports import Completion, ModelRequest
from ._openai_embedder import OpenAIEmbedder
from ._openai_sdk import Endpoint, sdk, strict_schema

__all__ = ["OpenAIChatModel", "OpenAIEmbedder"]

Structured = Literal["schema", "json", "words"]

_LESS: dict[Structured, Structured] = {"schema": "json", "json": "words"}


@dataclass(frozen=True, slots=True)
class _Manner:
    """How to put a request, as far as endpoints and models differ in what they take."""

    structured: Structured
    temperature: bool = True
    system: bool = True
    limit: str = "max_tokens"

    def humbler(self, complaint: str, *, fixed: bool) -> _Manner | None:
        """Return a manner without what was complained about, or None if nothing is left to try."""
        if self.temperature and "temperature" in complaint:
            return replace(self, temperature=False)
        if self.limit == "max_tokens" and "max_completion_tokens" in complaint:
            return replace(self, limit="max_completion_tokens")
        if self.system and "system role" in complaint:
            return replace(self, system=False)
        less = None if fixed else _LESS.get(self.structured)
        return replace(self, structured=less) if less else None


class OpenAIChatModel:
    """Asks a chat model by the Chat Completions API.

    With `structured="auto"` the reply is asked for by JSON schema; if the endpoint refuses that, as
    any JSON object; and if it refuses that too, in words. What worked is remembered. `"schema"`,
    `"json"` and `"words"` settle it. `temperature=None` leaves the temperature to the endpoint.
    `client_options` go to the SDK's client (`default_headers`, `organization`, …).

    Rate limits, time-outs and errors of the server are retried `max_retries` times with growing
    pauses. One instance serves many threads and event loops. It holds no connection that has to be
    closed; `close` lets go of idle ones at once.

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
        structured: Literal["auto", "schema", "json", "words"] = "auto",
        **client_options: Any,  # noqa: ANN401 - the SDK's own
    ) -> None:
        """Prepare the client; nothing is sent yet.

        Raises:
            MissingExtraError: The openai package is not installed.
            ConfigurationError: There is no API key, or `structured` is unknown.
        """
        if structured not in {"auto", "schema", "json", "words"}:
            raise ConfigurationError(
                f"structured={structured!r} is unknown; use 'auto', 'schema', 'json' or 'words'"
            )
        self.name = model
        self._temperature = temperature
        self._max_tokens = max_tokens
        self._fixed = structured != "auto"
        self._manner = _Manner("schema" if structured == "auto" else structured)
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
            ModelReplyError: The endpoint does not accept this request (too long, filtered, …).
            ConfigurationError: The key, the model's name or the base URL is wrong.
        """
        create = self._endpoint.client.chat.completions.create
        manner = self._manner
        with self._endpoint.errors(self.name):
            while True:
                try:
                    answer = create(**self._arguments(request, manner))
                except _refusals() as error:
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
                except _refusals() as error:
                    manner = self._next(manner, error)
                else:
                    return self._completion(answer, manner)

    def close(self) -> None:
        """Close idle connections. The instance can be used no more in a synchronous way."""
        self._endpoint.close()

    def _next(self, manner: _Manner, error: Exception) -> _Manner:
        humbler = manner.humbler(str(error).lower(), fixed=self._fixed)
        if humbler is None:
            raise error
        return humbler

    def _arguments(self, request: ModelRequest, manner: _Manner) -> dict[str, Any]:
        arguments = {
            "model": self.name,
            "messages": _messages(request, manner),
            "response_format": _response_format(request, manner),
            "temperature": self._temperature if manner.temperature else None,
            manner.limit: self._max_tokens,
        }
        return {key: value for key, value in arguments.items() if value is not None}

    def _completion(self, answer: Any, manner: _Manner) -> Completion:  # noqa: ANN401
        choices = getattr(answer, "choices", None)
        if not choices:
            raise self._endpoint.not_understood(self.name, answer)
        self._manner = manner
        message, usage = choices[0].message, answer.usage
        return Completion(
            text=message.content or getattr(message, "refusal", None) or "",
            input_tokens=(usage and usage.prompt_tokens) or 0,
            output_tokens=(usage and usage.completion_tokens) or 0,
        )


def _refusals() -> tuple[type[Exception], ...]:
    """Return the errors that say that an endpoint does not take a request in this manner."""
    openai = sdk()
    return (openai.BadRequestError, openai.UnprocessableEntityError)


def _messages(request: ModelRequest, manner: _Manner) -> list[dict[str, str]]:
    prompt = request.prompt
    if manner.structured == "words":
        schema = json.dumps(strict_schema(request.reply), ensure_ascii=False)
        prompt += f"\n\nAnswer with JSON only, of this JSON schema:\n{schema}"
    if request.system and manner.system:
        return [
            {"role": "system", "content": request.system},
            {"role": "user", "content": prompt},
        ]
    return [{"role": "user", "content": f"{request.system}\n\n{prompt}".strip()}]


def _response_format(request: ModelRequest, manner: _Manner) -> dict[str, Any] | None:
    if manner.structured == "words":
        return None
    if manner.structured == "json":
        return {"type": "json_object"}
    schema = {
        "name": request.reply.__name__,
        "schema": strict_schema(request.reply),
        "strict": True,
    }
    return {"type": "json_schema", "json_schema": schema}
