"""Pure: what systems, measures and figures are called on charts and on the page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..locomo import CATEGORIES

_SYSTEMS = {
    "amem": "this memory",
    "amem_without_links": "… without links",
    "amem_without_evolution": "… without evolution",
    "amem_without_both": "… without both",
    "amem_paper_calls": "… the paper's calls",
    "dense": "dense",
    "bm25": "BM25",
    "rrf": "dense and BM25",
    "full": "whole conversation",
}
_MEASURES = {
    "recall": "Recall of the evidence",
    "all_evidence": "All evidence found",
    "f1": "F1",
    "bleu1": "BLEU-1",
    "rouge1": "ROUGE-1",
    "rouge2": "ROUGE-2",
    "rougeL": "ROUGE-L",
    "meteor": "METEOR",
    "sbert": "SBERT cosine",
    "judge": "Judged correct",
}


def system(name: str) -> str:
    """Return what a system is called."""
    return _SYSTEMS.get(name, name)


def ordered(names: Iterable[str]) -> list[str]:
    """Return systems, each once, in the usual order: the memory first, unknown ones last."""
    order = {name: place for place, name in enumerate(_SYSTEMS)}
    return sorted(dict.fromkeys(names), key=lambda name: order.get(name, len(order)))


def measure(name: str) -> str:
    """Return what a measure is called."""
    return _MEASURES.get(name, name)


def category(number: str) -> str:
    """Return what a category of questions is called, with its number, which alone is unambiguous."""
    return f"{number} {CATEGORIES[int(number)]}" if number != "all" else "all categories"


def share(value: float | None) -> str:
    """Return a figure between -1 and 1 as papers write it, `.870`; a dash for none."""
    if value is None:
        return "\N{EN DASH}"
    rounded = round(value, 3) + 0.0  # no minus before nothing
    text = f"{rounded:.3f}".replace("-", "\N{MINUS SIGN}")
    return text.replace("0.", ".", 1) if abs(rounded) < 1 else text


def gain(value: float | None) -> str:
    """Return a difference with its sign."""
    return share(value) if value is None or round(value, 3) < 0 else f"+{share(value)}"


def interval(low: float | None, high: float | None, write: Any = share) -> str:  # noqa: ANN401
    """Return the bounds of an interval, or nothing."""
    return "" if low is None or high is None else f"{write(low)} to {write(high)}"


def number(value: float | None) -> str:
    """Return a count or a size with as many digits as can be of interest; a dash for none."""
    if value is None:
        return "\N{EN DASH}"
    if value == int(value) or abs(value) >= 100:  # noqa: PLR2004
        return f"{value:,.0f}"
    return f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"  # noqa: PLR2004


def flat(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Return nested values as rows of a name with dots and a text."""
    rows: list[tuple[str, str]] = []
    for name, value in values.items():
        if isinstance(value, Mapping):
            rows += flat(value, f"{prefix}{name}.")
        else:
            listed = isinstance(value, Sequence) and not isinstance(value, str)
            rows.append((prefix + name, ", ".join(map(str, value)) if listed else str(value)))
    return rows
