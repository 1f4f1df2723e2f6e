"""How near two texts are in meaning: the cosine of their vectors."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..._sync import resolve, run
from ...ports import Embedder, Vector


class Similarity:
    """The cosines between some texts, each encoded once, all of them in one batch."""

    def __init__(self, embedder: Embedder, texts: Iterable[str]) -> None:
        """Encode the texts; empty ones are left out."""
        distinct = list(dict.fromkeys(text for text in texts if text))
        vectors = run(resolve(embedder.embed_documents(distinct))) if distinct else ()
        self._vectors: dict[str, Vector] = dict(zip(distinct, vectors, strict=True))

    def __call__(self, first: str, second: str) -> float:
        """Return the cosine of two of the texts, from -1 to 1.

        Raises:
            KeyError: One is not among the texts.
        """
        cosine = float(np.dot(self._vectors[first], self._vectors[second]))
        return max(-1.0, min(1.0, cosine))
