"""What was measured for an embedder: a cosine means something else with each of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Cosines:
    """The least cosines that count, by one embedder; `calibration` finds them on pairs of texts.

    Attributes:
        relevance: Of a question and a note that has to do with the question.
        gate: Of a note and a sentence that another note adds to it.
        repeats: Of two contents that say the same, if no word tells them apart; 1: only equal texts do.
    """

    relevance: float
    gate: float
    repeats: float = 1.0


MINILM = Cosines(relevance=0.21, gate=0.50, repeats=0.96)
MEASURED: Mapping[str, Cosines] = {"sentence-transformers/all-MiniLM-L6-v2": MINILM}
