"""Which cosines count with an embedder, found on pairs of texts.

Prints the settings for a memory, and the row for the table in `amem_integrations/config.py`.
`repeats.jsonl` holds pairs of texts that say the same, and pairs that differ in one fact.
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from amem_integrations import Embedder
from amem_integrations.opening import embedder_named
from amem_integrations.repetition import is_equal, text_difference
from amem_integrations.stored_note import Vector
from amem_integrations.thresholds import GRID, floor_of, gate_of, questions, texts

from .command import EMBEDDER_HELP, parser_of, run

REPEATS = Path(__file__).with_name("repeats.jsonl")
MARGIN = 0.005  # above the nearest pair that is told apart by its vectors alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two texts of one speaker and day, and whether they say the same; `kind` is what they differ in."""

    one: str
    other: str
    same: bool
    kind: str


def pairs() -> list[Pair]:
    """Return the pairs of texts, of which about half say the same."""
    return [Pair(**json.loads(row)) for row in REPEATS.read_text("utf-8").splitlines()]


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


def gate(embedder: Embedder) -> tuple[float, float]:
    """Return what `gate_of` does, for a synchronous embedder."""
    return gate_of(_embedded(embedder, texts()))


def relevance_floor(embedder: Embedder) -> tuple[float, float]:
    """Return what `floor_of` does, for a synchronous embedder."""
    asked = np.stack([np.asarray(embedder.embed_query(one)) for one in questions()])
    return floor_of(_embedded(embedder, texts()), asked)


def _embedded(embedder: Embedder, texts: Sequence[str]) -> Vector:
    return np.asarray(embedder.embed_documents(texts))


def _calibrate(given: Namespace) -> None:
    embedder = embedder_named(given.embedder, given.base_url)
    floor, hidden = relevance_floor(embedder)
    least, stopped = gate(embedder)
    repeats, found, _ = similarity_of_repeats(embedder)
    print(
        f"With {floor:.2f} a question hides {hidden:.0%} of the notes that answer nothing, with {least:.2f} the gate stops "
        f"{stopped:.0%} of the sentences about something else, and {repeats:.2f} finds {found:.0%} of the repeats and no "
        "pair that differs in a fact.\n",
        f"MemoryConfig(min_relevance={floor:.2f}, min_gate_similarity={least:.2f})",
        f'"{embedder.name}": Cosines(relevance={floor:.2f}, gate={least:.2f}, repeats={repeats:.2f}),',
        sep="\n",
    )


def _parser() -> ArgumentParser:
    parser = parser_of("calibrate", __doc__)
    add = parser.add_argument
    add("--embedder", metavar="NAME", help=EMBEDDER_HELP)
    add("--base-url", help="URL of an OpenAI-compatible endpoint")
    return parser


main = partial(run, _parser, _calibrate)

if __name__ == "__main__":
    sys.exit(main())
