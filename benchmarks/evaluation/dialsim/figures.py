"""Pure: the figures of a run of DialSim, and what a reader sees of `dialsim.json`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from amem_integrations.ports import Embedder

from .. import document
from ..data import Answer, Result
from ..document import BOOTSTRAP, Estimate, Picture, Section, Table, Values, percent, table
from ..plots import bars
from ..report import Prices, Report, builds, costs, estimated, latency, marks, rounded
from ..scoring import MEASURES, Scores, score
from ..statistics import mean
from .choosing import Asked, Choice, Format
from .tv_show import LETTERS, Show, ShowQuestion

CAUTION = (
    "This project has not run this on the published DialSim files yet; it is tested on a small show of its "
    "own in their format."
)

# One bracket is enough: a model, or what reads its reply, may have lost the other.
_LABEL = re.compile(r"\(([A-Za-z])\)|\(([A-Z])\b|\b([A-Z])\)")
_SETTLED = re.compile(r"(?i:answer\s+is):?\s+(?:\(([A-Za-z])\)|([A-Z])(?=[).,;:]|\W*\Z))")
_BARE = re.compile(r"\W*([A-Z])(?:[).:]|\W*\Z)")
_REFUSAL = re.compile(
    r"\b(?:do not|don.?t|cannot|can.?t|unable to) (?:know|answer|say|tell|be determined)\b"
    r"|\bnone of the (?:above|options)\b|\bno information\b|\bnot (?:mentioned|specified)\b",
    re.IGNORECASE,
)
_FORMATS = {"choice": "One of the options chosen", "open": "In the model's own words"}
_COUNTED = {
    "by_source": "asked",
    "sessions_left_out": "session left out",
    "questions_left_out": "question left out",
}
_GROUPS = ("answerable", "unanswerable")
_SCORED = {"official": "LoCoMo's own scoring", "amem": "scoring of the authors of A-MEM"}


class _Marked(NamedTuple):
    question: ShowQuestion
    answer: Answer
    right: float | None  # None: an open answer that no judge has seen
    refused: bool
    readable: bool = True
    scores: Scores | None = None


def build(
    show: Show,
    choice: Choice,
    result: Result,
    settings: Mapping[str, Any],
    *,
    embedder: Embedder,
    prices: Prices | None = None,
) -> Report:
    """Return the report on a run; `embedder` compares open answers with right ones."""
    asked = choice.asked
    kinds = Counter(one.question.kind for one in asked)
    return {
        "caution": CAUTION,
        "show": show.name,
        "agent": show.agent,
        "sessions": show.sessions.index(asked[-1].session) + 1,
        "sessions_dated_back": show.dated_back,
        "turns": result.outcomes[-1].question.after,
        "notes": result.notes,
        "written_by": result.written_by,
        "questions": {
            "asked": len(asked),
            "unanswerable": sum(not one.question.answerable for one in asked),
            "by_source": dict(Counter(one.question.source for one in asked)),
            "by_kind": dict(sorted(kinds.items())),
            "sessions_left_out": dict(choice.left_out),
            "questions_left_out": dict(show.left_out),
        },
        "answers": {
            one.value: _figures(
                _choices(asked, given)
                if one is Format.CHOICE
                else _opens(asked, result, given, embedder)
            )
            for one in Format
            for condition, given in result.answers.items()
            if condition.task == one.task.prompt
        },
        "builds": builds([result]),
        "costs": costs([result], prices),
        "latency_ms": latency([result]),
        "settings": dict(settings),
    }


def _choices(asked: Sequence[Asked], given: Sequence[Answer]) -> Iterator[_Marked]:
    for question, answer in zip((one.question for one in asked), given, strict=True):
        option = chosen(answer.text, question.options)
        refused = option == len(question.options) - 1
        right = float(option == question.right)
        yield _Marked(question, answer, right, refused, readable=option is not None)


def _opens(
    asked: Sequence[Asked], result: Result, given: Sequence[Answer], embedder: Embedder
) -> Iterator[_Marked]:
    outcomes = zip(result.outcomes, given, strict=True)
    scores = score([(one.question, answer.text) for one, answer in outcomes], embedder=embedder)
    for one, answer, marked in zip(asked, given, scores, strict=True):
        right = None if answer.correct is None else float(answer.correct)
        yield _Marked(one.question, answer, right, refuses(answer.text), scores=marked)


def _figures(answers: Iterable[_Marked]) -> Report:
    marked = list(answers)
    of_kind: dict[str, list[_Marked]] = {}
    for one in sorted(marked, key=lambda one: (one.question.source, one.question.kind)):
        of_kind.setdefault(f"{one.question.source}/{one.question.kind}", []).append(one)
    return {
        **_group(marked),
        "unreadable": sum(not one.readable for one in marked),
        "context_tokens": rounded(mean([one.answer.context_tokens for one in marked])),
        "answerable": _group([one for one in marked if one.question.answerable]),
        "unanswerable": _group([one for one in marked if not one.question.answerable]),
        "by_kind": {kind: _group(some) for kind, some in of_kind.items()},
    }


def _group(marked: Sequence[_Marked]) -> Report:
    scored = [one.scores._asdict() for one in marked if one.scores is not None]
    return {
        "questions": len(marked),
        "accuracy": estimated([one.right for one in marked]),
        "refused": rounded(mean([float(one.refused) for one in marked])),
        **(marks(scored, MEASURES) if scored else {}),
    }


def chosen(answer: str, options: Sequence[str]) -> int | None:
    """Return the index of the option that an answer chooses, or None if it is none or several.

    "The answer is" counts first, then a letter in brackets, a letter at the beginning, a refusal, and words.
    """
    begun = _BARE.match(answer)
    for places in (
        _places(map("".join, _SETTLED.findall(answer)), options),
        _places(map("".join, _LABEL.findall(answer)), options),
        _places([begun[1]] if begun else [], options),
        {len(options) - 1} if refuses(answer) else set(),
        _worded(_plain(answer), [_plain(option) for option in options]),
    ):
        if places:
            return places.pop() if len(places) == 1 else None
    return None


def refuses(answer: str) -> bool:
    """Return whether an answer says that it does not know."""
    return _REFUSAL.search(answer) is not None


def _places(letters: Iterable[str], options: Sequence[str]) -> set[int]:
    places = (LETTERS.index(letter.upper()) for letter in letters)
    return {place for place in places if place < len(options)}


def _worded(answer: str, options: Sequence[str]) -> set[int]:
    held = {place for place, option in enumerate(options) if _holds(answer, option)}
    # "Ann and Ben" holds "Ann", too, but does not choose it.
    return {
        place
        for place in held
        if not any(place != other and _holds(options[other], options[place]) for other in held)
    }


def _holds(text: str, part: str) -> bool:
    """Return whether a text holds all words of another, in their order."""
    return bool(part) and f" {part} " in f" {text} "


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


def sections(report: Values) -> Iterator[Section]:
    """Yield the sections of a report on DialSim."""
    questions = report["questions"]
    yield Section(
        title=f"DialSim: {report['show']}",
        about=[
            report["caution"],
            (
                f"{report['agent']} hears {document.counted(report['notes'], 'turn')} of "
                f"{document.counted(report['sessions'], 'session')} in their order and is asked "
                f"{document.counted(questions['asked'], 'question')} on the way, each from what has been said by then. "
                f"{questions['unanswerable']} of them have no answer yet; to say so every time would be right "
                f"in {percent(questions['unanswerable'] / questions['asked'])}."
            ),
        ],
        pictures=list(_pictures(report["answers"])),
        tables=[
            *(table for name, found in report["answers"].items() for table in _tables(name, found)),
            _counts(report),
            *document.cost_tables(report),
        ],
    )


def _pictures(answers: Values) -> Iterator[Picture]:
    panels = {
        _FORMATS[name]: {
            "all": Estimate.of(found["accuracy"]),
            **{group: Estimate.of(found[group]["accuracy"]) for group in _GROUPS},
        }
        for name, found in answers.items()
        if found["accuracy"]["mean"] is not None
    }
    if panels:
        yield bars.picture(
            "dialsim",
            "Bars of right answers.",
            "Right answers to all questions, to those that can be answered, and to those that cannot "
            f"yet (right is to say so), with {BOOTSTRAP}.",
            panels,
            "share of right answers",
        )


def _tables(name: str, found: Values) -> Iterator[Table]:
    title = _FORMATS[name]
    groups = {"all": found, **{group: found[group] for group in _GROUPS}, **found["by_kind"]}
    more = f"; {found['unreadable']} chose no option, or several, and count as wrong"
    if name == Format.OPEN:
        more = "" if Estimate.of(found["accuracy"]) else "; they are a judge's, and there was none"
    yield table(
        f"{title}: right answers with {BOOTSTRAP}{more}",
        ["questions", "accuracy", "refused"],
        (
            [group, *map(one.get, ("questions", "accuracy", "refused"))]
            for group, one in groups.items()
        ),
    )
    for scoring, label in _SCORED.items():
        if measures := list(found.get(scoring, {})):
            yield table(
                f"{title}: wording against the right answer, {label}",
                map(document.measure, measures),
                (
                    [group, *map(one[scoring].get, measures)]
                    for group, one in groups.items()
                    if scoring in one
                ),
                folded=True,
            )


def _counts(report: Values) -> Table:
    rows = [["sessions dated before the one they follow", report.get("sessions_dated_back", 0)]]
    for key, group in _COUNTED.items():
        counts = report["questions"].get(key, {})
        rows += [[f"{group}: {name}", count] for name, count in counts.items()]
    return table("What was asked and left out", ["count"], rows, folded=True)
