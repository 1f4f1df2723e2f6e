"""What is recalled is said by the same words at every door: filters, floors, times, further namespaces; and whether it is found."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import langchain_kit as kit
import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_kit import ANN, BOB
from support import chatter
from support.models import open_repeating, say_thrice, to_the_insurance
from support.ports import Silent, WatchedEmbedder

from amem_integrations import (
    AgenticMemory,
    ConfigurationError,
    MemoryConfig,
    ModelUnavailableError,
    NamespaceError,
    StoreUnavailableError,
)
from amem_integrations.testing import HashEmbedder, ScriptedModel
from langchain_amem import (
    AMemMemory,
    AMemMiddleware,
    AMemRetriever,
    AMemVectorStore,
    build_evolution_graph,
    evolve_node,
    failures,
    memory_tools,
    recall_node,
    remember_node,
)

TEAM = ("acme", "team")
Door = Callable[..., str]


def by_middleware(memory, question, **options):
    chat = kit.Talker()
    middleware = AMemMiddleware(memory, namespace=ANN, remember=False, **options)
    create_agent(chat, middleware=[middleware]).invoke(kit.ask(question))
    return kit.system_text(chat.seen[0])


def by_node(memory, question, **options):
    return str(recall_node(memory, namespace=ANN, **options).invoke(kit.ask(question))["memories"])


def by_tool(memory, question, **options):
    (search,) = memory_tools(memory, namespace=ANN, kinds=["search"], **options)
    return str(search.invoke({"query": question}))


def by_chain(memory, question, **options):
    classic = AMemMemory(memory=memory, namespace=ANN, **options)
    return str(classic.load_memory_variables({"input": question})["history"])


def by_retriever(memory, question, given=None, **options):
    retriever = AMemRetriever(memory=memory, namespace=ANN, **options)
    found = retriever.invoke(question, **(given or {}))
    return "\n".join(document.page_content for document in found)


def by_call(memory, question, **options):
    return by_retriever(memory, question, options)


DOORS = [by_middleware, by_node, by_tool, by_chain, by_retriever]


def test_what_is_recalled_can_be_narrowed(memory):
    for year, town in ((2020, "Oslo"), (2024, "Bergen")):
        at = datetime(year, 1, 1, tzinfo=UTC)
        memory.add(f"Ann moved to {town}.", namespace=ANN, at=at, metadata={"year": year})
    first, _ = memory.get_all(namespace=ANN)
    for door in (*DOORS, by_call):
        for options, towns in (
            ({}, ["Oslo", "Bergen"]),
            ({"where": {"metadata.year": {"$gte": 2024}}}, ["Bergen"]),
            ({"as_of": datetime(2021, 1, 1, tzinfo=UTC)}, ["Oslo"]),
            ({"known_at": first.recorded_at}, ["Oslo"]),
            ({"min_similarity": 0.99}, []),
        ):
            found = door(memory, "Ann moved", **options)
            assert [town for town in ("Oslo", "Bergen") if f"moved to {town}" in found] == towns


def test_links_need_not_be_followed():
    model = ScriptedModel({"construct": kit.construct, "evolve": to_the_insurance})
    with AgenticMemory.open(":memory:", model=model, embedder=HashEmbedder(256)) as memory:
        memory.add("The insurance has number 4711.", namespace=ANN, thread="t")
        for n in range(3):
            memory.add(f"My dog {n} is called Rex.", namespace=ANN, thread="t")
        memory.add_many([f"A dog called {n}." for n in range(60)], namespace=ANN, evolve=False)
        for door in (*DOORS, by_call):
            assert "insurance" in door(memory, "my dog is called", k=4)
            assert "insurance" not in door(memory, "my dog is called", k=4, links=False)


def test_what_was_said_several_times_is_shown_once():
    with open_repeating(kit.construct) as memory:
        say_thrice(memory, ANN)
        for door in DOORS:
            found = door(memory, "Where is my key, and the tram?")
            assert (found.count("pot"), found.count("late")) == (1, 1)
            assert "under the third flower pot by the door" in found
            assert door is by_retriever or "(said 3 times, last on 12 May 2024)" in found
        retriever = AMemRetriever(memory=memory, namespace=ANN, k=2)
        first, second = (document.metadata for document in retriever.invoke("Where is my key?"))
        assert (first["times_said"], first["last_said"]) == (3, "2024-05-12T00:00:00+00:00")
        assert second["times_said"] == 1


def test_what_a_prompt_is_given_begins_with_the_profile():
    profile = {"value": {"work": ["is a zoologist"]}, "of": ["n1"]}
    model = ScriptedModel({"construct": kit.construct, "evolve": {"notes": []}, "profile": profile})
    config = MemoryConfig(profile=True)
    doors, options = (by_middleware, by_node, by_chain), {"model": model, "config": config}
    with AgenticMemory.open(":memory:", embedder=HashEmbedder(), **options) as memory:
        assert not any("zoologist" in door(memory, "Where did I move?") for door in doors)
        memory.add("I move to Oslo for my work.", namespace=ANN)
        for door in doors:
            found = door(memory, "Where did I move?")
            assert found.index("zoologist") < found.index("move to Oslo")
            assert "zoologist" in door(memory, "Hello!")
            then = {"as_of": datetime.now(UTC)}, {"known_at": datetime.now(UTC)}
            for narrowed in (*then, {"where": {"speaker": "Ann"}}):
                assert "zoologist" not in door(memory, "Where did I move?", **narrowed)


# Several namespaces


@pytest.fixture
def shared(seeded):
    seeded.add("The team moved its office to Oslo.", namespace=TEAM, speaker="Eva")
    return seeded


def test_further_namespaces_are_read_and_their_notes_marked(shared):
    also = {"team": TEAM}
    for door in DOORS:
        assert "office" not in door(shared, "moved to Oslo")
        found = door(shared, "moved to Oslo", also=also)
        assert "Rome" not in found
        for words, who in (("office", "from team: Eva: "), ("I moved to Oslo.", "Ann: ")):
            (line,) = [line for line in found.splitlines() if words in line]
            assert door is by_retriever or f"{'] ' if door is by_tool else '- '}{who}" in line
    retriever = AMemRetriever(memory=shared, namespace=ANN, also=also)
    (search,) = memory_tools(shared, namespace=ANN, kinds=["search"], also=also)
    artifact = search.invoke(kit.called(search.name, query="moved").tool_calls[0]).artifact
    whose = [document.metadata["namespace"] for document in retriever.invoke("moved")]
    assert whose == [hit["namespace"] for hit in artifact]
    assert {tuple(space) for space in whose} == {TEAM, ANN}


def test_a_run_says_which_further_namespaces_are_read(shared):
    def team(run):
        return ("acme", run.config["configurable"]["team"]) if run.state else ()

    also = {"team": team, "nobody": lambda _: ()}
    recall = recall_node(shared, namespace=kit.user, also=also)
    graph = kit.sequence(
        kit.State, recall=recall, remember=remember_node(shared, namespace=kit.user)
    )
    asked = kit.ask("Who moved to Oslo?")
    done = graph.invoke(asked, kit.within(team="team"), context=kit.User("bob"))
    assert "from team: Eva" in done["memories"]
    assert "I moved to Oslo" not in done["memories"]
    assert kit.kept(shared, TEAM) == ["The team moved its office to Oslo."]
    assert kit.kept(shared, BOB)[-1] == "Who moved to Oslo?"
    with pytest.raises(NamespaceError):
        graph.invoke(asked, kit.within(), context=kit.User("bob"))


def test_a_function_that_fails_costs_its_namespace_and_a_filter_that_fails_all_notes(shared):
    def broken(_):
        raise ConnectionError("no directory")

    for door in (by_middleware, by_node, by_tool):
        found = door(shared, "moved to Oslo", also={"gone": broken, "team": TEAM})
        assert "I moved to Oslo." in found
        assert "from team" in found
        for wrong in (broken, *(lambda _, given=given: given for given in (["Ann"], "", False))):
            assert "moved" not in door(shared, "moved to Oslo", where=wrong)


def test_without_an_embedder_the_first_of_each_namespace_stand_first():
    with AgenticMemory.open(":memory:", embedder=(embedder := WatchedEmbedder())) as memory:
        embedder.error = TimeoutError()
        for space in (ANN, TEAM):
            memory.add_many([f"{space[0]} moved {n}" for n in range(3)], namespace=space)
        retriever = AMemRetriever(memory=memory, namespace=ANN, also={"team": TEAM}, k=2)
        found = [document.metadata["namespace"] for document in retriever.invoke("moved")]
        assert found == [[*ANN], [*TEAM]]


# Outages


def test_what_fails_is_counted_or_raised_where_that_is_wanted_and_words_count_without_the_embedder():
    embedder = WatchedEmbedder()
    with Silent.open(":memory:", embedder=embedder) as memory:
        memory.info()  # finds the thresholds of the embedder, once
        memory.add("I moved to Oslo.", namespace=ANN, evolve=False)
        for door in DOORS:
            for error in (ModelUnavailableError("away"), ConfigurationError("refused"), None):
                embedder.error, memory.down = error, error is None
                # A question that was asked before is not encoded again.
                asked, before = f"Is it Oslo, {door.__name__}?", sum(failures().values())
                found = door(memory, asked)
                by_words = isinstance(error, ModelUnavailableError)
                assert ("I moved to Oslo." in found) is by_words
                assert sum(failures().values()) == before + 1
                assert by_words or door is not by_tool or "does not answer" in found
                with pytest.raises(type(error) if error else StoreUnavailableError):
                    door(memory, asked, on_error="raise")
        memory.down, embedder.error = False, ModelUnavailableError("away")
        assert "could look for words only" in by_tool(memory, "Where is the cat?")


# Mistakes


MISTAKES = [
    {"where": {"colour": "red"}},
    {"where": {"speaker": {"$like": "A"}}},
    {"where": "Ann"},
    *({"min_similarity": wrong} for wrong in (2, "high", "0.5", True)),
    {"as_of": datetime(2024, 1, 1)},  # noqa: DTZ001 - no zone is the mistake
    *({name: "2024-01-01T00:00:00Z"} for name in ("as_of", "known_at")),
    *({"links": wrong} for wrong in ("perhaps", "yes")),
    *({"k": wrong} for wrong in (0, "3", True)),
    *({"also": wrong} for wrong in ({"": ("acme",)}, ("acme",), {"team": "acme"}, {"team": ()})),
]


def test_a_mistake_shows_when_it_is_made(memory):
    for make in (AMemMiddleware, recall_node, memory_tools, AMemMemory, AMemRetriever):
        for option in MISTAKES:
            (named,) = option
            with pytest.raises(ValueError, match="also|namespace" if named == "also" else named):
                make(memory=memory, namespace=ANN, **option)
        with pytest.raises((ValueError, TypeError), match="top_k"):
            make(memory=memory, namespace=ANN, top_k=3)


async def later(_message):
    return False


def test_an_option_of_another_type_is_refused(memory):
    wrong = [
        (
            AMemMiddleware,
            {
                "remember_unanswered": "no", "inject": "tool", "evolve": "later", "remember": "facts",
                "max_tokens": 0, "should_store": "human",
            },
        ),
        (remember_node, {"should_store": later, "remember_unanswered": 0}),
        (remember_node, {"should_store": None}),
        *((make, {name: later}) for make in (remember_node, AMemMiddleware) for name in ("namespace", "metadata")),
        (recall_node, {"where": later}),
        (evolve_node, {"limit": "3"}),
        (evolve_node, {"limit": -1}),
        (build_evolution_graph, {"limit": True, "review": "no"}),
        (memory_tools, {"evolve": 1, "assistant_supersedes": "no", "max_tokens": 0}),
        (AMemVectorStore, {"evolve": "yes"}),
        (AMemMemory, {"max_tokens": "9", "return_messages": "yes", "evolve": "yes"}),
    ]  # fmt: skip
    for make, options in wrong:
        for name, value in options.items():
            with pytest.raises(ValueError, match=name):
                make(memory=memory, **{"namespace": ANN, name: value})


# By the default embedder: facts are found, whatever was asked and chatted before


@pytest.fixture
def chatting(minilm):
    with AgenticMemory.open(":memory:", embedder=minilm) as opened:
        opened.add(chatter.FACT, namespace=ANN, thread="0", speaker="user")
        yield opened


def shown(memory, *turns, **options):
    """Run turns, each in a thread of its own, and return what the model was shown of the memory at last."""
    answers = iter(answer for _, answer in turns)
    model = kit.Talker(answer=lambda _: next(answers))
    agent = create_agent(model, middleware=[AMemMiddleware(memory, namespace=ANN, **options)])
    for asked, _ in turns:
        agent.invoke(kit.ask(asked), kit.within(asked))
    return kit.system_text(model.seen[-1])


ASKING = [(asked, chatter.UNKNOWN) for asked in chatter.PARAPHRASES]


@pytest.mark.parametrize("turns", [ASKING, chatter.SMALL_TALK], ids=["paraphrases", "small talk"])
def test_neither_paraphrases_of_a_question_nor_small_talk_bury_the_fact(chatting, turns):
    shown(chatting, *turns)
    retriever = AMemRetriever(memory=chatting, namespace=ANN, k=3)
    found = [document.page_content for document in retriever.invoke(chatter.QUESTION)]
    assert chatter.FACT in found
    assert "Rex" in shown(chatting, (chatter.QUESTION, chatter.UNKNOWN), k=3)


def test_what_a_visible_message_says_is_not_recalled_as_well(chatting):
    assert chatter.FACT not in shown(chatting, (chatter.FACT, "A fine name."))


def test_a_follow_up_is_searched_with_the_messages_before_the_question(chatting):
    chatter.tell_of_dates(chatting, ANN)
    asked, answer, again = chatter.FOLLOW_UP
    said = kit.ask(asked, AIMessage(answer), again)
    for window in (0, 3):
        found = recall_node(chatting, namespace=ANN, k=5, window=window).invoke(said)["memories"]
        assert ("12 july" in found) == (window > 0)
