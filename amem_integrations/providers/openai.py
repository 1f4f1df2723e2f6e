"""A chat model and an embedder behind an OpenAI-compatible endpoint.

OpenAI itself, and with `base_url` also vLLM, Ollama, SGLang, LM Studio, llama.cpp and many others.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Literal
from weakref import finalize

import numpy as np

from ..errors import (
    ConfigurationError,
    ModelReplyError,
    ModelUnavailableError,
    model_error,
    needed,
    status_of,
    without_secrets,
)
from ..ports import Completion, ModelRequest
from ..runtime import resolve, run
from ..stored_note import Vector
from .embedders import LimitedEmbedder, Prefixes, prefixed, prefixes_of, unit_rows

__all__ = ["OpenAIChatModel", "OpenAIEmbedder"]

Client = Any  # openai.OpenAI or AsyncOpenAI, whose types differ between versions
Settings = Mapping[str, Any]  # of a request, by name

_MAX_DETAIL = 300
_MIN_CUT = 256  # characters; a text shorter than this is never too long for an embedder

# Words in the messages of endpoints, by their meaning.
_TOO_LONG = re.compile(
    r"(?i)context[ _](?:length|size|window)|maximum (?:model|input|prompt) length"
    r"|(?:prompt|input).{0,80}too (?:long|large)"
)
_FILTERED = re.compile(r"(?i)content_filter|content management policy")
_NO_MODEL = re.compile(
    r"(?i)model_not_found|\bmodel\b.{0,160}(?:not found|does not exist)|no models? loaded|failed to load model"
)
_BAD_KEY = re.compile(r"(?i)api[ _]key.{0,20}(in|not )valid|(invalid|incorrect) api[ _]key")
_NO_SYSTEM = re.compile(r"(?i)system (?:role|message)|roles must alternate")
_FORMAT = re.compile(rf"(?i)response_format|json_schema|grammar|{_NO_SYSTEM.pattern[4:]}")
_TITLES = {"default", "title"}  # keywords of a schema that tell a model nothing
_EXPLAINED = {*_TITLES, "description", "additionalProperties", "required"}


class _Client:
    """The clients for one model: a synchronous one for all threads, and an asynchronous one for the event loops of each.

    An asynchronous client is not safe to use from several threads. It closes each connection after its response: a
    connection that is kept would outlive a short loop such as that of `asyncio.run`, and fail on the next one with "event
    loop is closed".
    """

    name: str

    def __init__(self, model: str, url: str | None, key: str | None, **options: Any) -> None:  # noqa: ANN401
        openai = _sdk()
        # A key that is read from a file often ends in a line break.
        self._key = (key or os.environ.get("OPENAI_API_KEY") or "").strip()
        if not (self._key.isascii() and self._key.isprintable()):
            raise ConfigurationError(
                "the API key contains characters that an HTTP header cannot carry; check OPENAI_API_KEY or api_key"
            )
        key = self._key or (url and "unused")  # local servers need no key, but the SDK requires one
        if not key:
            raise ConfigurationError(
                "no API key: set OPENAI_API_KEY, or pass api_key=…; for another endpoint base_url=…"
            )
        options |= {"base_url": url, "api_key": key}
        self._client = openai.OpenAI(**options)
        _ = (
            self._client.chat.completions,
            self._client.embeddings,
        )  # are imported now, not on an event loop
        headers = {**(options.get("default_headers") or {}), "Connection": "close"}
        self._options = {**options, "default_headers": headers}
        self._of_thread = threading.local()
        self._url = without_secrets(str(self._client.base_url)).rstrip("/")
        self._where = f"{model!r} at {self._url}"
        # The client is part of a reference cycle: its sockets could be collected before it closes them.
        finalize(self, self._client.close)

    def __repr__(self) -> str:
        """Return the model and its endpoint, without the key."""
        return f"{type(self).__name__}({self.name!r}, base_url={self._url!r})"

    def close(self) -> None:
        """Close idle connections. The synchronous methods cannot be used after it."""
        self._client.close()

    async def _async_client(self) -> Client:
        """Return the asynchronous client of this thread, which is made in another one: that reads files."""
        if not hasattr(self._of_thread, "client"):
            self._of_thread.client = await asyncio.to_thread(_sdk().AsyncOpenAI, **self._options)
        return self._of_thread.client

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Translate the errors of the SDK into those of this package."""
        try:
            yield
        except _sdk().APIError as error:
            raise self._translated(error) from error
        except json.JSONDecodeError as error:
            raise self._malformed(error.doc) from error

    def _malformed(self, response: object) -> Exception:
        """Return the error for a response that does not have the form of this API."""
        text = str(getattr(response, "error", None) or response)
        if _TOO_LONG.search(text):  # some servers send this error with status 200
            return ModelReplyError(f"{self._where} refused the request ({self._excerpt(text)})")
        return ModelUnavailableError(
            f"{self._where} did not answer like an OpenAI-compatible endpoint "
            f"({self._excerpt(text)!r}); check base_url, which often ends in /v1"
        )

    def _translated(self, error: Exception) -> Exception:
        """Return the error by its status, or by its words: some endpoints answer 400 or 500 whatever is wrong."""
        status, message = status_of(error), _message(error)
        if status == HTTPStatus.BAD_REQUEST and _BAD_KEY.search(message):
            status = HTTPStatus.UNAUTHORIZED
        elif status == HTTPStatus.BAD_REQUEST and _NO_MODEL.search(message):
            status = HTTPStatus.NOT_FOUND
        elif _is_about_format(error):
            status = HTTPStatus.BAD_REQUEST
        detail = self._excerpt(message) or type(error).__name__
        return model_error(self._where, error, status=status, detail=detail)

    def _excerpt(self, text: str) -> str:
        """Return the beginning of a text on one line, without the key."""
        line = " ".join(text.split())
        return (line.replace(self._key, "…") if self._key else line)[:_MAX_DETAIL]


