"""`AMemRetriever`: notes as nodes."""

from __future__ import annotations

import asyncio
import copy
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.llms import MockLLM
from llama_index.core.postprocessor import MetadataReplacementPostProcessor, SimilarityPostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.retrievers.fusion_retriever import FUSION_MODES
from llama_index.core.schema import BaseNode, MetadataMode, QueryBundle
from llama_index.core.tools import RetrieverTool
from llama_index.core.vector_stores import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
)
from llama_index.core.vector_stores.utils import metadata_dict_to_node, node_to_metadata_dict
from llamaindex_fakes import ANN, BOB, Chatbot, Toolbot, block_of, open_memory, user
from support.models import model, to_the_insurance

from amem_integrations import AgenticMemory, ConfigurationError, NoteInput
from amem_integrations.conversation import Message, message_key
from amem_integrations.testing import HashEmbedder
from llamaindex_amem import AMemMemoryBlock, AMemRetriever, AMemToolSpec

QUESTION = "What is my dog called?"


@pytest.fixture
def kennel(memory):
    at = datetime(2023, 5, 8, tzinfo=UTC)
    memory.add("My dog is called Rex.", namespace=ANN, speaker="Ann", at=at)
    memory.add("My dog is called Max.", namespace=BOB)
    return memory


def test_a_node_is_a_note_of_which_a_model_is_shown_no_ids(kennel):
    (found,) = AMemRetriever(kennel, ANN).retrieve(QUESTION)
    (hit,) = kennel.search(QUESTION, namespace=ANN)

    assert (found.node_id, found.text) == (hit.note.id, hit.note.content)
    assert found.score == found.metadata["similarity"] == pytest.approx(hit.similarity)
    expected = {"fused_score": hit.score, "via": "match", "tags": "talk", "speaker": "Ann"}
    assert expected.items() <= found.metadata.items()
    text = found.node.get_content(MetadataMode.LLM)
    shown = [part in text for part in ("speaker: Ann", "2023-05-08", found.node_id)]
    assert shown == [True, True, False]
    assert found.node.get_content(MetadataMode.EMBED) == "My dog is called Rex."


async def test_linked_notes_carry_the_path_that_led_to_them():
    memory = open_memory(model(to_the_insurance))
    memory.add("The insurance has number 4711.", namespace=ANN, thread="t")
    dogs = [memory.add(f"My dog {n} is called Rex.", namespace=ANN, thread="t") for n in range(3)]
    memory.add_many([f"A dog called {n}." for n in range(60)], namespace=ANN, evolve=False)
    retriever = AMemRetriever(memory, ANN, k=4)

    nodes = retriever.retrieve("my dog is called")

    assert nodes == await retriever.aretrieve(QueryBundle("my dog is called"))
    (linked,) = [node for node in nodes if node.metadata["via"] != "match"]
    assert linked.text == "The insurance has number 4711."
    path = json.loads(linked.metadata["via"])
    assert {(step["note_id"], step["relation"]) for step in path} == {
        (d.id, "paid for") for d in dogs
    }
    assert json.loads(json.dumps(linked.metadata)) == linked.metadata
    assert set(linked.metadata["links"].split(", ")) == {dog.id for dog in dogs}
    for links in (True, False):
        recalled = await block_of(memory, k=4, links=links).aget([user("my dog is called")])
        assert ("insurance" in recalled) == links
    unlinked = AMemRetriever(memory, ANN, k=4, links=False).retrieve("my dog is called")
    assert {node.metadata["via"] for node in unlinked} == {"match"}


@pytest.mark.parametrize("door", [AMemRetriever, AMemToolSpec, AMemMemoryBlock])
def test_further_namespaces_may_have_any_name_and_are_a_dict(kennel, door):
    for name in ("namespace", "links", "where", "self"):
        assert door(kennel, ANN, also={name: ("team",)}, links=True)
    for also in ([("team",)], "team"):
        with pytest.raises(ConfigurationError, match="must be a dict of names to namespaces"):
            door(kennel, ANN, also=also)

    async def team() -> tuple[str, ...]:
        return ("team",)

    with pytest.raises(ConfigurationError, match=r"also\['team'\]=.* is a coroutine function"):
        door(kennel, ANN, also={"team": team})


