"""`LlamaIndexEmbedder`: any LlamaIndex embedding model, for the memory to search with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from llama_index.core import Settings
from llama_index.core.base.embeddings.base import BaseEmbedding

from amem_integrations import ConfigurationError, ModelUnavailableError
from amem_integrations.adapting import (
    Call,
    Prefixes,
    Truncation,
    both,
    check_counts,
    directly,
    in_thread,
)
from amem_integrations.ports import Vector

from .chat_model import translated


class LlamaIndexEmbedder:
    """Any LlamaIndex embedding model as the memory's embedder.

    https://developers.llamaindex.ai/python/framework/module_guides/models/embeddings/
    """

    def __init__(
        self,
        model: BaseEmbedding | None = None,
        *,
        name: str | None = None,
        dimensions: int | None = None,
        query_prefix: str = "",
        document_prefix: str = "",
        max_tokens: int | None = None,
        in_thread: bool = False,
    ) -> None:
        """Wrap an embedding model; nothing is sent yet.

        Args:
            model: The model; None takes `Settings.embed_model` as it is at first use, and stays with it:
                vectors of two models cannot be compared.
            name: What a collection remembers of the embedder; None makes it of class and model.
            dimensions: Length of a vector; None finds out by encoding a word.
            query_prefix: What stands before a query, if the model wants that and its class does not give it, as
                those with a `query_instruction` do.
            document_prefix: The same for a document.
            max_tokens: How much of a text the model reads, if that is known: longer content is split accordingly, and
                texts that are too long by an estimate are counted in `truncated`.
            in_thread: Call the synchronous methods in a thread, for models whose asynchronous ones block.

        Raises:
            ConfigurationError: It is no LlamaIndex embedding model, or an option has a value it cannot have.
        """
        if not isinstance(model, BaseEmbedding | None):
            raise ConfigurationError(f"model={model!r} is no LlamaIndex embedding model")
        self._model, self._name, self._dimensions = model, name, dimensions
        self._in_thread = in_thread
        self.max_tokens = max_tokens
        sizes = {"dimensions": dimensions, "max_tokens": max_tokens}
        check_counts(**{name: size for name, size in sizes.items() if size is not None})
        self._prefixes = Prefixes(query_prefix, document_prefix)
        self._truncation = Truncation(name or type(self).__name__, max_tokens)

    @property
    def model(self) -> BaseEmbedding:
        """The model in use.

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
        made = f"{self.model.class_name()}:{self.model.model_name}"
        return self._name or self._prefixes.named(made)

    @property
    def truncated(self) -> int:
        """How many documents were longer than `max_tokens`, by an estimate; the first is told in the log."""
        return self._truncation.count

    @property
    def dimensions(self) -> int:
        """Length of a vector.

        Raises:
            ConfigurationError: There is no model, or its key is wrong.
            ModelUnavailableError: It did not answer.
        """
        if self._dimensions is None:
            with translated(self.name, refused=ModelUnavailableError):
                self._dimensions = len(self.model.get_text_embedding("length"))
        return self._dimensions

    async def _embed_documents(self, call: Call, texts: Sequence[str]) -> Vector:
        """Return a float32 array [len(texts), dimensions] of unit-length rows.

        Raises:
            ConfigurationError: There is no model, or its key or name is wrong.
            ModelUnavailableError: It did not answer, or refused the texts.
        """
        model = self.model
        given = [self._prefixes.document + text for text in texts]
        self._truncation.estimate(given)
        with translated(self.name, refused=ModelUnavailableError):
            rows = await self._form(call)(model.get_text_embedding_batch, given)
        return _unit(rows) if rows else np.empty((0, self.dimensions), dtype=np.float32)

    async def _embed_query(self, call: Call, text: str) -> Vector:
        """Return a float32 array [dimensions] of unit length.

        Raises:
            ConfigurationError: There is no model, or its key or name is wrong.
            ModelUnavailableError: It did not answer, or refused the text.
        """
        model = self.model
        with translated(self.name, refused=ModelUnavailableError):
            given = self._prefixes.query + text
            return _unit(await self._form(call)(model.get_query_embedding, given))

    embed_documents, aembed_documents = both(_embed_documents)
    embed_query, aembed_query = both(_embed_query)

    def _form(self, call: Call) -> Call:
        return in_thread if self._in_thread and call is not directly else call


def _unit(values: Sequence[Any]) -> Vector:
    vectors = np.asarray(values, dtype=np.float32)
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    unit: Vector = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    return unit
