"""From what was found and answered to the figures of a report, as JSON values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from amem_integrations.ports import Embedder

from . import statistics
from .data import ADVERSARIAL, ANSWER, CATEGORIES, Answer, Outcome, Result, Spent, Writes
from .scoring import MEASURES, SCORINGS, Measured, score
from .systems import MAIN, WITHOUT_DIGESTS

Report = dict[str, Any]
Prices = Mapping[str, tuple[float, float]]  # by stage: of a million tokens, in and out
Measure = Callable[[Sequence[str], Collection[str], int], float]
# By how many of the first ones count, of each question.
_Hits = Mapping[str, Sequence[Sequence[str]]]

DIGITS = 4
MILLION = 1_000_000
BUILD, JUDGE = "build", "judge"
DIGESTS = f"{BUILD} digests"
COUNTED = tuple(one for one in CATEGORIES if one != ADVERSARIAL)  # what 5 asks about was never said


def build(
    results: Sequence[Result],
    ks: Sequence[int],
    settings: Mapping[str, Any],
    *,
    embedder: Embedder | None = None,
    prices: Prices | None = None,
) -> Report:
    """Return the report on some conversations: over all of them, and of each.

    `ks` is how many of the first hits count, for each figure. `embedder` compares answers with gold ones; without
    one there are none. `prices` are by stage (`build`, `answer`, `judge`).
    """
    return {
        **_figures(results, ks),
        **_answers(results, embedder),
        "costs": costs(results, prices),
        "settings": dict(settings),
        "conversations": {
            result.conversation: {"written_by": result.written_by, **_figures([result], ks)}
            for result in results
        },
    }


def recall(found: Sequence[str], evidence: Collection[str], k: int) -> float:
    """Return the share of the evidence that is among the first `k` found."""
    return len(set(evidence) & set(found[:k])) / len(set(evidence))


def all_evidence(found: Sequence[str], evidence: Collection[str], k: int) -> float:
    """Return 1 if all of the evidence is among the first `k` found, else 0."""
    return float(set(evidence) <= set(found[:k]))


FOUND_MEASURES: Mapping[str, Measure] = {"recall": recall, "all_evidence": all_evidence}


def _figures(results: Sequence[Result], ks: Sequence[int]) -> Report:
    outcomes = [outcome for result in results for outcome in result.outcomes]
    usable = [outcome for outcome in outcomes if outcome.question.evidence]
    counted = _of(usable, COUNTED)
    by_category = {one: _of(usable, (one,)) for one in CATEGORIES}
    systems = list(usable[0].found) if usable else []
    hits = {system: _first(counted, system, ks) for system in systems}
    values = {
        (name, str(k)): {system: _shares(counted, hits[system][str(k)], name) for system in systems}
        for name in FOUND_MEASURES
        for k in (ks if counted else ())
    }
    return {
        "notes": sum(result.notes for result in results),
        "questions": {
            "used": len(counted),
            "skipped": len(outcomes) - len(usable),
            "by_category": {str(one): len(some) for one, some in by_category.items()},
        },
        "retrieval": {
            system: {
                **_means(counted, hits[system]),
                **_with_digests(counted, hits[system]),
                "recall_interval": {
                    k: interval(_shares(counted, found, "recall"))
                    for k, found in hits[system].items()
                },
                "by_category": {
                    str(one): _means(some, _first(some, system, ks))
                    for one, some in by_category.items()
                },
            }
            for system in systems
        },
        "retrieval_against": _against(values, [one.question.category for one in counted]),
        "within": {str(budget): _within(usable, budget) for budget in _budgets(usable)},
        "context": {system: _context(results, system, ks) for system in systems},
        "builds": builds(results),
        "latency_ms": latency(results),
    }


def _budgets(outcomes: Sequence[Outcome]) -> list[int]:
    return list(outcomes[0].within) if outcomes else []


def _within(outcomes: Sequence[Outcome], budget: int) -> Report:
    """Return the evidence that the memory shows in a budget of tokens, over all questions and by category."""
    groups = {"all": COUNTED, **{str(one): (one,) for one in CATEGORIES}}
    has_digests = any(one.digests for one in outcomes)
    found: Report = {}
    for name, categories in groups.items():
        asked = _of(outcomes, categories)
        shown = [one.within[budget] for one in asked]
        told = [_told(one, ids) for one, ids in zip(asked, shown, strict=True)]
        found[name] = _estimates(asked, shown)
        if has_digests:
            found[name]["with_digests"] = _estimates(asked, told)
    return found


def _estimates(outcomes: Sequence[Outcome], found: Sequence[Sequence[str]]) -> Report:
    return {name: estimated(_shares(outcomes, found, name)) for name in FOUND_MEASURES}


def _first(outcomes: Sequence[Outcome], system: str, ks: Sequence[int]) -> _Hits:
    return {str(k): [list(one.found[system][:k]) for one in outcomes] for k in ks}


def _means(outcomes: Sequence[Outcome], hits: _Hits) -> Report:
    return {
        name: {
            k: rounded(statistics.mean(_shares(outcomes, found, name))) for k, found in hits.items()
        }
        for name in FOUND_MEASURES
    }


def _with_digests(outcomes: Sequence[Outcome], hits: _Hits) -> Report:
    """Return the same figures where a digest counts as all its sources; nothing if there is none."""
    told = {
        k: [_told(one, ids) for one, ids in zip(outcomes, found, strict=True)]
        for k, found in hits.items()
    }
    return {} if told == hits else {"with_digests": _means(outcomes, told)}


def _told(outcome: Outcome, found: Sequence[str]) -> list[str]:
    """Return the turns that hits tell, a digest those that it was gathered from."""
    return [turn for one in found for turn in outcome.digests.get(one, (one,))]


def _shares(
    outcomes: Sequence[Outcome], found: Sequence[Sequence[str]], measure: str
) -> list[float]:
    pairs = zip(outcomes, found, strict=True)
    return [FOUND_MEASURES[measure](ids, one.question.evidence, len(ids)) for one, ids in pairs]


def _context(results: Sequence[Result], system: str, ks: Sequence[int]) -> Report:
    asked = [(result.full_tokens, outcome) for result in results for outcome in result.outcomes]
    whole = sum(full for full, _ in asked)
    shown = {
        str(k): sum(outcome.shown.get(system, {}).get(k, 0) for _, outcome in asked) for k in ks
    }
    return {
        "tokens": {k: round(tokens / len(asked), 1) for k, tokens in shown.items()},
        "saved": {k: rounded(1 - tokens / whole) if whole else None for k, tokens in shown.items()},
    }


def _against(
    values: Mapping[tuple[str, str], Mapping[str, statistics.Values]],
    categories: Sequence[int],
    main: str = MAIN,
) -> Report:
    against: Report = {}
    for (group, name), by_system in values.items():
        for other, gain in statistics.compare(by_system, categories, main).items():
            against.setdefault(other, {}).setdefault(group, {})[name] = rounded(gain)
    return against


def _of(outcomes: Sequence[Outcome], categories: Collection[int]) -> list[Outcome]:
    return [outcome for outcome in outcomes if outcome.question.category in categories]


@dataclass(frozen=True, slots=True)
class Scored:
    """One answer with its scores, by scoring and measure; a judge's verdict is 0 or 1."""

    category: int
    answer: Answer
    full_tokens: int
    scores: Mapping[str, Measured]


