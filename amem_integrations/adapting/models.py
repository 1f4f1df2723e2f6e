"""The models of a framework: when a chat model is asked in words, and embeddings as the memory's embedder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

import numpy as np

from ..errors import ConfigurationError, status_of
from ..providers.embedders import Prefixes, Truncation, unit_rows
from ..stored_note import Vector
from .recall_options import check_counts

Structured = Literal["auto", "schema", "words"]

# A server says by these that it does not take a request in this form, rather than that it is down.
REFUSALS = {400, 404, 415, 422, 501}


def check_structured(structured: str) -> None:
    """Check how a chat model is to be asked.

    Raises:
        ConfigurationError: In none of the ways of `Structured`.
    """
    if structured not in get_args(Structured):
        raise ConfigurationError(f"structured={structured!r} must be 'auto', 'schema', 'words'")


def refuses_schemas(error: Exception) -> bool:
    """Return whether a model says that it cannot be asked by schema. Each vendor has error classes of its own."""
    return isinstance(error, NotImplementedError) or status_of(error) in REFUSALS


class WrappedEmbedder:
    """Puts prefixes before the texts that a framework encodes, and makes unit-length rows of its lists of numbers.

    Attributes:
        name: Identifies the embedder; a collection remembers it.
        max_tokens: How much of a text the model reads, if that is known.
    """

    def __init__(
        self,
        documents: Callable[[list[str]], Any],
        query: Callable[[str], Any],
        model: str,
        *,
        name: str | None = None,
        dimensions: int | None = None,
        query_prefix: str = "",
        document_prefix: str = "",
        max_tokens: int | None = None,
    ) -> None:
        """Take the two functions of a framework that encode texts, and the name of the model.

        Raises:
            ConfigurationError: A size is no whole number from 1.
        """
        sizes = {"dimensions": dimensions, "max_tokens": max_tokens}
        check_counts(**{name: size for name, size in sizes.items() if size is not None})
        self._documents, self._query, self._dimensions = documents, query, dimensions
        self._prefixes = Prefixes(query_prefix, document_prefix)
        self.name, self.max_tokens = name or self._prefixes.named(model), max_tokens
        self._truncation = Truncation(self.name, max_tokens)

    @property
    def dimensions(self) -> int:
        """Length of a vector; a word is encoded to find out, unless the length was given."""
        if self._dimensions is None:
            self._dimensions = len(self._query("dimensions"))
        return self._dimensions

    @property
    def truncated(self) -> int:
        """How many documents were longer than `max_tokens`, by an estimate; the first is told in the log."""
        return self._truncation.count

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Return a float32 array [len(texts), dimensions] of unit-length rows."""
        if not texts:
            return np.empty((0, self.dimensions), dtype=np.float32)
        return self._unit(self._documents(self._read(texts)))

    def embed_query(self, text: str) -> Vector:
        """Return a float32 array [dimensions] of unit length."""
        return self._unit(self._query(self._prefixes.query + text))

    def _read(self, texts: Sequence[str]) -> list[str]:
        """Return documents as the model is given them; count those that are too long for the model."""
        given = [self._prefixes.document + text for text in texts]
        self._truncation.estimate(given)
        return given

    def _unit(self, vectors: Any) -> Vector:  # noqa: ANN401 - lists of numbers
        return unit_rows(np.asarray(vectors, dtype=np.float32))
