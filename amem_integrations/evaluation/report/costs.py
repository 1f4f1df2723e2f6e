"""Pure: what building, answering and judging took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from .. import statistics
from ..results import Result, Spent, Writes
from ..systems import MAIN
from .figures import Report, rounded

Prices = Mapping[str, tuple[float, float]]  # by stage: of a million tokens, in and out

BUILD = "build"
MILLION = 1_000_000


def builds(results: Sequence[Result]) -> Report:
    """Return for each variant of the memory what building it took and gave, over all conversations."""
    variants = results[0].writes if results else ()
    return {variant: _build([one.writes[variant] for one in results]) for variant in variants}


def costs(results: Sequence[Result], prices: Prices | None) -> Report:
    """Return calls and tokens of a language model by stage, and their price where one is known.

    Each variant of the memory is a stage of its own, with what it costs alone. Replies they share are
    asked for once, so their sum is more than was paid.
    """
    stages = {
        BUILD if variant == MAIN else f"{BUILD} {variant}": [
            _written(one.writes[variant]) for one in results
        ]
        for variant in (results[0].writes if results else ())
    }
    for result in results:
        for stage, spent in result.spent.items():
            stages.setdefault(stage, []).append(spent)
    return {
        stage: _priced(_sum(spent), (prices or {}).get(stage.partition(" ")[0]))
        for stage, spent in stages.items()
    }


def latency(results: Sequence[Result]) -> Report:
    """Return percentiles of the memory's search and of the encoding of a question, in milliseconds."""
    search = [time for result in results for time in result.search_ms]
    embed = [time for result in results for time in result.embed_query_ms]
    return {
        "search_p50": rounded(statistics.percentile(search, 50)),
        "search_p95": rounded(statistics.percentile(search, 95)),
        "embed_query_p50": rounded(statistics.percentile(embed, 50)),
    }


def _build(writes: Sequence[Writes]) -> Report:
    counts = [asdict(one) for one in writes]
    total = {name: sum(one[name] for one in counts) for name in counts[0]}
    offered, annotated = total.pop("offered_links"), total.pop("annotated_links")
    seconds = total.pop("seconds")
    return {
        **total,
        "calls_per_note": rounded(
            total["model_calls"] / total["notes"] if total["notes"] else None
        ),
        "candidate_recall": rounded(offered / annotated if annotated else None),
        "seconds": round(seconds, 1),
    }


def _written(writes: Writes) -> Spent:
    return Spent(
        calls=writes.model_calls,
        input_tokens=writes.input_tokens,
        output_tokens=writes.output_tokens,
    )


def _sum(spent: Sequence[Spent]) -> Spent:
    return Spent(
        calls=sum(one.calls for one in spent),
        input_tokens=sum(one.input_tokens for one in spent),
        output_tokens=sum(one.output_tokens for one in spent),
    )


def _priced(spent: Spent, prices: tuple[float, float] | None) -> Mapping[str, float | None]:
    cost = None
    if prices is not None:
        cost = (spent.input_tokens * prices[0] + spent.output_tokens * prices[1]) / MILLION
    return {**asdict(spent), "cost": rounded(cost)}
