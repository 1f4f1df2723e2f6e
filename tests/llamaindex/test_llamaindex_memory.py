"""`AMemMemory`: what a chat engine or an agent gets as `memory=`."""

from __future__ import annotations

import asyncio
import pickle
import warnings
from contextlib import suppress
from typing import Any

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.memory import InsertMethod, Memory, StaticMemoryBlock
from llama_index.core.memory.memory import DEFAULT_MEMORY_BLOCKS_TEMPLATE
from llama_index.core.prompts import RichPromptTemplate
from llama_index.core.storage.chat_store.base_db import MessageStatus
from llama_index.core.workflow import (
    Context,
    HumanResponseEvent,
    InputRequiredEvent,
    JsonPickleSerializer,
    JsonSerializer,
)
from llamaindex_fakes import (
    ANN,
    BOB,
    Chatbot,
    Toolbot,
    assistant,
    user,
    with_types,
)

from amem_integrations import (
    AgenticMemory,
    NamespaceError,
)
from llamaindex_amem import AMemMemory


def ann(memory: AgenticMemory, **options: Any) -> AMemMemory:
    return AMemMemory.from_defaults(memory=memory, user_id="ann", **options)


def contents(memory: AgenticMemory, namespace: tuple[str, ...] = ANN) -> list[str]:
    return [note.content for note in memory.get_all(namespace=namespace)]


def text(messages: list[ChatMessage]) -> str:
    return "\n".join(f"{message.role.value}: {message.content}" for message in messages)


# --- making one


def test_it_is_a_memory(memory):
    made = ann(memory)

    assert isinstance(made, Memory)
    assert [base.__name__ for base in AMemMemory.__mro__].index("BaseMemory") > 0
    assert AMemMemory.class_name() == "AMemMemory"


def test_a_missing_user_is_an_error_that_says_so(memory):
    with pytest.raises(NamespaceError, match=r"user_id=None .* no shared default"):
        AMemMemory.from_defaults(memory=memory)


def test_a_user_that_names_nobody_or_two_is_an_error(memory):
    for whose in [{"user_id": ""}, {"namespace": ()}, {"user_id": "ann", "namespace": ("ann",)}]:
        with pytest.raises(NamespaceError):
            AMemMemory.from_defaults(memory=memory, **whose)


def test_made_without_its_block_it_says_how_to_make_it():
    with pytest.raises(ValueError, match=r"AMemMemory.from_defaults\(memory=…, user_id=…\)"):
        AMemMemory(token_limit=100).put(user("Hello"))


def test_options_reach_the_memory_and_the_block(memory):
    static = StaticMemoryBlock(name="profile", static_content="Ann is a nurse.")
    made = ann(memory, session_id="s", token_limit=500, memory_blocks=[static], k=3, evolve=False)

    assert (made.session_id, made.token_limit) == ("s", 500)
    assert (made.block.k, made.block.evolve) == (3, False)
    assert "Ann is a nurse." in text(made.get(input="Who am I?"))


def test_a_template_of_ones_own_is_used(memory):
    memory.add("My dog is called Rex.", namespace=ANN)
    template = "Known: {% for name, content in memory_blocks %}{{ name }}{% endfor %}!"
    made = ann(memory, memory_blocks_template=RichPromptTemplate(template))

    assert made.get(input="What is my dog called?")[0].content == "Known: long_term_memory!"


# --- writing


def test_every_message_is_remembered_as_it_is_put(memory):
    made = ann(memory)
    made.put(user("My dog is called Rex."))
    assert contents(memory) == ["My dog is called Rex."]

    made.put(assistant("A fine name."))

    assert contents(memory) == ["My dog is called Rex.", "A fine name."]
    memory.flush(timeout=10)
    assert {note.state for note in memory.get_all(namespace=ANN)} == {"done"}


async def test_messages_are_not_changed_by_being_remembered(memory):
    message = user("My dog is called Rex.")

    await ann(memory, session_id="s").aput(message)

    assert message.additional_kwargs == {}


def test_saying_the_same_twice_makes_two_notes(memory):
    made = ann(memory, session_id="s")
    made.put_messages([user("yes"), assistant("Sure?"), user("yes")])

    assert contents(memory) == ["yes", "Sure?", "yes"]


def test_history_that_is_given_is_not_remembered_unless_asked_for(memory):
    history = [user("My dog is called Rex."), assistant("A fine name.")]
    made = ann(memory, chat_history=history, session_id="s")
    assert len(made.get_all()) == 2
    assert contents(memory) == []

    for _ in range(2):
        ann(memory, chat_history=history, session_id="s", ingest_history=True)

    assert contents(memory) == ["My dog is called Rex.", "A fine name."]