async def test_in_a_query_engine_a_tool_and_a_fusion(kennel):
    llm, retriever = Chatbot("Rex."), AMemRetriever(kennel, ANN)
    engine = RetrieverQueryEngine.from_args(retriever, llm=llm)
    assert str(engine.query(QUESTION)) == str(await engine.aquery(QUESTION)) == "Rex."
    assert all("called Rex." in prompt and "Max" not in prompt for prompt in llm.prompts)

    llm, about = Toolbot(("memory", {"input": QUESTION})), "What the user said before."
    tool = RetrieverTool.from_defaults(retriever, name="memory", description=about)
    await FunctionAgent(llm=llm, tools=[tool]).run(QUESTION)
    assert "My dog is called Rex." in llm.prompts[1]

    # A fusion of retrievers runs them on a loop of its own.
    fusion = QueryFusionRetriever([retriever], llm=Chatbot(), num_queries=1, use_async=True)
    found = await asyncio.to_thread(fusion.retrieve, QUESTION)
    assert [node.text for node in found] == ["My dog is called Rex."]


# What others of the framework make of the nodes


def test_metadata_is_flat_and_holds_what_the_user_gave(memory):
    plain = {"city": "Oslo", "year": 2024, "sure": True, "none": None, "_document": "d"}
    plain["_node"] = "n"
    given = {"rooms": ["hall", "bath"], "map": {"x": [1]}, "source": "letter.txt", **plain}
    key = message_key("document", "user", "1")
    memory.add("My dog is called Rex.", namespace=ANN, metadata=given, thread="t", key=key)
    (found,) = AMemRetriever(memory, ANN).retrieve(QUESTION)

    flat = node_to_metadata_dict(found.node, flat_metadata=True)

    assert (plain | {"rooms": "hall, bath", "source": "user"}).items() <= flat.items()
    assert (json.loads(flat["map"]), flat["metadata.source"]) == ({"x": [1]}, "letter.txt")
    assert metadata_dict_to_node(flat).get_content() == "My dog is called Rex."
    assert found.node.ref_doc_id == "t"


def test_metadata_of_a_document_are_as_given_and_those_of_the_turn_are_left_out(memory):
    given = NoteInput(content="My dog is ill.", origin="document", metadata={"file": "a.txt"})
    memory.add_many([given], namespace=ANN)
    (document,) = AMemRetriever(memory, ANN).retrieve("dog")
    assert document.metadata == {"file": "a.txt"}
    memory.remember_turn([Message(role="user", text="Rex is my dog.")], namespace=BOB)
    (said,) = AMemRetriever(memory, BOB).retrieve("dog")
    assert "message_hash" not in said.metadata


def test_a_model_is_shown_no_name_of_a_field_that_is_empty(memory):
    space = ("acme", "ann")
    memory.add("My dog is called Rex.", namespace=space, speaker="Ann", evolve=False)
    (found,) = AMemRetriever(memory, space).retrieve(QUESTION)
    assert (found.metadata["contexts"], found.metadata["namespace"]) == ("", "acme/ann")
    shown = found.node.get_content(MetadataMode.LLM)
    assert [name in shown for name in ("contexts:", "speaker:")] == [False, True]


def test_a_long_note_is_one_node_beside_which_the_passage_stands(memory):
    long = " ".join(f"In {year} my dog won a prize in Oslo." for year in range(1900, 2000))
    memory.add(long, namespace=ANN, thread="t")
    retriever = AMemRetriever(memory, ANN, k=100)
    (node,) = retriever.retrieve("In 1950 my dog won a prize")

    passage, content = node.metadata["passage"], node.node.get_content
    assert node.text == long
    assert "In 1950" in passage
    assert len(passage) <= 1600
    places = [long.index(part) for part in passage.split("\n…\n")]
    assert places == sorted(places)
    assert len(places) > 1
    assert "prize" in content(MetadataMode.LLM)
    assert "passage:" not in content(MetadataMode.LLM) + content(MetadataMode.EMBED)
    llm, replacing = Chatbot("Oslo."), [MetadataReplacementPostProcessor("passage")]
    engine = RetrieverQueryEngine.from_args(retriever, llm=llm, node_postprocessors=replacing)
    engine.query("In 1950 my dog won a prize")
    assert ["In 1950" in llm.prompts[0], long in llm.prompts[0]] == [True, False]


