"""Pure: fusion of ranked lists, activation spread over links, cut.

Constants were chosen on LoCoMo's conv-26 and checked on conv-30; `docs/adr` has the figures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import sqrt

from .notes import Link
from .ports import Ranked

# How much of the lists counts, and how flat: 1 / (k + rank). 10 favours the top more than the usual 60.
FUSION_DEPTH = 100
RRF_K = 10

# Each of the best hits gives every note it is linked to SPREAD · score / √(number of its links). From 10 to
# 50 hits recall is the same within the noise; each costs a note to fetch.
SPREAD = 0.4
SPREAD_FROM = 20


@dataclass(slots=True)
class Activation:
    """How a note came to its score."""

    dense_rank: int | None = None
    lexical_rank: int | None = None
    fusion: float = 0.0
    spread: float = 0.0
    sources: list[tuple[float, str]] = field(default_factory=list)

    @property
    def score(self) -> float:
        """Fusion and spread together."""
        return self.fusion + self.spread


Activations = dict[str, Activation]


def fuse(lists: Ranked, depth: int = FUSION_DEPTH) -> Activations:
    """Return the reciprocal rank fusion of the first `depth` of the dense and the BM25 list."""
    notes: Activations = {}
    for rank, (note_id, _) in enumerate(lists.dense[:depth], start=1):
        notes[note_id] = Activation(dense_rank=rank, fusion=1 / (RRF_K + rank))
    for rank, (note_id, _) in enumerate(lists.lexical[:depth], start=1):
        note = notes.setdefault(note_id, Activation())
        note.lexical_rank = rank
        note.fusion += 1 / (RRF_K + rank)
    return notes


def order(notes: Activations) -> list[str]:
    """Return the note ids, best first; equal scores are ordered by id, so that runs repeat."""
    return sorted(notes, key=lambda note_id: (-notes[note_id].score, note_id))


def spread(notes: Activations, links: Mapping[str, Mapping[str, Link]]) -> Activations:
    """Let the notes in `links` activate what they are linked to, and return all activations."""
    for note_id, targets in links.items():
        share = SPREAD * notes[note_id].fusion / sqrt(len(targets) or 1)
        for target in targets:
            activation = notes.setdefault(target, Activation())
            activation.spread += share
            activation.sources.append((share, note_id))
    return notes


def matched(notes: Activations, k: int) -> list[str]:
    """Return the ids of the best `k` by fusion alone, best first: what a search without links finds."""
    ranked = sorted((-note.fusion, note_id) for note_id, note in notes.items() if note.fusion)
    return [note_id for _, note_id in ranked[:k]]
