"""Embedders and stores that can be watched, and made to fail; and tasks that are cancelled."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from amem_integrations import AgenticMemory, StoreUnavailableError
from amem_integrations.testing import HashEmbedder


class WatchedEmbedder:
    """An embedder that remembers what it was asked, and fails while it is `down`, or, given a query, with `error`.

    `calls` holds the texts of each call, oldest first.
    """

    name = "watched"
    dimensions = 256

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.down = False
        self.error: Exception | None = None
        self._inner = HashEmbedder(self.dimensions)

    @property
    def texts(self) -> Counter[str]:
        """How often each text was encoded."""
        return Counter(text for call in self.calls for text in call)

    def embed_documents(self, texts):
        if self.down:
            raise OSError("no route to the embedder")
        self.calls.append(list(texts))
        return self._inner.embed_documents(texts)

    def embed_query(self, text):
        self.calls.append([text])
        if self.error is not None:
            raise self.error
        return self._inner.embed_query(text)


class WatchedStore:
    """A store, and in `calls` the names of the methods that were called."""

    def __init__(self, store) -> None:
        self.calls: list[str] = []
        self._store = store

    def __getattr__(self, name):
        attribute = getattr(self._store, name)
        if not callable(attribute):
            return attribute

        def watched(*args, **kwargs):
            self.calls.append(name)
            return attribute(*args, **kwargs)

        return watched


class Silent(AgenticMemory):
    """A memory whose store can be made to stop answering."""

    _down = False

    @property
    def down(self) -> bool:
        """Whether the store does not answer."""
        return self._down

    @down.setter
    def down(self, down: bool) -> None:
        def refuse(*_: Any, **__: Any) -> Any:
            raise StoreUnavailableError("the server does not answer")

        store: Any = self._runtime.store
        for name in ("notes", "find_notes", "insert_notes", "swap_notes", "search", "scan"):
            if down:
                setattr(store, name, refuse)
            elif self._down:
                delattr(store, name)
        self._down = down


def fail_once(collection, method: str, *, works=False, after=0, error=None) -> None:
    """Let a call of a collection's method fail, after so many others, before or (`works`) after it has done its work."""
    original, left = getattr(collection, method), [after]

    def faulty(*args, **kwargs):
        left[0] -= 1
        if left[0] < 0:
            setattr(collection, method, original)
        if works or left[0] >= 0:
            done = original(*args, **kwargs)
        if left[0] < 0:
            raise error or StoreUnavailableError("told to fail")
        return done

    setattr(collection, method, faulty)


async def cancel(task: asyncio.Task[Any], begun: asyncio.Event, times: int) -> None:
    """Cancel a task once an event has come, in so many turns of the loop: a scope of anyio does so until the task ends."""
    await begun.wait()
    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0)
    await asyncio.wait([task])
    assert task.cancelled()
