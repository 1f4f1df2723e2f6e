"""Events of the memory for observability tools, through LlamaIndex's instrumentation.

https://developers.llamaindex.ai/python/framework/module_guides/observability/instrumentation/
"""

from __future__ import annotations

import logging

from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]
from llama_index.core.instrumentation.events import BaseEvent

from amem_integrations import adapting

dispatcher = get_dispatcher("llamaindex_amem")
log = logging.getLogger("llamaindex_amem")


class _Event(BaseEvent):
    @classmethod
    def class_name(cls) -> str:
        """Return the name of the event."""
        return cls.__name__


class AMemRecallEvent(_Event):
    """Notes were looked up for a question."""

    question: str
    note_ids: list[str]


class AMemWriteEvent(_Event):
    """Messages were stored as these notes."""

    note_ids: list[str]


class AMemEvolutionEvent(_Event):
    """A turn is over: the background worker was told to link and evolve what is pending in a namespace."""

    namespace: list[str]


class AMemToolEvent(_Event):
    """A tool of `AMemToolSpec` was called; `answer` is what the model was told, `note_ids` what it is about."""

    tool: str
    note_ids: list[str]
    answer: str


class AMemFailureEvent(_Event):
    """The memory failed at something (`recall`, `write`, …)."""

    doing: str
    error: str


class Failures(adapting.Failures):
    """Logs as `llamaindex_amem`, and sends an event for each failure, whether it is skipped or raised."""

    def __init__(self, on_error: adapting.OnError = "log") -> None:
        super().__init__(log, on_error)

    def count(self, doing: str, error: Exception) -> None:
        """Count one failure, and send an event."""
        super().count(doing, error)
        dispatcher.event(AMemFailureEvent(doing=doing, error=str(error)))
