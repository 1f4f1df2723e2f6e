"""What the OpenAI chat model and encoder share: clients, errors, and the schema of a reply."""

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

from pydantic import BaseModel

from ..errors import (
    AmemError,
    ConfigurationError,
    MissingExtraError,
    ModelReplyError,
    ModelUnavailableError,
)

_LONGEST_DETAIL = 300


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

    def not_understood(self, model: str, answer: object) -> ModelUnavailableError:
        """Return the error for an answer that is none of this API."""
        return ModelUnavailableError(
            f"{model!r} at {self.address} did not answer like an OpenAI-compatible endpoint "
            f"({str(answer)[:_LONGEST_DETAIL]!r}); check base_url, which often ends in /v1"
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
            raise self._translated(error, model) from error
        except json.JSONDecodeError as error:
            raise self.not_understood(model, error.doc) from error

    def _translated(self, error: Exception, model: str) -> AmemError:
        where = f"{model!r} at {self.address}"
        status = getattr(error, "status_code", None)
        if status in {401, 403}:
            # The message of the endpoint can hold parts of the key.
            return ConfigurationError(f"{where} refused access (HTTP {status}); check the API key")
        detail = self._detail(error)
        if status == 404:  # noqa: PLR2004 - not found
            return ConfigurationError(
                f"{where} was not found ({detail}); check the name of the model and base_url"
            )
        if status is None or status in {408, 409, 429} or status >= 500:  # noqa: PLR2004
            return ModelUnavailableError(f"{where} did not answer ({detail}); try again later")
        return ModelReplyError(f"{where} refused the request ({detail})")

    def _detail(self, error: Exception) -> str:
        text = " ".join(str(error).split())
        text = text.replace(self._key, "…") if self._key else text
        return text[:_LONGEST_DETAIL] or type(error).__name__


def strict_schema(reply: type[BaseModel]) -> dict[str, Any]:
    """Return a JSON schema in which every object is closed and every field required.

    Endpoints that decode along a schema ask for this form; it also keeps a model from leaving out
    what has a default.
    """
    schema: dict[str, Any] = _strict(reply.model_json_schema())
    return schema


def _strict(node: Any) -> Any:  # noqa: ANN401 - any part of a schema
    if isinstance(node, list):
        return [_strict(part) for part in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return {"$ref": node["$ref"]}
    strict = {
        key: {name: _strict(part) for name, part in value.items()}
        if key in {"properties", "$defs"}
        else _strict(value)
        for key, value in node.items()
        if key not in {"default", "title"}
    }
    if node.get("type") == "object":
        strict |= {"additionalProperties": False, "required": list(node.get("properties", {}))}
    return strict
