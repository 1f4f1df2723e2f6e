"""What observability tools see."""

from __future__ import annotations

from typing import Any

import pytest
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events import BaseEvent
from llama_index.core.instrumentation.span_handlers import SimpleSpanHandler
from llamaindex_fakes import ANN, assistant, user

from amem_integrations import StoreUnavailableError
from llamaindex_amem import (
    AMemEvolutionEvent,
    AMemFailureEvent,
    AMemMemory,
    AMemRecallEvent,
    AMemRetriever,
    AMemToolEvent,
    AMemToolSpec,
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
def watched():
    root, events, spans = get_dispatcher(), Events(), SimpleSpanHandler()
    handlers = list(root.event_handlers), list(root.span_handlers)
    root.add_event_handler(events)
    root.add_span_handler(spans)
    yield events, spans
    root.event_handlers, root.span_handlers = handlers


async def test_recall_write_and_evolution_are_events_and_spans(memory, watched):
    events, spans = watched
    known = memory.add("My dog is called Rex.", namespace=ANN)
    chat_memory = AMemMemory.from_defaults(memory=memory, user_id="ann")

    await chat_memory.aput(user("What is my dog called?"))
    await chat_memory.aget()
    await chat_memory.aget()
    await chat_memory.aput(assistant("Rex."))

    first, again = events.of(AMemRecallEvent)
    assert (first.question, again.question) == ("What is my dog called?",) * 2
    assert known.id in first.note_ids
    assert [len(event.note_ids) for event in events.of(AMemWriteEvent)] == [1, 1]
    (evolution,) = events.of(AMemEvolutionEvent)
    assert evolution.namespace == ["ann"]
    names = {span.id_.split("-")[0] for span in spans.completed_spans}
    assert {"AMemMemoryBlock._recall", "AMemMemoryBlock._remember"} <= names
    assert {event.class_name() for event in events.seen} >= {
        "AMemRecallEvent",
        "AMemWriteEvent",
        "AMemEvolutionEvent",
    }


async def test_what_fails_is_an_event_and_a_span(memory, store, watched):
    chat_memory = AMemMemory.from_defaults(memory=memory, user_id="ann")
    store.down = True

    await chat_memory.aput(user("What is my dog called?"))
    await chat_memory.aget()
    AMemRetriever(memory, ANN).retrieve("dog")
    AMemToolSpec(memory, ANN).remember("My dog is called Rex.")

    events, spans = watched
    failures = events.of(AMemFailureEvent)
    assert [event.doing for event in failures] == ["write", "recall", "recall", "remember"]
    assert {event.error for event in failures} == {"the Qdrant server does not answer"}
    assert "AMemMemoryBlock._recall" in {span.id_.split("-")[0] for span in spans.completed_spans}


def test_a_retriever_has_the_frameworks_own_events(memory, watched):
    memory.add("My dog is called Rex.", namespace=ANN)

    AMemRetriever(memory, ANN).retrieve("dog")

    names = [event.class_name() for event in watched[0].seen]
    assert names == ["RetrievalStartEvent", "AMemRecallEvent", "RetrievalEndEvent"]
    (recall,) = watched[0].of(AMemRecallEvent)
    (note,) = memory.get_all(namespace=ANN)
    assert (recall.question, recall.note_ids) == ("dog", [note.id])


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_the_call_of_a_tool_is_an_event_and_a_span(memory, watched, asynchronous):
    events, spans = watched
    spec = AMemToolSpec(memory, ANN)
    if asynchronous:
        await spec.aremember("My dog is called Rex.")
        await spec.arecall("dog")
        await spec.aforget("nothing")
    else:
        spec.remember("My dog is called Rex.")
        spec.recall("dog")
        spec.forget("nothing")

    (note,) = memory.get_all(namespace=ANN)
    remember, recall, forget = events.of(AMemToolEvent)
    assert [one.tool for one in (remember, recall, forget)] == ["remember", "recall", "forget"]
    assert (remember.note_ids, recall.note_ids, forget.note_ids) == ([note.id], [note.id], [])
    assert remember.answer == f"Remembered as note {note.id}."
    assert forget.answer.startswith("Error: there is no note")
    names = [span.id_.split("-")[0] for span in spans.completed_spans]
    assert names == ["AMemToolSpec.remember", "AMemToolSpec.recall", "AMemToolSpec.forget"]


async def test_a_failure_that_is_raised_is_an_event_too(memory, store, watched):
    store.down = True
    with pytest.raises(StoreUnavailableError):
        await AMemRetriever(memory, ANN, on_error="raise").aretrieve("dog")

    (failure,) = watched[0].of(AMemFailureEvent)
    assert (failure.doing, failure.error) == ("recall", "the Qdrant server does not answer")


async def test_what_is_not_tried_so_soon_after_a_time_out_is_an_event(memory, store, watched):
    store.down, store.delay = True, 0.6
    retriever = AMemRetriever(memory, ANN)
    retriever.retrieve("dog")
    retriever.retrieve("cat")

    assert retriever.failures == {"recall": 2}
    events = watched[0].of(AMemFailureEvent)
    assert [event.doing for event in events] == ["recall", "recall"]
    assert "time-out" in events[1].error
