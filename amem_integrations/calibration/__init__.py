"""Thresholds for an embedder, found on pairs of texts that come with the package.

What a cosine means differs from one embedder to the next. `duplicates.jsonl` holds pairs of texts that say the same,
and pairs that differ in one fact; `updates.jsonl` what a later note adds to an earlier one; `questions.jsonl` questions
with a note that answers them, mostly in other words, and questions that no note answers. The texts are in English.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np

from ..ports import Embedder
from ..repetition import is_equal, text_difference
from ..stored_note import Vector

# Read here, since an event loop may be running later.
_TEXTS = {
    name: files(__package__).joinpath(name).read_text(encoding="utf-8")
    for name in ("duplicates.jsonl", "updates.jsonl", "questions.jsonl")
}
# Share of the updates that reach .50 with MiniLM, where the gate was measured: in a memory, whose notes have context
# and are nearer to what belongs to them than these bare sentences, it lets 99 % of the honest updates pass.
KEPT = 0.75
ANSWERS_KEPT = 0.95  # share of the notes that answer a question which may be shown for it
TOLD = 0.5  # share of the other notes that are less near than nearly all answers, at least
OTHERS_HIDDEN = 0.95  # share of the notes that answer nothing which may not be shown, whatever the answers reach
MARGIN = 0.005  # above the nearest pair that is told apart by its vectors alone
GRID = 100  # thresholds are whole hundredths


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two texts of one speaker and day, and whether they say the same; `kind` is what they differ in."""

    one: str
    other: str
    same: bool
    kind: str


def pairs() -> list[Pair]:
    """Return the pairs of texts, of which about half say the same."""
    return [Pair(**row) for row in _rows("duplicates.jsonl")]


def similarity_of_repeats(embedder: Embedder) -> tuple[float, float, float]:
    """Return the least cosine of two texts that say the same, and which shares of the pairs reach that cosine.

    The first share is of the pairs that say the same. The second is of those that differ, and is 0.
    """
    known = pairs()
    cosines = cosines_of(embedder, known)
    differing = [c for pair, c in zip(known, cosines, strict=True) if not pair.same]
    least = min(float(np.ceil((max(0.0, *differing) + MARGIN) * GRID) / GRID), 1.0)
    return least, *shares(known, cosines, least)


def cosines_of(embedder: Embedder, known: Sequence[Pair]) -> list[float]:
    """Return the cosine of each pair; equal texts have 1, and those that words tell apart -1."""
    one = _embedded(embedder, [pair.one for pair in known])
    other = _embedded(embedder, [pair.other for pair in known])
    cosines = np.sum(one * other, axis=1)
    return [_cosine(pair, float(value)) for pair, value in zip(known, cosines, strict=True)]


def shares(
    known: Sequence[Pair], cosines: Sequence[float], threshold: float
) -> tuple[float, float]:
    """Return which shares of the pairs that say the same, and of those that differ, reach a threshold."""

    def share(same: bool) -> float:
        counted = [c >= threshold for p, c in zip(known, cosines, strict=True) if p.same is same]
        return sum(counted) / max(len(counted), 1)

    return share(True), share(False)


def _cosine(pair: Pair, cosine: float) -> float:
    if is_equal(pair.one, pair.other):
        return 1.0
    return -1.0 if text_difference(pair.one, pair.other) else cosine


def texts() -> list[str]:
    """Return the texts that an embedder is judged by: notes, then what is added to each of them, then answers."""
    updates, asked = _rows("updates.jsonl"), _rows("questions.jsonl")
    answers = [row["note"] for row in asked if row["note"]]
    return [*(row["note"] for row in updates), *(row["entry"] for row in updates), *answers]


def questions() -> list[str]:
    """Return the questions: first those that the notes answer, in their order, then those that no note answers."""
    return [row["question"] for row in _rows("questions.jsonl")]


def gate_of(documents: Vector) -> tuple[float, float]:
    """Return the least cosine of an update and its note, and the share of updates of random notes under that cosine.

    Args:
        documents: The vectors of `texts()`, float32 [number of texts, dimensions], of unit length.
    """
    count = len(_rows("updates.jsonl"))
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
    notes = documents[2 * len(_rows("updates.jsonl")) :]
    cosines = asked @ notes.T
    answered, others = np.diag(cosines[: len(notes)]), cosines[len(notes) :]
    reached = float(np.quantile(answered, 1 - ANSWERS_KEPT))
    is_told = float(np.mean(others < reached)) >= TOLD
    threshold = (
        _hundredths(max(reached, float(np.quantile(others, OTHERS_HIDDEN)))) if is_told else 1.0
    )
    return threshold, float(np.mean(others < threshold))


def gate(embedder: Embedder) -> tuple[float, float]:
    """Return what `gate_of` does, for a synchronous embedder."""
    return gate_of(_embedded(embedder, texts()))


def relevance_floor(embedder: Embedder) -> tuple[float, float]:
    """Return what `floor_of` does, for a synchronous embedder."""
    asked = _unit([embedder.embed_query(question) for question in questions()])
    return floor_of(_embedded(embedder, texts()), asked)


def _hundredths(cosine: float) -> float:
    return float(np.floor(round(cosine, 6) * GRID) / GRID)


def _embedded(embedder: Embedder, texts: Sequence[str]) -> Vector:
    return _unit(embedder.embed_documents(texts))


def _unit(vectors: Any) -> Vector:  # noqa: ANN401 - what an embedder returns
    rows = np.asarray(vectors, dtype=np.float32)
    unit: Vector = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit


def _rows(name: str) -> list[Mapping[str, Any]]:
    return [json.loads(row) for row in _TEXTS[name].splitlines()]
