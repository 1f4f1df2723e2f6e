"""What is recalled is said by the same words to memory, block and tools; whose it is, by any kind of id."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import llamaindex_fakes as kit
import pytest
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.memory import Memory
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, TextNode
from llamaindex_fakes import ANN
from support import chatter
from support.models import open_repeating, say_thrice

from amem_integrations import AgenticMemory, ConfigurationError, MemoryConfig, NamespaceError
from amem_integrations.testing import HashEmbedder, ScriptedModel
from llamaindex_amem import AMemIngest, AMemMemory, AMemMemoryBlock, AMemRetriever, AMemToolSpec

Door = Callable[..., str]


def by_memory(memory: AgenticMemory, question: str, **options: Any) -> str:
    return kit.shown(kit.ann(memory, **options).get(input=question))


def by_engine(memory: AgenticMemory, question: str, **options: Any) -> str:
    llm, made = kit.Chatbot(), kit.ann(memory, remember=False, **options)
    SimpleChatEngine.from_defaults(llm=llm, memory=made).chat(question)
    return llm.prompts[0]


def by_tool(memory: AgenticMemory, question: str, **options: Any) -> str:
    return AMemToolSpec(memory, ANN, **options).recall(question)


async def in_block(memory: AgenticMemory, question: str, **options: Any) -> str:
    return await kit.block_of(memory, **options).aget([kit.user(question)])


DOORS: list[Door] = [by_memory, by_engine, by_tool]


@pytest.fixture
def towns(memory):
    for year, town in ((2020, "Oslo"), (2024, "Bergen")):
        at = datetime(year, 1, 1, tzinfo=UTC)
        memory.add(f"I moved to {town}.", namespace=ANN, at=at, metadata={"year": year})
    return memory


def test_what_is_recalled_can_be_narrowed(towns):
    first, _ = towns.get_all(namespace=ANN)
    for door in DOORS:
        for options, expected in (
            ({}, ["Oslo", "Bergen"]),
            ({"where": {"metadata.year": {"$gte": 2024}}}, ["Bergen"]),
            ({"as_of": datetime(2021, 1, 1, tzinfo=UTC)}, ["Oslo"]),
            ({"known_at": first.recorded_at}, ["Oslo"]),
            ({"min_similarity": 0.99}, []),
        ):
            found = door(towns, "I moved", **options)
            assert [town for town in ("Oslo", "Bergen") if town in found] == expected


class Last(BaseNodePostprocessor):
    """Leaves the last node that says Hamar, beside one that is no note."""

    def _postprocess_nodes(self, nodes: Any, query_bundle: Any = None) -> list[NodeWithScore]:
        assert query_bundle is not None
        made_up = NodeWithScore(node=TextNode(text="Nobody said so."))
        return [made_up, *[node for node in nodes if "Hamar" in node.text][-1:]]


async def test_further_namespaces_functions_and_post_processors(towns):
    towns.add("The office moved to Hamar.", namespace=("team",), speaker="Zoe")
    year = {"least": 2000}
    options: dict[str, Any] = {
        "also": {"team": lambda: ("team",)},
        "where": lambda: {"$or": [{"metadata.year": {"$gte": year["least"]}}, {"speaker": "Zoe"}]},
    }
    office = "from team: Zoe: The office moved to Hamar."
    cut = {"node_postprocessors": [Last(), SimilarityPostprocessor(similarity_cutoff=-1.0)]}
    for least, more, expected in (
        (2000, {}, ["Oslo", "Bergen", office]),
        (2024, {}, ["Bergen", office]),
        (2024, cut, [office]),
    ):
        year["least"] = least
        found = await in_block(towns, "Where to was moved?", **options, **more)
        assert [one for one in ("Oslo", "Bergen", office) if one in found] == expected


def test_a_function_that_fails_costs_its_namespace_and_a_filter_that_fails_all_notes(towns):
    def broken() -> Any:
        raise ConnectionError("no directory")

    for door in DOORS:
        found = door(towns, "I moved", also={"gone": broken, "nobody": lambda: ()})
        assert "I moved to Oslo." in found
        for wrong in (broken, lambda: ["Ann"]):
            assert "moved to" not in door(towns, "I moved", where=wrong)
    options = {"also": {"gone": broken}, "where": broken}
    retriever, spec = AMemRetriever(towns, ANN, **options), AMemToolSpec(towns, ANN, **options)
    assert retriever.retrieve("I moved") == []
    assert "does not answer" in spec.recall("I moved")
    assert retriever.failures == spec.failures == {"also": 1, "where": 1}
    with pytest.raises(ConnectionError):
        by_tool(towns, "I moved", where=broken, on_error="raise")


async def test_what_is_set_on_a_block_later_counts(towns):
    block = kit.block_of(towns)
    towns.add("The office moved to Hamar.", namespace=("team",))
    for name, value, expected in (
        ("where", {"metadata.year": 2020}, ["Oslo"]),
        ("also", {"team": ("team",)}, ["Oslo"]),
        ("where", None, ["Oslo", "Bergen", "Hamar"]),
        ("namespace", ("team",), ["Hamar"]),
    ):
        setattr(block, name, value)
        found = await block.aget([kit.user("Where to was moved?")])
        assert [town for town in ("Oslo", "Bergen", "Hamar") if town in found] == expected


def test_what_was_said_several_times_is_shown_once():
    asked = "Where is my key, and the tram?"
    with open_repeating(kit.annotated) as memory:
        say_thrice(memory, ANN)
        for door in DOORS:
            found = door(memory, asked, k=9)
            assert (found.count("pot"), found.count("late")) == (1, 1)
            assert "under the third flower pot by the door" in found
            assert "(said 3 times, last on 12 May 2024)" in found
        nodes = AMemRetriever(memory, ANN).retrieve(asked)
        said = {(node.metadata["times_said"], node.metadata["last_said"]) for node in nodes}
        assert said == {(3, "2024-05-12T00:00:00+00:00"), (1, None)}
        assert len(nodes) == 2


async def test_what_a_prompt_is_given_begins_with_the_profile():
    profile = {"value": {"work": ["is a zoologist"]}, "of": ["n1"]}
    script = ScriptedModel(lambda r: profile if r.task == "profile" else kit.annotated(r))
    options: dict[str, Any] = {"model": script, "config": MemoryConfig(profile=True)}
    with AgenticMemory.open(":memory:", embedder=HashEmbedder(256), **options) as memory:
        memory.add("I move to Oslo for my work.", namespace=ANN)
        found = await in_block(memory, "Where did I move?")
        assert found.index("zoologist") < found.index("move to Oslo")


def test_a_follow_up_is_searched_with_the_messages_before_the_question(minilm):
    asked, answer, again = chatter.FOLLOW_UP
    with AgenticMemory.open(":memory:", embedder=minilm) as memory:
        chatter.tell_of_dates(memory, ANN)
        for window in (0, 3):
            chatting = kit.ann(memory, session_id=f"w{window}", k=5, window=window, remember=False)
            chatting.put_messages([kit.user(asked), kit.assistant(answer), kit.user(again)])
            assert ("12 july" in kit.shown(chatting.get())) == (window > 0)


# --- mistakes


def test_a_mistake_shows_when_it_is_made(memory):
    for option in [
        {"where": {"colour": "red"}},
        {"where": {"speaker": {"$like": "A"}}},
        *({"min_similarity": wrong} for wrong in (2, "0.5")),
        {"as_of": datetime(2024, 1, 1)},  # noqa: DTZ001 - no zone is the mistake
        *({name: "2024-01-01T00:00:00Z"} for name in ("as_of", "known_at")),
        *({"k": wrong} for wrong in (0, "3", True)),
        *({"max_tokens": wrong} for wrong in (0, "9")),
        {"links": "yes"},
    ]:
        for make in (AMemMemory.from_defaults, AMemMemoryBlock, AMemToolSpec):
            with pytest.raises(ValueError, match=next(iter(option))):
                make(memory=memory, namespace=ANN, **option)
    elsewhere = {"memory": "./memory"}
    spec = {"evolve": 1, "thread": 5, "assistant_supersedes": 1, "max_tokens": 0}
    for make, options in {
        AMemMemoryBlock: {"priority": "1", "evolve": "inline", **elsewhere, "evolv": False},
        AMemMemory.from_defaults: {"ingest_history": "no", "priority": True},
        AMemToolSpec: spec,
        AMemIngest: {"replace": "no", "evolve": 0},
        AMemRetriever: {"k": 0, **elsewhere},
    }.items():
        for name, wrong in options.items():
            with pytest.raises(ConfigurationError, match=name):
                make(**{"memory": memory, "namespace": ANN, name: wrong})
    with pytest.raises(ConfigurationError, match="k=True"):
        AMemRetriever(memory, ANN, similarity_top_k=True)
    for make in (AMemToolSpec, AMemRetriever):
        with pytest.raises(TypeError, match="'top_k'; use one of k, where"):
            make(memory, ANN, top_k=3)
    with pytest.raises(TypeError, match="evolv"):
        kit.ann(memory, evolv=False)


# --- whose memory it is


def test_a_user_is_known_by_the_text_of_an_id(memory):
    for user_id in (42, "42", 0, UUID(int=7), "mira@example.org"):
        AMemMemory.from_defaults(memory=memory, user_id=user_id).put(kit.user("I moved to Oslo."))

        assert kit.contents(memory, (str(user_id),)) == ["I moved to Oslo."]
        memory.clear(namespace=(str(user_id),))


def test_an_id_of_another_kind_is_refused(memory):
    for user_id in (True, 4.2, ("ann",), b"ann", object(), ""):
        with pytest.raises(NamespaceError):
            AMemMemory.from_defaults(memory=memory, user_id=user_id)
    for whose in ({"namespace": ()}, {"user_id": "ann", "namespace": ("ann",)}):
        with pytest.raises(NamespaceError):
            AMemMemory.from_defaults(memory=memory, **whose)
    with pytest.raises(NamespaceError, match=r"user_id=None .* no shared default"):
        AMemMemory.from_defaults(memory=memory)


async def test_whose_memory_it_is_may_be_told_by_the_context(memory):
    user_of: ContextVar[str] = ContextVar("user_of")
    made = {n: AMemMemoryBlock(memory, lambda: (user_of.get(),)) for n in ("one", "two")}

    async def chat(name: str, block: str) -> str:
        user_of.set(name)
        stock = Memory.from_defaults(session_id=f"{name}-{block}", memory_blocks=[made[block]])
        engine = SimpleChatEngine.from_defaults(memory=stock, llm=kit.Chatbot(f"Yes, {name}."))
        await engine.achat(f"My name is {name}.")
        await asyncio.to_thread(engine.chat, f"{name} likes tea.")
        await made[block].aflush_from(stock)
        return await made[block].aget([kit.user("What is my name?")])

    names = [f"user-{n}" for n in range(5)]
    found = await asyncio.gather(*(chat(n, b) for n in names for b in made))

    assert {n: len(kit.contents(memory, (n,))) for n in names} == dict.fromkeys(names, 8)
    for text, name in zip(found, (n for n in names for _ in made), strict=True):
        assert {n for n in names if n in text} == {name}
    with pytest.raises(NamespaceError):
        await AMemMemoryBlock(memory, lambda: ()).aput([kit.user("My salary is 80,000.")])
    assert len(memory.namespaces()) == len(names)


def test_a_streamed_answer_is_for_who_asked_if_that_was_one_and_the_same_all_along(memory):
    user_of: ContextVar[str] = ContextVar("user_of")
    made = kit.ann(memory, namespace=lambda: (user_of.get(),))
    said = kit.assistant("A fine name."), kit.user("Who?")
    for who, failures in (("ann", [{}, {"write": 1}]), ("bob", [{"write": 2}, {"write": 3}])):
        user_of.set(who)
        made.put(kit.user("My dog is called Rex."))
        # As engines do that stream, in a thread that knows nothing of the context; a question belongs to nobody there.
        with ThreadPoolExecutor(1) as thread:
            for message, failed in zip(said, failures, strict=True):
                thread.submit(made.put, message).result()
                assert made.failures == failed
    assert kit.contents(memory) == ["My dog is called Rex.", "A fine name."]
    assert kit.contents(memory, ("bob",)) == ["My dog is called Rex."]
