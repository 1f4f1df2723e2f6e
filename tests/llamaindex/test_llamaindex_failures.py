"""A memory that is down does not take the conversation with it, a mistake is not hidden, and observability tools see both."""

from __future__ import annotations

from typing import Any

import llamaindex_fakes as kit
import pytest
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events import BaseEvent
from llama_index.core.instrumentation.span_handlers import SimpleSpanHandler
from llama_index.core.memory import Memory
from llamaindex_fakes import ANN

import llamaindex_amem as amem
from amem_integrations import AmemError, StoreClosedError, StoreUnavailableError
from amem_integrations.testing import HashEmbedder

ASKED = [kit.user("What is my dog called?")]
DOWN = "the server does not answer"


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
def watched(monkeypatch):
    """Return the events, and a function that returns the names of the spans that have ended."""
    root, events, spans = get_dispatcher(), Events(), SimpleSpanHandler()
    monkeypatch.setattr(root, "event_handlers", [*root.event_handlers, events])
    monkeypatch.setattr(root, "span_handlers", [*root.span_handlers, spans])
    return events, lambda: [span.id_.split("-")[0] for span in spans.completed_spans]


# --- what observability tools see


async def test_recall_write_and_evolution_are_events_and_spans(memory, watched):
    events, spans = watched
    known, chat_memory = memory.add("My dog is called Rex.", namespace=ANN), kit.ann(memory)

    await chat_memory.aput(ASKED[0])
    await chat_memory.aget()
    await chat_memory.aput(kit.assistant("Rex."))
    amem.AMemRetriever(memory, ("bob",)).retrieve("dog")

    (recall, found), (evolution,) = (
        events.of(amem.AMemRecallEvent),
        events.of(amem.AMemEvolutionEvent),
    )
    assert (recall.question, known.id in recall.note_ids) == (ASKED[0].content, True)
    assert (found.question, found.note_ids) == ("dog", [])
    assert [len(event.note_ids) for event in events.of(amem.AMemWriteEvent)] == [1, 1]
    assert evolution.namespace == ["ann"]
    assert {"AMemMemoryBlock._recall", "AMemMemoryBlock._remember"} <= set(spans())
    assert recall.class_name() == "AMemRecallEvent"


async def test_the_call_of_a_tool_is_an_event_and_a_span(memory, watched):
    events, spans = watched
    spec = amem.AMemToolSpec(memory, ANN)
    spec.remember("My dog is called Rex.")
    await spec.arecall("dog")
    (note,) = memory.get_all(namespace=ANN)
    spec.correct(note.id, "My dog is called Max.")
    spec.forget("nothing")
    older = memory.add("My dog is called Rex.", namespace=ANN, source="assistant")
    spec.remember("My dog is called Max.", supersedes=[older.id])
    newer = memory.get_all(namespace=ANN)[-1]

    remember, *_, forget, superseding = found = events.of(amem.AMemToolEvent)
    names = ["remember", "recall", "correct", "forget", "remember"]
    assert [one.tool for one in found] == names
    assert [one.note_ids for one in found[:-1]] == [[note.id], [note.id], [note.id], []]
    assert superseding.note_ids == [newer.id, older.id]
    assert remember.answer == f"Remembered as note {note.id}."
    assert forget.answer.startswith("Error: there is no note")
    # A span of a call that went wrong is dropped.
    assert spans() == [f"AMemToolSpec.{name}" for name in names if name != "forget"]


async def test_what_fails_is_an_event_and_a_span_and_raises_where_that_was_asked_for(
    memory, watched
):
    events, spans = watched
    memory.down = True
    chat_memory = kit.ann(memory)
    await chat_memory.aput(ASKED[0])
    await chat_memory.aget()
    amem.AMemRetriever(memory, ANN).retrieve("dog")
    amem.AMemToolSpec(memory, ANN).remember("My dog is called Rex.")
    strict = kit.block_of(memory, on_error="raise")
    retrieve = amem.AMemRetriever(memory, ANN, on_error="raise").aretrieve
    for ask, asked in ((strict.aput, list(ASKED)), (strict.aget, ASKED), (retrieve, "dog")):
        with pytest.raises(StoreUnavailableError):
            await ask(asked)

    assert strict.failures == {"write": 1, "recall": 1}
    failures = events.of(amem.AMemFailureEvent)
    counted = ["write", "recall", "recall", "remember", "write", "recall", "recall"]
    assert [event.doing for event in failures] == counted
    assert {event.error for event in failures} == {DOWN}
    (told,) = events.of(amem.AMemToolEvent)
    assert told.answer == "The memory does not answer now. Go on without it."
    assert "AMemMemoryBlock._recall" in spans()


