"""What the OpenAI chat model and embedder share: the SDK, and clients of an endpoint."""

from __future__ import annotations

import asyncio
import json
import os
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
from ._openai_errors import is_too_long, shortened, translated


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
    """Clients for one endpoint: one for all threads, and one for each event loop.

    An asynchronous client belongs to the loop it was first used on; on another one it fails with
    "event loop is closed". Those clients also end each connection after its answer: a kept one would
    outlive a loop that ends, as that of `asyncio.run` does.
    """

    def __init__(self, base_url: str | None, api_key: str | None, **options: Any) -> None:  # noqa: ANN401
        self._sdk = sdk()
        # An endpoint of one's own often wants no key, but the SDK insists on one.
        self._key = api_key or os.environ.get("OPENAI_API_KEY")
        key = self._key or (base_url and "unused")
        self._options = {**options, "base_url": base_url, "api_key": key}
        try:
            self.client = self._sdk.OpenAI(**self._options)
        except self._sdk.OpenAIError as error:
            raise ConfigurationError(
                "no API key: set OPENAI_API_KEY, or give api_key=… (and base_url=… for an endpoint "
                "other than OpenAI's)"
            ) from error
        # The client is part of a cycle, in which sockets can be collected before it closes them.
        finalize(self, self.client.close)
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = WeakKeyDictionary()
        self._lock = threading.Lock()

    @property
    def address(self) -> str:
        """The base URL, without user name and password."""
        parts = urlsplit(str(self.client.base_url))
        port = f":{parts.port}" if parts.port else ""
        return f"{parts.scheme}://{parts.hostname}{port}{parts.path}".rstrip("/")

    def async_client(self) -> Any:  # noqa: ANN401 - openai.AsyncOpenAI
        """Return the client of the running event loop."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if loop not in self._by_loop:
                headers = {**(self._options.get("default_headers") or {}), "Connection": "close"}
                options = {**self._options, "default_headers": headers}
                self._by_loop[loop] = self._sdk.AsyncOpenAI(**options)
            return self._by_loop[loop]

    def not_understood(self, model: str, answer: object) -> AmemError:
        """Return the error for an answer that is none of this API."""
        told = str(getattr(answer, "error", None) or answer)
        where, detail = f"{model!r} at {self.address}", shortened(told, self._key)
        if is_too_long(told):  # an error that is sent as if all were well
            return ModelReplyError(f"{where} refused the request ({detail})")
        return ModelUnavailableError(
            f"{where} did not answer like an OpenAI-compatible endpoint ({detail!r}); check base_url, "
            "which often ends in /v1"
        )

    def close(self) -> None:
        """Close the connections of the synchronous client."""
        self.client.close()

    @contextmanager
    def errors(self, model: str) -> Iterator[None]:
        """Translate the errors of the SDK."""
        try:
            yield
        except self._sdk.APIError as error:
            raise translated(error, f"{model!r} at {self.address}", self._key) from error
        except json.JSONDecodeError as error:
            raise self.not_understood(model, error.doc) from error
