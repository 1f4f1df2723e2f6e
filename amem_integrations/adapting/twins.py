"""One body of code for the synchronous and the asynchronous form of an adapter's method.

A flow is a coroutine function that reaches the memory only through `call`::

    async def _recall(self, call: Call, question: str) -> list[ScoredNote]:
        return await call(self.memory.search, question, namespace=self.namespace)

    recall, arecall = both(_recall)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from ..runtime import describe, run

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")


class Call(Protocol):
    """Calls a synchronous method of the memory in the form that suits the caller."""

    async def __call__(self, method: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Return what the method gives, or what its asynchronous twin does."""
        ...


async def directly(method: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Call the method here and now: the caller is synchronous."""
    return method(*args, **kwargs)


async def awaited(method: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Await the method's twin, whose name has an `a` in front: the running loop is the caller's own."""
    owner: object = getattr(method, "__self__", None)
    name: str = getattr(method, "__name__", "")
    result: R = await getattr(owner, f"a{name}")(*args, **kwargs)
    return result


def both(
    flow: Callable[Concatenate[S, Call, P], Coroutine[Any, Any, R]],
) -> tuple[
    Callable[Concatenate[S, P], R],
    Callable[Concatenate[S, P], Coroutine[Any, Any, R]],
]:
    """Return the synchronous and the asynchronous method of a flow, with its signature and docstring."""

    def now(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return run(flow(self, directly, *args, **kwargs))

    async def later(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await flow(self, awaited, *args, **kwargs)

    name = flow.__name__.lstrip("_")
    own, _call, *others = inspect.signature(flow).parameters.values()
    describe(now, flow, name, [own, *others])
    describe(later, flow, f"a{name}", [own, *others])
    return now, later