# --- a store that is down


async def test_a_store_that_is_down_is_logged_counted_and_done_without(memory, caplog):
    block = kit.block_of(memory)
    memory.down = True

    assert await block.aget(ASKED) == ""
    await block.aput([kit.user("one"), kit.assistant("two")])
    await block.aput([kit.user("three")])

    assert block.failures == {"recall": 1, "write": 2}
    assert caplog.text.count(DOWN) == 3
    memory.down = False
    await block.aput([kit.user("four")])  # what was said meanwhile is written too
    assert kit.contents(memory) == ["one", "two", "three", "four"]


async def test_what_the_framework_has_archived_is_not_lost_with_the_store_down(memory):
    block, tiny = kit.block_of(memory), {"token_limit": 40, "chat_history_token_ratio": 0.1}
    stock = Memory.from_defaults(memory_blocks=[block], token_flush_size=4, **tiny)
    memory.down = True
    texts = [text for n in range(4) for text in (f"I planted tree {n}", f"Noted {n}")]
    for number, text in enumerate(texts):
        await stock.aput(kit.assistant(text) if number % 2 else kit.user(text))
    memory.down = False
    await block.aflush_from(stock)

    assert sorted(kit.contents(memory)) == sorted(texts)


async def test_a_closed_memory_raises_at_every_door(memory):
    block = kit.block_of(memory)
    memory.close()
    retriever, spec = amem.AMemRetriever(memory, ANN), amem.AMemToolSpec(memory, ANN)
    asks = {block.aget: ASKED, block.aput: ASKED, retriever.aretrieve: "dog", spec.arecall: "dog"}
    for ask, asked in asks.items():
        with pytest.raises(StoreClosedError):
            await ask(asked)


# --- an embedder that is away, a function that raises


class Vendor(BaseEmbedding):
    """A LlamaIndex embedding model whose server answers with an error, if told to."""

    error: Exception | None = None

    def _get_text_embedding(self, text: str) -> list[float]:
        if self.error:
            raise self.error
        return HashEmbedder(256).embed_query(text).tolist()

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)


class RefusedError(Exception):
    """What a vendor's package raises for a key that is not taken any more."""

    status_code = 401


async def test_an_embedder_that_is_away_or_refused_is_counted_and_words_count(caplog):
    for error in (ConnectionError("no route"), RefusedError("key sk-secret is wrong")):
        memory = kit.open_memory(embedder=amem.LlamaIndexEmbedder(vendor := Vendor()))
        memory.info()  # finds the thresholds of the embedder, once
        vendor.error = error
        block, strict = kit.block_of(memory), kit.block_of(memory, on_error="raise")

        await block.aput([kit.user("My dog is called Rex."), kit.assistant("Good.")])

        assert kit.contents(memory) == ["My dog is called Rex.", "Good."]
        found = await block.aget([kit.user("What is the name of my dog?")])
        assert ("Rex" in found) == isinstance(error, ConnectionError)
        assert block.failures == {"write": 1, "recall": 1}
        retriever, spec = amem.AMemRetriever(memory, ANN), amem.AMemToolSpec(memory, ANN)
        assert bool(retriever.retrieve("Rex")) == ("Rex" in spec.recall("Rex")) == ("Rex" in found)
        assert retriever.failures == spec.failures == {"recall": 1}
        for ask in (strict.aget, strict.aput):
            with pytest.raises(AmemError):
                await ask([kit.user("What is the name of my cat?"), kit.assistant("Tom.")])
        vendor.error = None
        await block.aput([kit.user("Is he old?"), kit.assistant("No.")])
        assert None not in [hit.similarity for hit in memory.search("Rex", namespace=ANN)]
    assert "check the API key" in caplog.text
    assert "sk-secret" not in caplog.text


async def test_an_error_of_a_callback_costs_no_answer(memory):
    for hook in ("should_store", "where", "metadata", "namespace"):

        def broken(*_: object, hook: str = hook) -> Any:
            raise AttributeError(hook)

        block, strict = (
            kit.block_of(memory, **{hook: broken}, on_error=e) for e in ("log", "raise")
        )
        await block.aput([kit.user("My dog is called Rex."), kit.assistant("Good.")])
        await block.aget(ASKED)
        assert block.failures
        assert bool(kit.contents(memory)) == (hook in ("where", "metadata"))
        memory.clear(namespace=ANN)
        with pytest.raises(AttributeError, match=hook):
            await (strict.aget(ASKED) if hook == "where" else strict.aput(list(ASKED)))
