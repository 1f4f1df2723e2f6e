"""Pure: a sweep as a page to read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .tables import estimate, flat, table


def render(sweep: Mapping[str, Any]) -> str:
    """Return the sweep as Markdown."""
    chosen, reported = ", ".join(sweep["chosen_on"]), ", ".join(sweep["reported_on"])
    what = "Means with their 95 % bootstrap intervals; answers by LoCoMo's own scoring."
    parts = [
        "# How many hits to show",
        f"Chosen on {chosen}; reported on {reported}. {what}",
        *(_choices(sweep["choice"]) if sweep["choice"] else ()),
    ]
    for side, names in (("chosen_on", chosen), ("reported_on", reported)):
        parts += [f"## On {names}", _curves(sweep["curves"][side], sweep["ks"])]
    rows = [(name, f"`{value}`") for name, value in flat(sweep["settings"])]
    parts += ["## Settings", table(("", ""), rows)]
    return "\n\n".join(parts) + "\n"


def _choices(choice: Mapping[str, Any]) -> tuple[str, str]:
    rows = [
        [measure, one["k"], estimate(one["reported"]) if one["reported"] else None]
        for measure, one in choice.items()
    ]
    return "## The choice", table(("", "best number", "gives on the others"), rows)


def _curves(curves: Mapping[str, Any], ks: list[int]) -> str:
    rows = [
        [measure, category, *(estimate(found[str(k)]) for k in ks)]
        for measure, by_category in curves.items()
        for category, found in by_category.items()
        if any(found[str(k)]["mean"] is not None for k in ks)
    ]
    return table(["", "category", *(f"@{k}" for k in ks)], rows)
