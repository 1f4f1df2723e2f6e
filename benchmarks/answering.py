"""The chat models of a run: where they are served, what makes the notes, and the answers and verdicts they give."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from string import Template
from typing import NamedTuple, TypeVar

from pydantic import BaseModel, Field

from amem_integrations.errors import ModelReplyError
from amem_integrations.ports import ChatModel, ModelRequest
from amem_integrations.prompts.parse import parse
from amem_integrations.runtime import resolve, run
from amem_integrations.texts import count_tokens

from .cache import Cache, CachedModel
from .data import Found, Question, Spent
from .systems import Settings

log = logging.getLogger("amem_integrations")

J = TypeVar("J", bound=tuple[str, ...])
M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")
Told = Callable[[int, int], None]  # how many are done, of how many

PROMPTS = Path(__file__).with_name("prompts.md")

_THOUGHTS = re.compile(r"\A.*</think(?:ing)?>", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A model at an endpoint, and how it is asked. The key is read from `OPENAI_API_KEY`."""

    model: str
    base_url: str | None = None
    temperature: float = 0.0
    reply: str = "auto"

    @property
    def address(self) -> str | None:
        """The base URL; None is OpenAI itself. `OPENAI_BASE_URL` counts as it does for the SDK."""
        return self.base_url or os.environ.get("OPENAI_BASE_URL") or None

    @property
    def identity(self) -> str:
        """Everything that decides its answers."""
        return f"{self.address} {self.model} {self.temperature} {self.reply}"

    def connect(self, kept: Cache) -> CachedModel:
        """Return the chat model, its replies kept; its constructor raises errors if openai or the key is missing."""
        from amem_integrations.providers.openai import OpenAIChatModel  # noqa: PLC0415 - the SDK

        local = self.address is not None and not os.environ.get("OPENAI_API_KEY")
        model = OpenAIChatModel(
            self.model,
            base_url=self.address,
            api_key="none" if local else None,  # a local server needs none, but the SDK does
            temperature=self.temperature,
            structured=self.reply,  # type: ignore[arg-type]  # checked there
            timeout=120.0,
        )
        return CachedModel(model, kept, identity=self.identity)


class Models(NamedTuple):
    """The chat models of a run: what makes notes, answers questions, and judges the answers.

    Without a writer, conversations that have no annotations get notes by rules.
    """

    writer: ChatModel | None = None
    answerer: ChatModel | None = None
    judge: ChatModel | None = None


class AnswerReply(BaseModel):
    """The reply to a question."""

    answer: str = Field(description="the answer in a few words")


class JudgeReply(BaseModel):
    """The verdict on an answer."""

    correct: bool = Field(description="whether the answer says the same as the correct one")


@cache
def prompt_text(task: str) -> str:
    """Return the prompt of a task, before anything is filled in."""
    text = PROMPTS.read_text(encoding="utf-8")
    sections = re.split(r"^# (\w+)\n", text, flags=re.MULTILINE)[1:]
    return dict(zip(sections[::2], sections[1::2], strict=True))[task].strip() + "\n"


def _answer(model: ChatModel, prompt: str, question: str, context: str) -> tuple[str, Spent]:
    """Return a model's answer to a question, and its cost.

    A reply that is no JSON is itself the answer; a refused request is answered by "", which scores as wrong.
    """
    shown = context or "(nothing is remembered)"
    found, text, spent = ask(model, prompt, AnswerReply, question=question, context=shown)
    return " ".join((found.answer if found else _THOUGHTS.sub("", text)).split()), spent


def _judge(model: ChatModel, question: str, gold: str, text: str) -> tuple[bool, Spent]:
    """Return whether a model takes an answer for correct, and its cost; False if the verdict is unreadable."""
    found, _, spent = ask(model, "judge", JudgeReply, question=question, gold=gold, answer=text)
    return found is not None and found.correct, spent


def ask(model: ChatModel, task: str, reply: type[M], **values: str) -> tuple[M | None, str, Spent]:
    """Return a reply, or None if it is unreadable or refused; its text, and its cost."""
    system, _, prompt = prompt_text(task).partition("\n---\n")
    prompt = Template(prompt.strip()).substitute(values)
    request = ModelRequest(
        task=task, system=system.strip(), prompt=prompt, reply=reply, inputs=values
    )
    try:
        completion = run(resolve(model.generate(request)))
    except ModelReplyError as error:
        log.warning("%s was refused: %s (%.80r)", task, error, prompt)
        return None, "", Spent(calls=1)
    spent = Spent(1, completion.input_tokens, completion.output_tokens)
    with suppress(ModelReplyError):
        return parse(completion.text, reply), completion.text, spent
    return None, completion.text, spent


def examine(
    models: Models,
    questions: Sequence[Question],
    found: Mapping[str, Sequence[Found]],
    settings: Settings,
    progress: Callable[[str, int, int], None],
) -> dict[str, Spent]:
    """Have questions answered from what was found, and the answers compared with the golds if there is a judge.

    Returns:
        What the answers (`answer`) and the verdicts (`judge`) cost; nothing if there is no model that answers.
    """
    if settings.answer_k is None or models.answerer is None:
        return {}
    each, asked = partial(_each, settings.concurrency), []
    for some in found.values():
        for question, one in zip(questions, some, strict=True):
            job = question.put or question.text, one.context(settings.answer_k)
            asked.append((question, one, job))
    answer = partial(_answer, models.answerer, settings.prompt)
    replies = each((job for *_, job in asked), answer, partial(progress, "answer"))
    for _, one, job in asked:
        one.answer, one.context_tokens = replies[job][0], count_tokens(job[1])
    spent = {"answer": Spent.total(cost for _, cost in replies.values())}
    if models.judge is not None:
        compared = [
            (one, (job[0], f"{question.gold}\n{question.rule}".strip(), one.answer or ""))
            for question, one, job in asked
            if question.gold is not None
        ]
        judge, told = partial(_judge, models.judge), partial(progress, "judge")
        verdicts = each((said for _, said in compared), judge, told)
        spent["judge"] = Spent.total(cost for _, cost in verdicts.values())
        for one, said in compared:
            one.correct = verdicts[said][0]
    return spent


def _each(most: int, jobs: Iterable[J], work: Callable[..., T], told: Told) -> dict[J, T]:
    """Return the result of each different job; if one fails, those that did not start are dropped."""
    different = list(dict.fromkeys(jobs))
    done: dict[J, T] = {}
    with ThreadPoolExecutor(most) as pool:
        results = pool.map(lambda job: work(*job), different)
        for job, result in zip(different, results, strict=True):
            done[job] = result
            told(len(done), len(different))
    return done