def _sdk() -> Any:  # noqa: ANN401 - its types differ between versions
    """Return the openai module."""
    return needed("openai", "openai")


def _message(error: Exception) -> str:
    """Return the whole message of an endpoint, with codes and types.

    The SDK's own text omits a body that does not have the form of OpenAI's errors.
    """
    body = getattr(error, "body", None)
    return str(error) if not body or str(body) in str(error) else f"{error} - {body}"


def _is_about_format(error: Exception) -> bool:
    """Return whether another request format may help.

    An error of the server (5xx) counts only if it names the format: some servers fail that way on a
    parameter they do not know.
    """
    status, message = status_of(error) or 0, _message(error)
    if any(other.search(message) for other in (_TOO_LONG, _FILTERED, _NO_MODEL, _BAD_KEY)):
        return False
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return _FORMAT.search(message) is not None
    return status in {HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY}


# Endpoints and models differ in the requests that they accept: after an error whose words match, the setting of a request
# takes the other value.
_OTHERWISE: Sequence[tuple[str, re.Pattern[str], Any]] = (
    ("temperature", re.compile("(?i)temperature"), None),
    ("limit", re.compile("(?i)max_completion_tokens"), "max_completion_tokens"),
    ("system", _NO_SYSTEM, False),
    ("reply", re.compile(""), "words"),
)


def _arguments(request: ModelRequest, used: Settings) -> dict[str, Any]:
    """Return the messages, and how the reply is requested: by JSON schema, or in the words of the prompt."""
    prompt, system, more = request.prompt, request.system, {}
    schema = _schema(request.reply.model_json_schema(), strict=used["reply"] == "schema")
    if used["reply"] == "schema":
        wanted = {"name": request.reply.__name__, "schema": schema, "strict": True}
        more = {"response_format": {"type": "json_schema", "json_schema": wanted}}
    else:  # the prompt explains what the fields mean
        written = json.dumps(schema, ensure_ascii=False)
        prompt += f"\n\nAnswer with JSON only, of this JSON schema:\n{written}"
    if not (system and used["system"]):
        prompt, system = f"{system}\n\n{prompt}".strip(), ""
    messages = [{"role": "system", "content": system}, {"role": "user", "content": prompt}]
    return {"messages": messages if system else messages[1:], **more}


