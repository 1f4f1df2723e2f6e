"""The evidence that was found: from `report.json`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from ...locomo import CATEGORIES
from ...systems import FULL, MAIN
from .. import bars, cost, curves, labels
from ..bars import Estimate, Panel
from .parts import (
    BOOTSTRAP,
    Picture,
    Section,
    Table,
    Values,
    counted,
    difference,
    listed,
    with_interval,
)

PLAIN = ("dense", "bm25", "rrf")  # rankings that no memory has to be built for


def sections(report: Values) -> Iterator[Section]:
    """Return the section on retrieval, if anything was searched for."""
    systems = _systems(report)
    if not systems:
        return
    yield Section(
        title="Evidence found",
        about=list(_about(report)),
        pictures=list(_pictures(report, systems)),
        tables=list(_tables(report, systems)),
    )


def _about(report: Values) -> Iterator[str]:
    used, skipped = report["questions"]["used"], report["questions"]["skipped"]
    yield (
        "Recall is the share of the turns that answer a question which are among the first k notes found, "
        f"averaged over {counted(used, 'question')} of categories 1 to 4; no model is called for a question. "
        f"{counted(skipped, 'question')} without a turn named as evidence are left out."
    )
    if report.get("retrieval_against"):
        yield (
            f"The {BOOTSTRAP} are of each system alone. Whether two differ is told by the table of "
            "differences, which compares them question by question."
        )


def estimates(report: Values, k: int) -> dict[str, Estimate | None]:
    """Return the recall of each system among the first k, with its interval."""
    return {name: _estimate(report, name, k) for name in _systems(report)}


def middle(report: Values) -> int:
    """Return the number of hits that stands for all where there is room for one."""
    ks: list[int] = sorted(report["settings"]["k"])
    return ks[len(ks) // 2]


def _systems(report: Values) -> list[str]:
    found = report.get("retrieval", {})
    known = (name for name, one in found.items() if None not in one["recall"].values())
    return [name for name in labels.ordered(known) if name != FULL]  # which is no search


def _estimate(report: Values, system: str, k: int) -> Estimate | None:
    found = report["retrieval"][system]
    low, high = found["recall_interval"][str(k)] or (None, None)
    return Estimate(found["recall"][str(k)], low, high)


def _pictures(report: Values, systems: list[str]) -> Iterator[Picture]:
    ks = report["settings"]["k"]
    panels = [Panel(f"k = {k}", "recall of the evidence", estimates(report, k)) for k in ks[:3]]
    yield Picture(
        name="recall",
        alt=f"Bars of recall. {' '.join(f'{p.title}: {listed(p.values)}.' for p in panels)}",
        caption=f"Recall of the evidence by system, with {BOOTSTRAP}. “… without links” searches the same "
        "memory without following links; the other variants are built anew. The plain rankings read the "
        "same turns with their speakers, without what a model wrote about them."
        if len(systems) > 1
        else f"Recall of the evidence, with {BOOTSTRAP}.",
        draw=partial(bars.draw, panels),
    )
    if len(ks) > 1:
        found = {
            name: {k: one for k in ks if (one := _estimate(report, name, k))} for name in systems
        }
        yield Picture(
            name="recall-over-notes",
            alt="Lines of recall over the number of notes shown; the figures are in the table below.",
            caption=f"What is found by what is put before a question: recall over the number of notes, with "
            f"{BOOTSTRAP}; systems are drawn a little apart.",
            draw=partial(curves.systems, found),
        )
    yield from _calls(report)


def _calls(report: Values) -> Iterator[Picture]:
    """Return the picture of recall over model calls, if any were made and systems differ."""
    builds, k = report.get("builds", {}), middle(report)
    calls = {name: one["calls_per_note"] for name, one in builds.items()}
    if MAIN in calls:
        calls["amem_without_links"] = calls[MAIN]  # it is the same memory
    found = {name: one for name, one in estimates(report, k).items() if one is not None}
    places = {
        name: (0.0 if name in PLAIN else calls[name], one)
        for name, one in found.items()
        if name in PLAIN or calls.get(name) is not None
    }
    if len(places) < 2 or not any(each for each, _ in places.values()):  # noqa: PLR2004
        return  # there is nothing to compare
    said = "; ".join(
        f"{labels.system(name)}: {labels.number(each)} calls, recall {labels.share(one.mean)}"
        for name, (each, one) in places.items()
    )
    yield Picture(
        name="recall-over-calls",
        alt=f"Points of recall over model calls a note. {said}.",
        caption=f"What is found by what building costs: recall among the first {k} over the model calls for "
        f"a note (a scale that is logarithmic but has a 0), with {BOOTSTRAP}. The plain rankings need none. "
        "Systems of about equal cost are drawn a little apart.",
        draw=partial(cost.calls, places, quality=f"recall, k = {k}"),
    )


def _tables(report: Values, systems: list[str]) -> Iterator[Table]:
    ks = report["settings"]["k"]
    found = report["retrieval"]
    yield Table(
        caption=f"Recall with {BOOTSTRAP}, and the share of questions of which all evidence was found",
        head=["", *(f"recall@{k}" for k in ks), *(f"all@{k}" for k in ks)],
        rows=[
            [
                labels.system(name),
                *(_recall(found[name], k) for k in ks),
                *(labels.share(found[name]["all_evidence"][str(k)]) for k in ks),
            ]
            for name in systems
        ],
    )
    against = report.get("retrieval_against", {})
    if others := [name for name in systems if name in against]:
        yield Table(
            caption="By how much this memory finds more: mean difference over the same questions, with its "
            "95 % bootstrap interval; where it holds 0, there may be none",
            head=["than", *(f"recall@{k}" for k in ks)],
            rows=[
                [
                    labels.system(name),
                    *(difference(against[name]["recall"].get(str(k))) for k in ks),
                ]
                for name in others
            ],
        )
    yield _by_category(report, systems)
    if len(report.get("conversations", {})) > 1:
        yield _by_conversation(report)


def _by_category(report: Values, systems: list[str]) -> Table:
    ks, counts = report["settings"]["k"], report["questions"]["by_category"]
    return Table(
        caption="Recall by category of the question; category 5 asks about what was never said, and its "
        "evidence is where it sounds as if it was",
        head=["", "category", "questions", *(f"recall@{k}" for k in ks)],
        rows=[
            [
                labels.system(name),
                labels.category(str(category)),
                str(counts[str(category)]),
                *(
                    labels.share(
                        report["retrieval"][name]["by_category"][str(category)]["recall"][str(k)]
                    )
                    for k in ks
                ),
            ]
            for category in CATEGORIES
            for name in systems
        ],
        words=2,
        folded=True,
    )


def _by_conversation(report: Values) -> Table:
    ks = report["settings"]["k"]
    return Table(
        caption="Recall of this memory by conversation",
        head=["", "written by", "notes", "questions", *(f"recall@{k}" for k in ks)],
        rows=[
            [
                name,
                str(one.get("written_by", labels.share(None))),
                str(one["notes"]),
                str(one["questions"]["used"]),
                *(
                    labels.share(one["retrieval"].get(MAIN, {}).get("recall", {}).get(str(k)))
                    for k in ks
                ),
            ]
            for name, one in report["conversations"].items()
        ],
        words=2,
        folded=True,
    )


def _recall(found: Values, k: int) -> str:
    low, high = found["recall_interval"][str(k)] or (None, None)
    return with_interval({"mean": found["recall"][str(k)], "low": low, "high": high})
