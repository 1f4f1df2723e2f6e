"""A chat model and an embedder behind an OpenAI-compatible endpoint.

OpenAI itself, and with `base_url` also vLLM, Ollama, SGLang, LM Studio, llama.cpp and many others.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from ..errors import ConfigurationError, ModelReplyError
from ..ports import Completion, ModelRequest, Vector
from ..runtime import resolve, run
from ._openai_endpoint import Endpoint, full_message, is_about_format, is_too_long, sdk
from ._openai_format import RequestFormat, completion
from ._reading import Prefixes, Truncation, prefixed, prefixes_of

__all__ = ["OpenAIChatModel", "OpenAIEmbedder"]

_STRUCTURED = ("auto", "schema", "words")
_MIN_CUT = 256  # characters; a text shorter than this is never too long for an embedder


class OpenAIChatModel:
    """A chat model of the Chat Completions API.

    With `structured="auto"` the reply is requested by JSON schema, and in words from then on if the endpoint
    refuses that. `"schema"` and `"words"` fix the format.

    Rate limits, time-outs and errors of the server are retried `max_retries` times with growing pauses.
    One instance serves many threads and event loops. It need not be closed; `close` releases idle
    connections at once.

    Args:
        model: The model's name.
        base_url: The endpoint, which often ends in /v1; by default OpenAI's own.
        api_key: The key; by default `OPENAI_API_KEY` of the environment.
        timeout: Seconds for one request.
        max_retries: How often a request is repeated.
        temperature: Sampling temperature; None leaves it to the endpoint.
        max_tokens: Most tokens of an answer, reasoning included; None leaves it to the endpoint.
        structured: The response format, see above.
        extra_body: Fields added to every request, for options that only some endpoints have:
            `{"reasoning_effort": "none"}`, `{"chat_template_kwargs": {"enable_thinking": False}}`, …
        client_options: Passed to the SDK's clients (`default_headers`, `organization`, …).

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
        structured: Literal["auto", "schema", "words"] = "auto",
        extra_body: Mapping[str, Any] | None = None,
        **client_options: Any,  # noqa: ANN401 - the SDK's own
    ) -> None:
        """Prepare the client; nothing is sent yet.

        Raises:
            MissingExtraError: The openai package is not installed.
            ConfigurationError: There is no usable API key, or `structured` is unknown.
        """
        if structured not in _STRUCTURED:
            known = ", ".join(map(repr, _STRUCTURED))
            raise ConfigurationError(f"structured={structured!r} is unknown; use one of {known}")
        self.name = model
        self._temperature = temperature
        self._max_tokens = max_tokens
        self._extra = {"extra_body": dict(extra_body)} if extra_body else {}
        self._format = RequestFormat()
        if structured != "auto":
            self._format = RequestFormat(response=structured, fixed=True)
        self._endpoint = Endpoint(
            model, base_url, api_key, timeout=timeout, max_retries=max_retries, **client_options
        )
        _ = self._endpoint.client.chat.completions  # the SDK imports it now, not on an event loop

    def __repr__(self) -> str:
        """Return the model and its endpoint, without the key."""
        return f"{type(self).__name__}({self.name!r}, base_url={self._endpoint.url!r})"

    def generate(self, request: ModelRequest) -> Completion:
        """Return the model's answer; a refusal is returned as its text.

        Raises:
            ModelUnavailableError: No answer after all retries.
            ModelReplyError: The endpoint does not accept this request (too long, filtered, …), or the
                model used all its tokens before it answered.
            ConfigurationError: The key, the model's name or the base URL is wrong.
        """
        return run(self._generate(self._endpoint.client, request))

    async def agenerate(self, request: ModelRequest) -> Completion:
        """Return the model's answer, like `generate`, on the running event loop."""
        return await self._generate(await self._endpoint.async_client(), request)

    def close(self) -> None:
        """Close idle connections. The synchronous methods cannot be used after it."""
        self._endpoint.close()

    async def _generate(self, client: Any, request: ModelRequest) -> Completion:  # noqa: ANN401
        create, used = client.chat.completions.create, self._format
        with self._endpoint.errors():
            while True:
                arguments = used.arguments(request, self._temperature, self._max_tokens)
                try:
                    response = await resolve(create(model=self.name, **arguments, **self._extra))
                except sdk().APIStatusError as error:
                    fallback = (
                        used.fallback(full_message(error)) if is_about_format(error) else None
                    )
                    if fallback is None:
                        raise
                    used = fallback
                else:
                    return self._completion(response, used)

    def _completion(self, response: Any, used: RequestFormat) -> Completion:  # noqa: ANN401
        choice = next(iter(getattr(response, "choices", None) or ()), None)
        message = getattr(choice, "message", None)
        if choice is None or message is None:
            raise self._endpoint.malformed(response)
        self._format = used
        read = completion(response, message)
        if not read.text and choice.finish_reason == "length":
            raise ModelReplyError(
                f"{self!r} used all its tokens before it answered; raise max_tokens, or turn its "
                "reasoning off"
            )
        return read


