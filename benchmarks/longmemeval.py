r"""Measures recall of evidence on LongMemEval (Wu et al., 2024, arXiv 2410.10813) and, with --answer, what a chat model answers.

Each question has a history of its own, in sessions of a user and an assistant; every turn becomes a note, and the question is
asked on its day. `longmemeval_s.json`, `longmemeval_m.json` and `longmemeval_oracle.json` are the user's own, a list of

    {"question_id", "question_type", "question", "answer", "question_date": "2023/05/30 (Tue) 23:40",
     "haystack_session_ids": [id, …], "haystack_dates": [date, …], "answer_session_ids": [id, …],
     "haystack_sessions": [[{"role": "user", "content": "…", "has_answer": true}, …], …]}

where an id that ends in `_abs` is of a question that has no answer. This has not been run on the published files yet.
"""

from __future__ import annotations

import re
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from amem_integrations import NoteInput
from amem_integrations.errors import InvalidInputError
from amem_integrations.filters import check_count
from amem_integrations.ports import Embedder

from . import report
from .command import numbers, run
from .data import AS_IT_STANDS, Conversation, Question, Result, checked, date_in
from .experiment import measure, parser_on, publish_types
from .report import Report
from .statistics import estimate
from .systems import MAIN, Settings

CAUTION = "This has not been run on the published files yet, but on a small sample in their form."
ABSTENTION = "abstention"
# What a judge is told beside the right answer, after the authors' prompts by type.
RULES = {
    ABSTENTION: "There is no answer in the history: it is correct to say so, or that something is not known.",
    "temporal-reasoning": "A count of days, weeks or months that is off by one is correct.",
    "knowledge-update": "An answer that also tells what was true before is correct, if it has what is true now.",
    "single-session-preference": "This describes what a good answer takes into account: it is correct if it recalls and uses it.",
}
_DATE = re.compile(
    r"(?P<year>\d{4})/(?P<month>\d\d)/(?P<day>\d\d)\s*(?:\(\w+\))?\s*(?P<hour>\d\d):(?P<minute>\d\d)"
)


class _Turn(BaseModel):
    role: str
    content: str
    has_answer: bool = False


class _Instance(BaseModel):
    model_config = ConfigDict(coerce_numbers_to_str=True)

    question_id: str
    question_type: str
    question: str
    answer: str
    question_date: str
    haystack_session_ids: list[str]
    haystack_dates: list[str]
    haystack_sessions: list[list[_Turn]]
    answer_session_ids: list[str] = []


_FILE = TypeAdapter(Annotated[list[_Instance], Field(min_length=1)])


def load(path: Path) -> dict[str, list[Conversation]]:
    """Return the questions of a file, each with its history, by type (`abstention` is one); a file of another form is an `InvalidInputError`."""
    with checked(f"{str(path)!r} is not in the form of LongMemEval"):
        every = _FILE.validate_json(path.read_bytes())
    found: dict[str, list[Conversation]] = {}
    for one in every:
        kind = ABSTENTION if one.question_id.endswith("_abs") else one.question_type
        found.setdefault(kind, []).append(_conversation(one, kind))
    return found


def _conversation(one: _Instance, kind: str) -> Conversation:
    if not len(one.haystack_sessions) == len(one.haystack_dates) == len(one.haystack_session_ids):
        raise InvalidInputError(
            f"question {one.question_id!r} has sessions without a date or an id"
        )
    dates = [date_in(date, _DATE, "2023/05/30 (Tue) 23:40") for date in one.haystack_dates]
    sessions = zip(one.haystack_session_ids, dates, one.haystack_sessions, strict=True)
    turns, evidence = [], set()
    for session, at, said in sorted(sessions, key=lambda part: part[1]):
        for number, turn in enumerate(said):
            if text := turn.content.strip():
                shared = {"key": f"{session}#{number}", "thread": session, "speaker": turn.role}
                turns.append(NoteInput(content=text, at=at, **shared))
                evidence |= {shared["key"]} if turn.has_answer else set()
    question = Question(
        text=one.question,
        put=f"Today is {one.question_date}. {one.question}",
        category=AS_IT_STANDS,
        answer=one.answer,
        evidence=frozenset(evidence),
        rule=RULES.get(kind, ""),
        sessions=frozenset(() if kind == ABSTENTION else one.answer_session_ids),
    )
    return Conversation(
        id=one.question_id, turns=tuple(turns), questions=(question,), dataset="longmemeval"
    )


def figures(some: Sequence[Result], ks: Sequence[int], embedder: Embedder) -> Report:
    """Return recall of evidence by turn and by session, and answers by F1 and by a judge, each with its interval."""
    pairs = [(one.found[MAIN], one.question) for result in some for one in result.outcomes]
    found: Report = {"questions": len(some)}
    for k in ks:
        turns = [_recall(ids, one.evidence, k) for ids, one in pairs]
        sessions = [_recall(_sessions(ids), one.sessions, k) for ids, one in pairs]
        found |= {f"turns@{k}": estimate(turns), f"sessions@{k}": estimate(sessions)}
    for given in report.scored(some, embedder).values():
        found |= report.graded(given)
    return found


def _recall(ids: Sequence[str], due: frozenset[str], k: int) -> float | None:
    return report.recall(ids, due, k) if due else None


def _sessions(ids: Iterable[str]) -> list[str]:
    """Return the sessions of turns, each once, in the order of the first of their turns."""
    return list(dict.fromkeys(one.rpartition("#")[0] for one in ids))


def _parser() -> ArgumentParser:
    parser = parser_on("longmemeval", __doc__, "5,10,20")
    add = parser.add_argument
    add("--answer", action="store_true", help="have a chat model answer (needs --model)")
    add("--questions", type=int, help="only so many questions of each type, from the first")
    return parser


def _longmemeval(given: Namespace) -> None:
    ks = numbers(given.k)
    if given.questions is not None:
        check_count("questions", given.questions)
    known = {kind: some[: given.questions] for kind, some in load(given.dataset).items()}
    settings = Settings(
        ks=ks, concurrency=given.concurrency, answer_k=ks[-1] if given.answer else None
    )
    histories = [one for some in known.values() for one in some]
    limits = {"questions": given.questions}
    results, described, embedder = measure(given, settings, histories, limits)
    by_type = {"all": figures(results, ks, embedder)}
    for kind, some in known.items():
        ids = {one.id for one in some}
        of_kind = [one for one in results if one.conversation in ids]
        by_type[kind] = figures(of_kind, ks, embedder)
    about = (
        "Share of the turns with the answer among the first k turns, and of its sessions among the first k "
        "sessions of the hits; answers by a judge, who is told what counts for the type, and by F1"
    )
    publish_types(given, "longmemeval", CAUTION, by_type, results, described, about)


main = partial(run, _parser, _longmemeval)

if __name__ == "__main__":
    sys.exit(main())
