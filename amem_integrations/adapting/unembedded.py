"""Notes of a turn that is not complete: stored without vectors, which are made for all of them by one call."""

from __future__ import annotations

from ..flows.add import add_by_words
from ..flows.writing import embed_missing
from ..memory import AgenticMemory
from ..runtime import Runtime, both_methods


class Unembedded:
    """The methods by which an adapter saves calls of the embedder: one for a turn, not one for a message."""

    add_by_words, aadd_by_words = both_methods(add_by_words)
    embed_missing, aembed_missing = both_methods(embed_missing)

    def __init__(self, memory: AgenticMemory) -> None:
        """Take the memory that the notes are for."""
        self._memory = memory

    @property
    def _runtime(self) -> Runtime:
        return self._memory._runtime  # noqa: SLF001 - `reindex` puts another one in its place

    @property
    def _async_runtime(self) -> Runtime:
        return self._memory._async_runtime  # noqa: SLF001