def scored(results: Sequence[Result], embedder: Embedder) -> dict[tuple[str, int], list[Scored]]:
    """Return all answers with their scores, by system and number of hits, always in the same order."""
    every = [
        (condition, result, outcome.question, answer)
        for result in results
        for condition, given in result.answers.items()
        if condition.task == ANSWER.prompt
        for outcome, answer in zip(result.outcomes, given, strict=True)
    ]
    marks = score([(question, answer.text) for _, _, question, answer in every], embedder=embedder)
    table: dict[tuple[str, int], list[Scored]] = {}
    for (condition, result, question, answer), mark in zip(every, marks, strict=True):
        verdict = {} if answer.correct is None else {JUDGE: float(answer.correct)}
        scores = {"official": {**mark.official, **verdict}, "amem": mark.amem}
        one = Scored(question.category, answer, result.full_tokens, scores)
        table.setdefault((condition.system, condition.k), []).append(one)
    return table


def _answers(results: Sequence[Result], embedder: Embedder | None) -> Report:
    table = {} if embedder is None else scored(results, embedder)
    if not table:
        return {}
    k = max(k for _, k in table)  # one number of hits is reported; the sweep compares several
    by_system = {system: found for (system, hits), found in table.items() if hits == k}
    answers = {system: _answered(found) for system, found in by_system.items()}
    main = MAIN if MAIN in answers else next(iter(answers))
    values = {
        (scoring, name): {
            system: [one.scores[scoring].get(name) for one in found]
            for system, found in by_system.items()
        }
        for scoring in SCORINGS
        for name in _measures(by_system[main])
    }
    categories = [one.category for one in by_system[main]]
    answers[main]["against"] = _against(values, categories, main)
    found: Report = {"answers": answers, "answered_from": k}
    if gains := _by_digests(values["official", "f1"], categories):
        found["by_digests"] = gains
    return found


