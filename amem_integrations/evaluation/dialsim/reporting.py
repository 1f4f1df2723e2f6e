"""Pure: from a simulation to the figures of a report, as JSON values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...ports import Embedder
from .. import results
from ..report.costs import Prices, builds, costs, latency
from ..report.figures import Report, estimated, rounded
from ..results import Answer
from ..scoring import MEASURES, SCORINGS, Scores, score
from ..statistics import mean
from ..systems import MAIN
from .choosing import Asked
from .examining import comparable
from .marking import chosen, refuses
from .results import Result
from .settings import Format

CAUTION = (
    "This project has not run this on the published DialSim files yet; it is tested on a small show of its "
    "own in their format."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Marked:
    """An answer with its marks: `right` is None for an open answer that no judge has seen."""

    asked: Asked
    answer: Answer
    right: float | None
    refused: bool
    readable: bool = True
    scores: Scores | None = None


def build(
    result: Result, settings: Mapping[str, Any], *, embedder: Embedder, prices: Prices | None = None
) -> Report:
    """Return the report on a simulation.

    Args:
        result: What was found and answered.
        settings: Goes into the report as it is.
        embedder: Compares open answers with right ones.
        prices: By stage, of a million tokens, in and out.
    """
    show, asked = result.show, [one.asked for one in result.recalled]
    spent = _as_evaluated(result)
    return {
        "caution": CAUTION,
        "show": show.name,
        "agent": show.agent,
        "sessions": show.sessions.index(asked[-1].session) + 1,
        "sessions_dated_back": show.dated_back,
        "turns": result.recalled[-1].turns,
        "notes": result.writes.notes,
        "written_by": result.written_by,
        "questions": {
            "asked": len(asked),
            "unanswerable": sum(not one.question.answerable for one in asked),
            "by_source": dict(Counter(one.question.source for one in asked)),
            "by_kind": dict(sorted(Counter(one.question.kind for one in asked).items())),
            "sessions_left_out": dict(result.left_out),
            "questions_left_out": dict(show.left_out),
        },
        "answers": {
            format_.value: _figures(_marked(asked, given, format_, show.agent, embedder))
            for format_, given in result.answers.items()
        },
        "builds": builds([spent]),
        "costs": costs([spent], prices),
        "latency_ms": latency([spent]),
        "settings": dict(settings),
    }


def _marked(
    asked: Sequence[Asked], given: Sequence[Answer], format_: Format, agent: str, embedder: Embedder
) -> list[_Marked]:
    pairs = list(zip(asked, given, strict=True))
    if format_ is Format.CHOICE:
        return [_choice(one, answer) for one, answer in pairs]
    compared = [(comparable(one, agent, format_), answer.text) for one, answer in pairs]
    return [
        _Marked(
            asked=one,
            answer=answer,
            right=None if answer.correct is None else float(answer.correct),
            refused=refuses(answer.text),
            scores=scores,
        )
        for (one, answer), scores in zip(pairs, score(compared, embedder=embedder), strict=True)
    ]


def _choice(asked: Asked, answer: Answer) -> _Marked:
    place = chosen(answer.text, asked.question.options)
    return _Marked(
        asked=asked,
        answer=answer,
        right=float(place == asked.question.right),
        refused=place == len(asked.question.options) - 1,
        readable=place is not None,
    )


def _figures(marked: Sequence[_Marked]) -> Report:
    of_kind: dict[str, list[_Marked]] = {}
    for one in sorted(marked, key=lambda one: (one.asked.question.source, one.asked.question.kind)):
        of_kind.setdefault(f"{one.asked.question.source}/{one.asked.question.kind}", []).append(one)
    return {
        **_group(marked),
        "unreadable": sum(not one.readable for one in marked),
        "context_tokens": rounded(mean([one.answer.context_tokens for one in marked])),
        "answerable": _group([one for one in marked if one.asked.question.answerable]),
        "unanswerable": _group([one for one in marked if not one.asked.question.answerable]),
        "by_kind": {kind: _group(some) for kind, some in of_kind.items()},
    }


def _group(marked: Sequence[_Marked]) -> Report:
    """Return how many there are, how many are right and how many refuse, and all measures of open ones."""
    scored = [one.scores for one in marked if one.scores is not None]
    return {
        "questions": len(marked),
        "accuracy": estimated([one.right for one in marked]),
        "refused": rounded(mean([float(one.refused) for one in marked])),
        **({scoring: _measures(scored, scoring) for scoring in SCORINGS} if scored else {}),
    }


def _measures(scored: Sequence[Scores], scoring: str) -> Report:
    by_answer = [getattr(one, scoring) for one in scored]
    return {measure: estimated([one[measure] for one in by_answer]) for measure in MEASURES}


def _as_evaluated(result: Result) -> results.Result:
    """Return what it took in the form in which any evaluation reports it."""
    return results.Result(
        conversation=result.show.name,
        written_by=result.written_by,
        notes=result.writes.notes,
        outcomes=(),
        writes={MAIN: result.writes},
        search_ms=tuple(one.search_ms for one in result.recalled),
        embed_query_ms=tuple(one.embed_ms for one in result.recalled),
        spent=result.spent,
    )
