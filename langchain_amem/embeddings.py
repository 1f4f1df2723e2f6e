"""`LangChainEmbedder`: any LangChain embeddings, for the memory to search with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from langchain_core.embeddings import Embeddings
from numpy.typing import NDArray

from amem_integrations import ConfigurationError

from ._names import name_of


class LangChainEmbedder:
    """LangChain embeddings as the memory's embedder.

    Attributes:
        name: Identifies the embedder; a collection remembers it.
        provider: Name of the class of the embeddings.
    """

    def __init__(
        self, embeddings: Embeddings, *, dimensions: int | None = None, name: str | None = None
    ) -> None:
        """Wrap embeddings.

        Args:
            embeddings: Any embeddings.
            dimensions: Length of a vector; by default one text is encoded to find out, on first use.
            name: Identifies the embedder; by default the model's own name.

        Raises:
            ConfigurationError: They are no embeddings.
        """
        if not isinstance(embeddings, Embeddings):
            raise ConfigurationError(f"embeddings={embeddings!r} are no LangChain embeddings")
        self.name = name or name_of(embeddings)
        self.provider = type(embeddings).__name__
        self._embeddings = embeddings
        self._dimensions = dimensions

    @property
    def dimensions(self) -> int:
        """Length of a vector."""
        if self._dimensions is None:
            self._dimensions = len(self._embeddings.embed_query("dimensions"))
        return self._dimensions

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a float32 array [len(texts), dimensions] of unit-length rows."""
        return _unit(self._embeddings.embed_documents(list(texts)))

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return a float32 array [dimensions] of unit length."""
        return _unit(self._embeddings.embed_query(text))

    async def aembed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Asynchronous twin of `embed_documents`."""
        return _unit(await self._embeddings.aembed_documents(list(texts)))

    async def aembed_query(self, text: str) -> NDArray[np.float32]:
        """Asynchronous twin of `embed_query`."""
        return _unit(await self._embeddings.aembed_query(text))


def _unit(vectors: Any) -> NDArray[np.float32]:  # noqa: ANN401 - lists of numbers
    rows = np.asarray(vectors, dtype=np.float32)
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1), dtype=np.float32)
