"""How near the notes of one session are in the embedder's space, as notes are enriched."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA  # type: ignore[import-untyped,unused-ignore]
from sklearn.manifold import TSNE  # type: ignore[import-untyped,unused-ignore]

from amem_integrations.errors import InvalidInputError
from amem_integrations.notes import Note
from amem_integrations.ports import Embedder
from amem_integrations.runtime import resolve, run
from amem_integrations.stored_note import Vector
from amem_integrations.texts import embedding_texts

from .report import Table, cells
from .statistics import SEED, estimate, rounded

NEIGHBOURS = 5
PERPLEXITY = 30.0

Labels = NDArray[np.int64]

# By view, what is left of the entries of a note.
VIEWS: Mapping[str, Callable[[Note], Note]] = {
    "content": lambda note: replace(note, contexts=()),
    "enriched": lambda note: replace(note, contexts=(note.own_entry,) if note.own_entry else ()),
}


def views(notes: Sequence[Note], embedder: Embedder) -> dict[str, Any]:
    """Return what `notes.json` holds on the notes of one conversation, as JSON values.

    Each of the `views` has `points` by t-SNE, and `purity`, the mean share of the `neighbours` nearest notes that are of
    the note's own session, with its interval over notes, and beside what it is for random sessions (`chance`).

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
        "neighbours": NEIGHBOURS,
        "views": {
            name: _view(
                run(
                    resolve(embedder.embed_documents([embedding_texts(seen(n))[0] for n in notes]))
                ),
                labels,
            )
            for name, seen in VIEWS.items()
        },
    }


def purity(vectors: Vector, labels: Labels, neighbours: int = NEIGHBOURS) -> list[float]:
    """Return for each note the share of its nearest by cosine that are of its session; empty for a single note."""
    if len(labels) < 2:  # noqa: PLR2004 - a note and a neighbour
        return []
    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, -np.inf)
    near = np.argsort(-cosines, axis=1, kind="stable")[:, :-1][:, :neighbours]
    same: list[float] = (labels[near] == labels[:, None]).mean(axis=1).tolist()
    return same


def chance_of_purity(labels: Labels) -> float | None:
    """Return how often two different notes are of one session; None of a single note."""
    sizes = np.bincount(labels)
    pairs = len(labels) * (len(labels) - 1)
    return float((sizes * (sizes - 1)).sum() / pairs) if pairs else None


def points(vectors: Vector) -> list[list[float]]:
    """Return two coordinates for each row by t-SNE from its principal components; always the same."""
    parts = min(2, *vectors.shape)
    with np.errstate(invalid="ignore"):  # equal vectors have no variance
        placed = np.pad(PCA(parts).fit_transform(vectors), ((0, 0), (0, 2 - parts)))
    if len(vectors) > 3:  # noqa: PLR2004 - fewer have no neighbourhoods to keep
        start = placed * 1e-4 / max(float(placed[:, 0].std()), 1e-12)  # as scikit-learn has it
        placed = TSNE(
            metric="cosine",
            init=start.astype(np.float32),
            perplexity=min(PERPLEXITY, (len(vectors) - 1) / 3),
            random_state=SEED,
        ).fit_transform(vectors)
    return [[round(float(x), 3) for x in row] for row in placed]


def _view(vectors: Vector, labels: Labels) -> dict[str, Any]:
    near, chance = estimate(purity(vectors, labels)), rounded(chance_of_purity(labels))
    interval = [near["low"], near["high"]]
    found = {"purity": near["mean"], "purity_interval": interval, "chance": chance}
    return {"points": points(vectors), **found}


def table(notes: Mapping[str, Any]) -> Table:
    """Return the table of `notes.json`."""
    return Table(
        f"How near the {len(notes['sessions'])} notes of {notes['conversation']} are to their session in the embedder's "
        f"space, embedded bare, and with keywords, tags and context: the share of a note's "
        f"{notes['neighbours']} nearest that are of its session, beside what dealing sessions out at random gives. Contexts "
        "often name the date, which brings sessions together in words",
        [{"notes": name, **cells(view)} for name, view in notes["views"].items()],
    )
