"""`AMemMemory`: what a chat engine or an agent gets as `memory=`, what a turn costs, and how its notes evolve."""

from __future__ import annotations

import asyncio
import copy
import inspect
import pickle
import threading
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from llama_index.core import workflow
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.base.llms.types import ImageBlock, TextBlock
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.memory import InsertMethod, Memory, StaticMemoryBlock
from llama_index.core.memory.memory import DEFAULT_MEMORY_BLOCKS_TEMPLATE
from llama_index.core.prompts import RichPromptTemplate
from llama_index.core.storage.chat_store.base_db import MessageStatus
from llama_index.core.tools import FunctionTool
from llamaindex_fakes import (
    ANN,
    BOB,
    Chatbot,
    Toolbot,
    ann,
    annotated,
    assistant,
    calling,
    contents,
    open_memory,
    shown,
    states,
    user,
    with_types,
)
from support.ports import WatchedEmbedder

from amem_integrations.testing import ScriptedModel
from llamaindex_amem import AMemMemory, AMemToolSpec


def kept_in(tmp_path: Any) -> dict[str, Any]:
    """Return the options of a session whose history is in a file."""
    return {"session_id": "s", "async_database_uri": f"sqlite+aiosqlite:///{tmp_path}/chat.db"}


# --- making one


def test_options_reach_the_memory_and_the_block(memory):
    static = StaticMemoryBlock(name="profile", static_content="Ann is a nurse.")
    made = ann(memory, session_id="s", token_limit=500, memory_blocks=[static], k=3, evolve=False)

    assert isinstance(made, Memory)
    assert (made.session_id, made.token_limit) == ("s", 500)
    assert (made.block.k, made.block.evolve) == (3, False)
    assert "Ann is a nurse." in shown(made.get(input="Who am I?"))
    with pytest.raises(ValueError, match=r"AMemMemory.from_defaults\(memory=…, user_id=…\)"):
        AMemMemory(token_limit=100).put(user("Hello"))


def test_templates_and_insert_methods_that_are_given_are_kept(memory):
    memory.add("My dog is called Rex.", namespace=ANN)
    template = "Known: {% for name, content in memory_blocks %}{{ name }}{% endfor %}!"
    made = ann(memory, memory_blocks_template=RichPromptTemplate(template))
    asked = user("What is my dog called?")
    assert made.get(input=asked.content)[0].content == "Known: long_term_memory!"
    picture = ImageBlock(url="http://example.invalid/dog.png")
    for more in ([], [picture]):
        blocks = [TextBlock(text="Ann is a nurse."), *more]
        static = StaticMemoryBlock(name="profile", static_content=blocks)
        ours, theirs = (
            ann(memory, memory_blocks=[static], **options).get(input="Who is Rex?")
            for options in ({}, {"memory_blocks_template": DEFAULT_MEMORY_BLOCKS_TEMPLATE})
        )
        assert shown(ours).split() == shown(theirs).split()
        assert shown(ours).split().count("nurse.") == shown(ours).split().count("Rex.") == 1
        assert [block for block in ours[0].blocks if not isinstance(block, TextBlock)] == more
    for method in InsertMethod:
        made = ann(memory, insert_method=method, remember=False)
        made.put(asked)
        shown_to_model = made.get()
        found = [m.role.value for m in shown_to_model if "Rex" in (m.content or "")]
        assert found == [method.value]
        # Neither the framework nor who has these messages changes the history.
        for message in (shown_to_model[-1], made.get_all()[-1]):
            message.additional_kwargs["mark"] = message.blocks = []
        assert made.get_all() == [asked]


# --- writing


def test_messages_of_the_caller_stay_as_they_are_when_the_history_overflows(memory):
    static = StaticMemoryBlock(name="profile", static_content="Ann is a nurse.")
    made = ann(memory, token_limit=60, memory_blocks=[static])
    said = [user(f"Tree {n} is an oak.") for n in range(20)]
    made.put_messages(said)
    assert len(made.get()) < len(said)
    assert {repr(message.additional_kwargs) for message in said} == {"{}"}


