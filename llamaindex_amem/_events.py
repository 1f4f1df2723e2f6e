"""What observability tools see of the memory, through LlamaIndex's instrumentation.

https://developers.llamaindex.ai/python/framework/module_guides/observability/instrumentation/
"""

from __future__ import annotations

from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]
from llama_index.core.instrumentation.events import BaseEvent

dispatcher = get_dispatcher("llamaindex_amem")


class AMemRecallEvent(BaseEvent):
    """Notes were looked up for a question."""

    question: str
    note_ids: list[str]
    cached: bool

    @classmethod
    def class_name(cls) -> str:
        """Return the name of the event."""
        return "AMemRecallEvent"


class AMemWriteEvent(BaseEvent):
    """Messages were stored as notes; `waiting` are written with the next ones, the store being down."""

    note_ids: list[str]
    waiting: int

    @classmethod
    def class_name(cls) -> str:
        """Return the name of the event."""
        return "AMemWriteEvent"


class AMemEvolutionEvent(BaseEvent):
    """Notes were linked, and earlier ones evolved; `report` is `EvolutionReport.to_dict()`."""

    report: dict[str, object]

    @classmethod
    def class_name(cls) -> str:
        """Return the name of the event."""
        return "AMemEvolutionEvent"