def test_a_stateless_server_stores_each_message_once(memory):
    history: list[ChatMessage] = []
    for n in range(4):
        made = ann(memory, session_id="s", token_limit=60, ingest_history=True)
        engine = SimpleChatEngine.from_defaults(memory=made, llm=Chatbot(f"Noted {n}."))
        engine.chat(f"I planted tree number {n}.", chat_history=list(history))
        history += [user(f"I planted tree number {n}."), assistant(f"Noted {n}.")]

    assert contents(memory) == [message.content for message in history]


# --- recalling


def test_sessions_share_what_is_remembered_and_users_do_not(memory):
    ann(memory, session_id="one").put(user("My dog is called Rex."))
    bob = AMemMemory.from_defaults(memory=memory, user_id="bob", session_id="one")

    assert "Rex" in text(ann(memory, session_id="two").get(input="What is my dog called?"))
    assert "Rex" not in text(bob.get(input="What is my dog called?"))
    assert contents(memory, BOB) == []


@pytest.mark.parametrize("method", list(InsertMethod))
def test_an_insert_method_that_is_given_is_kept(memory, method):
    memory.add("My dog is called Rex.", namespace=ANN)
    made = ann(memory, insert_method=method)
    made.put(user("What is my dog called?"))

    (found,) = [m.role.value for m in made.get() if "Rex" in (m.content or "")]

    assert found == method.value


def test_a_question_may_be_a_message(memory):
    memory.add("My dog is called Rex.", namespace=ANN)

    assert "Rex" in text(ann(memory).get(input=user("What is my dog called?")))


# --- several tasks and threads


async def test_conversations_at_the_same_time_store_each_message_once(memory):
    made = ann(memory, token_limit=60, evolve=False)

    async def talk(name: str) -> None:
        for n in range(5):
            await made.aput(user(f"{name} planted tree {n}"))
            await made.aput(assistant(f"Noted {n}, {name}."))

    await asyncio.gather(*(talk(name) for name in "abcd"))

    assert len(contents(memory)) == len(set(contents(memory))) == 40


async def test_many_sessions_may_be_the_first_to_use_a_fresh_file(memory, tmp_path):
    uri = f"sqlite+aiosqlite:///{tmp_path}/chat.db"

    def session(n: int) -> AMemMemory:
        return ann(memory, session_id=f"s{n % 3}", async_database_uri=uri, evolve=False)

    made = [session(n) for n in range(3)]
    await asyncio.gather(
        *(made[n % 3].aput(user(f"fact {n}")) for n in range(9)),
        *(asyncio.to_thread(lambda n=n: session(n).put(user(f"fact {n}"))) for n in range(9, 15)),
    )

    assert sorted(contents(memory)) == sorted(f"fact {n}" for n in range(15))
    assert [len(one.get_all()) for one in made] == [5, 5, 5]


async def test_a_synchronous_call_beside_a_waiting_task_gets_through(memory):
    made = ann(memory)
    await made.aput(user("zero"))
    waiting = asyncio.create_task(made.aput(user("one")))
    await asyncio.sleep(0)

    made.put(user("two"))
    await waiting

    assert sorted(contents(memory)) == ["one", "two", "zero"]
    assert len(made.get_all()) == 3


# --- state and resume


async def test_a_stored_context_is_resumed_with_the_memory_made_again(memory, tmp_path):
    uri = f"sqlite+aiosqlite:///{tmp_path}/chat.db"
    agent = FunctionAgent(llm=Toolbot())
    context = Context(agent)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = ann(memory, session_id="s", async_database_uri=uri)
        await agent.run("My dog is called Rex.", ctx=context, memory=made)
        stored = context.to_dict(serializer=JsonSerializer())

        llm = Toolbot()
        again = FunctionAgent(llm=llm)
        resumed = Context.from_dict(again, stored, serializer=JsonSerializer())
        made = ann(memory, session_id="s", async_database_uri=uri)
        await again.run("What did I just say?", ctx=resumed, memory=made)

    assert "user: My dog is called Rex." in llm.prompts[0]
    assert len(made.get_all()) == 4