def test_history_that_is_given_is_not_remembered_unless_asked_for(memory):
    history = [user("My dog is called Rex."), assistant("A fine name.")]
    made = ann(memory, chat_history=history, session_id="s")
    assert len(made.get_all()) == 2
    assert contents(memory) == []

    at = datetime(2023, 5, 8, 10, tzinfo=UTC)
    said = {"role": "user", "content": "My dog is called Rex.", "at": at}
    memory.add_messages([said], namespace=ANN, thread="s")
    for _ in range(2):
        ann(memory, chat_history=history, session_id="s", ingest_history=True)

    assert contents(memory) == ["My dog is called Rex.", "A fine name."]
    # What is stored is left as it is, and what was said before was not said now.
    assert [note.at for note in memory.get_all(namespace=ANN)] == [at, None]


def test_a_stateless_server_stores_each_message_once(memory):
    history: list[Any] = []
    for n in range(4):
        made = ann(memory, session_id="s", token_limit=60, ingest_history=True)
        engine = SimpleChatEngine.from_defaults(memory=made, llm=Chatbot(f"Noted {n}."))
        asked = f"I planted tree number {n}."
        engine.chat(asked, chat_history=list(history))
        history += [user(asked), assistant(f"Noted {n}.")]

    assert contents(memory) == [message.content for message in history]


def test_sessions_share_what_is_remembered_and_users_do_not(memory):
    ann(memory, session_id="one").put(user("My dog is called Rex."))
    bob = ann(memory, namespace=BOB, session_id="one")

    assert "Rex" in shown(ann(memory, session_id="two").get(input="What is my dog called?"))
    assert "Rex" not in shown(bob.get(input="What is my dog called?"))
    assert contents(memory, BOB) == []


# --- several tasks and threads


async def test_conversations_at_the_same_time_store_each_message_once(memory):
    made = ann(memory, token_limit=60, evolve=False)

    async def talk(name: str) -> None:
        for n in range(5):
            await made.aput(user(f"{name} planted tree {n}"))
            await made.aput(assistant("Noted."))

    talking = [asyncio.create_task(talk(name)) for name in "abcd"]
    await asyncio.sleep(0)
    made.put(user("A synchronous call beside a waiting task gets through."))
    await asyncio.gather(*talking)

    stored = contents(memory)
    assert (len(stored), stored.count("Noted."), len(set(stored))) == (41, 20, 22)


async def test_many_sessions_may_be_the_first_to_use_a_fresh_file(memory, tmp_path):
    def session(n: int) -> AMemMemory:
        return ann(memory, **{**kept_in(tmp_path), "session_id": f"s{n % 3}"}, evolve=False)

    made = [session(n) for n in range(3)]
    await asyncio.gather(
        *(made[n % 3].aput(user(f"fact {n}")) for n in range(9)),
        *(asyncio.to_thread(lambda n=n: session(n).put(user(f"fact {n}"))) for n in range(9, 15)),
    )

    assert sorted(contents(memory)) == sorted(f"fact {n}" for n in range(15))
    assert [len(one.get_all()) for one in made] == [5, 5, 5]


async def test_a_put_that_is_cancelled_leaves_nothing_in_the_history_that_is_not_remembered(memory):
    made = ann(memory, session_id="s", evolve=False)
    await made.aput(user("Hello"))
    for n in range(30):
        putting = asyncio.create_task(made.aput(user(f"I planted tree number {n}.")))
        await asyncio.sleep(n / 4000)
        putting.cancel()
        with suppress(asyncio.CancelledError):
            await putting
    await made.aput(assistant("Well done."))

    history = [message.content for message in await made.aget_all()]
    assert set(history) <= set(contents(memory))
    assert len(contents(memory)) == len(set(contents(memory)))


# --- state and resume


# The framework says that the memory is not kept in the context.
in_a_context = pytest.mark.filterwarnings("ignore")
JSON = workflow.JsonSerializer()


@in_a_context
async def test_a_stored_context_is_resumed_with_the_memory_made_again(memory, tmp_path):
    llm, options = Toolbot(), kept_in(tmp_path)
    context = workflow.Context(agent := FunctionAgent(llm=llm))
    await agent.run("My dog is called Rex.", ctx=context, memory=ann(memory, **options))
    stored, made = context.to_dict(serializer=JSON), ann(memory, **options)
    resumed = workflow.Context.from_dict(agent, stored, serializer=JSON)
    await agent.run("What did I just say?", ctx=resumed, memory=made)

    assert "user: My dog is called Rex." in llm.prompts[-1]
    assert len(made.get_all()) == 4


