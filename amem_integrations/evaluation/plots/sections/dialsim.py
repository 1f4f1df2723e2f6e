"""Questions on the way through a show: from `dialsim.json`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from .. import bars, labels
from ..bars import Estimate, Panel
from .parts import BOOTSTRAP, Picture, Section, Table, Values, counted, with_interval

_FORMATS = {"choice": "One of the options chosen", "open": "In the model's own words"}
_GROUPS = ("answerable", "unanswerable")


def sections(report: Values) -> Iterator[Section]:
    """Return the section on a simulation."""
    asked = report["questions"]["asked"]
    yield Section(
        title=f"DialSim: {report['show']}",
        about=[
            *([report["caution"]] if report.get("caution") else []),
            (
                f"{report['agent']} hears {counted(report['notes'], 'turn')} in their order and is asked "
                f"{counted(asked, 'question')} on the way, each from what has been said by then; "
                f"{report['questions']['unanswerable']} of them have no answer yet."
            ),
        ],
        pictures=list(_pictures(report["answers"])),
        tables=[
            table for name, found in report["answers"].items() for table in _tables(name, found)
        ],
    )


def _pictures(answers: Values) -> Iterator[Picture]:
    panels = [
        Panel(
            _FORMATS.get(name, name),
            "share of right answers",
            {"all": Estimate.of(found["accuracy"])}
            | {group: Estimate.of(found[group]["accuracy"]) for group in _GROUPS},
        )
        for name, found in answers.items()
        if found["accuracy"]["mean"] is not None
    ]
    if panels:
        said = " ".join(
            f"{panel.title}: "
            + ", ".join(
                f"{name} {labels.share(one.mean if one else None)}"
                for name, one in panel.values.items()
            )
            + "."
            for panel in panels
        )
        yield Picture(
            name="dialsim",
            alt=f"Bars of right answers. {said}",
            caption=f"Right answers to all questions, to those that can be answered, and to those that cannot "
            f"yet (right is to say so), with {BOOTSTRAP}.",
            draw=partial(bars.draw, panels),
        )


def _tables(name: str, found: Values) -> Iterator[Table]:
    title = _FORMATS.get(name, name)
    groups = {"all": found, **{group: found[group] for group in _GROUPS}, **found["by_kind"]}
    yield Table(
        caption=f"{title}: right answers with {BOOTSTRAP}",
        head=["", "questions", "accuracy", "said not to know"],
        rows=[
            [
                group,
                str(one["questions"]),
                with_interval(one["accuracy"]),
                labels.share(one["refused"]),
            ]
            for group, one in groups.items()
        ],
    )
    if measures := list(found.get("official", {})):
        yield Table(
            caption=f"{title}: wording against the right answer, LoCoMo's own scoring",
            head=["", *map(labels.measure, measures)],
            rows=[
                [group, *(with_interval(one["official"][measure]) for measure in measures)]
                for group, one in groups.items()
                if "official" in one
            ],
            folded=True,
        )