def test_the_hash_of_a_node_tells_the_note_and_its_text(kennel):
    def node(query: str = "dog") -> BaseNode:
        return AMemRetriever(kennel, ANN, k=1).retrieve(query)[0].node

    first = node()
    kennel.add("My dog Rex likes the sea.", namespace=BOB)
    kennel.evolve(namespace=ANN)
    assert node("a question").hash == first.hash
    assert copy.deepcopy(first).hash == first.hash
    (note,) = kennel.get_all(namespace=ANN)
    kennel.update(note.id, namespace=ANN, content="My dog is called Rex the Second.")
    assert node().hash != first.hash


def test_post_processors_cut_by_the_cosine(kennel):
    kennel.add("The tax office opens at nine.", namespace=ANN)
    nodes = AMemRetriever(kennel, ANN).retrieve(QUESTION)
    cut = SimilarityPostprocessor(similarity_cutoff=0.5).postprocess_nodes(nodes)
    assert [len(nodes), *(node.text for node in cut)] == [2, "My dog is called Rex."]


def test_copies_of_it_and_of_tools_share_the_memory(kennel):
    retriever = AMemRetriever(kennel, ANN, k=5)
    other = copy.deepcopy(retriever)
    other.similarity_top_k = 1
    assert (retriever.similarity_top_k, other.similarity_top_k) == (5, 1)
    assert other.retrieve(QUESTION)[0].text == "My dog is called Rex."

    spec = copy.deepcopy(AMemToolSpec(kennel, ANN))
    tools = [copy.deepcopy(tool) for tool in spec.to_tool_list()]
    answers = {tool.metadata.name: tool for tool in tools}
    answers["remember"].call(content="My cat is called Mia.")
    assert "My cat is called Mia." in [n.content for n in kennel.get_all(namespace=ANN)]
    assert "Rex" in str(answers["recall"].call(query=QUESTION))


# Filters


@pytest.fixture
def towns(memory):
    towns = {"Oslo": ["home"], "Rome": ["work", "sun"], "Bonn": ["work"], "Graz": []}
    for year, (town, tags) in enumerate(towns.items(), 2020):
        given = {"town": town, "year": year, "tags": tags, "on": f"{year}-06-01"}
        given["source"] = "letter" if town == "Graz" else "walk"
        at, speaker = datetime(year, 6, 1, tzinfo=UTC), "Ann" if year % 2 else "Bob"
        text = f"Then I moved to {town}."
        memory.add(text, namespace=ANN, speaker=speaker, at=at, metadata=given)
    return memory


def one(key: str, value: Any, operator: str = "==") -> MetadataFilter:
    return MetadataFilter(key=key, value=value, operator=FilterOperator(operator))


def every(*filters: Any, condition: str = "and") -> MetadataFilters:
    return MetadataFilters(filters=list(filters), condition=FilterCondition(condition))


