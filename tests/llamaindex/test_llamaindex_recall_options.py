"""What is recalled is said by the same words to memory, block and tools; whose it is, by any kind of id."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.memory import Memory
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, QueryBundle
from llamaindex_fakes import ANN, Chatbot, annotated, open_memory, to_the_insurance, user
from support.models import open_repeating, say_thrice

from amem_integrations import (
    AgenticMemory,
    ConfigurationError,
    MemoryConfig,
    NamespaceError,
)
from amem_integrations.testing import HashEmbedder, ScriptedModel
from llamaindex_amem import AMemIngest, AMemMemory, AMemMemoryBlock, AMemRetriever, AMemToolSpec

Door = Callable[..., str]


def by_memory(memory: AgenticMemory, question: str, **options: Any) -> str:
    made = AMemMemory.from_defaults(memory=memory, user_id="ann", **options)
    return "\n".join(message.content or "" for message in made.get(input=question))


def by_engine(memory: AgenticMemory, question: str, **options: Any) -> str:
    llm, made = Chatbot(), AMemMemory.from_defaults(memory=memory, user_id="ann", **options)
    SimpleChatEngine.from_defaults(llm=llm, memory=made).chat(question)
    return llm.prompts[0]


async def in_block(memory: AgenticMemory, question: str, **options: Any) -> str:
    return await AMemMemoryBlock(memory, ANN, **options).aget([user(question)])


def by_tool(memory: AgenticMemory, question: str, **options: Any) -> str:
    return AMemToolSpec(memory, ANN, **options).recall(question)


everywhere = pytest.mark.parametrize("door", [by_memory, by_engine, by_tool])


@pytest.fixture
def towns(memory):
    for year, town in ((2020, "Oslo"), (2024, "Bergen")):
        at = datetime(year, 1, 1, tzinfo=UTC)
        memory.add(f"I moved to {town}.", namespace=ANN, at=at, metadata={"year": year})
    return memory


@everywhere
def test_what_is_recalled_can_be_narrowed(towns, door):
    assert "Oslo" in door(towns, "I moved")
    found = door(towns, "I moved", where={"metadata.year": {"$gte": 2024}})
    assert "Bergen" in found
    assert "Oslo" not in found
    assert "Oslo" not in door(towns, "I moved", min_similarity=0.99)
    then = door(towns, "I moved", as_of=datetime(2021, 1, 1, tzinfo=UTC))
    assert "Oslo" in then
    assert "Bergen" not in then


class Last(BaseNodePostprocessor):
    """Leaves the last node that says Hamar."""

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        assert query_bundle is not None
        return [node for node in nodes if "Hamar" in node.text][-1:]


async def test_further_namespaces_functions_and_post_processors(towns):
    towns.add("The office moved to Hamar.", namespace=("team",), speaker="Zoe")
    year = {"least": 2000}
    options: dict[str, Any] = {
        "also": {"team": lambda: ("team",)},
        "where": lambda: {"$or": [{"metadata.year": {"$gte": year["least"]}}, {"speaker": "Zoe"}]},
    }
    found = await in_block(towns, "Where to was moved?", **options)
    assert "Oslo" in found
    assert "from team: Zoe: The office moved to Hamar." in found
    year["least"] = 2024
    assert "Oslo" not in await in_block(towns, "Where to was moved?", **options)
    found = await in_block(towns, "Where to was moved?", node_postprocessors=[Last()], **options)
    assert "Hamar" in found
    assert "Bergen" not in found


async def test_whose_memory_it_is_may_be_told_by_the_context(memory):
    user_of: ContextVar[str] = ContextVar("user_of")
    made = {n: AMemMemoryBlock(memory, lambda: (user_of.get(),)) for n in ("one", "two")}

    async def chat(name: str, block: str) -> str:
        user_of.set(name)
        chat_memory = Memory.from_defaults(
            session_id=f"{name}-{block}", memory_blocks=[made[block]]
        )
        engine = SimpleChatEngine.from_defaults(memory=chat_memory, llm=Chatbot(f"Yes, {name}."))
        await engine.achat(f"My name is {name}.")
        await asyncio.to_thread(engine.chat, f"{name} likes tea.")
        await made[block].aflush_from(chat_memory)
        return await made[block].aget([user("What is my name?")])

    names = [f"user-{n}" for n in range(6)]
    shown = await asyncio.gather(*(chat(n, b) for n in names for b in made))

    assert {n: len(memory.get_all(namespace=(n,))) for n in names} == dict.fromkeys(names, 8)
    for found, name in zip(shown, (n for n in names for _ in made), strict=True):
        assert {n for n in names if n in found} == {name}
    with pytest.raises(NamespaceError):
        await AMemMemoryBlock(memory, lambda: ()).aput([user("My salary is 80,000.")])
    assert len(memory.namespaces()) == len(names)


async def test_a_streamed_answer_is_for_who_asked(memory):
    user_of: ContextVar[str] = ContextVar("user_of")
    user_of.set("ann")
    whose = {"namespace": lambda: (user_of.get(),)}
    engine = SimpleChatEngine.from_defaults(
        memory=AMemMemory.from_defaults(memory=memory, **whose), llm=Chatbot("A fine name.")
    )
    # The engine writes the answer in a thread that knows nothing of the context.
    assert "".join(engine.stream_chat("My dog is called Rex.").response_gen) == "A fine name."
    for _ in range(100):
        if len(memory.get_all(namespace=ANN)) == 2:
            break
        await asyncio.sleep(0.05)
    assert [note.content for note in memory.get_all(namespace=ANN)][1] == "A fine name."


@pytest.mark.parametrize("door", [by_memory, by_tool])
def test_links_need_not_be_followed(door):
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
def test_what_was_said_several_times_is_shown_once(door):
    with open_repeating(annotated) as memory:
        say_thrice(memory, ANN)
        found = door(memory, "Where is my key, and the tram?", k=9)
        assert (found.count("pot"), found.count("late")) == (1, 1)
        assert "under the third flower pot by the door" in found
        assert "(said 3 times, last on 12 May 2024)" in found


def test_a_mistake_shows_when_it_is_made(memory):
    for option in [
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
    ]:
        for make in [
            lambda memory, **options: AMemMemory.from_defaults(
                memory=memory, user_id="ann", **options
            ),
            lambda memory, **options: AMemMemoryBlock(memory, ANN, **options),
            lambda memory, **options: AMemToolSpec(memory, ANN, **options),
        ]:
            with pytest.raises(ValueError, match=next(iter(option))):
                make(memory, **option)


def test_an_option_of_another_type_is_refused(memory):
    for make, option in [
        (AMemMemoryBlock, {"accept_short_term_memory": "no"}),
        (AMemMemoryBlock, {"priority": "1"}),
        (AMemMemory.from_defaults, {"ingest_history": "no"}),
        (AMemMemory.from_defaults, {"priority": True}),
        (AMemToolSpec, {"evolve": 1}),
        (AMemToolSpec, {"thread": 5}),
        (AMemIngest, {"replace": "no"}),
        (AMemIngest, {"evolve": 0}),
        (AMemRetriever, {"similarity_top_k": True}),
    ]:
        with pytest.raises(
            ConfigurationError, match="k=True" if "top_k" in str(option) else next(iter(option))
        ):
            make(memory=memory, namespace=ANN, **option)


def test_an_unknown_option_of_the_tools_is_refused(memory):
    with pytest.raises(TypeError, match="'top_k'; use one of k, where"):
        AMemToolSpec(memory, ANN, top_k=3)


# Whose memory


def test_a_user_is_known_by_the_text_of_an_id(memory):
    for user_id, text in [
        (42, "42"),
        ("42", "42"),
        (0, "0"),
        (UUID(int=7), "00000000-0000-0000-0000-000000000007"),
        ("mira@example.org", "mira@example.org"),
    ]:
        AMemMemory.from_defaults(memory=memory, user_id=user_id).put(user("I moved to Oslo."))

        assert [note.content for note in memory.get_all(namespace=(text,))] == ["I moved to Oslo."]
        memory.clear(namespace=(text,))


def test_an_id_of_another_kind_is_refused(memory):
    for user_id in [True, 4.2, ("ann",), b"ann", object()]:
        with pytest.raises(NamespaceError, match="user_id="):
            AMemMemory.from_defaults(memory=memory, user_id=user_id)


def test_a_memory_counts_its_failures(memory, store):
    made = AMemMemory.from_defaults(memory=memory, user_id="ann")
    store.down = True
    made.put(user("My dog is called Rex."))
    assert made.failures == {"write": 1}
    assert copy.deepcopy(made) is made


@pytest.mark.parametrize("door", [by_memory, by_engine])
async def test_what_a_prompt_is_given_begins_with_the_profile(door):
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
