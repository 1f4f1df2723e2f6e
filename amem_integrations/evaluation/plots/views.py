"""How near the notes of one session are in the embedder's space, as notes are enriched and evolve.

Three views of the same notes: their bare content; with the keywords, tags and context they were given when
they were made; and with what later notes added to them. Silhouette and purity are taken in the
embedder's space. The points, two numbers for each note by t-SNE, are for looking at alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.manifold import TSNE  # type: ignore[import-untyped,unused-ignore]
from sklearn.metrics import silhouette_samples  # type: ignore[import-untyped,unused-ignore]

from ..._sync import resolve, run
from ...errors import InvalidInputError
from ...notes import Note
from ...ports import Embedder, Vector
from ...texts import embedding_text
from ..statistics import SEED, interval

BARE, ENRICHED, EVOLVED = "content", "enriched", "evolved"

NEIGHBOURS = 5
PERPLEXITY = 30.0
SHUFFLES = 20  # of the sessions, for what the silhouette is by chance
DIGITS = 4

Labels = NDArray[np.int64]


def views(notes: Sequence[Note], embedder: Embedder) -> dict[str, Any]:
    """Return what `notes.json` holds, as JSON values.

    Args:
        notes: Those of one conversation, with what they became.
        embedder: The embedder that they are looked at through.

    Returns:
        `conversation`, the last part of the notes' namespace; `sessions`, that of each note; `links`,
        pairs of places in the sequence, each once; and `views` by name, each with `points` by t-SNE,
        the mean `silhouette` by session (cosine distance), `purity`, the mean share of the
        `neighbours` nearest notes that are of the note's own session; for both the 95 % bootstrap interval over
        notes (`…_interval`); and `chance` and `silhouette_chance`, what they are if sessions are
        dealt out at random. Figures that are not defined, such as those of a single session, are None.

    Raises:
        InvalidInputError: There are no notes.
    """
    if not notes:
        raise InvalidInputError("there are no notes to look at; give those of a conversation")
    sessions = [note.thread or "" for note in notes]
    labels: Labels = np.unique(sessions, return_inverse=True)[1].astype(np.int64)
    return {
        "conversation": notes[0].namespace[-1],
        "sessions": sessions,
        "links": _pairs(notes),
        "neighbours": NEIGHBOURS,
        "views": {
            name: _view(run(resolve(embedder.embed_documents(texts))), labels)
            for name, texts in _texts(notes).items()
        },
    }


def silhouette(vectors: Vector, labels: Labels) -> list[float]:
    """Return for each note, from -1 to 1, how much nearer its own session is than the next one.

    It is empty where that is not defined: with one session, or with as many as there are notes.
    """
    if not 1 < len(np.unique(labels)) < len(labels):
        return []
    apart = np.clip(1 - vectors @ vectors.T, 0, 2)
    np.fill_diagonal(apart, 0)
    found: list[float] = silhouette_samples(apart, labels, metric="precomputed").tolist()
    return found


def purity(vectors: Vector, labels: Labels, neighbours: int = NEIGHBOURS) -> list[float]:
    """Return for each note the share of its nearest by cosine that are of its session.

    It is empty for a single note. With few notes, the neighbours are all others.
    """
    if len(labels) < 2:  # noqa: PLR2004 - a note and a neighbour
        return []
    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, -np.inf)
    near = np.argsort(-cosines, axis=1, kind="stable")[:, : min(neighbours, len(labels) - 1)]
    same: list[float] = (labels[near] == labels[:, None]).mean(axis=1).tolist()
    return same


def chance_of_purity(labels: Labels) -> float | None:
    """Return how often two different notes are of one session; None of a single note."""
    sizes = np.bincount(labels)
    pairs = len(labels) * (len(labels) - 1)
    return float((sizes * (sizes - 1)).sum() / pairs) if pairs else None


def points(vectors: Vector) -> list[list[float]]:
    """Return two coordinates for each row by t-SNE from its principal components; always the same."""
    placed = _components(vectors)
    if len(vectors) > 3:  # noqa: PLR2004 - fewer have no neighbourhoods to keep
        start = placed * 1e-4 / max(float(placed[:, 0].std()), 1e-12)  # as scikit-learn has it
        placed = TSNE(
            metric="cosine",
            init=start.astype(np.float32),
            perplexity=min(PERPLEXITY, (len(vectors) - 1) / 3),
            random_state=SEED,
        ).fit_transform(vectors)
    return [[round(float(x), 3) for x in row] for row in placed]


def _components(vectors: Vector) -> NDArray[np.float64]:
    """Return the first two principal components of each row, zeros where there are fewer."""
    centred = np.asarray(vectors, dtype=float) - np.mean(vectors, axis=0, dtype=float)
    turned, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    found = np.zeros((len(centred), 2))
    found[:, : min(2, len(sizes))] = (turned * sizes)[:, :2]
    found *= np.where(found[np.abs(found).argmax(axis=0), [0, 1]] < 0, -1, 1)  # either way is right
    return found


def _view(vectors: Vector, labels: Labels) -> dict[str, Any]:
    silhouettes, purities = silhouette(vectors, labels), purity(vectors, labels)
    dice = np.random.default_rng(SEED)
    dealt = [silhouette(vectors, dice.permutation(labels)) for _ in range(SHUFFLES)]
    return {
        "points": points(vectors),
        "silhouette": _mean(silhouettes),
        "silhouette_interval": _rounded(interval(silhouettes)),
        "silhouette_chance": _mean([one for some in dealt for one in some]),
        "purity": _mean(purities),
        "purity_interval": _rounded(interval(purities)),
        "chance": _mean([] if (chance := chance_of_purity(labels)) is None else [chance]),
    }


def _texts(notes: Sequence[Note]) -> dict[str, list[str]]:
    """Return what the engine has encoded, or would have, of each note in each view."""
    return {
        BARE: [embedding_text(replace(note, contexts=())) for note in notes],
        ENRICHED: [
            embedding_text(replace(note, contexts=(note.own_entry,) if note.own_entry else ()))
            for note in notes
        ],
        EVOLVED: [embedding_text(note) for note in notes],
    }


def _pairs(notes: Sequence[Note]) -> list[list[int]]:
    places = {note.id: place for place, note in enumerate(notes)}
    pairs = {
        (min(place, places[target]), max(place, places[target]))
        for place, note in enumerate(notes)
        for target in note.links
        if target in places
    }
    return [list(pair) for pair in sorted(pairs)]


def _mean(values: Sequence[float]) -> float | None:
    return round(float(np.mean(values)), DIGITS) if values else None


def _rounded(pair: tuple[float, float] | None) -> list[float] | None:
    return pair and [round(value, DIGITS) for value in pair]
