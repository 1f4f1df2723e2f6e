"""The least cosines that count with the embedder of a memory: measured before, or found once on pairs of texts."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Protocol, cast

import numpy as np

from . import calibration
from .embedder_table import MEASURED, Cosines
from .embedding import embed_by, embed_query
from .errors import ModelUnavailableError, StoreError
from .ports import MaybeAwaitable
from .runtime import Runtime, resolve
from .stored_note import Vector

log = logging.getLogger("amem_integrations")

DEFAULT_GATE = 0.5  # while an embedder that nobody measured does not answer
SAME = 0.999  # cosine of one text as a document and as a query


class _KnowsItsEmbedder(Protocol):
    """A store that keeps with its collection what the vectors were made with."""

    @property
    def made_with(self) -> Mapping[str, Any]: ...

    def keep_cosines(self, cosines: Mapping[str, float]) -> MaybeAwaitable[None]:
        """Keep the thresholds of the embedder with the collection."""
        ...


async def relevance_floor(runtime: Runtime) -> float | None:
    """Return the least cosine of a question and a note that may be shown for it; None where nothing is known."""
    if runtime.config.min_relevance is not None:
        return runtime.config.min_relevance
    known = await cosines(runtime)
    return known.relevance if known else None


async def gate(runtime: Runtime) -> float:
    """Return the least cosine of a note and a sentence that another note adds to it."""
    if runtime.config.min_gate_similarity is not None:
        return runtime.config.min_gate_similarity
    known = await cosines(runtime)
    return known.gate if known else DEFAULT_GATE


async def cosines(runtime: Runtime) -> Cosines | None:
    """Return what counts with the embedder; None while an embedder that nobody measured does not answer.

    What is found for an embedder that is not in the table is kept with the collection, so one call of the embedder is
    enough; `info()` tells it.
    """
    name = runtime.embedder.name
    if name in MEASURED:
        return MEASURED[name]
    if name not in runtime.thresholds:
        made = cast("_KnowsItsEmbedder", runtime.store).made_with
        found = _kept(made.get("cosines")) or await _found(runtime)
        if found is None:
            return None
        runtime.thresholds[name] = found
        if not made.get("cosines"):
            await _keep(runtime, found)
    return runtime.thresholds[name]


def _kept(values: object) -> Cosines | None:
    if not isinstance(values, Mapping):
        return None
    return Cosines(**values)


async def _keep(runtime: Runtime, found: Cosines) -> None:
    """Keep what was found with the collection."""
    try:
        await resolve(cast("_KnowsItsEmbedder", runtime.store).keep_cosines(asdict(found)))
    except StoreError as error:  # such as of a key that may only read
        log.warning("%s; the thresholds of the embedder are found anew next time", error)


async def _found(runtime: Runtime) -> Cosines | None:
    """Return the thresholds of an embedder that is not in the table, by one call of it."""
    documents, questions = calibration.texts(), calibration.questions()
    try:
        rows = await embed_by(runtime.embedder, [*documents, *questions])
        probe = await embed_query(runtime, questions[0])
        if any(row is None for row in rows) or probe is None:
            return None
        vectors: Vector = np.array(rows, dtype=np.float32)
        asked = vectors[len(documents) :]
        if float(probe @ asked[0]) < SAME:  # the embedder treats queries otherwise
            asked = np.array(
                [await embed_query(runtime, one) for one in questions], dtype=np.float32
            )
    except ModelUnavailableError as error:
        log.warning("%s; whatever is found is shown meanwhile", error)
        return None
    floor, _ = calibration.floor_of(vectors[: len(documents)], asked)
    least, _ = calibration.gate_of(vectors[: len(documents)])
    return Cosines(relevance=floor, gate=least)
