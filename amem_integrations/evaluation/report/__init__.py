"""Pure: from what was found and answered to the figures of a report, as JSON values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...ports import Embedder
from ..results import Result
from .answers import Scored, answers, scored
from .costs import Prices, builds, costs, latency
from .figures import Report
from .retrieval import retrieval

__all__ = ["Prices", "Report", "Scored", "build", "scored"]


def build(
    results: Sequence[Result],
    ks: Sequence[int],
    settings: Mapping[str, Any],
    *,
    embedder: Embedder | None = None,
    prices: Prices | None = None,
) -> Report:
    """Return the report on some conversations: over all of them, and of each.

    Args:
        results: What the evaluation found.
        ks: How many of the first hits count, for each figure.
        settings: Goes into the report as it is.
        embedder: Compares answers with gold ones; needed if questions were answered.
        prices: By stage (`build`, `answer`, `judge`), of a million tokens, in and out.
    """
    return {
        **_figures(results, ks),
        **answers(results, embedder),
        "costs": costs(results, prices),
        "settings": dict(settings),
        "conversations": {
            result.conversation: {"written_by": result.written_by, **_figures([result], ks)}
            for result in results
        },
    }


def _figures(results: Sequence[Result], ks: Sequence[int]) -> Report:
    return {
        "notes": sum(result.notes for result in results),
        **retrieval(results, ks),
        "builds": builds(results),
        "latency_ms": latency(results),
    }