def test_filters_of_the_framework_are_understood(towns):
    for filters, expected in [
        (every(one("town", "Oslo")), "Oslo"),
        (every(one("metadata.town", "Oslo")), "Oslo"),
        (every(one("speaker", "Ann")), "Rome Graz"),
        (every(one("town", "Oslo", "!=")), "Rome Bonn Graz"),
        (every(one("year", 2021, ">="), one("year", 2023, "<")), "Rome Bonn"),
        (every(one("town", ["Oslo", "Graz"], "in")), "Oslo Graz"),
        (every(one("town", ["Oslo"], "nin")), "Rome Bonn Graz"),
        (every(one("metadata.tags", "work", "contains")), "Rome Bonn"),
        (every(one("metadata.tags", ["sun", "home"], "any")), "Oslo Rome"),
        (every(one("metadata.tags", ["home"], "all")), "Oslo"),
        (every(one("at", "2022-01-01", ">=")), "Bonn Graz"),
        (every(one("at", "2021-06-01T00:00:00+00:00")), "Rome"),
        (every(one("at", ["2021-06-01", "2022-06-01"], "in")), "Rome Bonn"),
        (every(one("metadata.tags", "sun", "any")), "Rome"),
        (every(one("on", "2022-01-01", "<")), "Oslo Rome"),
        (every(one("nothing", None, "is_empty"), one("town", "Oslo")), "Oslo"),
        (every(one("town", "Oslo"), one("town", ["Rome"], "in"), condition="or"), "Oslo Rome"),
        (every(every(one("year", 2021, ">")), one("speaker", "Ann")), "Graz"),
        (every(one("town", "Oslo"), condition="or"), "Oslo"),
        (every(one("town", "Oslo"), one("town", "Oslo")), "Oslo"),
        (every(), "Oslo Rome Bonn Graz"),
        (every(condition="or"), "Oslo Rome Bonn Graz"),
        (every(one("town", ["Oslo", "Rome"], "nin")), "Bonn Graz"),
        (every(one("speaker", ["Ann"], "nin")), "Oslo Bonn"),
        (every(one("tags", ["work", "sun"], "all")), "Rome"),
        (every(one("tags", "sun")), "Rome"),
        (every(one("source", "letter")), "Graz"),
        (every(one("source", "letter", "!=")), "Oslo Rome Bonn"),
        (every(one("source", "user")), "Oslo Rome Bonn Graz"),
        (every(one("town", "Oslo"), one("speaker", "Ann"), condition="or"), "Oslo Rome Graz"),
        (every(one("year", 2022, ">"), one("year", 2021, "<"), condition="or"), "Oslo Graz"),
        (every(every(one("town", "Oslo")), one("town", "Rome"), condition="or"), "Oslo Rome"),
        (every(every(), one("town", "Rome"), condition="or"), "Rome"),
        (every(every(), every(every())), "Oslo Rome Bonn Graz"),
    ]:
        nodes = AMemRetriever(towns, ANN, filters=filters).retrieve("moved")

        assert {node.metadata["town"] for node in nodes} == set(expected.split())


def test_filters_that_the_memory_cannot_be_asked_are_refused(towns):
    for filters in [
        every(one("town", "Oslo"), condition="not"),
        every(one("town", ["Oslo", "Rome"])),
        every(one("town", [])),
        every(one("year", [2020, 2021], ">")),
        every(one("town", "Os", "text_match")),
        every(one("town", "Oslo", ">")),
        {"town": "Oslo"},
    ]:
        with pytest.raises(ConfigurationError):
            AMemRetriever(towns, ANN, filters=filters)


def test_filters_and_where_hold_together_and_the_frameworks_name_for_k_is_known(towns):
    filters = every(one("year", 2021, ">="))
    for where, expected in (
        ({"speaker": "Ann"}, {"Rome", "Graz"}),
        ({"metadata.year": 2020}, set()),
    ):
        nodes = AMemRetriever(towns, ANN, filters=filters, where=where).retrieve("moved")
        assert {node.metadata["town"] for node in nodes} == expected
    retriever = AMemRetriever(towns, ANN, k=3, similarity_top_k=2)
    assert len(retriever.retrieve("moved")) == retriever.similarity_top_k == 2
    retriever.similarity_top_k = 1
    assert len(retriever.retrieve("moved")) == 1


def test_a_note_without_a_vector_can_be_fused():
    for mode in FUSION_MODES:
        with AgenticMemory.open(":memory:", embedder=HashEmbedder(64)) as memory:
            memory.add("Rex is a dog.", namespace=ANN)
            raw = Message(role="user", text="Rex eats fish.")
            memory.remember_turn([raw], namespace=ANN, complete=False)
            retrievers = [AMemRetriever(memory, ANN, k=k) for k in (10, 3)]
            fused = QueryFusionRetriever(retrievers, llm=MockLLM(), num_queries=1, mode=mode)
            assert {node.text for node in fused.retrieve("Rex fish")} >= {"Rex eats fish."}
