"""Pure: a report as a page to read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..locomo import CATEGORIES
from .answers_page import answers
from .tables import figure, flat, table, with_interval


def render(report: Mapping[str, Any]) -> str:
    """Return the report as Markdown."""
    settings = report["settings"]
    parts = [
        "# LoCoMo",
        _summary(report),
        *answers(report),
        "## Retrieval, categories 1 to 4",
        _retrieval(report),
        "## By category",
        _by_category(report),
        "## What would be put before a question",
        _contexts(report),
        "## The memory against each other system",
        _against(report),
        "## Conversations",
        _conversations(report),
        "## Building the memories",
        _by_name(report["builds"]),
        "## What the language model was asked",
        _by_name(report["costs"]),
        "## Time, in milliseconds",
        table(("", ""), list(report["latency_ms"].items())),
        "A search includes the encoding of the query.",
        "## Settings",
        table(("", ""), [(name, f"`{value}`") for name, value in flat(settings)]),
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
            *(with_interval(found["recall"][str(k)], found["recall_interval"][str(k)]) for k in ks),
            *(figure(found["all_evidence"][str(k)]) for k in ks),
        ]
        for system, found in report["retrieval"].items()
    ]
    return table(head, rows)


def _by_category(report: Mapping[str, Any]) -> str:
    ks = report["settings"]["k"]
    head = ["", "category", "questions", *(f"recall@{k}" for k in ks), *(f"all@{k}" for k in ks)]
    rows = [
        [
            f"`{system}`",
            f"{category} {name}",
            report["questions"]["by_category"][str(category)],
            *(figure(found["by_category"][str(category)]["recall"][str(k)]) for k in ks),
            *(figure(found["by_category"][str(category)]["all_evidence"][str(k)]) for k in ks),
        ]
        for system, found in report["retrieval"].items()
        for category, name in CATEGORIES.items()
    ]
    return table(head, rows)


def _conversations(report: Mapping[str, Any]) -> str:
    ks = report["settings"]["k"]
    head = ["", "made by", "notes", "questions", *(f"recall@{k}" for k in ks), "candidate recall"]
    rows = [
        [
            name,
            one["written_by"],
            one["notes"],
            one["questions"]["used"],
            *(
                figure(one["retrieval"].get("amem", {"recall": {}})["recall"].get(str(k)))
                for k in ks
            ),
            figure(one["builds"]["amem"]["candidate_recall"]),
        ]
        for name, one in report["conversations"].items()
    ]
    return table(head, rows)


def _contexts(report: Mapping[str, Any]) -> str:
    """Return the tokens of the contexts, and how much less that is than the whole conversation."""
    ks = report["settings"]["k"]
    rows = [
        [
            f"`{system}`",
            *(found["tokens"][str(k)] for k in ks),
            *("-" if (share := found["saved"][str(k)]) is None else f"{share:.1%}" for k in ks),
        ]
        for system, found in report["context"].items()
    ]
    return table(["", *(f"tokens@{k}" for k in ks), *(f"less@{k}" for k in ks)], rows)


def _against(report: Mapping[str, Any]) -> str:
    """Return the differences in recall, question by question."""
    ks = report["settings"]["k"]
    rows = [
        [
            f"`{other}`",
            *(
                f"{gain['difference']:+.3f} ({gain['low']:+.3f} to {gain['high']:+.3f})"
                for gain in (gains["recall"][str(k)] for k in ks)
            ),
        ]
        for other, gains in report["retrieval_against"].items()
    ]
    return table(["better than", *(f"recall@{k}" for k in ks)], rows)


def _by_name(values: Mapping[str, Mapping[str, object]]) -> str:
    """Return a table with a column for each name, or nothing of nothing."""
    rows = [
        [row, *(one[row] for one in values.values())] for row in next(iter(values.values()), {})
    ]
    return table(["", *(f"`{name}`" for name in values)], rows)