@in_a_context
async def test_a_resumed_handler_is_given_the_memory_by_its_store(memory, tmp_path):
    @with_types
    async def ask(ctx: workflow.Context, question: str) -> str:
        """Ask the user."""
        waiter = workflow.InputRequiredEvent(prefix=question)
        answer = await ctx.wait_for_event(workflow.HumanResponseEvent, waiter_event=waiter)
        return str(answer.response)

    options = kept_in(tmp_path)
    agent = FunctionAgent(llm=Toolbot(("ask", {"question": "Which dog?"})), tools=[ask])
    handler = agent.run("My dog is ill.", memory=ann(memory, **options))
    async for event in handler.stream_events():
        if isinstance(event, workflow.InputRequiredEvent):
            stored = handler.ctx.to_dict(serializer=JSON)
            await handler.cancel_run()
            break

    agent = FunctionAgent(llm=Toolbot(answer="Poor Rex."), tools=[ask])
    handler = agent.run(ctx=workflow.Context.from_dict(agent, stored, serializer=JSON))
    await handler.ctx.store.set("memory", ann(memory, **options))
    handler.ctx.send_event(workflow.HumanResponseEvent(response="Rex"))

    assert str(await handler) == contents(memory)[-1] == "Poor Rex."
    assert contents(memory)[0] == "My dog is ill."


@in_a_context
async def test_a_pickle_is_refused_and_the_memory_stays_whole(memory):
    made, agent = ann(memory, session_id="s"), FunctionAgent(llm=Toolbot())
    assert copy.deepcopy(made) is made
    for one in (made, made.block):
        with pytest.raises(TypeError, match=f"{type(one).__name__} cannot be .*make it again"):
            pickle.dumps(one)
    context = workflow.Context(agent)
    await agent.run("Hello", ctx=context, memory=made)
    await context.store.set("memory", made)
    context.to_dict(serializer=workflow.JsonPickleSerializer())

    await agent.run("My dog is called Rex.", memory=made)

    assert contents(memory)[-2:] == ["My dog is called Rex.", "Done."]
    assert "Rex" in shown(await ann(memory).aget(input="What is my dog called?"))


async def test_the_history_in_the_process_is_the_one_of_a_sql_store(memory, tmp_path):
    active, archived = MessageStatus.ACTIVE, MessageStatus.ARCHIVED
    pages = [(active, None, None), (archived, None, None), (None, 2, 1), (active, 9, 5)]
    tiny = {"token_limit": 120, "chat_history_token_ratio": 0.5, "token_flush_size": 10}
    options = {"remember": False, "tokenizer_fn": str.split, **tiny}
    found = []
    for where in ({"session_id": "s"}, kept_in(tmp_path)):
        made = ann(memory, **options, **where)
        one = made.sql_store
        await one.add_message("s", user("zero"))
        await one.set_messages("s", [user(f"message {n}") for n in range(6)])
        await one.add_messages("t", [elsewhere := user("Elsewhere.")])
        elsewhere.blocks = []  # who has put it goes on with it
        taken = [
            await one.archive_oldest_messages("s", 2),
            await one.delete_oldest_messages("s", 1),
            await one.archive_oldest_messages("u", 3),
            await one.delete_message("s", 999),
        ]
        rest = [await one.get_messages("s", *page) for page in pages]
        rest += [await one.get_messages("t")]
        keys = [key for key in await one.get_keys() if await one.count_messages(key, None)]
        await one.delete_messages("s", archived)
        left = await one.get_messages("s", None)
        for _ in range(19):
            await made.aput(user("Five words are said here."))
        counted = [await one.count_messages("s", status) for status in (active, archived, None)]
        await made.areset()
        ended = await made.aget_all()
        await one.add_message("s", user("Gone."), archived)
        await one.set_messages("s", [user("Stays.")])
        now = await made.aget_all()
        found.append((taken, rest, counted, sorted(keys), left, ended, now))

    assert found[0] == found[1]
    assert found[0][2] == [12, 10, 22]
    await (session := ann(memory).sql_store).add_messages("s", [user(text) for text in "abcde"])
    await session.archive_oldest_messages("s", 2)
    gone = [await session.delete_message("s", place) for place in (1, 0, -1, 1)]
    assert [one and one.content for one in gone] == ["d", "c", None, None]


