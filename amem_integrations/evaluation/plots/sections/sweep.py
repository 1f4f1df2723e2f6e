"""How many hits to show: from `sweep.json`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from .. import curves, labels
from .parts import BOOTSTRAP, Picture, Section, Table, Values, with_interval


def sections(sweep: Values) -> Iterator[Section]:
    """Return the section on the sweep."""
    yield Section(
        title="How many hits to show",
        about=[_about(sweep)],
        pictures=_pictures(sweep),
        tables=list(_tables(sweep)),
    )


def _about(sweep: Values) -> str:
    chosen, reported = (", ".join(sweep[side]) for side in ("chosen_on", "reported_on"))
    made = "" if sweep.get("choice") else " None was made here, since no questions were answered."
    return (
        f"The number of hits k is chosen on {chosen} and reported on {reported}: a number that is chosen on "
        "the questions it is reported on looks better than it is. More hits always hold more of the "
        f"evidence, so a choice is made by answers alone.{made}"
    )


def _pictures(sweep: Values) -> list[Picture]:
    marks = (
        " The dotted line is the number that is best on the conversations that choose; the ring is what it "
        "gives on the others."
        if sweep.get("choice")
        else ""
    )
    return [
        Picture(
            name="sweep",
            alt="Lines over the number of hits, one for the conversations that choose and one for those "
            "that are reported; the figures are in the table below.",
            caption=f"Over all questions, with {BOOTSTRAP} as bands.{marks}",
            draw=partial(curves.sweep, sweep),
        ),
        Picture(
            name="sweep-by-category",
            alt="Lines over the number of hits for each category of questions, on the conversations "
            "reported; the figures are in the table below.",
            caption=f"The conversations reported, by category of the question, with {BOOTSTRAP} as bands. "
            "A dash is where nothing is measured: category 5 asks about what was never said.",
            draw=partial(curves.by_category, sweep),
        ),
    ]


def _tables(sweep: Values) -> Iterator[Table]:
    if choice := sweep.get("choice"):
        yield Table(
            caption="The choice, and what it gives on the conversations it was not made on",
            head=["", "k", "reported"],
            rows=[
                [labels.measure(name), str(one["k"]), with_interval(one["reported"])]
                for name, one in choice.items()
            ],
        )
    for side, about in (("reported_on", "reported"), ("chosen_on", "that choose")):
        yield Table(
            caption=f"All curves, on the conversations {about}",
            head=["", "questions", *(f"k = {k}" for k in sweep["ks"])],
            rows=[
                [
                    labels.measure(measure),
                    labels.category(category),
                    *(with_interval(found.get(str(k))) for k in sweep["ks"]),
                ]
                for measure, by_category in sweep["curves"][side].items()
                for category, found in by_category.items()
                if any(one.get("mean") is not None for one in found.values())
            ],
            words=2,
            folded=True,
        )
