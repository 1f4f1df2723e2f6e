"""The least cosines that count with the embedder of a memory: measured before, or found once on pairs of texts.

What a cosine means differs from one embedder to the next. `threshold_updates.jsonl` holds what a later note adds to an earlier
one; `threshold_questions.jsonl` questions with a note that answers them, mostly in other words, and questions that no note
answers. The texts are in English.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np

from .config import MEASURED, Cosines
from .embedding import embed_by, embed_query
from .errors import ModelUnavailableError, StoreError
from .runtime import Runtime, log, resolve
from .stored_note import Vector

DEFAULT_GATE = 0.5  # while an embedder that nobody measured does not answer
SAME = 0.999  # cosine of one text as a document and as a query
# Share of the updates that reach .50 with MiniLM, where the gate was measured: in a memory, whose notes have context
# and are nearer to what belongs to them than these bare sentences, it lets 99 % of the honest updates pass.
KEPT = 0.75
ANSWERS_KEPT = 0.95  # share of the notes that answer a question which may be shown for it
TOLD = 0.5  # share of the other notes that are less near than nearly all answers, at least
OTHERS_HIDDEN = 0.95  # share of the notes that answer nothing which may not be shown, whatever the answers reach
GRID = 100  # thresholds are whole hundredths

# Read here, since an event loop may be running later.
_UPDATES, _QUESTIONS = (
    [json.loads(row) for row in Path(__file__).with_name(name).read_text("utf-8").splitlines()]
    for name in ("threshold_updates.jsonl", "threshold_questions.jsonl")
)


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
    """Return the thresholds of the embedder; None while an embedder that nobody measured does not answer.

    What is found for an embedder that is not in the table is kept with the collection, so one call of the embedder is
    enough; `info()` tells it.
    """
    name = runtime.embedder.name
    if name not in runtime.thresholds:
        kept = runtime.store.made_with.get("cosines")
        found = MEASURED.get(name) or (Cosines(**kept) if kept else await _found(runtime))
        if found is None:
            return None
        runtime.thresholds[name] = found
    return runtime.thresholds[name]


async def _found(runtime: Runtime) -> Cosines | None:
    """Return the thresholds of an embedder that is not in the table, by one call of it, and keep them with the collection."""
    documents, asking = texts(), questions()
    try:
        rows = await embed_by(runtime.embedder, [*documents, *asking])
        probe = await embed_query(runtime, asking[0])
        if any(row is None for row in rows) or probe is None:
            return None
        vectors: Vector = np.array(rows, dtype=np.float32)
        asked = vectors[len(documents) :]
        if float(probe @ asked[0]) < SAME:  # the embedder treats queries otherwise
            asked = np.array([await embed_query(runtime, one) for one in asking], dtype=np.float32)
    except ModelUnavailableError as error:
        log.warning("%s; whatever is found is shown meanwhile", error)
        return None
    known = vectors[: len(documents)]
    found = Cosines(relevance=floor_of(known, asked)[0], gate=gate_of(known)[0])
    try:
        await resolve(runtime.store.keep_cosines(asdict(found)))
    except StoreError as error:  # such as of a key that may only read
        log.warning("%s; the thresholds of the embedder are found anew next time", error)
    return found


def texts() -> list[str]:
    """Return the texts that an embedder is judged by: notes, then what is added to each of them, then answers."""
    answers = [row["note"] for row in _QUESTIONS if row["note"]]
    return [*(row["note"] for row in _UPDATES), *(row["entry"] for row in _UPDATES), *answers]


def questions() -> list[str]:
    """Return the questions: first those that the notes answer, in their order, then those that no note answers."""
    return [row["question"] for row in _QUESTIONS]


def gate_of(documents: Vector) -> tuple[float, float]:
    """Return the least cosine of an update and its note, and the share of updates of random notes under that cosine.

    Args:
        documents: The vectors of `texts()`, float32 [number of texts, dimensions], of unit length.
    """
    count = len(_UPDATES)
    notes, entries = documents[:count], documents[count : 2 * count]
    cosines = entries @ notes.T
    random = cosines[~np.eye(count, dtype=bool)]
    threshold = _hundredths(float(np.quantile(np.diag(cosines), 1 - KEPT)))
    return threshold, float(np.mean(random < threshold))


def floor_of(documents: Vector, asked: Vector) -> tuple[float, float]:
    """Return the least cosine of a question and its answer, and the share of notes that answer nothing under that cosine.

    Nearly all answers reach the floor, and nearly no other note does. An embedder that does not tell answers from other
    notes, such as one that counts words, has the floor 1: what has to do with a question is known by its words then.

    Args:
        documents: The vectors of `texts()`, float32 [number of texts, dimensions], of unit length.
        asked: Those of `questions()`.
    """
    notes = documents[2 * len(_UPDATES) :]
    cosines = asked @ notes.T
    answered, others = np.diag(cosines[: len(notes)]), cosines[len(notes) :]
    reached = float(np.quantile(answered, 1 - ANSWERS_KEPT))
    is_told = float(np.mean(others < reached)) >= TOLD
    hiding = float(np.quantile(others, OTHERS_HIDDEN))
    threshold = _hundredths(max(reached, hiding)) if is_told else 1.0
    return threshold, float(np.mean(others < threshold))


def _hundredths(cosine: float) -> float:
    return float(np.floor(round(cosine, 6) * GRID) / GRID)
