"""One message is one note, by whatever door it comes; no two messages are one. Each has its time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import Memory
from llamaindex_fakes import ANN, ann, assistant, block_of, calling, contents, user

from amem_integrations import AgenticMemory
from llamaindex_amem import AMemMemory

SMALL = {"token_limit": 60, "chat_history_token_ratio": 0.1, "token_flush_size": 4}
SPOKEN = ["My dog is called Rex.", "ok", "ok", "ok", "ok", "Anything else?"]
SPOKEN += ["My dog is called Rex.", "You said so."]
TALK = [assistant(text) if n % 2 else user(text) for n, text in enumerate(SPOKEN)]


def session(memory: AgenticMemory, **options: Any) -> AMemMemory:
    return ann(memory, **{"session_id": "s", "evolve": False, **options})


def add_messages(memory: AgenticMemory, messages: list[ChatMessage] = TALK) -> None:
    dicts = [
        {"role": m.role.value, "content": m.content, "id": m.additional_kwargs.get("id")}
        for m in messages
    ]
    memory.add_messages(dicts, namespace=ANN, thread="s")


def said(role: str, text: str, **extra: Any) -> ChatMessage:
    return ChatMessage(role=role, content=text, additional_kwargs=extra)


# --- one message, one note


def test_a_message_by_this_adapter_and_by_add_messages_is_one_note(memory):
    with_ids = [said(m.role, m.content, id="turn-1") for m in TALK[:2]]
    between = [said("system", "Be brief."), calling("look", {}), said("tool", "seen")]
    for talk, unspoken in ((TALK, between), (with_ids, [])):
        made = session(memory)
        for message in [*unspoken, *talk[:1], *unspoken, *talk[1:]]:
            made.put(message)
        before = memory.get_all(namespace=ANN)

        add_messages(memory, talk)

        assert [note.content for note in before] == [message.content for message in talk]
        assert [note.id for note in memory.get_all(namespace=ANN)] == [n.id for n in before]
        memory.clear(namespace=ANN)


def test_occurrences_go_on_after_a_restart_and_beside_another_object(memory, tmp_path):
    uri = f"sqlite+aiosqlite:///{tmp_path}/chat.db"
    for message in TALK:
        session(memory, async_database_uri=uri, **SMALL).put(message)
    add_messages(memory)
    assert contents(memory) == SPOKEN

    pair = [session(memory, session_id="pair", async_database_uri=uri) for _ in range(2)]
    for n in range(6):
        pair[n % 2].put(user("yes"))
    assert contents(memory) == [*SPOKEN, *["yes"] * 6]


def test_what_is_said_again_after_a_reset_is_a_message_of_its_own(memory):
    made = session(memory)
    for _ in range(2):
        made.put(user("I live in Berlin."))
        made.reset()

    assert contents(memory) == ["I live in Berlin."] * 2


def test_an_id_on_both_sides_of_a_turn_overwrites_nothing(memory):
    made = session(memory)
    made.put(said("user", "My dog is called Rex.", id="turn-1"))
    made.put(said("assistant", "A fine name.", id="turn-1"))
    made.put(said("user", "My dog is called Max.", id="turn-1"))
    session(memory, session_id="other").put(said("user", "I like tea.", id="turn-1"))

    assert contents(memory) == ["My dog is called Max.", "A fine name.", "I like tea."]


# --- a block, which is handed batches


@pytest.mark.parametrize("roles", [("user", "assistant"), ("user",)])
async def test_what_overflows_into_a_block_is_known_to_add_messages(memory, roles):
    """Also what was not to be stored counts."""
    block = block_of(memory, evolve=False, roles=roles)
    stock = Memory.from_defaults(memory_blocks=[block], session_id="s", **SMALL)
    for message in TALK:
        await stock.aput(message.model_copy(deep=True))
    await block.aflush_from(stock)

    add_messages(memory)

    assert sorted(contents(memory)) == sorted(SPOKEN)
    assert len(roles) == 1 or contents(memory) == SPOKEN


# --- when it was said


def times(memory: AgenticMemory) -> list[datetime | None]:
    return [note.at for note in memory.get_all(namespace=ANN)]


TEN = datetime(2023, 5, 8, 10, tzinfo=UTC)


@pytest.mark.usefixtures("in_tokyo")
def test_a_message_has_the_time_that_it_carries(memory):
    for extra in [
        {"timestamp": "2023-05-08T10:00:00Z"},
        {"created_at": "2023-05-08T12:00:00+02:00"},
        {"timestamp": TEN},
        {"created_at": "2023-05-08T10:00:00"},
        {"timestamp": 1683540000},
        {"timestamp": 1683540000.0 * 1000},
        {"timestamp": "soon", "created_at": 1683540000},
    ]:
        session(memory).put(said("user", "Hello", **extra))

        assert times(memory) == [TEN]
        memory.clear(namespace=ANN)


async def test_a_message_without_a_time_has_that_of_now(memory):
    first_hour = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14)))  # none in UTC
    unusable = ({"timestamp": "soon"}, {"timestamp": True}, {"at": 1e300}, {"at": first_hour})
    for extra in ({}, *unusable):
        start = datetime.now(UTC)
        message = said("user", "We meet tomorrow.", **extra)
        await block_of(memory).aput([message], session_id="a")
        await session(memory).aput(message)

        ats = times(memory)
        assert [timedelta() <= at - start < timedelta(minutes=5) for at in ats] == [True, True]
        (recalled, *_) = await session(memory).aget(input="When do we meet?")
        assert f"{ats[-1]:%B %Y}" in recalled.content
        memory.clear(namespace=ANN)


# --- what was said


def test_recalled_notes_that_an_answer_quotes_are_not_stored(memory):
    before, made = session(memory, session_id="before"), session(memory)
    before.put_messages([user("My dog is called Rex."), assistant("A good name.")])
    made.put(user("How is my dog called in your prompt?"))
    recalled = made.get()[-1].content
    assert "<memories>" in recalled

    made.put(assistant(f"It is this: {recalled}"))
    made.put(assistant(f"Once more: {recalled[: recalled.index('Rex')]}"))
    made.put(assistant("The tag <memories> begins it."))

    _, _, _, first, *_, last = answers = contents(memory)
    assert not any("Rex" in text or "data, not instructions" in text for text in answers[3:])
    assert first.startswith("It is this:")
    assert last == "The tag <memories> begins it."
