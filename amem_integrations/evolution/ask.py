"""Ask a chat model: the prompt of a task, and the typed reply; its error is shown to it once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import datetime
from string import Template
from typing import Any, TypeVar

from pydantic import BaseModel

from .. import texts
from ..changes.edits import usage_records
from ..config import PARTED, MemoryConfig
from ..errors import AmemError, ModelReplyError, ModelUnavailableError, StoreError
from ..notes import Namespace, storable
from ..ports import Completion, ModelRequest
from ..prompts import TEMPLATES
from ..prompts.parse import parse
from ..runtime import RULES, Runtime, resolve

M = TypeVar("M", bound=BaseModel)

OWN = """

The user of this memory asks for this as well; follow it, but for the form of the answer:
<instructions>
{}
</instructions>"""
MARGIN = (
    1.2  # tokens are estimated from the length of the text, and a second try says what was wrong
)
AGAIN = """

Your previous answer could not be used: {problem}
Answer again, with one JSON object of the form asked for and nothing else."""


@asynccontextmanager
async def counting(
    runtime: Runtime, namespace: Namespace, op: str, at: datetime
) -> AsyncIterator[Runtime]:
    """Yield a runtime that counts what this operation costs, to be written with the rest of it.

    Where the operation fails, what it has cost is written alone.
    """
    asking = runtime.counting()
    try:
        yield asking
    except AmemError:
        if records := usage_records(op, namespace, asking.usage.cost(), at):
            with suppress(StoreError):  # the caller is told what failed first
                await resolve(runtime.store.replace(namespace, [], records))
        raise


class RefusedError(ModelReplyError):
    """The model does not take a request: it is too long, or some text of it is not allowed."""


async def ask(
    runtime: Runtime,
    task: str,
    wanted: type[M],
    *,
    namespace: Namespace,
    inputs: Mapping[str, Any],
    values: Mapping[str, str],
    problem_with: Callable[[M], str | None] = lambda _: None,
    attempts: int = 2,
    template: str = "",
) -> M:
    """Return the model's reply to the prompt of `task` (or of another, `template`), filled with `values`.

    A reply that cannot be read, or with which `problem_with` finds a problem, is asked for once more, unless only
    one of the `attempts` is allowed. If neither is complete, the last one that can be read is returned: what it has is
    worth keeping.

    Raises:
        ModelReplyError: No reply could be read.
        ModelUnavailableError: The model gave no answer.
        BudgetExceededError: The call would go over a limit of the namespace.
    """
    system, prompt = render(runtime.config, template or task, **values)
    request = ModelRequest(task=task, system=system, prompt=prompt, reply=wanted, inputs=inputs)
    reply, problem = await _attempt(runtime, namespace, request, wanted, problem_with)
    if problem and attempts > 1:
        again = replace(request, prompt=prompt + AGAIN.format(problem=problem))
        second, problem = await _attempt(runtime, namespace, again, wanted, problem_with)
        reply = second if second is not None else reply
    if reply is None:
        raise ModelReplyError(f"{runtime.model_name} gave no usable answer to {task!r}: {problem}")
    return reply


async def _attempt(
    runtime: Runtime,
    namespace: Namespace,
    request: ModelRequest,
    wanted: type[M],
    problem_with: Callable[[M], str | None],
) -> tuple[M | None, str | None]:
    text = await _generate(runtime, namespace, request)
    reply: M | None = None
    try:
        reply = parse(text, wanted)
    except ModelReplyError as error:
        problem: str | None = str(error)
    else:
        problem = problem_with(reply)
    if problem:
        runtime.usage.count(request.task, rejected_replies=1)
    return reply, problem


async def _generate(runtime: Runtime, namespace: Namespace, request: ModelRequest) -> str:
    asked = texts.count_tokens(request.system) + texts.count_tokens(request.prompt)
    budget = runtime.budget
    costs: list[int] = []
    with nullcontext() if budget is None else budget.call(namespace, asked, costs):
        completion = _checked(await _completion(runtime, request))
        if not (completion.input_tokens or completion.output_tokens or runtime.model_name == RULES):
            # The endpoint reports no tokens; with an estimate limits hold.
            answered = texts.count_tokens(completion.text)
            completion = replace(completion, input_tokens=asked, output_tokens=answered)
        costs.append(completion.input_tokens + completion.output_tokens)
    runtime.usage.completed(request.task, completion)
    return completion.text


def _checked(given: object) -> Completion:
    """Return what a model gave as a completion: empty if it holds no text, without tokens if it counts badly.

    The text is as it can be stored: see `storable`.
    """
    text, *counts = (
        getattr(given, name, None) for name in ("text", "input_tokens", "output_tokens")
    )
    asked, answered = (n if isinstance(n, int) and n > 0 else 0 for n in counts)
    text = storable(text) if isinstance(text, str) else ""
    return Completion(text=text, input_tokens=asked, output_tokens=answered)


async def _completion(runtime: Runtime, request: ModelRequest) -> object:
    try:
        return await resolve(runtime.model.generate(request))
    except ModelReplyError as error:
        runtime.usage.count(request.task, refused=1)
        raise RefusedError(str(error)) from error
    except AmemError:
        runtime.usage.count(request.task, unavailable=1)
        raise
    except Exception as error:
        # A model is anybody's code: whatever it raises means that there is no answer now.
        runtime.usage.count(request.task, unavailable=1)
        raise ModelUnavailableError(
            f"the model {runtime.model_name} raised {error!r} on {request.task!r}; try again later"
        ) from error


def render(config: MemoryConfig, task: str, /, **values: str) -> tuple[str, str]:
    """Return the system message and the prompt of a task.

    The system message is the same for all calls of a task, so that endpoints which keep the beginning of a prompt
    can do so.

    Raises:
        KeyError: There is no template for the task, or a placeholder of it has no value.
    """
    system, _, prompt = (config.prompts.get(task) or TEMPLATES[task]).partition(PARTED)
    own = OWN.format(config.instructions.strip()) if config.instructions else ""
    return Template(system.strip()).substitute() + own, Template(prompt.strip()).substitute(values)


def room(runtime: Runtime) -> int | None:
    """Return how many tokens of a prompt and its reply the model can take, if that is known."""
    return runtime.config.context_tokens or getattr(runtime.model, "context_tokens", None) or None


def fits(runtime: Runtime, task: str, values: Mapping[str, str], reply: int) -> bool:
    """Return whether the prompt of a task and a reply of so many tokens have room in what the model can take."""
    if (most := room(runtime)) is None:
        return True
    asked = sum(map(texts.count_tokens, render(runtime.config, task, **values)))
    return asked * MARGIN + reply <= most
