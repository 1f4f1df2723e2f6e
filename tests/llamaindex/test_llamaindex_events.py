"""What observability tools see."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events import BaseEvent
from llama_index.core.instrumentation.span_handlers import SimpleSpanHandler
from llamaindex_fakes import ANN, Probe, assistant, user

from amem_integrations import AgenticMemory
from llamaindex_amem import (
    AMemEvolutionEvent,
    AMemMemory,
    AMemRecallEvent,
    AMemRetriever,
    AMemWriteEvent,
)


class Events(BaseEventHandler):
    seen: list[Any] = []  # noqa: RUF012 - a pydantic field

    @classmethod
    def class_name(cls) -> str:
        return "Events"

    def handle(self, event: BaseEvent, **kwargs: Any) -> None:
        self.seen.append(event)

    def of(self, kind: type[BaseEvent]) -> list[Any]:
        return [event for event in self.seen if isinstance(event, kind)]


@pytest.fixture
def watched() -> Iterator[tuple[Events, SimpleSpanHandler]]:
    root, events, spans = get_dispatcher(), Events(), SimpleSpanHandler()
    handlers = list(root.event_handlers), list(root.span_handlers)
    root.add_event_handler(events)
    root.add_span_handler(spans)
    yield events, spans
    root.event_handlers, root.span_handlers = handlers


async def test_recall_write_and_evolution_are_events_and_spans(
    memory: AgenticMemory, watched: tuple[Events, SimpleSpanHandler]
) -> None:
    events, spans = watched
    known = memory.add("My dog is called Rex.", namespace=ANN)
    chat_memory = AMemMemory.from_defaults(memory=memory, user_id="ann")

    await chat_memory.aput(user("What is my dog called?"))
    await chat_memory.aget()
    await chat_memory.aget()
    await chat_memory.aput(assistant("Rex."))

    first, again = events.of(AMemRecallEvent)
    assert (first.question, first.cached, again.cached) == ("What is my dog called?", False, True)
    assert known.id in first.note_ids
    assert [len(event.note_ids) for event in events.of(AMemWriteEvent)] == [1, 1]
    (evolution,) = events.of(AMemEvolutionEvent)
    assert len(evolution.report["done"]) == 2
    names = {span.id_.split("-")[0] for span in spans.completed_spans}
    assert {"Recall.text", "Writer.write", "Writer._evolve"} <= names
    assert {event.class_name() for event in events.seen} >= {
        "AMemRecallEvent",
        "AMemWriteEvent",
        "AMemEvolutionEvent",
    }


async def test_what_waits_for_the_store_shows_in_the_event(
    memory: AgenticMemory, store: Probe, watched: tuple[Events, SimpleSpanHandler]
) -> None:
    chat_memory = AMemMemory.from_defaults(memory=memory, user_id="ann")
    store.down = True

    await chat_memory.aput(user("My dog is called Rex."))

    (event,) = watched[0].of(AMemWriteEvent)
    assert (event.note_ids, event.waiting) == ([], 1)


def test_a_retriever_has_the_frameworks_own_events(
    memory: AgenticMemory, watched: tuple[Events, SimpleSpanHandler]
) -> None:
    memory.add("My dog is called Rex.", namespace=ANN)

    AMemRetriever(memory, ANN).retrieve("dog")

    names = [event.class_name() for event in watched[0].seen]
    assert names == ["RetrievalStartEvent", "RetrievalEndEvent"]
