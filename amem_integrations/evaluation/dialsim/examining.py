"""Has a model answer, in each format, from what the memory found when the question was asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ...ports import ChatModel
from ..answering import Answering, Judging
from ..answering.questions import Examiner
from ..locomo import Question as Compared
from ..results import Answer, Spent
from ..systems import MAIN, Found
from .choosing import Asked
from .results import Recalled
from .settings import Format, Settings
from .values import LETTERS

Tell = Callable[[str, int, int], None]  # stage, done, total
Answers = dict[Format, tuple[Answer, ...]]

# Compared with its gold as it stands: nothing is split at commas or semicolons.
AS_IT_STANDS = 4


class OpenAnswering(Answering):
    """Has questions answered in the model's own words."""

    task = "dialsim_open"


class ChoiceAnswering(Answering):
    """Has one of the options chosen."""

    task = "dialsim_choice"


_ANSWERING: Mapping[Format, type[Answering]] = {
    Format.CHOICE: ChoiceAnswering,
    Format.OPEN: OpenAnswering,
}


def examine(
    recalled: Sequence[Recalled],
    agent: str,
    settings: Settings,
    *,
    answerer: ChatModel,
    judge: ChatModel | None,
    tell: Tell,
) -> tuple[Answers, dict[str, Spent]]:
    """Return the answers by format, and what they and the verdicts on the open ones took.

    Raises:
        ModelUnavailableError: A model gave no answer.
    """
    answers: Answers = {}
    spent: dict[str, Spent] = {}
    for format_ in settings.formats:
        # A choice is right or wrong by itself.
        judging = Judging(judge) if judge and format_ is Format.OPEN else None
        examiner = Examiner(
            answering=_ANSWERING[format_](answerer),
            judging=judging,
            concurrency=settings.concurrency,
        )
        found, took = examiner.answers(
            [comparable(one.asked, agent, format_) for one in recalled],
            {MAIN: [Found(ids=one.keys, context=partial(_context, one)) for one in recalled]},
            (settings.k,),
            partial(_tell, tell, format_),
        )
        answers[format_] = found[MAIN][settings.k]
        for stage, one in took.items():
            spent[stage] = _sum(spent.get(stage, Spent()), one)
    return answers, spent


def task_of(format_: Format) -> str:
    """Return the task, and so the prompt, by which answers of a format are asked for."""
    return _ANSWERING[format_].task


def comparable(asked: Asked, agent: str, format_: Format) -> Compared:
    """Return a question as it is put to a model, and as its answer is compared with the right one."""
    lines = [f"On {asked.session.date}, {asked.asker} asks {agent}: {asked.text}"]
    if format_ is Format.CHOICE:
        labelled = zip(LETTERS, asked.question.options, strict=False)
        lines += [f"({letter}) {option}" for letter, option in labelled]
    return Compared(
        text="\n".join(lines),
        category=AS_IT_STANDS,
        evidence=frozenset(),
        answer=asked.question.gold,
    )


def _tell(tell: Tell, format_: Format, stage: str, done: int, total: int) -> None:
    tell(f"{stage} {format_}", done, total)


def _context(recalled: Recalled, _: int) -> str:
    return recalled.context


def _sum(one: Spent, other: Spent) -> Spent:
    return Spent(
        calls=one.calls + other.calls,
        input_tokens=one.input_tokens + other.input_tokens,
        output_tokens=one.output_tokens + other.output_tokens,
    )
