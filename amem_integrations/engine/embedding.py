"""Call the encoder, and say in our own words when it fails."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np

from .._sync import resolve
from ..errors import AmemError, ModelUnavailableError
from ..ports import Embedder, Vector
from ..runtime import Runtime

log = logging.getLogger("amem_integrations")


async def embed(runtime: Runtime, texts: Sequence[str]) -> list[Vector]:
    """Return a unit-length vector for each text.

    Raises:
        ModelUnavailableError: The encoder failed.
    """
    return await embed_by(runtime.embedder, texts)


async def embed_by(embedder: Embedder, texts: Sequence[str]) -> list[Vector]:
    """Return what `embed` does, by any encoder."""
    if not texts:
        return []
    try:
        rows = await resolve(embedder.embed_documents(list(texts)))
    except AmemError:
        raise
    except Exception as error:
        raise _unavailable(embedder, error) from error
    return list(np.asarray(rows, dtype=np.float32))


async def embed_if_possible(runtime: Runtime, texts: Sequence[str]) -> Sequence[Vector | None]:
    """Return a vector for each text, or None for each when the encoder fails.

    For raw notes: BM25 finds them meanwhile, and construction, still to come, embeds them again.
    """
    try:
        return await embed(runtime, texts)
    except ModelUnavailableError as error:
        log.warning("%s; %d notes are stored without a new vector", error, len(texts))
        return [None] * len(texts)


async def embed_query(runtime: Runtime, text: str) -> Vector:
    """Return a unit-length vector for a query.

    Raises:
        ModelUnavailableError: The encoder failed.
    """
    try:
        vector = await resolve(runtime.embedder.embed_query(text))
    except AmemError:
        raise
    except Exception as error:
        raise _unavailable(runtime.embedder, error) from error
    return np.asarray(vector, dtype=np.float32)


def _unavailable(embedder: Embedder, error: Exception) -> ModelUnavailableError:
    # An encoder is anybody's code: whatever it raises means that there is no vector now.
    return ModelUnavailableError(f"the encoder {embedder.name} raised {error!r}; try again later")
