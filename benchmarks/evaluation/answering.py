"""Has questions answered by a chat model from what each system found, by the prompts in `prompts.md`."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.resources import files
from itertools import product
from string import Template
from threading import Event
from typing import TypeVar

from pydantic import BaseModel, Field

from amem_integrations.errors import ModelReplyError
from amem_integrations.ports import ChatModel, ModelRequest
from amem_integrations.prompts.parse import parse
from amem_integrations.runtime import resolve, run
from amem_integrations.texts import count_tokens

from .data import Answer, Condition, Question, Spent
from .systems import Found, Settings

log = logging.getLogger("amem_integrations")

J = TypeVar("J", bound=tuple[str, ...])
M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")

Progress = Callable[[str, int, int], None]  # stage, done, total
Asked = tuple[Condition, int]  # and the question's position

_NO_CONTEXT = "(nothing is remembered)"
_THOUGHTS = re.compile(r"\A.*</think(?:ing)?>", re.DOTALL | re.IGNORECASE)


class AnswerReply(BaseModel):
    """The reply to a question."""

    answer: str = Field(description="the answer in a few words")


class JudgeReply(BaseModel):
    """The verdict on an answer."""

    correct: bool = Field(description="whether the answer says the same as the correct one")


@cache
def prompt_text(task: str) -> str:
    """Return the prompt of a task, before anything is filled in."""
    text = (files(__package__) / "prompts.md").read_text(encoding="utf-8")
    sections = re.split(r"^# (\w+)\n", text, flags=re.MULTILINE)[1:]
    return dict(zip(sections[::2], sections[1::2], strict=True))[task].strip() + "\n"


def answer(model: ChatModel, prompt: str, question: str, context: str) -> tuple[str, Spent]:
    """Return a model's answer to a question, and what it took.

    A reply that is no JSON is itself the answer; a refused request is answered by "", which scores as wrong.
    """
    found, text, spent = _ask(
        model, prompt, AnswerReply, question=question, context=context or _NO_CONTEXT
    )
    return " ".join((found.answer if found else _THOUGHTS.sub("", text)).split()), spent


def judge(model: ChatModel, question: str, gold: str, text: str) -> tuple[bool, Spent]:
    """Return whether a model takes an answer for correct, and what that took; False if it is unreadable."""
    found, _, spent = _ask(model, "judge", JudgeReply, question=question, gold=gold, answer=text)
    return found is not None and found.correct, spent


def _ask(model: ChatModel, task: str, reply: type[M], **values: str) -> tuple[M | None, str, Spent]:
    """Return a reply, or None if it is unreadable or refused; its text, and what it took."""
    system, _, prompt = prompt_text(task).partition("\n---\n")
    prompt = Template(prompt.strip()).substitute(values)
    request = ModelRequest(
        task=task, system=system.strip(), prompt=prompt, reply=reply, inputs=values
    )
    try:
        completion = run(resolve(model.generate(request)))
    except ModelReplyError as error:
        log.warning("%s of %r was refused: %s", task, values["question"], error)
        return None, "", Spent(calls=1)
    spent = Spent(1, completion.input_tokens, completion.output_tokens)
    with suppress(ModelReplyError):
        return parse(completion.text, reply), completion.text, spent
    return None, completion.text, spent


@dataclass(frozen=True, slots=True, kw_only=True)
class Examiner:
    """Has questions answered by a model, and the answers compared with the golds by a judge, if any."""

    answerer: ChatModel
    judge: ChatModel | None = None
    concurrency: int = 4

    def answers(
        self,
        questions: Sequence[Question],
        found: Mapping[str, Sequence[Found]],
        settings: Settings,
        progress: Progress,
    ) -> tuple[dict[Condition, tuple[Answer, ...]], dict[str, Spent]]:
        """Return the answers by condition, and what they (`answer`) and the verdicts (`judge`) took."""
        tasks, ks = settings.tasks, settings.answer_ks
        asked = {
            (Condition(prompt, system, k), n): (prompt, question.wording(prompt), one.context(k))
            for prompt, (system, every), k in product([t.prompt for t in tasks], found.items(), ks)
            for n, (question, one) in enumerate(zip(questions, every, strict=True))
        }
        answered = partial(answer, self.answerer)
        replies = self._each(asked.values(), answered, partial(progress, "answer"))
        given = {
            where: Answer(text=replies[job][0], context_tokens=count_tokens(job[2]))
            for where, job in asked.items()
        }
        spent = {"answer": Spent.total(one for _, one in replies.values())}
        judged = {task.prompt for task in tasks if task.judged}
        if self.judge is not None and judged:
            compared = {
                (condition, n): (questions[n].wording(condition.task), gold, one.text)
                for (condition, n), one in given.items()
                if condition.task in judged and (gold := questions[n].gold) is not None
            }
            verdict = partial(judge, self.judge)
            verdicts = self._each(compared.values(), verdict, partial(progress, "judge"))
            spent["judge"] = Spent.total(one for _, one in verdicts.values())
            for where, job in compared.items():
                given[where] = replace(given[where], correct=verdicts[job][0])
        conditions: dict[Condition, tuple[Answer, ...]] = {}
        for (condition, _), one in given.items():
            conditions[condition] = (*conditions.get(condition, ()), one)
        return conditions, spent

    def _each(
        self, jobs: Iterable[J], work: Callable[..., T], progress: Callable[[int, int], None]
    ) -> dict[J, T]:
        """Return the result of each different job; if one fails, those that did not start are dropped."""
        different = list(dict.fromkeys(jobs))
        stopped = Event()

        def attempt(job: J) -> T:
            if stopped.is_set():
                raise CancelledError
            try:
                return work(*job)
            except BaseException:
                stopped.set()  # here, so that no thread starts another job before this is noticed
                raise

        done: dict[J, T] = {}
        with ThreadPoolExecutor(self.concurrency) as pool, ExitStack() as leaving:
            leaving.callback(stopped.set)  # before the pool waits for its threads
            for job, result in zip(different, pool.map(attempt, different), strict=True):
                done[job] = result
                progress(len(done), len(different))
        return done
