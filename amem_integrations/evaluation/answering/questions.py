"""All questions of a conversation, put to a model: each different one once, several at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Event
from typing import TypeVar

from ... import texts
from ..locomo import Question
from ..results import Answer, Spent
from ..systems import Found
from .ask import Answering, Judging

J = TypeVar("J")
T = TypeVar("T")

ADVERSARIAL = 5

Answers = dict[str, dict[int, tuple[Answer, ...]]]
Tell = Callable[[str, int, int], None]  # stage, done, total


@dataclass(frozen=True, slots=True, kw_only=True)
class Examiner:
    """Puts questions to a model, and its answers to a judge if there is one."""

    answering: Answering
    judging: Judging | None = None
    concurrency: int = 4

    def answers(
        self,
        questions: Sequence[Question],
        found: Mapping[str, Sequence[Found]],
        ks: Sequence[int],
        tell: Tell,
    ) -> tuple[Answers, dict[str, Spent]]:
        """Return the answers by system and number of hits shown, and what they and their verdicts took.

        Raises:
            ModelUnavailableError: A model gave no answer; what was answered before is kept if the model
                keeps it.
        """
        wanted = {
            (system, k, place): (questions[place].text, one.context(k))
            for system, all_found in found.items()
            for place, one in enumerate(all_found)
            for k in ks
        }
        said = self._each(wanted.values(), lambda job: self.answering(*job), "answer", tell)
        given = {
            where: Answer(text=said[job][0], context_tokens=texts.count_tokens(job[1]))
            for where, job in wanted.items()
        }
        spent = {"answer": _total(one for _, one in said.values())}
        if self.judging is not None:
            spent["judge"] = self._judge(questions, given, tell, self.judging)
        return _arranged(given, found, ks, len(questions)), spent

    def _judge(
        self,
        questions: Sequence[Question],
        given: dict[tuple[str, int, int], Answer],
        tell: Tell,
        judging: Judging,
    ) -> Spent:
        """Set the verdict of every answer that can be compared with a correct one; return what it took."""
        jobs = {
            where: (questions[where[2]].text, gold, answer.text)
            for where, answer in given.items()
            if (gold := _gold(questions[where[2]])) is not None
        }
        said = self._each(jobs.values(), lambda job: judging(*job), "judge", tell)
        for where, job in jobs.items():
            given[where] = replace(given[where], correct=said[job][0])
        return _total(one for _, one in said.values())

    def _each(self, jobs: Iterable[J], do: Callable[[J], T], stage: str, tell: Tell) -> dict[J, T]:
        """Return what is done for each different job; if one fails, those not begun are left."""
        different = list(dict.fromkeys(jobs))
        stopped = Event()

        def attempt(job: J) -> T:
            if stopped.is_set():
                raise CancelledError
            try:
                return do(job)
            except BaseException:
                stopped.set()  # here, so that no thread begins another one before it is noticed
                raise

        done: dict[J, T] = {}
        with ThreadPoolExecutor(self.concurrency) as pool:
            waiting = {pool.submit(attempt, job): job for job in different}
            try:
                for one in as_completed(waiting):
                    with suppress(CancelledError):  # what stopped it is among the others
                        done[waiting[one]] = one.result()
                        tell(stage, len(done), len(different))
            except BaseException:
                stopped.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        return done


def _gold(question: Question) -> str | None:
    """Return the correct answer; to an adversarial question it is a refusal, which needs no judge."""
    return None if question.category == ADVERSARIAL else question.answer


def _arranged(
    given: Mapping[tuple[str, int, int], Answer],
    systems: Iterable[str],
    ks: Sequence[int],
    questions: int,
) -> Answers:
    return {
        system: {k: tuple(given[system, k, place] for place in range(questions)) for k in ks}
        for system in systems
    }


def _total(spent: Iterable[Spent]) -> Spent:
    every = list(spent)
    return Spent(
        calls=sum(one.calls for one in every),
        input_tokens=sum(one.input_tokens for one in every),
        output_tokens=sum(one.output_tokens for one in every),
    )