async def test_a_resumed_handler_is_given_the_memory_by_its_store(memory, tmp_path):
    @with_types
    async def ask(ctx: Context, question: str) -> str:
        """Ask the user."""
        answer = await ctx.wait_for_event(
            HumanResponseEvent, waiter_event=InputRequiredEvent(prefix=question)
        )
        return str(answer.response)

    def session() -> AMemMemory:
        uri = f"sqlite+aiosqlite:///{tmp_path}/chat.db"
        return ann(memory, session_id="s", async_database_uri=uri)

    agent = FunctionAgent(llm=Toolbot(("ask", {"question": "Which dog?"})), tools=[ask])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # says that the memory is not kept in the context
        handler = agent.run("My dog is ill.", memory=session())
        async for event in handler.stream_events():
            if isinstance(event, InputRequiredEvent):
                stored = handler.ctx.to_dict(serializer=JsonSerializer())
                await handler.cancel_run()
                break

        agent = FunctionAgent(llm=Toolbot(answer="Poor Rex."), tools=[ask])
        context = Context.from_dict(agent, stored, serializer=JsonSerializer())
        handler = agent.run(ctx=context)
        await handler.ctx.store.set("memory", session())
        handler.ctx.send_event(HumanResponseEvent(response="Rex"))
        answer = str(await handler)

    assert answer == "Poor Rex."
    assert contents(memory)[0] == "My dog is ill."
    assert contents(memory)[-1] == "Poor Rex."


@pytest.mark.parametrize("pickled", ["alone", "in a context"])
async def test_a_pickle_is_refused_and_the_memory_stays_whole(memory, pickled):
    made, agent = ann(memory, session_id="s"), FunctionAgent(llm=Toolbot())
    if pickled == "alone":
        for one in (made, made.block):
            with pytest.raises(TypeError, match=f"{type(one).__name__} cannot be .*make it again"):
                pickle.dumps(one)
    else:
        context = Context(agent)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            await agent.run("Hello", ctx=context, memory=made)
            await context.store.set("memory", made)
            context.to_dict(serializer=JsonPickleSerializer())

    await agent.run("My dog is called Rex.", memory=made)

    assert contents(memory)[-2:] == ["My dog is called Rex.", "Done."]
    assert "Rex" in text(await ann(memory).aget(input="What is my dog called?"))


async def test_a_put_that_is_cancelled_leaves_nothing_in_the_history_that_is_not_remembered(memory):
    made = ann(memory, session_id="s", evolve=False)
    await made.aput(user("Hello"))
    for n in range(40):
        putting = asyncio.create_task(made.aput(user(f"I planted tree number {n}.")))
        await asyncio.sleep(n / 4000)
        putting.cancel()
        with suppress(asyncio.CancelledError):
            await putting
    await made.aput(assistant("Well done."))

    history = [message.content for message in await made.aget_all()]
    assert set(history) <= set(contents(memory))
    assert len(contents(memory)) == len(set(contents(memory)))


async def test_the_history_in_the_process_is_the_one_of_a_sql_store(memory, tmp_path):
    uri = f"sqlite+aiosqlite:///{tmp_path}/chat.db"
    both = [ann(memory).sql_store, ann(memory, async_database_uri=uri).sql_store]
    active, archived = MessageStatus.ACTIVE, MessageStatus.ARCHIVED
    found = []
    for one in both:
        await one.add_message("s", user("zero"))
        await one.set_messages("s", [user(f"message {n}") for n in range(6)])
        await one.add_messages("t", [user("Elsewhere.")])
        (shown, *_) = await one.get_messages("s")
        shown.blocks = []
        shown.additional_kwargs["session_id"] = "s"
        taken = [
            await one.archive_oldest_messages("s", 2),
            await one.delete_oldest_messages("s", 1),
            await one.archive_oldest_messages("u", 3),
        ]
        rest = [
            await one.get_messages("s", status, limit, offset)
            for status, limit, offset in [
                (active, None, None),
                (archived, None, None),
                (None, 2, 1),
                (active, 9, 5),
            ]
        ]
        counted = [await one.count_messages("s", status) for status in (active, archived, None)]
        keys = [key for key in await one.get_keys() if await one.count_messages(key, None)]
        assert await one.delete_message("s", 999) is None
        await one.delete_messages("s", archived)
        left = await one.get_messages("s", None)
        await one.delete_messages("s")
        found.append((taken, rest, counted, sorted(keys), left, await one.get_messages("s", None)))

    assert found[0] == found[1]
    assert found[0][2] == [3, 2, 5]


def test_blocks_of_text_stand_in_the_prompt_as_by_the_framework(memory):
    memory.add("My dog is called Rex.", namespace=ANN)
    static = StaticMemoryBlock(name="profile", static_content="Ann is a nurse.")
    prompts = [
        text(ann(memory, memory_blocks=[static], **options).get(input="Who is Rex?")).split()
        for options in ({}, {"memory_blocks_template": DEFAULT_MEMORY_BLOCKS_TEMPLATE})
    ]

    assert prompts[0] == prompts[1]
    assert prompts[0].count("nurse.") == prompts[0].count("Rex.") == 1
