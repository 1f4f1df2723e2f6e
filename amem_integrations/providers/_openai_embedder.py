"""An embedder behind an OpenAI-compatible endpoint."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import ConfigurationError
from ..ports import Vector
from ._openai_errors import is_too_long, said
from ._openai_sdk import Endpoint, sdk

_SHORTEST = 256  # characters that no embedder finds too long


class OpenAIEmbedder:
    """Encodes by the Embeddings API, `batch_size` texts a request.

    Of a text that is longer than the model reads the beginning counts, as with embedders that run locally.

    `dimensions` asks for shorter vectors of models that can give them. Without it the length is found
    out by encoding one word when it is first needed. Retries, threads and event loops are as with
    `OpenAIChatModel`.

    Attributes:
        name: The model's name, which a collection remembers.
    """

    def __init__(
        self,
        model: str,
        *,
        dimensions: int | None = None,
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
            ConfigurationError: There is no API key.
        """
        self.name = model
        self._asked = dimensions
        self._dimensions = dimensions
        self._batch_size = batch_size
        self._probing = threading.Lock()
        self._endpoint = Endpoint(
            base_url, api_key, timeout=timeout, max_retries=max_retries, **client_options
        )

    def __repr__(self) -> str:
        """Return the model and where it is, without the key."""
        return f"{type(self).__name__}({self.name!r}, base_url={self._endpoint.address!r})"

    @property
    def dimensions(self) -> int:
        """Length of a vector; the first use can send a request, with the errors of that."""
        with self._probing:
            return self._dimensions or len(self.embed_query("dimensions"))

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Return a float32 array [len(texts), dimensions] of unit-length rows.

        Raises:
            ModelUnavailableError: No usable answer after all retries.
            ConfigurationError: Key, model name, base URL or `dimensions` is wrong.
        """
        create = self._endpoint.client.embeddings.create
        batches = self._batches(texts)
        answers: list[Any] = []
        with self._endpoint.errors(self.name):
            while len(answers) < len(batches):
                batch = batches[len(answers)]
                try:
                    answers.append(create(**self._arguments(batch)))
                except sdk().APIStatusError as error:
                    batches[len(answers)] = _cut(batch, error)
        return self._rows(texts, answers)

    async def aembed_documents(self, texts: Sequence[str]) -> Vector:
        """Return the same as `embed_documents`, on the running event loop."""
        create = self._endpoint.async_client().embeddings.create
        batches = self._batches(texts)
        answers: list[Any] = []
        with self._endpoint.errors(self.name):
            while len(answers) < len(batches):
                batch = batches[len(answers)]
                try:
                    answers.append(await create(**self._arguments(batch)))
                except sdk().APIStatusError as error:
                    batches[len(answers)] = _cut(batch, error)
        return self._rows(texts, answers)

    def embed_query(self, text: str) -> Vector:
        """Return a float32 array [dimensions] of unit length; errors as for documents."""
        row: Vector = self.embed_documents([text])[0]
        return row

    async def aembed_query(self, text: str) -> Vector:
        """Return the same as `embed_query`, on the running event loop."""
        row: Vector = (await self.aembed_documents([text]))[0]
        return row

    def close(self) -> None:
        """Close idle connections. The instance can be used no more in a synchronous way."""
        self._endpoint.close()

    def _batches(self, texts: Sequence[str]) -> list[Sequence[str]]:
        size = self._batch_size
        return [texts[start : start + size] for start in range(0, len(texts), size)]

    def _arguments(self, texts: Sequence[str]) -> dict[str, Any]:
        arguments = {
            "model": self.name,
            "input": [text or " " for text in texts],  # an empty text is refused
            "encoding_format": "float",  # not every endpoint knows base64
        }
        return arguments | ({"dimensions": self._asked} if self._asked else {})

    def _rows(self, texts: Sequence[str], answers: list[Any]) -> Vector:
        if not texts:
            return np.empty((0, self.dimensions), dtype=np.float32)
        found: list[list[float]] = []
        for answer in answers:
            data = getattr(answer, "data", None)
            if not data:
                raise self._endpoint.not_understood(self.name, answer)
            found += [item.embedding for item in sorted(data, key=lambda item: item.index)]
        rows = np.asarray(found, dtype=np.float32)
        if len(rows) != len(texts) or rows.shape[1] != (self._dimensions or rows.shape[1]):
            raise ConfigurationError(
                f"{self.name!r} gave vectors of shape {rows.shape} for {len(texts)} texts and "
                f"dimensions={self._dimensions}; leave dimensions out, or check the endpoint"
            )
        self._dimensions = rows.shape[1]
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        unit: Vector = rows / np.maximum(lengths, np.finfo(np.float32).tiny)
        return unit


def _cut(texts: Sequence[str], error: Exception) -> Sequence[str]:
    """Return the texts with the longest ones halved, if they were too long; else raise the error."""
    longest = max(map(len, texts))
    if longest < _SHORTEST or not is_too_long(said(error)):
        raise error
    return [text[: max(longest // 2, 1)] for text in texts]