class OpenAIEmbedder:
    """An embedder of the Embeddings API, `batch_size` texts a request.

    Of a text that is longer than the model reads, the beginning is embedded, as local embedders do.

    `dimensions` requests shorter vectors, of models that can give them. Without it the length is found
    by embedding one word when it is first needed. Retries, threads and event loops are as with
    `OpenAIChatModel`.

    `query_prefix` and `document_prefix` stand before the texts: None takes those that the model's card asks for, as
    far as that is known (E5, Nomic, BGE, mxbai, Arctic), and `""` none.

    Some servers cut long texts without a word, as Ollama does: with `max_tokens`, which is how much the model reads,
    such texts are counted too (by an estimate of their length), and long content is split accordingly.

    Attributes:
        name: The model's name, with prefixes that were given, which a collection remembers.
        max_tokens: As given.
        truncated: Of how many texts only the beginning was read; the first is told in the log.
    """

    def __init__(  # noqa: PLR0913 - keyword arguments
        self,
        model: str,
        *,
        dimensions: int | None = None,
        query_prefix: str | None = None,
        document_prefix: str | None = None,
        max_tokens: int | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = 60.0,
        max_retries: int = 2,
        batch_size: int = 64,
        **client_options: Any,  # noqa: ANN401 - the SDK's own
    ) -> None:
        """Prepare the client; nothing is sent yet.

        Raises:
            MissingExtraError: The openai package is not installed.
            ConfigurationError: There is no usable API key.
        """
        self._model = model
        self.name = Prefixes(query_prefix or "", document_prefix or "").named(model)
        self._prefixes = prefixes_of(model, query_prefix, document_prefix)
        self.max_tokens = max_tokens
        self._truncation = Truncation(self.name, max_tokens)
        self._requested = {"dimensions": dimensions} if dimensions else {}
        self._dimensions = dimensions
        self._batch_size = batch_size
        self._probing = threading.Lock()
        self._endpoint = Endpoint(
            model, base_url, api_key, timeout=timeout, max_retries=max_retries, **client_options
        )
        _ = self._endpoint.client.embeddings  # the SDK imports it now, not on an event loop

    def __repr__(self) -> str:
        """Return the model and its endpoint, without the key."""
        return f"{type(self).__name__}({self.name!r}, base_url={self._endpoint.url!r})"

    @property
    def dimensions(self) -> int:
        """Length of a vector; the first access can send a request, and raise its errors."""
        with self._probing:
            return self._dimensions or len(self.embed_query("dimensions"))

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Return a float32 array [len(texts), dimensions] of unit-length rows.

        Raises:
            ModelUnavailableError: No usable answer after all retries.
            ModelReplyError: The endpoint does not accept these texts.
            ConfigurationError: The key, the model's name, the base URL or `dimensions` is wrong.
        """
        return run(self._embed(self._endpoint.client, prefixed(self._prefixes.document, texts)))

    async def aembed_documents(self, texts: Sequence[str]) -> Vector:
        """Return the same as `embed_documents`, on the running event loop."""
        client = await self._endpoint.async_client()
        return await self._embed(client, prefixed(self._prefixes.document, texts))

    def embed_query(self, text: str) -> Vector:
        """Return a float32 array [dimensions] of unit length; errors as for documents."""
        row: Vector = run(self._embed(self._endpoint.client, [self._prefixes.query + text]))[0]
        return row

    async def aembed_query(self, text: str) -> Vector:
        """Return the same as `embed_query`, on the running event loop."""
        client = await self._endpoint.async_client()
        row: Vector = (await self._embed(client, [self._prefixes.query + text]))[0]
        return row

    @property
    def truncated(self) -> int:
        """Of how many texts only the beginning was read."""
        return self._truncation.count

    def close(self) -> None:
        """Close idle connections. The synchronous methods cannot be used after it."""
        self._endpoint.close()

    async def _embed(self, client: Any, texts: Sequence[str]) -> Vector:  # noqa: ANN401
        if not texts and self._dimensions is None:  # only an answer tells the length of a row
            return (await self._embed(client, ["dimensions"]))[:0]
        vectors: list[list[float]] = []
        self._truncation.estimate(texts)
        with self._endpoint.errors():
            for start in range(0, len(texts), self._batch_size):
                vectors += await self._batch(client, texts[start : start + self._batch_size])
        return self._unit_rows(vectors, len(texts))

    async def _batch(self, client: Any, texts: Sequence[str]) -> list[list[float]]:  # noqa: ANN401
        whole = texts
        while True:
            arguments = {
                "model": self._model,
                "input": [text or " " for text in texts],  # endpoints refuse an empty text
                "encoding_format": "float",  # not every endpoint knows base64
            }
            try:
                response = await resolve(client.embeddings.create(**arguments, **self._requested))
            except sdk().APIStatusError as error:
                longest = max(map(len, texts))
                if longest < _MIN_CUT or not is_too_long(full_message(error)):
                    raise
                texts = [text[: longest // 2] for text in texts]
            else:
                if not getattr(response, "data", None):
                    raise self._endpoint.malformed(response)
                if self.max_tokens is None:  # else it is estimated
                    self._truncation.add(sum(map(str.__ne__, texts, whole)))
                return [x.embedding for x in sorted(response.data, key=lambda x: x.index)]

    def _unit_rows(self, vectors: list[list[float]], count: int) -> Vector:
        lengths = {len(vector) for vector in vectors} or {self._dimensions or 0}
        if len(vectors) != count or lengths != {self._dimensions or min(lengths)}:
            raise ConfigurationError(
                f"{self.name!r} returned {len(vectors)} vectors of length {sorted(lengths)} for {count} "
                f"texts and dimensions={self._dimensions}; leave dimensions out, or check the endpoint"
            )
        (self._dimensions,) = lengths
        rows = np.asarray(vectors, dtype=np.float32).reshape(count, self._dimensions)
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        unit: Vector = rows / np.maximum(norms, np.finfo(np.float32).tiny)
        return unit
