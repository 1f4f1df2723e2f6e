"""What the OpenAI chat model and embedder share: clients of an endpoint, and the meaning of its errors."""

from __future__ import annotations

import asyncio
import json
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary, finalize

from ..errors import (
    AmemError,
    ConfigurationError,
    MissingExtraError,
    ModelReplyError,
    ModelUnavailableError,
)

_MAX_DETAIL = 300

_TOO_LONG = re.compile(
    r"context[ _](?:length|size|window)|maximum (?:model|input|prompt) length"
    r"|(?:prompt|input).{0,80}too (?:long|large)",
    re.IGNORECASE,
)
_FILTERED = re.compile(r"content_filter|content management policy", re.IGNORECASE)
_NO_MODEL = re.compile(
    r"model_not_found|\bmodel\b.{0,160}(?:not found|does not exist)|no models? loaded|failed to load model",
    re.IGNORECASE,
)
_BAD_KEY = re.compile(
    r"api[ _]key.{0,20}(?:invalid|not valid)|(?:invalid|incorrect) api[ _]key", re.IGNORECASE
)
_FORMAT = re.compile(
    r"response_format|json_schema|grammar|system (?:role|message)"
    r"|roles must alternate",
    re.IGNORECASE,
)


def sdk() -> Any:  # noqa: ANN401 - its types differ between versions
    """Return the openai module.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        return import_module("openai")
    except ModuleNotFoundError as error:
        if error.name != "openai":
            raise
        raise MissingExtraError("openai", "openai") from error


class Endpoint:
    """The clients for one model: one for all threads, and one for each event loop.

    An asynchronous client works only on the loop of its first request; on another one it fails with
    "event loop is closed". These clients also close each connection after its response, because a
    connection that is kept would outlive a short loop such as that of `asyncio.run`.
    """

    def __init__(
        self,
        model: str,
        base_url: str | None,
        api_key: str | None,
        **options: Any,  # noqa: ANN401 - the SDK's own
    ) -> None:
        self._key = _checked_key(api_key or os.environ.get("OPENAI_API_KEY"))
        # Local servers often need no key, but the SDK requires one.
        key = self._key or (base_url and "unused")
        self._options = {**options, "base_url": base_url, "api_key": key}
        openai = sdk()
        try:
            self.client = openai.OpenAI(**self._options)
        except openai.OpenAIError as error:
            raise ConfigurationError(
                "no API key: set OPENAI_API_KEY, or pass api_key=… (and base_url=… for an endpoint "
                "other than OpenAI's)"
            ) from error
        self.url = _without_password(str(self.client.base_url))
        self._where = f"{model!r} at {self.url}"
        # The client is part of a reference cycle: its sockets could be collected before it closes them.
        finalize(self, self.client.close)
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = WeakKeyDictionary()
        self._lock = threading.Lock()

    async def async_client(self) -> Any:  # noqa: ANN401 - openai.AsyncOpenAI
        """Return the client of the running event loop."""
        loop = asyncio.get_running_loop()
        with self._lock:
            client = self._by_loop.get(loop)
        if client is None:
            headers = {**(self._options.get("default_headers") or {}), "Connection": "close"}
            options = {**self._options, "default_headers": headers}
            # In a thread, because it reads the certificate authorities from disk.
            client = await asyncio.to_thread(sdk().AsyncOpenAI, **options)
            with self._lock:
                client = self._by_loop.setdefault(loop, client)
        return client

    def close(self) -> None:
        """Close the connections of the synchronous client."""
        self.client.close()

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Translate the errors of the SDK into those of this package."""
        try:
            yield
        except sdk().APIError as error:
            raise self._translated(error) from error
        except json.JSONDecodeError as error:
            raise self.malformed(error.doc) from error

    def malformed(self, response: object) -> AmemError:
        """Return the error for a response that does not have the form of this API."""
        text = str(getattr(response, "error", None) or response)
        if is_too_long(text):  # some servers send this error with status 200
            return ModelReplyError(f"{self._where} refused the request ({self._excerpt(text)})")
        return ModelUnavailableError(
            f"{self._where} did not answer like an OpenAI-compatible endpoint "
            f"({self._excerpt(text)!r}); check base_url, which often ends in /v1"
        )

    def _translated(self, error: Exception) -> AmemError:
        status, body = _status(error), _with_body(error)
        if status in {401, 403} or (status == 400 and _BAD_KEY.search(body)):  # noqa: PLR2004
            # The endpoint's own message can contain parts of the key.
            return ConfigurationError(
                f"{self._where} refused access (HTTP {status}); check the API key"
            )
        detail = self._excerpt(full_message(error)) or type(error).__name__
        if status in {404, 405} or (status == 400 and _NO_MODEL.search(body)):  # noqa: PLR2004
            return ConfigurationError(
                f"{self._where} was not found ({detail}); check the name of the model and base_url"
            )
        if status in {400, 413, 422} or is_about_format(error):
            return ModelReplyError(f"{self._where} refused the request ({detail})")
        return ModelUnavailableError(f"{self._where} did not answer ({detail}); try again later")

    def _excerpt(self, text: str) -> str:
        """Return the beginning of a text on one line, without the key."""
        line = " ".join(text.split())
        return (line.replace(self._key, "…") if self._key else line)[:_MAX_DETAIL]


def full_message(error: Exception) -> str:
    """Return the whole message of an endpoint's error.

    The SDK's own text omits a body that does not have the form of OpenAI's errors.
    """
    body = getattr(error, "body", None)
    message = body.get("message") if isinstance(body, dict) else body
    if not body or (message and str(message) in str(error)):
        return str(error)
    return f"{error} - {body}"


def is_too_long(message: str) -> bool:
    """Return whether an error message says that the input exceeds the model's context."""
    return _TOO_LONG.search(message) is not None


def is_about_format(error: Exception) -> bool:
    """Return whether another request format may help.

    An error of the server (5xx) counts only if it names the format: some servers fail that way on a
    parameter they do not know.
    """
    status, message = _status(error), _with_body(error)
    if any(pattern.search(message) for pattern in (_TOO_LONG, _FILTERED, _NO_MODEL, _BAD_KEY)):
        return False
    return status in {400, 422} or (status >= 500 and _FORMAT.search(message) is not None)  # noqa: PLR2004


def _status(error: Exception) -> int:
    return getattr(error, "status_code", None) or 0


def _with_body(error: Exception) -> str:
    """Return the text of an error and its whole body, with codes and types."""
    return f"{error} {getattr(error, 'body', None) or ''}"


def _checked_key(key: str | None) -> str | None:
    """Return the key without surrounding white space; one read from a file often ends in a line break."""
    key = (key or "").strip()
    if not (key.isascii() and key.isprintable()):
        raise ConfigurationError(
            "the API key contains characters that an HTTP header cannot carry; check OPENAI_API_KEY "
            "or api_key"
        )
    return key or None


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}{parts.path}".rstrip("/")
