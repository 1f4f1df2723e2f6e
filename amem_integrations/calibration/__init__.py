"""Thresholds for an embedder, found on pairs of texts that come with the package.

What a cosine means differs from one embedder to the next. `duplicates.jsonl` holds pairs of texts that say the same,
and pairs that differ in a fact; `updates.jsonl` what a later note adds to an earlier one; `questions.jsonl` questions
with a note that answers them, mostly in other words, and questions that no note answers. The texts are in English.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np

from ..duplicates import is_equal, text_difference
from ..ports import Embedder, Vector

# Share of the updates that reach .50 with MiniLM, where the gate was measured: in a memory, whose notes have context
# and are nearer to what belongs to them than these bare sentences, it lets 99 % of the honest updates pass.
KEPT = 0.75
ANSWERS_KEPT = 0.95  # share of the notes that answer a question which may be shown for it
MARGIN = 0.005  # above the nearest pair that is told apart by its vectors alone
GRID = 100  # thresholds are whole hundredths


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Thresholds for an embedder, and what they do to the pairs.

    Attributes:
        embedder: Its name.
        min_duplicate_similarity: The least cosine at which no pair that differs counts as a duplicate.
        duplicates_found: Share of the pairs that say the same which count as duplicates.
        false_duplicates: Share of the pairs that differ which count as duplicates.
        min_gate_similarity: The cosine that as many of the updates reach as reach .50 with MiniLM.
        random_stopped: Share of the updates of a random note that it stops.
        min_relevance: The cosine that nearly all of the notes reach which answer a question.
        unrelated_hidden: Share of the notes, over questions that none answers, that it leaves out.
    """

    embedder: str
    min_duplicate_similarity: float
    duplicates_found: float
    false_duplicates: float
    min_gate_similarity: float
    random_stopped: float
    min_relevance: float
    unrelated_hidden: float

    @property
    def config(self) -> dict[str, float]:
        """The settings of `MemoryConfig` to use."""
        names = ("min_duplicate_similarity", "min_gate_similarity", "min_relevance")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True, kw_only=True)
class DuplicatePair:
    """Two texts of one speaker and day, and whether they say the same; `kind` is what they differ in."""

    one: str
    other: str
    same: bool
    kind: str


def duplicate_pairs() -> list[DuplicatePair]:
    """Return the pairs that come with the package."""
    return [DuplicatePair(**row) for row in _rows("duplicates.jsonl")]


def calibrate(embedder: Embedder) -> Calibration:
    """Return the thresholds for an embedder; it embeds about 490 short texts."""
    pairs = duplicate_pairs()
    cosines = duplicate_cosines(embedder, pairs)
    duplicate = duplicate_threshold(pairs, cosines)
    found, false = rates(pairs, cosines, duplicate)
    gate, stopped = _gate(embedder)
    relevance, hidden = _relevance(embedder)
    return Calibration(
        embedder=embedder.name,
        min_duplicate_similarity=duplicate,
        duplicates_found=found,
        false_duplicates=false,
        min_gate_similarity=gate,
        random_stopped=stopped,
        min_relevance=relevance,
        unrelated_hidden=hidden,
    )


def duplicate_cosines(embedder: Embedder, pairs: Sequence[DuplicatePair]) -> list[float]:
    """Return the cosine of each pair; equal texts have 1, and those that words tell apart -1."""
    one = _embedded(embedder, [pair.one for pair in pairs])
    other = _embedded(embedder, [pair.other for pair in pairs])
    cosines = np.sum(one * other, axis=1)
    return [_cosine(pair, float(value)) for pair, value in zip(pairs, cosines, strict=True)]


def _cosine(pair: DuplicatePair, cosine: float) -> float:
    if is_equal(pair.one, pair.other):
        return 1.0
    return -1.0 if text_difference(pair.one, pair.other) else cosine


def duplicate_threshold(pairs: Sequence[DuplicatePair], cosines: Sequence[float]) -> float:
    """Return the least threshold at which no pair that differs counts as a duplicate, with a margin."""
    differing = [c for pair, c in zip(pairs, cosines, strict=True) if not pair.same]
    least = max(max(differing, default=0.0), 0.0) + MARGIN
    return min(float(np.ceil(least * GRID) / GRID), 1.0)


def rates(
    pairs: Sequence[DuplicatePair], cosines: Sequence[float], threshold: float
) -> tuple[float, float]:
    """Return which shares of the pairs that say the same, and of those that differ, count as duplicates."""

    def share(same: bool) -> float:
        counted = [c >= threshold for p, c in zip(pairs, cosines, strict=True) if p.same is same]
        return sum(counted) / max(len(counted), 1)

    return share(True), share(False)


def _gate(embedder: Embedder) -> tuple[float, float]:
    """Return the threshold of the gate, and the share of random updates that it stops."""
    rows = _rows("updates.jsonl")
    notes = _embedded(embedder, [row["note"] for row in rows])
    entries = _embedded(embedder, [row["entry"] for row in rows])
    cosines = entries @ notes.T
    honest = np.diag(cosines)
    random = cosines[~np.eye(len(rows), dtype=bool)]
    threshold = float(np.floor(np.quantile(honest, 1 - KEPT) * GRID) / GRID)
    return threshold, float(np.mean(random < threshold))


def _relevance(embedder: Embedder) -> tuple[float, float]:
    """Return the threshold for what is recalled, and the share of notes it hides where none answers."""
    rows = _rows("questions.jsonl")
    questions = _unit([embedder.embed_query(row["question"]) for row in rows])
    notes = _embedded(embedder, [row["note"] for row in rows if row["note"]])
    answered = len(notes)
    reached = float(np.quantile(np.diag(questions[:answered] @ notes.T), 1 - ANSWERS_KEPT))
    threshold = float(np.floor(reached * GRID)) / GRID
    return threshold, float(np.mean(questions[answered:] @ notes.T < threshold))


def _embedded(embedder: Embedder, texts: Sequence[str]) -> Vector:
    return _unit(embedder.embed_documents(texts))


def _unit(vectors: Any) -> Vector:  # noqa: ANN401 - what an embedder returns
    rows = np.asarray(vectors, dtype=np.float32)
    unit: Vector = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit


def _rows(name: str) -> list[Mapping[str, Any]]:
    text = files(__package__).joinpath(name).read_text(encoding="utf-8")
    return [json.loads(row) for row in text.splitlines()]
