"""One question to a model: for an answer, or for a verdict on one."""

from __future__ import annotations

import logging
import re

from pydantic import BaseModel, Field

from ..._sync import resolve, run
from ...errors import ModelReplyError
from ...ports import ChatModel, Completion, ModelRequest
from ...prompts.parse import parse
from ..results import Spent
from .prompts import render

log = logging.getLogger("amem_integrations")

NOTHING = "(nothing is remembered)"

_THOUGHTS = re.compile(r"\A.*</think(?:ing)?>", re.DOTALL | re.IGNORECASE)


class AnswerReply(BaseModel):
    """What is wanted back for a question."""

    answer: str = Field(description="the answer in a few words")


class JudgeReply(BaseModel):
    """What is wanted back for an answer."""

    correct: bool = Field(description="whether the answer says the same as the correct one")


class Answering:
    """Has questions answered from contexts."""

    task = "answer"

    def __init__(self, model: ChatModel) -> None:
        """Ask `model`."""
        self._model = model

    def __call__(self, question: str, context: str) -> tuple[str, Spent]:
        """Return the answer, and what it took.

        A reply that is not of the form asked for is taken as the answer itself: that is what a user
        would be shown. A request that the endpoint refuses, such as one that is too long for the model,
        is answered by nothing: it scores as wrong, and the rest of the run goes on.

        Raises:
            ModelUnavailableError: The model gave no answer.
        """
        try:
            completion = _complete(
                self._model, self.task, AnswerReply, question=question, context=context or NOTHING
            )
        except ModelReplyError as error:
            log.warning("%r was not answered: %s", question, error)
            return "", Spent(calls=1)
        try:
            text = parse(completion.text, AnswerReply).answer
        except ModelReplyError:
            text = _THOUGHTS.sub("", completion.text)
        return " ".join(text.split()), _spent(completion)


class Judging:
    """Has answers compared with the correct ones."""

    task = "judge"

    def __init__(self, model: ChatModel) -> None:
        """Ask `model`."""
        self._model = model

    def __call__(self, question: str, gold: str, answer: str) -> tuple[bool, Spent]:
        """Return whether the answer is correct, and what the verdict took; one that cannot be read is no.

        Raises:
            ModelUnavailableError: The model gave no verdict.
        """
        try:
            completion = _complete(
                self._model, self.task, JudgeReply, question=question, gold=gold, answer=answer
            )
        except ModelReplyError as error:
            log.warning("the answer to %r was not judged: %s", question, error)
            return False, Spent(calls=1)
        try:
            correct = parse(completion.text, JudgeReply).correct
        except ModelReplyError:
            correct = False
        return correct, _spent(completion)


def _complete(model: ChatModel, task: str, reply: type[BaseModel], **values: str) -> Completion:
    system, prompt = render(task, **values)
    return run(
        resolve(
            model.generate(
                ModelRequest(task=task, system=system, prompt=prompt, reply=reply, inputs=values)
            )
        )
    )


def _spent(completion: Completion) -> Spent:
    return Spent(
        calls=1, input_tokens=completion.input_tokens, output_tokens=completion.output_tokens
    )
