"""Pure: the report on a simulation as a page to read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..report.tables import estimate, figure, flat, table

_TITLES = {"choice": "One of the options chosen", "open": "In the model's own words"}
_SHORT = {"official": "as LoCoMo scores", "amem": "as the authors of A-MEM score"}


def render(report: Mapping[str, Any]) -> str:
    """Return the report as Markdown."""
    parts = [
        f"# DialSim: {report['show']}",
        f"> {report['caution']}",
        _summary(report),
        *(
            part
            for format_, found in report["answers"].items()
            for part in _answers(format_, found)
        ),
        "## Questions",
        _counts(report["questions"], report["sessions_dated_back"]),
        "## Building the memory",
        _by_name(report["builds"]),
        "## What the language model was asked",
        _by_name(report["costs"]),
        "## Time, in milliseconds",
        table(("", ""), list(report["latency_ms"].items())),
        "A search includes the encoding of the question.",
        "## Settings",
        table(("", ""), [(name, f"`{value}`") for name, value in flat(report["settings"])]),
    ]
    return "\n\n".join(parts) + "\n"


def _summary(report: Mapping[str, Any]) -> str:
    questions = report["questions"]
    share = questions["unanswerable"] / questions["asked"]
    return (
        f"{report['agent']} hears {report['turns']} turns of {report['sessions']} sessions in their order and "
        f"is asked {questions['asked']} questions on the way, each about what has been said by then. Without "
        f"an answer yet: {questions['unanswerable']}; to say so every time would be right in {share:.1%}. "
        "Means are with their 95 % bootstrap intervals."
    )


def _answers(format_: str, found: Mapping[str, Any]) -> Iterator[str]:
    yield f"## {_TITLES[format_]}"
    groups = {
        "all": found,
        "answerable": found["answerable"],
        "unanswerable": found["unanswerable"],
        **{f"`{kind}`": one for kind, one in found["by_kind"].items()},
    }
    rows = [
        [name, one["questions"], estimate(one["accuracy"]), figure(one["refused"])]
        for name, one in groups.items()
    ]
    yield table(("", "questions", "accuracy", "said not to know"), rows)
    if format_ == "choice":
        yield f"{found['unreadable']} answers chose no option, or several: they count as wrong."
        return
    if found["accuracy"]["mean"] is None:
        yield "Accuracy of open answers is a judge's; there was none."
    for scoring, name in _SHORT.items():
        if scoring in found:
            yield f"Wording, {name}:"
            yield _measures({name: one[scoring] for name, one in groups.items() if scoring in one})


def _measures(groups: Mapping[str, Mapping[str, Any]]) -> str:
    measures = list(groups["all"])
    rows = [
        [name, *(estimate(one[measure]) for measure in measures)] for name, one in groups.items()
    ]
    return table(("", *measures), rows)


def _counts(questions: Mapping[str, Any], dated_back: int) -> str:
    rows = [
        ("sessions dated before the one they follow", dated_back),
        *((f"asked: {name}", count) for name, count in questions["by_source"].items()),
        *((f"session left out: {why}", n) for why, n in questions["sessions_left_out"].items()),
        *((f"question left out: {why}", n) for why, n in questions["questions_left_out"].items()),
    ]
    return table(("", ""), rows)


def _by_name(values: Mapping[str, Mapping[str, object]]) -> str:
    rows = [
        [row, *(one[row] for one in values.values())] for row in next(iter(values.values()), {})
    ]
    return table(["", *(f"`{name}`" for name in values)], rows)
