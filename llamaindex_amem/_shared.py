"""A `Memory` that tasks, threads and event loops may share."""

from __future__ import annotations

import threading
from typing import Any, Self

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.memory import Memory
from llama_index.core.storage.chat_store.base_db import MessageStatus

from ._calls import holding, synchronously


class SharedMemory(Memory):
    """A `Memory` that is used by one at a time, and knows when its caller is synchronous.

    One at a time, since setting the SQL store up, and moving what overflows, is not safe otherwise, and
    several threads on one SQLite connection can wait for each other for ever. The synchronous methods
    run the asynchronous ones on a loop that is closed after the call; no client of a model or a store
    may be used on it. They work in scripts, in worker threads, and inside a running loop.
    """

    _lock: threading.Lock = PrivateAttr(default_factory=threading.Lock)

    async def aget(
        self,
        input: str | ChatMessage | None = None,  # noqa: A002 - the framework passes it by name
        **block_kwargs: Any,  # noqa: ANN401 - passed on to the blocks
    ) -> list[ChatMessage]:
        """Return the history, with what the blocks give for the question in it (or in `input`)."""
        async with holding(self._lock):
            return await super().aget(input=input, **block_kwargs)

    async def aget_all(self, status: MessageStatus | None = None) -> list[ChatMessage]:
        """Return the history as it is; by default all of it."""
        async with holding(self._lock):
            return await super().aget_all(status=status)

    async def aput(self, message: ChatMessage) -> None:
        """Add a message to the history."""
        async with holding(self._lock):
            await super().aput(message)

    async def aput_messages(self, messages: list[ChatMessage]) -> None:
        """Add messages to the history."""
        async with holding(self._lock):
            await super().aput_messages(messages)

    async def aset(self, messages: list[ChatMessage]) -> None:
        """Replace the history."""
        async with holding(self._lock):
            await super().aset(messages)

    async def areset(self, status: MessageStatus | None = None) -> None:
        """Forget the history, or the part of it with this status."""
        async with holding(self._lock):
            await super().areset(status=status)

    def get(
        self,
        input: str | ChatMessage | None = None,  # noqa: A002 - the framework passes it by name
        **block_kwargs: Any,  # noqa: ANN401 - passed on to the blocks
    ) -> list[ChatMessage]:
        """Synchronous twin of `aget`."""
        with synchronously():
            return super().get(input=input, **block_kwargs)

    def put(self, message: ChatMessage) -> None:
        """Synchronous twin of `aput`."""
        with synchronously():
            super().put(message)

    def put_messages(self, messages: list[ChatMessage]) -> None:
        """Synchronous twin of `aput_messages`."""
        with synchronously():
            super().put_messages(messages)

    def set(self, messages: list[ChatMessage]) -> None:
        """Synchronous twin of `aset`."""
        with synchronously():
            super().set(messages)

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """Return the memory itself: agents copy their state, and there is only one history."""
        return self
