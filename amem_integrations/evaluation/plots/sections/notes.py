"""The notes of a conversation: from `notes.json`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from .. import labels, links, space
from .parts import Picture, Section, Table, Values, counted, with_interval


def sections(notes: Values) -> Iterator[Section]:
    """Return the section on the notes, if there are any."""
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
        pictures=[_scatter(notes), _graph(notes)],
        tables=[_table(notes)],
    )


def _scatter(notes: Values) -> Picture:
    said = "; ".join(
        f"{space.TITLES.get(name, name)}: purity {labels.share(view.get('purity'))}"
        for name, view in notes["views"].items()
    )
    return Picture(
        name="notes",
        alt=f"Three clouds of points, one for each view, coloured by session. {said}.",
        caption="t-SNE of the notes' vectors by cosine, a point a note, coloured by session. Axes have no "
        "unit, and distances between far groups mean little; the figures below each view are what counts.",
        draw=partial(space.draw, notes),
    )


def _graph(notes: Values) -> Picture:
    places = links.layout(notes)
    return Picture(
        name="links",
        alt=f"A graph of {counted(len(notes['sessions']), 'note')} and {counted(len(notes['links']), 'link')}, "
        "coloured by session.",
        caption=f"{counted(len(notes['links']), 'link')} between the notes: a larger point has more of them; "
        "linked notes are drawn near each other.",
        draw=partial(links.draw, notes, places),
    )


def _table(notes: Values) -> Table:
    return Table(
        caption="How near the notes of a session are, with 95 % bootstrap intervals over notes",
        head=["", "purity", "by chance", "silhouette", "by chance"],
        rows=[
            [
                space.TITLES.get(name, name),
                _figure(view, "purity"),
                labels.share(view.get("chance")),
                _figure(view, "silhouette"),
                labels.share(view.get("silhouette_chance")),
            ]
            for name, view in notes["views"].items()
        ],
    )


def _figure(view: Values, name: str) -> str:
    low, high = view.get(f"{name}_interval") or (None, None)
    return with_interval({"mean": view.get(name), "low": low, "high": high})
