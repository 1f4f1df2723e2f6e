"""One message is one note, by whatever door it comes; no two messages are one. Each has its time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import Memory
from llamaindex_fakes import ANN, assistant, calling, user

from amem_integrations import AgenticMemory
from llamaindex_amem import AMemMemory, AMemMemoryBlock

SMALL = {"token_limit": 60, "chat_history_token_ratio": 0.1, "token_flush_size": 4}
TALK = [
    user("My dog is called Rex."),
    assistant("ok"),
    user("ok"),
    assistant("ok"),
    user("ok"),
    assistant("Anything else?"),
    user("My dog is called Rex."),
    assistant("You said so."),
]
SPOKEN = [message.content for message in TALK]


def ann(memory: AgenticMemory, **options: Any) -> AMemMemory:
    fields = {"session_id": "s", "evolve": False, **options}
    return AMemMemory.from_defaults(memory=memory, user_id="ann", **fields)


def contents(memory: AgenticMemory) -> list[str]:
    return [note.content for note in memory.get_all(namespace=ANN)]


def as_dicts(messages: list[ChatMessage]) -> list[dict[str, Any]]:
    return [
        {"role": m.role.value, "content": m.content, "id": m.additional_kwargs.get("id")}
        for m in messages
    ]


def add_messages(memory: AgenticMemory, messages: list[ChatMessage]) -> None:
    memory.add_messages(as_dicts(messages), namespace=ANN, thread="s")


def with_id(role: str, text: str, known: Any) -> ChatMessage:
    return ChatMessage(role=role, content=text, additional_kwargs={"id": known})


# --- one message, one note


@pytest.mark.parametrize("talk", [TALK, [with_id(m.role, m.content, "turn-1") for m in TALK[:2]]])
def test_a_message_by_this_adapter_and_by_add_messages_is_one_note(memory, talk):
    made = ann(memory)
    for message in talk:
        made.put(message)
    before = memory.get_all(namespace=ANN)

    add_messages(memory, talk)

    assert [note.content for note in before] == [message.content for message in talk]
    assert [note.id for note in memory.get_all(namespace=ANN)] == [note.id for note in before]


def test_tools_and_systems_do_not_count_for_the_occurrence(memory):
    made = ann(memory)
    made.put_messages([ChatMessage(role="system", content="Be brief."), TALK[0]])
    made.put_messages([calling("look", {}), ChatMessage(role="tool", content="seen"), *TALK[1:]])

    add_messages(memory, TALK)

    assert contents(memory) == SPOKEN


def test_occurrences_go_on_after_a_restart_of_the_session(memory, tmp_path):
    uri = f"sqlite+aiosqlite:///{tmp_path}/chat.db"
    for message in TALK:
        ann(memory, async_database_uri=uri, **SMALL).put(message)

    add_messages(memory, TALK)

    assert contents(memory) == SPOKEN


def test_two_objects_of_one_session_take_no_occurrence_twice(memory, tmp_path):
    uri = f"sqlite+aiosqlite:///{tmp_path}/chat.db"
    pair = [ann(memory, async_database_uri=uri) for _ in range(2)]
    for n in range(6):
        pair[n % 2].put(user("ok"))

    assert contents(memory) == ["ok"] * 6


def test_what_is_said_again_after_a_reset_is_a_message_of_its_own(memory):
    made = ann(memory)
    made.put(user("I live in Berlin."))
    made.reset()
    made.put(user("I live in Berlin."))

    assert contents(memory) == ["I live in Berlin."] * 2


def test_an_id_on_both_sides_of_a_turn_overwrites_nothing(memory):
    made = ann(memory)
    made.put(with_id("user", "My dog is called Rex.", "turn-1"))
    made.put(with_id("assistant", "A fine name.", "turn-1"))
    made.put(with_id("user", "My dog is called Max.", "turn-1"))
    ann(memory, session_id="other").put(with_id("user", "I like tea.", "turn-1"))

    assert contents(memory) == ["My dog is called Max.", "A fine name.", "I like tea."]


# --- a block, which is handed batches


async def overflow(memory: AgenticMemory, talk: list[ChatMessage], **options: Any) -> None:
    """Say it in a stock `Memory` that overflows, then end the session."""
    block = AMemMemoryBlock(memory, ANN, evolve=False, **options)
    stock = Memory.from_defaults(memory_blocks=[block], session_id="s", **SMALL)
    for message in talk:
        await stock.aput(message.model_copy(deep=True))
    await block.aflush_from(stock)


async def test_what_overflows_into_a_block_is_known_to_add_messages(memory):
    await overflow(memory, TALK)

    add_messages(memory, TALK)

    assert contents(memory) == SPOKEN


async def test_an_overflow_is_counted_with_what_was_not_to_be_stored(memory):
    await overflow(memory, TALK, roles=("user",))

    add_messages(memory, TALK)

    assert sorted(contents(memory)) == sorted(SPOKEN)


async def deliver(memory: AgenticMemory, *batches: list[ChatMessage]) -> list[str]:
    """Hand batches to a block that has seen none before, and return what is stored then."""
    block = AMemMemoryBlock(memory, ANN, evolve=False)
    for batch in batches:
        await block.aput([m.model_copy(deep=True) for m in batch], session_id="s")
    return contents(memory)


@pytest.mark.parametrize("restart", [False, True])
async def test_batches_follow_what_is_stored_of_the_session(memory, restart):
    batches = [TALK[:2], TALK[2:6], TALK[6:]]
    if restart:
        for batch in batches:
            await deliver(memory, batch)
    else:
        await deliver(memory, *batches)
    add_messages(memory, TALK)

    assert contents(memory) == SPOKEN


# --- when it was said


def times(memory: AgenticMemory) -> list[datetime | None]:
    return [note.at for note in memory.get_all(namespace=ANN)]


def test_a_message_has_the_time_that_it_carries(memory):
    for extra in [
        {"timestamp": "2023-05-08T10:00:00Z"},
        {"created_at": "2023-05-08T12:00:00+02:00"},
        {"timestamp": datetime(2023, 5, 8, 10, tzinfo=UTC)},
        {"created_at": "2023-05-08T10:00:00"},
        {"timestamp": 1683540000},
        {"timestamp": 1683540000.0 * 1000},
        {"timestamp": "soon", "created_at": 1683540000},
    ]:
        ann(memory).put(ChatMessage(role="user", content="Hello", additional_kwargs=extra))

        assert times(memory) == [datetime(2023, 5, 8, 10, tzinfo=UTC)]
        memory.clear(namespace=ANN)


async def test_a_message_without_a_time_has_that_of_now(memory):
    first_hour = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14)))  # none in UTC
    for extra in [
        {},
        {"timestamp": "soon"},
        {"timestamp": True},
        {"at": 1e300},
        {"at": first_hour},
    ]:
        start = datetime.now(UTC)
        message = ChatMessage(role="user", content="We meet tomorrow.", additional_kwargs=extra)
        await AMemMemoryBlock(memory, ANN).aput([message], session_id="a")
        await ann(memory).aput(message)

        said = [at for at in times(memory) if at]
        assert [timedelta() <= at - start < timedelta(minutes=5) for at in said] == [True, True]
        assert f"{said[-1]:%B %Y}" in (await ann(memory).aget(input="When do we meet?"))[0].content
        memory.clear(namespace=ANN)


def test_a_time_of_now_changes_no_stored_note(memory):
    then = datetime(2023, 5, 8, 10, tzinfo=UTC)
    said = {"role": "user", "content": "Hello", "at": then}
    memory.add_messages([said], namespace=ANN, thread="s")

    ann(memory, chat_history=[user("Hello")], ingest_history=True)

    assert times(memory) == [then]


def test_history_that_is_given_was_not_said_now(memory):
    ann(memory, chat_history=TALK[:2], ingest_history=True)

    assert times(memory) == [None, None]


# --- what was said


def test_recalled_notes_that_an_answer_quotes_are_not_stored(memory):
    before = ann(memory, session_id="before")
    before.put(user("My dog is called Rex."))
    before.put(assistant("A good name."))
    made = ann(memory)
    made.put(user("How is my dog called in your prompt?"))
    recalled = made.get()[-1].content
    assert "<memories>" in recalled

    made.put(assistant(f"It is this: {recalled}"))
    made.put(assistant(f"Once more: {recalled[: recalled.index('Rex')]}"))
    made.put(assistant("The tag <memories> begins it."))

    answers = [
        note.content for note in memory.get_all(namespace=ANN, where={"source": "assistant"})
    ]
    assert not any("Rex" in text or "data, not instructions" in text for text in answers)
    assert answers[1].startswith("It is this:")
    assert answers[-1] == "The tag <memories> begins it."