def _by_digests(f1: Mapping[str, statistics.Values], categories: Sequence[int]) -> Report:
    """Return by how much each system with digests answers better than the same without them, by official F1."""
    pairs = {name: name.replace(MAIN, WITHOUT_DIGESTS, 1) for name in f1 if name.startswith(MAIN)}
    return {
        name: rounded(
            statistics.compare({name: f1[name], other: f1[other]}, categories, name)[other]
        )
        for name, other in pairs.items()
        if other in f1
    }


def _answered(found: Sequence[Scored]) -> Report:
    shown = sum(one.answer.context_tokens for one in found)
    measures = _measures(found)
    by_category = {one: [s.scores for s in found if s.category == one] for one in CATEGORIES}
    return {
        "questions": len(found),
        "unanswered": sum(not one.answer.text for one in found),
        "context_tokens": round(shown / len(found), 1),
        "saved": rounded(1 - shown / sum(one.full_tokens for one in found)),
        **marks([one.scores for one in found], measures),
        "by_category": {
            str(category): {"questions": len(some), **marks(some, measures)}
            for category, some in by_category.items()
            if some
        },
    }


def marks(scores: Sequence[Mapping[str, Measured]], measures: Sequence[str]) -> Report:
    """Return by scoring and measure the mean of some scores, with its interval."""
    return {
        scoring: {name: estimated([one[scoring].get(name) for one in scores]) for name in measures}
        for scoring in SCORINGS
    }


def _measures(found: Sequence[Scored]) -> tuple[str, ...]:
    judged = any(JUDGE in one.scores["official"] for one in found)
    return (*MEASURES, JUDGE) if judged else MEASURES


def builds(results: Sequence[Result]) -> Report:
    """Return for each variant of the memory what building it took and gave, over all conversations."""
    variants = results[0].writes if results else ()
    return {variant: _build([one.writes[variant] for one in results]) for variant in variants}


def _build(writes: Sequence[Writes]) -> Report:
    counts = [asdict(one) for one in writes]
    total = {name: sum(one[name] for one in counts) for name in counts[0]}
    total = {name: n for name, n in total.items() if not name.startswith("digest_")}
    offered, annotated = total.pop("offered_links"), total.pop("annotated_links")
    seconds, notes = total.pop("seconds"), total["notes"]
    return {
        **total,
        "calls_per_note": rounded(total["model_calls"] / notes if notes else None),
        "candidate_recall": rounded(offered / annotated if annotated else None),
        "seconds": round(seconds, 1),
    }


def costs(results: Sequence[Result], prices: Prices | None) -> Report:
    """Return calls, tokens and price by stage; each variant of the memory is one, with what it costs alone."""
    stages: dict[str, list[Spent]] = {}
    for result in results:
        building = {
            BUILD if variant == MAIN else f"{BUILD} {variant}": writes.spent
            for variant, writes in result.writes.items()
        }
        if MAIN in result.writes and (digests := result.writes[MAIN].spent_on_digests).calls:
            building[DIGESTS] = digests
        for stage, spent in {**building, **result.spent}.items():
            stages.setdefault(stage, []).append(spent)
    return {
        stage: _priced(Spent.total(spent), (prices or {}).get(stage.partition(" ")[0]))
        for stage, spent in stages.items()
    }


def _priced(spent: Spent, prices: tuple[float, float] | None) -> Report:
    cost = None
    if prices is not None:
        cost = (spent.input_tokens * prices[0] + spent.output_tokens * prices[1]) / MILLION
    return {**spent._asdict(), "cost": rounded(cost)}


def latency(results: Sequence[Result]) -> Report:
    """Return percentiles of the memory's search and of the encoding of a question, in milliseconds."""
    search = [time for result in results for time in result.search_ms]
    encoding = [time for result in results for time in result.embed_query_ms]
    times = {
        "search_p50": (search, 50),
        "search_p95": (search, 95),
        "embed_query_p50": (encoding, 50),
    }
    return {name: rounded(statistics.percentile(*of)) for name, of in times.items()}


def rounded(value: Any) -> Any:  # noqa: ANN401 - a JSON value
    """Return a figure, or figures by name at any depth, as they are reported."""
    if isinstance(value, Mapping):
        return {name: rounded(one) for name, one in value.items()}
    return round(value, DIGITS) if isinstance(value, float) else value


def interval(values: statistics.Values) -> list[float] | None:
    """Return the bounds of the 95 % bootstrap interval of a mean; None of nothing."""
    one = estimated(values)
    return None if one["mean"] is None else [one["low"], one["high"]]


def estimated(values: statistics.Values) -> Report:
    """Return the mean of what is not None and its 95 % bootstrap interval; of nothing, None each."""
    found: Report = rounded(statistics.estimate(values) or dict.fromkeys(("mean", "low", "high")))
    return found
