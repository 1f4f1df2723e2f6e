"""`LlamaIndexEmbedder`: any LlamaIndex embedding model, for the memory to search with."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
from llama_index.core import Settings
from llama_index.core.base.embeddings.base import BaseEmbedding
from numpy.typing import NDArray

from amem_integrations import ConfigurationError

Vector = NDArray[np.float32]


class LlamaIndexEmbedder:
    """Any LlamaIndex embedding model as the memory's embedder.

    https://developers.llamaindex.ai/python/framework/module_guides/models/embeddings/

    Args:
        model: The embedder; None takes `Settings.embed_model` as it is at first use, and stays with it:
            vectors of two embedders cannot be compared.
        name: What a collection remembers of the embedder; None makes it of class and model.
        dimensions: Length of a vector; None finds out by encoding a word.
        in_thread: Call the synchronous methods in a thread, for models whose asynchronous ones block.
    """

    def __init__(
        self,
        model: BaseEmbedding | None = None,
        *,
        name: str | None = None,
        dimensions: int | None = None,
        in_thread: bool = False,
    ) -> None:
        self._model, self._name, self._dimensions = model, name, dimensions
        self._in_thread = in_thread

    @property
    def model(self) -> BaseEmbedding:
        """The embedder in use.

        Raises:
            ConfigurationError: There is none.
        """
        if self._model is None:
            try:
                self._model = Settings.embed_model
            except (ImportError, ValueError) as error:
                raise ConfigurationError(
                    "there is no embedder: set `Settings.embed_model`, or give `LlamaIndexEmbedder(model)`"
                ) from error
        return self._model

    @property
    def name(self) -> str:
        """Identifies the embedder; a collection remembers it."""
        return self._name or f"{self.model.class_name()}:{self.model.model_name}"

    @property
    def dimensions(self) -> int:
        """Length of a vector."""
        if self._dimensions is None:
            self._dimensions = len(self.model.get_text_embedding("length"))
        return self._dimensions

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Return a float32 array [len(texts), dimensions] of unit-length rows."""
        return self._rows(self.model.get_text_embedding_batch(list(texts)))

    async def aembed_documents(self, texts: Sequence[str]) -> Vector:
        """Asynchronous twin of `embed_documents`."""
        if self._in_thread:
            return await asyncio.to_thread(self.embed_documents, texts)
        return self._rows(await self.model.aget_text_embedding_batch(list(texts)))

    def embed_query(self, text: str) -> Vector:
        """Return a float32 array [dimensions] of unit length."""
        return _unit(self.model.get_query_embedding(text))

    async def aembed_query(self, text: str) -> Vector:
        """Asynchronous twin of `embed_query`."""
        if self._in_thread:
            return await asyncio.to_thread(self.embed_query, text)
        return _unit(await self.model.aget_query_embedding(text))

    def _rows(self, rows: Sequence[Sequence[float]]) -> Vector:
        return _unit(rows) if len(rows) else np.empty((0, self.dimensions), dtype=np.float32)


def _unit(values: Sequence[Any]) -> Vector:
    vectors = np.asarray(values, dtype=np.float32)
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    unit: Vector = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    return unit
