"""The synchronous half of a `Memory`: the framework runs the asynchronous half on a loop of its own."""

from __future__ import annotations

from typing import Any, Self

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import Memory

from ._calls import synchronously


class SynchronousMemory(Memory):
    """A `Memory` whose blocks know when the caller is synchronous.

    The loop they run on is then made for one call and closed after it: no client of a model or a store
    may be used on it. Works in scripts, in worker threads, and inside a running loop.
    """

    def get(
        self,
        input: str | ChatMessage | None = None,  # noqa: A002 - the framework passes it by name
        **block_kwargs: Any,  # noqa: ANN401 - passed on to the blocks
    ) -> list[ChatMessage]:
        """Synchronous twin of `aget`; works inside a running loop too."""
        with synchronously():
            return super().get(input=input, **block_kwargs)

    def put(self, message: ChatMessage) -> None:
        """Synchronous twin of `aput`; works inside a running loop too."""
        with synchronously():
            super().put(message)

    def put_messages(self, messages: list[ChatMessage]) -> None:
        """Synchronous twin of `aput_messages`; works inside a running loop too."""
        with synchronously():
            super().put_messages(messages)

    def set(self, messages: list[ChatMessage]) -> None:
        """Synchronous twin of `aset`; works inside a running loop too."""
        with synchronously():
            super().set(messages)

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """Return the memory itself: agents copy their state, and there is only one history."""
        return self
