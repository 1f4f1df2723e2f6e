"""What is recalled is said by the same words to memory, block and tools; whose it is, by any kind of id."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from llama_index.core.chat_engine import SimpleChatEngine
from llamaindex_fakes import ANN, Chatbot, Probe, annotated, assistant, open_memory, user
from support.models import open_repeating, say_thrice

from amem_integrations import (
    AgenticMemory,
    ConfigurationError,
    MemoryConfig,
    ModelRequest,
    NamespaceError,
)
from amem_integrations.testing import HashEmbedder, ScriptedModel
from llamaindex_amem import AMemIngest, AMemMemory, AMemMemoryBlock, AMemRetriever, AMemToolSpec

Door = Callable[..., str]


def by_memory(memory: AgenticMemory, question: str, **options: Any) -> str:
    made = AMemMemory.from_defaults(memory=memory, user_id="ann", **options)
    return "\n".join(message.content or "" for message in made.get(input=question))


def by_engine(memory: AgenticMemory, question: str, **options: Any) -> str:
    llm, bound = Chatbot(), AMemMemory.bound(memory=memory, user_id="ann", **options)
    SimpleChatEngine.from_defaults(llm=llm, memory_cls=bound).chat(question)
    return llm.prompts[0]


async def in_block(memory: AgenticMemory, question: str, **options: Any) -> str:
    return await AMemMemoryBlock(memory, ANN, **options).aget([user(question)])


def by_tool(memory: AgenticMemory, question: str, **options: Any) -> str:
    return AMemToolSpec(memory, ANN, **options).recall(question)


everywhere = pytest.mark.parametrize("door", [by_memory, by_engine, by_tool])


@pytest.fixture
def towns(memory: AgenticMemory) -> AgenticMemory:
    for year, town in ((2020, "Oslo"), (2024, "Bergen")):
        at = datetime(year, 1, 1, tzinfo=UTC)
        memory.add(f"I moved to {town}.", namespace=ANN, at=at, metadata={"year": year})
    return memory


@everywhere
def test_what_is_recalled_can_be_narrowed(towns: AgenticMemory, door: Door) -> None:
    assert "Oslo" in door(towns, "I moved")
    found = door(towns, "I moved", where={"metadata.year": {"$gte": 2024}})
    assert "Bergen" in found
    assert "Oslo" not in found
    assert "Oslo" not in door(towns, "I moved", min_similarity=0.99)
    then = door(towns, "I moved", as_of=datetime(2021, 1, 1, tzinfo=UTC))
    assert "Oslo" in then
    assert "Bergen" not in then


async def test_a_block_takes_the_same(towns: AgenticMemory) -> None:
    assert "Oslo" not in await in_block(towns, "I moved", where={"metadata.year": 2024})
    assert "Bergen" in await in_block(towns, "I moved", where={"metadata.year": 2024})
    assert await in_block(towns, "I moved", min_similarity=0.99) == ""


def to_the_insurance(request: ModelRequest) -> dict[str, Any]:
    """Link each new note to the one about an insurance, if it is shown."""
    if request.task != "evolve":
        return annotated(request)
    shown = [c["alias"] for c in request.inputs["candidates"] if "insurance" in c["content"]]
    link = {"relation": "paid for", "reason": "same dog", "strength": 0.9}
    links = [{"to": alias, **link} for alias in shown]
    return {"notes": [{"id": note["alias"], "links": links} for note in request.inputs["notes"]]}


@everywhere
def test_links_need_not_be_followed(door: Door) -> None:
    memory, _ = open_memory(ScriptedModel(to_the_insurance))
    memory.add("The insurance has number 4711.", namespace=ANN, thread="t")
    for n in range(3):
        memory.add(f"My dog {n} is called Rex.", namespace=ANN, thread="t")
    memory.add_many([f"A dog called {n}." for n in range(60)], namespace=ANN, evolve=False)

    assert "insurance" in door(memory, "my dog is called", k=4)
    assert "insurance" not in door(memory, "my dog is called", k=4, links=False)
    memory.close()


def by_retriever(memory: AgenticMemory, question: str, **options: Any) -> str:
    nodes = AMemRetriever(memory, ANN, **options).retrieve(question)
    said = [(node.metadata["times_said"], node.metadata["last_said"]) for node in nodes]
    assert set(said) == {(3, "2024-05-12T00:00:00+00:00"), (1, None)}
    return "(said 3 times, last on 12 May 2024)\n".join(node.text for node in nodes)


@pytest.mark.parametrize("door", [by_memory, by_engine, by_tool, by_retriever])
def test_what_was_said_several_times_is_shown_once(door: Door) -> None:
    with open_repeating(annotated) as memory:
        say_thrice(memory, ANN)
        found = door(memory, "Where is my key, and the tram?", k=9)
        assert (found.count("pot"), found.count("late")) == (1, 1)
        assert "under the third flower pot by the door" in found
        assert "(said 3 times, last on 12 May 2024)" in found


@pytest.mark.parametrize(
    "option",
    [
        {"where": {"colour": "red"}},
        {"where": {"speaker": {"$like": "A"}}},
        {"min_similarity": 2},
        {"as_of": datetime(2024, 1, 1)},  # noqa: DTZ001 - no zone is the mistake
        {"min_similarity": "0.5"},
        {"as_of": "2024-01-01T00:00:00Z"},
        {"k": 0},
        {"k": "3"},
        {"k": True},
        {"max_tokens": 0},
        {"max_tokens": "9"},
        {"links": "yes"},
    ],
)
@pytest.mark.parametrize(
    "make",
    [
        lambda memory, **options: AMemMemory.from_defaults(memory=memory, user_id="ann", **options),
        lambda memory, **options: AMemMemoryBlock(memory, ANN, **options),
        lambda memory, **options: AMemToolSpec(memory, ANN, **options),
    ],
)
def test_a_mistake_shows_when_it_is_made(memory: AgenticMemory, make: Any, option: Any) -> None:
    with pytest.raises(ValueError, match=next(iter(option))):
        make(memory, **option)


@pytest.mark.parametrize(
    ("make", "option"),
    [
        (AMemMemoryBlock, {"accept_short_term_memory": "no"}),
        (AMemMemoryBlock, {"priority": "1"}),
        (AMemMemory.from_defaults, {"ingest_history": "no"}),
        (AMemMemory.from_defaults, {"priority": True}),
        (AMemToolSpec, {"evolve": 1}),
        (AMemToolSpec, {"thread": 5}),
        (AMemIngest, {"replace": "no"}),
        (AMemIngest, {"evolve": 0}),
        (AMemRetriever, {"similarity_top_k": True}),
    ],
)
def test_an_option_of_another_type_is_refused(
    memory: AgenticMemory, make: Any, option: dict[str, Any]
) -> None:
    with pytest.raises(
        ConfigurationError, match="k=True" if "top_k" in str(option) else next(iter(option))
    ):
        make(memory=memory, namespace=ANN, **option)


def test_an_unknown_option_of_the_tools_is_refused(memory: AgenticMemory) -> None:
    with pytest.raises(TypeError, match="'top_k'; the options are as_of, k, links"):
        AMemToolSpec(memory, ANN, top_k=3)  # type: ignore[call-arg]


# Whose memory


@pytest.mark.parametrize(
    ("user_id", "text"),
    [
        (42, "42"),
        ("42", "42"),
        (0, "0"),
        (UUID(int=7), "00000000-0000-0000-0000-000000000007"),
        ("mira@example.org", "mira@example.org"),
    ],
)
def test_a_user_is_known_by_the_text_of_an_id(
    memory: AgenticMemory, user_id: Any, text: str
) -> None:
    AMemMemory.from_defaults(memory=memory, user_id=user_id).put(user("I moved to Oslo."))
    AMemMemory.bound(memory=memory, user_id=user_id).from_defaults().put(user("I like jazz."))

    assert memory.namespaces() == [(text,)]


@pytest.mark.parametrize("user_id", [True, 4.2, ("ann",), b"ann", object()])
def test_an_id_of_another_kind_is_refused(memory: AgenticMemory, user_id: Any) -> None:
    with pytest.raises(NamespaceError, match="user_id="):
        AMemMemory.from_defaults(memory=memory, user_id=user_id)


# What the block can do, the memory can


async def test_a_memory_is_flushed_and_closed(memory: AgenticMemory) -> None:
    made = AMemMemory.from_defaults(memory=memory, user_id="ann", evolve="background")
    await made.aput_messages([user("My dog is called Rex."), assistant("Noted.")])
    await made.aflush(timeout=10)
    assert {note.state for note in memory.get_all(namespace=ANN)} == {"done"}

    made.close()
    await made.aput_messages([user("My cat is called Mia."), assistant("Noted.")])
    made.flush(timeout=10)
    assert "pending" in {note.state for note in memory.get_all(namespace=ANN)}


def test_a_flush_that_takes_too_long_says_so() -> None:
    def slow(request: ModelRequest) -> dict[str, Any]:
        time.sleep(1)
        return annotated(request)

    memory, _ = open_memory(ScriptedModel(slow))
    made = AMemMemory.from_defaults(memory=memory, user_id="ann", evolve="background")
    made.put_messages([user("My dog is called Rex."), assistant("Noted.")])
    with pytest.raises(TimeoutError):
        made.flush(timeout=0.01)
    made.flush(timeout=30)
    memory.close()


def test_a_memory_counts_its_failures(memory: AgenticMemory, store: Probe) -> None:
    made = AMemMemory.from_defaults(memory=memory, user_id="ann")
    store.down = True
    made.put(user("My dog is called Rex."))
    assert made.failures == {"write": 1}
    assert copy.deepcopy(made) is made


@pytest.mark.parametrize("door", [by_memory, by_engine])
async def test_what_a_prompt_is_given_begins_with_the_profile(door: Door) -> None:
    profile = {"value": {"work": ["is a zoologist"]}, "of": ["n1"]}
    model = ScriptedModel(lambda r: profile if r.task == "profile" else annotated(r))
    config = MemoryConfig(profile=True)
    memory = AgenticMemory.open(":memory:", model=model, embedder=HashEmbedder(256), config=config)
    memory.add("I move to Oslo for my work.", namespace=ANN)
    for found in (door(memory, "Where did I move?"), await in_block(memory, "Where did I move?")):
        assert found.index("zoologist") < found.index("move to Oslo")
    assert "zoologist" in door(memory, "Hello!")
    assert "zoologist" not in door(memory, "Where did I move?", as_of=datetime.now(UTC))
    memory.close()
