r"""Measures recall of evidence on LongMemEval (Wu et al., 2024, arXiv 2410.10813) and, with --answer, what a chat model answers.

Each question has a history of its own, in sessions of a user and an assistant; every turn becomes a note, and the question is
asked on its day. `longmemeval_s.json`, `longmemeval_m.json` and `longmemeval_oracle.json` are the user's own, a list of

    {"question_id", "question_type", "question", "answer", "question_date": "2023/05/30 (Tue) 23:40",
     "haystack_session_ids": [id, …], "haystack_dates": [date, …], "answer_session_ids": [id, …],
     "haystack_sessions": [[{"role": "user", "content": "…", "has_answer": true}, …], …]}

where an id that ends in `_abs` is of a question that has no answer. This has not been run on the published files yet.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections import defaultdict
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from amem_integrations import NoteInput
from amem_integrations.errors import InvalidInputError

from .command import command, count, numbers, option
from .data import AS_IT_STANDS, Conversation, Question, checked, date_in
from .experiment import measure_types, shared_options
from .systems import Settings

CAUTION = "This has not been run on the published files yet, but on a small sample in their form."
ABSTENTION = "abstention"
# What a judge is told beside the right answer, after the authors' prompts by type.
RULES = {
    ABSTENTION: "There is no answer in the history: it is correct to say so, or that something is not known.",
    "temporal-reasoning": "A count of days, weeks or months that is off by one is correct.",
    "knowledge-update": "An answer that also tells what was true before is correct, if it has what is true now.",
    "single-session-preference": "This describes what a good answer takes into account: it is correct if it recalls and uses it.",
}


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


def load(path: Path, most: int | None = None) -> list[Conversation]:
    """Return the questions of a file, or so many of each type (`abstention` is one), each with its history.

    Raises:
        InvalidInputError: The file holds something else.
        OSError: The file cannot be read.
    """
    with checked(f"{str(path)!r} is not in the form of LongMemEval"):
        every = _FILE.validate_json(path.read_bytes())
    found: defaultdict[str, list[Conversation]] = defaultdict(list)
    for one in every:
        kind = ABSTENTION if one.question_id.endswith("_abs") else one.question_type
        if most is None or len(found[kind]) < most:
            found[kind].append(_conversation(one, kind))
    return [one for some in found.values() for one in some]


def _conversation(one: _Instance, kind: str) -> Conversation:
    if not len(one.haystack_sessions) == len(one.haystack_dates) == len(one.haystack_session_ids):
        raise InvalidInputError(f"question {one.question_id!r} has sessions without date or id")
    dates = map(date_in, one.haystack_dates)
    sessions = zip(one.haystack_session_ids, dates, one.haystack_sessions, strict=True)
    turns, evidence = [], set()
    for session, at, said in sorted(sessions, key=lambda part: part[1]):
        for number, turn in enumerate(said):
            if text := turn.content.strip():
                key = f"{session}#{number}"
                note = NoteInput(content=text, at=at, key=key, thread=session, speaker=turn.role)
                turns.append(note)
                evidence |= {key} if turn.has_answer else set()
    question = Question(
        text=one.question,
        put=f"Today is {one.question_date}. {one.question}",
        category=AS_IT_STANDS,
        answer=one.answer,
        evidence=frozenset(evidence),
        rule=RULES.get(kind, ""),
        sessions=frozenset(() if kind == ABSTENTION else one.answer_session_ids),
        types=(kind,),
    )
    names = {"id": one.question_id, "dataset": "longmemeval"}
    return Conversation(turns=tuple(turns), questions=(question,), **names)


def _longmemeval(given: Namespace) -> None:
    ks = numbers(given.k)
    measure_types(
        given,
        "longmemeval",
        f"{CAUTION} Share of the turns with the answer among the first k turns, and of its sessions among the first k "
        "sessions of the hits; answers by a judge, who is told what counts for the type, and by F1",
        Settings(ks=ks, concurrency=given.concurrency, answer_k=ks[-1] if given.answer else None),
        load(given.dataset, given.questions),
        {"questions": given.questions},
    )


# fmt: off
main = command(
    "longmemeval", __doc__, _longmemeval, *shared_options("5,10,20"),
    option("--answer", action="store_true", help="have a chat model answer (needs --model)"),
    option("--questions", type=count, help="only so many questions of each type, from the first"),
)
# fmt: on

if __name__ == "__main__":
    sys.exit(main())
