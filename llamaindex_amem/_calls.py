"""Which form of a core method is called: the framework's thread, the caller's loop, or another thread.

LlamaIndex runs the asynchronous code of a `Memory` on whatever loop is at hand: the caller's, or one made
for a single synchronous call and closed after it. A client bound to a loop does not survive the latter, so
an asynchronous method of a model or a store is awaited only where the loop is known to be the caller's.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Literal, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
How = Literal["here", "loop", "thread"]

_how: ContextVar[How] = ContextVar("llamaindex_amem_calls", default="thread")


async def call(
    now: Callable[P, R], later: Callable[P, Awaitable[R]], *args: P.args, **kwargs: P.kwargs
) -> R:
    """Return what a core method gives, called in the form that suits the caller.

    Args:
        now: The method.
        later: Its asynchronous twin.
        args: Passed on.
        kwargs: Passed on.
    """
    how = _how.get()
    if how == "here":
        return now(*args, **kwargs)
    if how == "loop":
        return await later(*args, **kwargs)
    return await asyncio.to_thread(now, *args, **kwargs)


@contextmanager
def synchronously() -> Iterator[None]:
    """Within this, the caller is synchronous: nothing else waits for the loop it runs on."""
    token = _how.set("here")
    try:
        yield
    finally:
        _how.reset(token)


@contextmanager
def on_callers_loop() -> Iterator[None]:
    """Within this, the running loop is the caller's own, unless the caller is synchronous."""
    token = _how.set("here" if _how.get() == "here" else "loop")
    try:
        yield
    finally:
        _how.reset(token)


@asynccontextmanager
async def holding(lock: threading.Lock, patience: float = 2.0) -> AsyncIterator[None]:
    """Hold a lock that tasks on several loops and threads share, or go on without it in the end.

    Going on is right where the lock only keeps things tidy: its owner may be a task on a loop that a
    synchronous call, waiting here, has stopped.
    """
    deadline = time.monotonic() + patience
    while not (mine := lock.acquire(blocking=False)) and time.monotonic() < deadline:  # noqa: ASYNC110 - an event belongs to one loop
        await asyncio.sleep(0.001)
    try:
        yield
    finally:
        if mine:
            lock.release()