# --- what a turn costs: calls of the embedder, and the texts it is given


async def test_the_state_of_a_workflow_stays_out_of_the_history(memory):
    made, agent = ann(memory), FunctionAgent(name="only", llm=Toolbot(), tools=[])
    team = AgentWorkflow(agents=[agent], root_agent="only", initial_state={"calm": True})
    await team.run("Rex is ill.", memory=made)
    assert "calm" in agent.llm.prompts[0]
    assert made.get_all()[0].content == "Rex is ill."


async def test_a_turn_encodes_its_question_and_its_messages_by_two_calls():
    embedder = WatchedEmbedder()
    memory = open_memory(embedder=embedder)
    memory.info()  # finds the thresholds of the embedder, once
    made, llm = ann(memory, evolve=False), Chatbot("Answer 0: well done.", "Answer 1: well done.")
    simple = SimpleChatEngine.from_defaults(memory=made, llm=llm)
    look = FunctionTool.from_defaults(lambda: "It rains.", name="look", description="Looks.")
    agent = FunctionAgent(llm=Toolbot(("look", {}), answer="There."), tools=[look])
    asks = simple.achat, simple.chat, lambda text: agent.run(text, memory=made)
    for n, ask in enumerate(asks):
        embedder.calls.clear()
        asked = ask(f"Did I plant tree number {n} in the garden?")
        if inspect.isawaitable(asked):
            await asked
        assert [len(texts) for texts in embedder.calls] == [1, 2]
    assert None not in [hit.similarity for hit in memory.search("tree", namespace=ANN)]


# --- how notes evolve


def turn(chat_memory: AMemMemory, said: str = "My dog is called Rex.") -> None:
    chat_memory.put(user(said))
    chat_memory.put(assistant("A fine name."))


def test_in_the_background_a_slow_model_keeps_nobody_waiting():
    gate, entered = threading.Event(), threading.Event()

    def waiting(request: Any) -> Any:
        entered.set()
        assert gate.wait(10)
        return annotated(request)

    memory = open_memory(ScriptedModel(waiting))
    turn(ann(memory))
    assert entered.wait(10)
    assert states(memory) == {"pending"}
    assert "Rex" in shown(ann(memory, evolve=False).get(input="What is my dog called?"))

    gate.set()
    memory.flush(timeout=10)
    assert states(memory) == {"done"}


def test_turned_off_notes_are_left_to_a_later_evolve_or_a_worker(memory):
    turn(ann(memory, evolve=False))
    spec = AMemToolSpec(memory, ANN, evolve=False)
    spec.remember("Rex likes the sea.")
    spec.correct(memory.get_all(namespace=ANN)[-1].id, "Rex fears the sea.")
    memory.flush(timeout=10)
    assert states(memory) == {"pending"}

    assert memory.work(once=True).done == 3
    assert states(memory) == {"done"}


def test_each_message_is_remembered_as_it_is_put_and_evolves_when_it_is_answered(memory):
    made, message = ann(memory), user("My dog is called Rex.")
    made.put(message)
    assert (contents(memory), message.additional_kwargs) == (["My dog is called Rex."], {})
    memory.flush(timeout=10)
    made.put(calling("look", {}, "Wait."))
    memory.flush(timeout=10)
    assert states(memory) == {"pending"}
    made.put(assistant("A fine name."))
    memory.flush(timeout=10)
    assert states(memory) == {"done"}


def test_a_block_that_does_not_remember_only_recalls(memory):
    memory.add("My dog is called Rex.", namespace=ANN)
    made = ann(memory, remember=False)

    turn(made, "Where do I live?")

    assert contents(memory) == ["My dog is called Rex."]
    assert "Rex" in shown(made.get(input="What is my dog called?"))
