"""One body for both forms of a store's method: a coroutine that awaits nothing but calls to collections.

A synchronous call drives it with one `send`; no client of such a call suspends. The asynchronous twin runs it on
the caller's loop, where calls to a server are awaited.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from ..runtime import run

S = TypeVar("S")
P = ParamSpec("P")
R = TypeVar("R")
Body = Callable[Concatenate[S, P], Coroutine[Any, Any, R]]

_awaiting: ContextVar[bool] = ContextVar("awaiting", default=False)


def is_awaiting() -> bool:
    """Return whether the present call is an asynchronous one."""
    return _awaiting.get()


async def wait(seconds: float) -> None:
    """Wait: on the loop in an asynchronous call, else in the thread."""
    if _awaiting.get():
        await asyncio.sleep(seconds)
    else:
        time.sleep(seconds)  # noqa: ASYNC251 - no loop runs this


def driven(body: Body[S, P, R]) -> Callable[Concatenate[S, P], R]:
    """Return the synchronous form of a method, which keeps its body for `twin`."""

    @wraps(body)
    def method(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if not _awaiting.get():
            return run(body(self, *args, **kwargs))
        token = _awaiting.set(False)
        try:
            return run(body(self, *args, **kwargs))
        finally:
            _awaiting.reset(token)

    return method


def twin(method: Callable[Concatenate[S, P], R]) -> Body[S, P, R]:
    """Return the asynchronous form of a method that was made by `driven`."""
    body: Body[S, P, R] = method.__wrapped__  # type: ignore[attr-defined]

    @wraps(body)
    async def awaited(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        token = _awaiting.set(True)
        try:
            return await body(self, *args, **kwargs)
        finally:
            _awaiting.reset(token)

    awaited.__name__ = f"a{body.__name__}"
    return awaited
