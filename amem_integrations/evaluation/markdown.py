"""Pure: a report as a page to read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .locomo import CATEGORIES

Rows = Sequence[Sequence[object]]


def render(report: Mapping[str, Any]) -> str:
    """Return the report as Markdown."""
    settings = report["settings"]
    parts = [
        "# Evidence recall on LoCoMo",
        _summary(report),
        "## Retrieval, categories 1 to 4",
        _retrieval(report),
        "## By category",
        _by_category(report),
        "## Conversations",
        _conversations(report),
        "## Writing",
        _table(("", ""), list(report["writes"].items())),
        "## Time, in milliseconds",
        _table(("", ""), list(report["latency_ms"].items())),
        "A search includes the encoding of the query.",
        "## Settings",
        _table(("", ""), [(name, f"`{value}`") for name, value in _flat(settings)]),
    ]
    return "\n\n".join(parts) + "\n"


def _summary(report: Mapping[str, Any]) -> str:
    questions, conversations = report["questions"], report["conversations"]
    return (
        f"{report['notes']} turns of {len(conversations)} conversations, each remembered as a note; "
        f"{questions['used']} questions of categories 1 to 4 ({questions['skipped']} questions name no "
        "turn as evidence and are left out). Recall is the share of the evidence found among the first "
        "k, averaged over questions, with its 95 % bootstrap interval; *all* is the share of questions "
        "of which all evidence was found."
    )


def _retrieval(report: Mapping[str, Any]) -> str:
    ks = report["settings"]["k"]
    head = ["", *(f"recall@{k}" for k in ks), *(f"all@{k}" for k in ks)]
    rows = [
        [
            f"`{system}`",
            *(
                _with_interval(found["recall"][str(k)], found["recall_interval"][str(k)])
                for k in ks
            ),
            *(_figure(found["all_evidence"][str(k)]) for k in ks),
        ]
        for system, found in report["retrieval"].items()
    ]
    return _table(head, rows)


def _by_category(report: Mapping[str, Any]) -> str:
    ks = report["settings"]["k"]
    head = ["", "category", "questions", *(f"recall@{k}" for k in ks), *(f"all@{k}" for k in ks)]
    rows = [
        [
            f"`{system}`",
            f"{category} {name}",
            report["questions"]["by_category"][str(category)],
            *(_figure(found["by_category"][str(category)]["recall"][str(k)]) for k in ks),
            *(_figure(found["by_category"][str(category)]["all_evidence"][str(k)]) for k in ks),
        ]
        for system, found in report["retrieval"].items()
        for category, name in CATEGORIES.items()
    ]
    return _table(head, rows)


def _conversations(report: Mapping[str, Any]) -> str:
    ks = report["settings"]["k"]
    head = ["", "made by", "notes", "questions", *(f"recall@{k}" for k in ks), "candidate recall"]
    rows = [
        [
            name,
            "annotations" if one["annotated"] else "offline",
            one["notes"],
            one["questions"]["used"],
            *(
                _figure(one["retrieval"].get("amem", {"recall": {}})["recall"].get(str(k)))
                for k in ks
            ),
            _figure(one["writes"]["candidate_recall"]),
        ]
        for name, one in report["conversations"].items()
    ]
    return _table(head, rows)


def _flat(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, object]]:
    flat: list[tuple[str, object]] = []
    for name, value in values.items():
        if isinstance(value, Mapping):
            flat += _flat(value, f"{prefix}{name}.")
        else:
            flat.append((f"{prefix}{name}", value))
    return flat


def _with_interval(value: float | None, interval: Sequence[float] | None) -> str:
    if interval is None:
        return _figure(value)
    return f"{_figure(value)} ({_figure(interval[0])}-{_figure(interval[1])})"


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _table(head: Sequence[str], rows: Rows) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(
        f"| {' | '.join('-' if c is None else str(c) for c in line)} |" for line in lines
    )
