"""Call the embedder, and say in our own words when it fails."""

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
    """Return a unit-length vector for each text, by one call of the embedder at most.

    A text that stands there twice, or was encoded lately, is not encoded again.

    Raises:
        ModelUnavailableError: The embedder failed.
    """
    vectors: dict[str, Vector] = {}
    missing: list[str] = []
    for text in dict.fromkeys(texts):
        if (known := runtime.recent.get("document", text)) is None:
            missing.append(text)
        else:
            vectors[text] = known
    for text, row in zip(missing, await embed_by(runtime.embedder, missing), strict=True):
        runtime.recent.put("document", text, row)
        vectors[text] = row
    return [vectors[text] for text in texts]


async def embed_by(embedder: Embedder, texts: Sequence[str]) -> list[Vector]:
    """Return a unit-length vector for each text, by any embedder; every one is encoded."""
    if not texts:
        return []
    try:
        rows = await resolve(embedder.embed_documents(list(texts)))
    except AmemError:
        raise
    except Exception as error:
        raise _unavailable(embedder, error) from error
    return list(np.asarray(rows, dtype=np.float32))


async def embed_if_possible(
    runtime: Runtime,
    texts: Sequence[str],
    *,
    until: str = "they are constructed",
    despite: tuple[type[AmemError], ...] = (ModelUnavailableError,),
) -> Sequence[Vector | None]:
    """Return a vector for each text, or None for each when the embedder fails by one of `despite`.

    For what must not wait for the embedder: BM25 finds it meanwhile. `until` says in the log when it will be
    encoded after all.
    """
    try:
        return await embed(runtime, texts)
    except despite as error:
        log.warning("%s; %d notes have no new vector until %s", error, len(texts), until)
        return [None] * len(texts)


async def embed_query(runtime: Runtime, text: str) -> Vector:
    """Return a unit-length vector for a query.

    Raises:
        ModelUnavailableError: The embedder failed.
    """
    # Half a surrogate pair, as of a cut emoji, is no character, and tokenisers refuse it.
    text = text.encode(errors="ignore").decode()
    if (known := runtime.recent.get("query", text)) is not None:
        return known
    try:
        vector = await resolve(runtime.embedder.embed_query(text))
    except AmemError:
        raise
    except Exception as error:
        raise _unavailable(runtime.embedder, error) from error
    row = np.asarray(vector, dtype=np.float32)
    runtime.recent.put("query", text, row)
    return row


def _unavailable(embedder: Embedder, error: Exception) -> ModelUnavailableError:
    # An embedder is anybody's code: whatever it raises means that there is no vector now.
    return ModelUnavailableError(f"the embedder {embedder.name} raised {error!r}; try again later")
