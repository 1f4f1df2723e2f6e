"""Pure: tables and figures in Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Rows = Sequence[Sequence[object]]


def flat(values: Mapping[str, object], prefix: str = "") -> list[tuple[str, object]]:
    """Return nested values as rows of names with dots."""
    rows: list[tuple[str, object]] = []
    for name, value in values.items():
        if isinstance(value, Mapping):
            rows += flat(value, f"{prefix}{name}.")
        else:
            rows.append((f"{prefix}{name}", value))
    return rows


def with_interval(value: float | None, interval: Sequence[float] | None) -> str:
    """Return a figure with the bounds of its interval, if there is one."""
    if interval is None:
        return figure(value)
    return f"{figure(value)} ({figure(interval[0])}-{figure(interval[1])})"


def figure(value: float | None) -> str:
    """Return a figure with three digits, and a dash for none."""
    return "-" if value is None else f"{value:.3f}"


def estimate(found: Mapping[str, float | None]) -> str:
    """Return a mean with the bounds of its interval."""
    low, high = found["low"], found["high"]
    return with_interval(found["mean"], None if low is None or high is None else (low, high))


def table(head: Sequence[str], rows: Rows) -> str:
    """Return a table; None is a dash."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(
        f"| {' | '.join('-' if c is None else str(c) for c in line)} |" for line in lines
    )