def _schema(node: Any, *, strict: bool) -> Any:  # noqa: ANN401 - any part of a schema
    """Return a JSON schema without titles and defaults.

    In a `strict` one every object is closed and every field required: endpoints that constrain decoding by a schema
    require this form; it also keeps a model from omitting the fields that have a default. Another one has no
    descriptions either.
    """
    if isinstance(node, list):
        return [_schema(part, strict=strict) for part in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return {"$ref": node["$ref"]}
    dropped = _TITLES if strict else _EXPLAINED
    made = {
        key: {name: _schema(part, strict=strict) for name, part in value.items()}
        if key in {"properties", "$defs"}
        else _schema(value, strict=strict)
        for key, value in node.items()
        if key not in dropped
    }
    if strict and node.get("type") == "object":
        made |= {"additionalProperties": False, "required": list(node.get("properties", {}))}
    return made


class OpenAIChatModel(_Client):
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
        if structured not in {"auto", "schema", "words"}:
            raise ConfigurationError(
                f"structured={structured!r} is unknown; use 'auto', 'schema' or 'words'"
            )
        self.name, self._max_tokens = model, max_tokens
        self._fixed = {"model": model, **({"extra_body": dict(extra_body)} if extra_body else {})}
        self._otherwise = _OTHERWISE[:-1] if structured == "schema" else _OTHERWISE
        reply = "schema" if structured == "auto" else structured
        self._used: Settings = {
            "temperature": temperature,
            "limit": "max_tokens",
            "system": True,
            "reply": reply,
        }
        options = {"timeout": timeout, "max_retries": max_retries, **client_options}
        super().__init__(model, base_url, api_key, **options)

    def generate(self, request: ModelRequest) -> Completion:
        """Return the model's answer; a refusal is returned as its text.

        Raises:
            ModelUnavailableError: No answer after all retries.
            ModelReplyError: The endpoint does not accept this request (too long, filtered, …), or the
                model used all its tokens before it answered.
            ConfigurationError: The key, the model's name or the base URL is wrong.
        """
        return run(self._generate(self._client, request))

    async def agenerate(self, request: ModelRequest) -> Completion:
        """Return the model's answer, like `generate`, on the running event loop."""
        return await self._generate(await self._async_client(), request)

    async def _generate(
        self, client: Client, request: ModelRequest, used: Settings | None = None
    ) -> Completion:
        """Return the answer to a request, which is sent in another form where one is refused, and from then on."""
        used = used or self._used
        numbers = {"temperature": used["temperature"], used["limit"]: self._max_tokens}
        given = {name: number for name, number in numbers.items() if number is not None}
        with self._errors():
            try:
                response = await resolve(
                    client.chat.completions.create(
                        **self._fixed, **_arguments(request, used), **given
                    )
                )
            except _sdk().APIStatusError as error:
                for name, words, value in self._otherwise if _is_about_format(error) else ():
                    if used[name] != value and words.search(_message(error)):
                        return await self._generate(client, request, {**used, name: value})
                raise
            return self._completion(response, used)

    def _completion(self, response: Any, used: Settings) -> Completion:  # noqa: ANN401
        choice = next(iter(getattr(response, "choices", None) or ()), None)
        message = getattr(choice, "message", None)
        if choice is None or message is None:
            raise self._malformed(response)
        self._used = used
        text = _answer(message)
        if not text and choice.finish_reason == "length":
            raise ModelReplyError(
                f"{self!r} used all its tokens before it answered; raise max_tokens, or turn its "
                "reasoning off"
            )
        usage = getattr(response, "usage", None)
        counts = [getattr(usage, name, None) for name in ("prompt_tokens", "completion_tokens")]
        sent, received = (count if isinstance(count, int) else 0 for count in counts)
        return Completion(text=text, input_tokens=sent, output_tokens=received)


def _answer(message: Any) -> str:  # noqa: ANN401 - of the SDK
    """Return the content of a message, a text or a list of parts, else a refusal; empty if there is none.

    Reasoning is no answer, except where it is all there is and starts as JSON: then the endpoint's parser mistook the
    answer for it.
    """
    content = getattr(message, "content", None)
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, dict)]
        content = "".join(text for text in texts if isinstance(text, str))
    if content := content or getattr(message, "refusal", None):
        return str(content)
    reasoning = getattr(message, "reasoning_content", None) or getattr(message, "reasoning", None)
    is_json = isinstance(reasoning, str) and reasoning.lstrip()[:1] in {"{", "["}
    return str(reasoning) if is_json else ""


