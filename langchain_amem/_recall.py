"""Recall for one turn of a conversation: what the memory knows that the conversation does not show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import BaseMessage

from amem_integrations import AgenticMemory, ConfigurationError, ScoredNote

from ._messages import question

# The model sees the end of the conversation anyway. What is further back is recalled like anything else,
# since a conversation may be trimmed before the model reads it.
VISIBLE = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall:
    """Finds at most `k` notes for what was last asked, to be shown in `max_tokens`."""

    memory: AgenticMemory
    k: int
    max_tokens: int

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name in ("k", "max_tokens"):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"{name}={getattr(self, name)!r} must be at least 1")

    def find(self, messages: Sequence[BaseMessage], namespace: tuple[str, ...]) -> list[ScoredNote]:
        """Return notes for the last question, best first, without those made of visible messages."""
        if not (query := question(messages)):
            return []
        visible = _visible(messages)
        return self._unseen(self.memory.search(query, **self._options(visible, namespace)), visible)

    async def afind(
        self, messages: Sequence[BaseMessage], namespace: tuple[str, ...]
    ) -> list[ScoredNote]:
        """Asynchronous twin of `find`."""
        if not (query := question(messages)):
            return []
        visible = _visible(messages)
        hits = await self.memory.asearch(query, **self._options(visible, namespace))
        return self._unseen(hits, visible)

    def _options(self, visible: set[str], namespace: tuple[str, ...]) -> dict[str, Any]:
        return {"namespace": namespace, "k": self.k + len(visible)}

    def _unseen(self, hits: Sequence[ScoredNote], visible: set[str]) -> list[ScoredNote]:
        return [hit for hit in hits if hit.note.key not in visible][: self.k]


def _visible(messages: Sequence[BaseMessage]) -> set[str]:
    return {message.id for message in messages[-VISIBLE:] if message.id}
