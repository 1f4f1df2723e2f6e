"""Ask a chat model for a typed reply; show it its error once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from pydantic import BaseModel

from .._sync import resolve
from ..errors import AmemError, ModelReplyError, ModelUnavailableError
from ..ports import ModelRequest
from ..prompts import render
from ..prompts.parse import parse
from ..runtime import Runtime

M = TypeVar("M", bound=BaseModel)

AGAIN = """

Your previous answer could not be used: {problem}
Answer again, with one JSON object of the form asked for and nothing else."""


def no_problem(_reply: object) -> str | None:
    """Accept every reply."""
    return None


async def ask(
    runtime: Runtime,
    task: str,
    wanted: type[M],
    *,
    inputs: Mapping[str, Any],
    texts: Mapping[str, str],
    problem_with: Callable[[M], str | None] = no_problem,
) -> M:
    """Return the model's reply to the prompt of `task`, filled with `texts`.

    A reply that cannot be read, or with which `problem_with` finds a problem, is asked for once more. If
    neither is complete, the last one that can be read is returned: what it has is worth keeping.

    Raises:
        ModelReplyError: The second reply could not be read either.
        ModelUnavailableError: The model gave no answer.
    """
    system, prompt = render(task, **texts)
    request = ModelRequest(task=task, system=system, prompt=prompt, reply=wanted, inputs=inputs)
    reply, problem = await _attempt(runtime, request, wanted, problem_with)
    if problem:
        again = replace(request, prompt=prompt + AGAIN.format(problem=problem))
        second, problem = await _attempt(runtime, again, wanted, problem_with)
        reply = second if second is not None else reply
    if reply is None:
        raise ModelReplyError(f"{runtime.model_name} gave no usable answer to {task!r}: {problem}")
    return reply


async def _attempt(
    runtime: Runtime,
    request: ModelRequest,
    wanted: type[M],
    problem_with: Callable[[M], str | None],
) -> tuple[M | None, str | None]:
    text = await _generate(runtime, request)
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


async def _generate(runtime: Runtime, request: ModelRequest) -> str:
    try:
        completion = await resolve(runtime.model.generate(request))
    except ModelReplyError:
        runtime.usage.count(request.task, refused=1)
        raise
    except AmemError:
        runtime.usage.count(request.task, unavailable=1)
        raise
    except Exception as error:
        # A model is anybody's code: whatever it raises means that there is no answer now.
        runtime.usage.count(request.task, unavailable=1)
        raise ModelUnavailableError(
            f"the model {runtime.model_name} raised {error!r} on {request.task!r}; try again later"
        ) from error
    runtime.usage.completed(request.task, completion)
    return completion.text