class OpenAIEmbedder(_Client, LimitedEmbedder):
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
        named = Prefixes(query_prefix or "", document_prefix or "").named(model)
        LimitedEmbedder.__init__(self, named, max_tokens)
        self._model, self._dimensions, self._batch_size = model, dimensions, batch_size
        self._prefixes = prefixes_of(model, query_prefix, document_prefix)
        self._requested = {"dimensions": dimensions} if dimensions else {}
        options = {"timeout": timeout, "max_retries": max_retries, **client_options}
        _Client.__init__(self, model, base_url, api_key, **options)

    @property
    def dimensions(self) -> int:
        """Length of a vector; the first access can send a request, and raise its errors."""
        return self._dimensions or len(self.embed_query("dimensions"))

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Return a float32 array [len(texts), dimensions] of unit-length rows.

        Raises:
            ModelUnavailableError: No usable answer after all retries.
            ModelReplyError: The endpoint does not accept these texts.
            ConfigurationError: The key, the model's name, the base URL or `dimensions` is wrong.
        """
        return run(self._embed(self._client, self._prefixes.document, texts))

    async def aembed_documents(self, texts: Sequence[str]) -> Vector:
        """Return the same as `embed_documents`, on the running event loop."""
        return await self._embed(await self._async_client(), self._prefixes.document, texts)

    def embed_query(self, text: str) -> Vector:
        """Return a float32 array [dimensions] of unit length; errors as for documents."""
        return run(self._embed(self._client, self._prefixes.query, [text])).reshape(-1)

    async def aembed_query(self, text: str) -> Vector:
        """Return the same as `embed_query`, on the running event loop."""
        rows = await self._embed(await self._async_client(), self._prefixes.query, [text])
        return rows.reshape(-1)

    async def _embed(self, client: Client, prefix: str, texts: Sequence[str]) -> Vector:
        if not texts and self._dimensions is None:  # only an answer tells the length of a row
            return (await self._embed(client, prefix, ["dimensions"]))[:0]
        given, vectors = prefixed(prefix, texts), list[list[float]]()
        self._estimate_truncated(given)
        with self._errors():
            for start in range(0, len(given), self._batch_size):
                vectors += await self._batch(client, given[start : start + self._batch_size])
        return self._unit_rows(vectors, len(given))

    async def _batch(self, client: Client, texts: Sequence[str]) -> list[list[float]]:
        whole = texts
        while True:
            arguments = {
                "model": self._model,
                "input": [text or " " for text in texts],  # endpoints refuse an empty text
                "encoding_format": "float",  # not every endpoint knows base64
            }
            try:
                response = await resolve(client.embeddings.create(**arguments, **self._requested))
            except _sdk().APIStatusError as error:
                longest = max(map(len, texts))
                if longest < _MIN_CUT or not _TOO_LONG.search(_message(error)):
                    raise
                texts = [text[: longest // 2] for text in texts]
            else:
                if not getattr(response, "data", None):
                    raise self._malformed(response)
                if self.max_tokens is None:  # else it is estimated
                    self._count_truncated(sum(map(str.__ne__, texts, whole)))
                return [x.embedding for x in sorted(response.data, key=lambda x: x.index)]

    def _unit_rows(self, vectors: list[list[float]], count: int) -> Vector:
        lengths = {len(vector) for vector in vectors} or {self._dimensions or 0}
        if len(vectors) != count or lengths != {self._dimensions or min(lengths)}:
            raise ConfigurationError(
                f"{self.name!r} returned {len(vectors)} vectors of length {sorted(lengths)} for {count} "
                f"texts and dimensions={self._dimensions}; leave dimensions out, or check the endpoint"
            )
        (self._dimensions,) = lengths
        return unit_rows(np.asarray(vectors, dtype=np.float32).reshape(count, self._dimensions))
