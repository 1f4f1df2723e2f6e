"""How near the notes of one session are in the embedder's space, as notes are enriched and evolve."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA  # type: ignore[import-untyped,unused-ignore]
from sklearn.manifold import TSNE  # type: ignore[import-untyped,unused-ignore]
from sklearn.metrics import silhouette_samples  # type: ignore[import-untyped,unused-ignore]

from amem_integrations.errors import InvalidInputError
from amem_integrations.notes import Note
from amem_integrations.ports import Embedder, Vector
from amem_integrations.runtime import resolve, run
from amem_integrations.texts import embedding_text

from .document import Picture, Section, Table, Values, counted, joined, share, table
from .plots import note_map
from .report import interval, rounded
from .statistics import SEED, mean

NEIGHBOURS = 5
PERPLEXITY = 30.0
SHUFFLES = 20  # of the sessions, for what the silhouette is by chance

Labels = NDArray[np.int64]


def views(notes: Sequence[Note], embedder: Embedder) -> dict[str, Any]:
    """Return what `notes.json` holds on the notes of one conversation, as JSON values.

    `links` are pairs of indexes. Each of the `views` has `points` by t-SNE, the mean `silhouette` by session (cosine
    distance), and `purity`, the mean share of the `neighbours` nearest notes that are of the note's own session; both
    with the interval over notes, and with what they are for random sessions (`chance`, `silhouette_chance`).

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
    """Return for each note how much nearer its own session is than the next one; empty where undefined."""
    if not 1 < len(np.unique(labels)) < len(labels):
        return []
    apart = np.clip(1 - vectors @ vectors.T, 0, 2)
    np.fill_diagonal(apart, 0)
    found: list[float] = silhouette_samples(apart, labels, metric="precomputed").tolist()
    return found


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
    silhouettes, purities = silhouette(vectors, labels), purity(vectors, labels)
    dice = np.random.default_rng(SEED)
    dealt = [silhouette(vectors, dice.permutation(labels)) for _ in range(SHUFFLES)]
    return {
        "points": points(vectors),
        "silhouette": rounded(mean(silhouettes)),
        "silhouette_interval": interval(silhouettes),
        "silhouette_chance": rounded(mean([one for some in dealt for one in some])),
        "purity": rounded(mean(purities)),
        "purity_interval": interval(purities),
        "chance": rounded(chance_of_purity(labels)),
    }


def _texts(notes: Sequence[Note]) -> dict[str, list[str]]:
    own = [(note.own_entry,) if note.own_entry else () for note in notes]
    return {
        "content": [embedding_text(replace(note, contexts=())) for note in notes],
        "enriched": [
            embedding_text(replace(note, contexts=entry))
            for note, entry in zip(notes, own, strict=True)
        ],
        "evolved": [embedding_text(note) for note in notes],
    }


def _pairs(notes: Sequence[Note]) -> list[list[int]]:
    places = {note.id: place for place, note in enumerate(notes)}
    ends = ((places[note.id], places.get(target)) for note in notes for target in note.links)
    pairs = {(min(one, other), max(one, other)) for one, other in ends if other is not None}
    return [list(pair) for pair in sorted(pairs)]


def sections(notes: Values) -> Iterator[Section]:
    """Yield the section on `notes.json`, if it holds any."""
    if not notes.get("views"):
        return
    count, sessions = len(notes["sessions"]), len(set(notes["sessions"]))
    yield Section(
        title=f"The notes of {notes['conversation']}",
        about=[
            (
                f"{counted(count, 'note')} of {counted(sessions, 'session')}, through the embedder, in three "
                "views: the bare content with its speaker; with the keywords, tags and context that each note "
                "was given when it was made; and with what later notes added to it."
            ),
            (
                f"Purity is the mean share of a note's {notes['neighbours']} nearest notes that are of its own session; "
                "silhouette is how much nearer its own session is than the next one, from -1 to 1. Both "
                "are by cosine on the embedder's vectors, not on the picture. Chance is what they are when "
                "sessions are dealt out at random. Contexts often name the date, so some of what enrichment "
                "gains is the date in the words; and that sessions are near is no aim in itself."
            ),
        ],
        pictures=list(_pictures(notes)),
        tables=[_table(notes)],
    )


def _pictures(notes: Values) -> Iterator[Picture]:
    words = "; ".join(
        f"{note_map.TITLES.get(name, name)}: purity {share(view.get('purity'))}"
        for name, view in notes["views"].items()
    )
    yield Picture(
        name="notes",
        alt=f"Three clouds of points, one for each view, coloured by session. {words}.",
        caption="t-SNE of the notes' vectors by cosine, a point a note, coloured by session. Axes have no "
        "unit, and distances between far groups mean little; the figures below each view are what counts.",
        draw=partial(note_map.views, notes),
    )
    count, links = counted(len(notes["sessions"]), "note"), counted(len(notes["links"]), "link")
    yield Picture(
        name="links",
        alt=f"A graph of {count} and {links}, coloured by session.",
        caption=f"{links} between the notes: a larger point has more of them; linked notes are drawn near "
        "each other.",
        draw=partial(note_map.links, notes, note_map.layout(notes)),
    )


def _table(notes: Values) -> Table:
    return table(
        "How near the notes of a session are, with 95 % bootstrap intervals over notes",
        ["purity", "by chance", "silhouette", "by chance"],
        (
            [
                note_map.TITLES.get(name, name),
                joined(view.get("purity"), view.get("purity_interval")),
                view.get("chance"),
                joined(view.get("silhouette"), view.get("silhouette_interval")),
                view.get("silhouette_chance"),
            ]
            for name, view in notes["views"].items()
        ),
    )
