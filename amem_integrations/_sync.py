"""One body of code for synchronous and asynchronous callers.

The core is written as coroutines that await nothing but port methods, through `resolve`. When the
ports are synchronous such a coroutine never suspends, so `run` drives it to its end with a single
`send`: no event loop, no thread, and it works inside a running loop too. The asynchronous twin of a
method runs the same coroutine on the caller's loop, over `Awaiting` views of the ports.

Doing many things at once is the one primitive that has two forms: `map_in_threads`, `map_in_tasks`.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar, Union, cast

from .errors import ConfigurationError

T = TypeVar("T")
U = TypeVar("U")

MaybeAwaitable = Union[T, Awaitable[T]]  # noqa: UP007 - mypy takes no `|` for a generic alias


async def resolve(value: MaybeAwaitable[T]) -> T:
    """Return the value itself, or what it gives when awaited."""
    if inspect.isawaitable(value):
        return await value
    return value


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that never suspends.

    Raises:
        ConfigurationError: It did suspend: one of its ports is asynchronous.
    """
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    coroutine.close()
    message = (
        "a port of this memory is asynchronous: call the a… twin of this method (aadd, asearch, …)"
    )
    raise ConfigurationError(message)


def blocking(port: T, *methods: str) -> T:
    """Return the port, or one that says what to do if a method of it is a coroutine function.

    Called without a loop that would only fail somewhere within, and look as if the port were down.
    """
    if any(inspect.iscoroutinefunction(getattr(port, name, None)) for name in methods):
        return cast("T", _Blocking(port))
    return port


class _Blocking:
    """A synchronous view of a port that is asynchronous at least in part."""

    def __init__(self, port: object) -> None:
        self._port = port

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the port decides
        attribute = getattr(self._port, name)
        if not inspect.iscoroutinefunction(attribute):
            return attribute

        def refuse(*_args: object, **_kwargs: object) -> None:
            kind = type(self._port).__name__
            raise ConfigurationError(
                f"{kind}.{name} is a coroutine function, which a synchronous method cannot wait for: call "
                f"the a… twin of this method (aadd, asearch, aevolve, …), or give {kind} a plain {name!r}"
            )

        return refuse


class Awaiting:
    """An asynchronous view of a port.

    A call to `method` awaits the port's own coroutine function `amethod` (or `method`, if that is
    one); what exists only in a synchronous form runs in a worker thread under a copy of the
    caller's context, so that tracing and context variables survive.
    """

    def __init__(self, port: object) -> None:
        """Wrap `port`; its plain attributes are passed through."""
        self._port = port

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the port decides
        """Return the asynchronous form of a method, or the attribute as it is."""
        native = getattr(self._port, f"a{name}", None)
        if inspect.iscoroutinefunction(native):
            return native
        attribute = getattr(self._port, name)
        if not callable(attribute) or inspect.iscoroutinefunction(attribute):
            return attribute

        async def in_thread(*args: object, **kwargs: object) -> object:
            result = await asyncio.to_thread(attribute, *args, **kwargs)
            return await resolve(result)

        return in_thread


def describe(
    method: Any,  # noqa: ANN401 - a function
    flow: Callable[..., object],
    name: str,
    parameters: Sequence[inspect.Parameter],
) -> None:
    """Give a method that was made of a flow its name, docstring and signature."""
    signature = inspect.signature(flow)
    method.__name__ = name
    method.__qualname__ = f"{flow.__qualname__.removesuffix(flow.__name__)}{name}"
    method.__module__, method.__doc__ = flow.__module__, flow.__doc__
    method.__annotations__ = {
        key: value
        for key, value in flow.__annotations__.items()
        if key in {p.name for p in parameters} | {"return"}
    }
    method.__signature__ = signature.replace(parameters=parameters)


class Mapper(Protocol):
    """Runs one coroutine function over many items, at most `limit` at once."""

    async def __call__(
        self, function: Callable[[T], Coroutine[Any, Any, U]], items: Sequence[T], limit: int
    ) -> list[U]:
        """Return the results in the order of the items; the first error is raised."""
        ...


async def map_in_threads(
    function: Callable[[T], Coroutine[Any, Any, U]], items: Sequence[T], limit: int
) -> list[U]:
    """Return `function` of each item, in order, by synchronous ports in worker threads."""
    if len(items) < 2 or limit < 2:  # noqa: PLR2004 - nothing to do at the same time
        return [await function(item) for item in items]
    with ThreadPoolExecutor(max_workers=min(limit, len(items))) as pool:
        futures = [
            pool.submit(contextvars.copy_context().run, lambda i=item: run(function(i)))
            for item in items
        ]
        return [future.result() for future in futures]


async def map_in_tasks(
    function: Callable[[T], Coroutine[Any, Any, U]], items: Sequence[T], limit: int
) -> list[U]:
    """Return `function` of each item, in order, as tasks on the running loop."""
    gate = asyncio.Semaphore(limit)

    async def bounded(item: T) -> U:
        async with gate:
            return await function(item)

    tasks = [asyncio.create_task(bounded(item)) for item in items]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        # After an error or a cancellation nothing of this call may go on by itself.
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
