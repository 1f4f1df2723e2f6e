from __future__ import annotations

import pytest
from support import models

from amem_integrations import InvalidInputError
from amem_integrations.conversation import message_key

ANN = ("ann",)
CHAT = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "Hello"},
    {"role": "assistant", "content": ""},
    {"role": "assistant", "content": None, "tool_calls": [{}]},
    {"role": "tool", "content": "42"},
    {
        "role": "assistant",
        "content": ["Hi", {"type": "text", "text": "there!"}, {"type": "image_url"}],
    },
    {"role": "user", "content": "ok", "name": "Ann"},
    {"role": "user", "content": "ok", "name": "Ann"},
]


def test_each_message_with_text_of_a_wanted_role_becomes_a_note(memory):
    notes = memory.add_messages(CHAT, namespace=ANN, thread="t")
    assert [(n.speaker, n.source, n.content) for n in notes] == [
        ("user", "user", "Hello"),
        ("assistant", "assistant", "Hi\nthere!"),
        ("Ann", "user", "ok"),
        ("Ann", "user", "ok"),
    ]
    assert {note.thread for note in notes} == {"t"}


def test_a_conversation_delivered_again_adds_nothing_and_a_repeat_within_it_is_kept(memory):
    memory.add_messages(CHAT[:-1], namespace=ANN, thread="t")
    memory.add_messages(CHAT, namespace=ANN, thread="t")
    assert memory.stats()["notes"] == 4
    # A message is known by thread, role and its own id.
    for count, known in ((5, "m1"), (6, 0)):
        for text in ("Meet at 5", "Meet at 6"):
            chat = [{"id": known, "role": "user", "content": text}]
            (note,) = memory.add_messages(chat, namespace=ANN)
            assert (note.key, note.content) == (message_key(None, "user", str(known)), text)
            assert memory.stats()["notes"] == count


def test_the_caller_says_what_is_stored(memory):
    for roles, count in ((("user",), 1), (("human", "Assistant"), 2)):
        notes = memory.add_messages(
            CHAT, namespace=ANN, roles=roles, should_store=lambda m: m["content"] != "ok"
        )
        assert [note.content for note in notes] == ["Hello", "Hi\nthere!"][:count]
    talk = [{"role": "user", "content": "Yes", "name": name} for name in ("Bob", "Ann")]
    for who in ("Ann", "Bob"):
        memory.add_messages(talk, namespace=("c",), should_store=lambda m, w=who: m["name"] == w)
    assert memory.stats(namespace=("c",))["notes"] == 2
    same = [{"role": role, "content": "Hello"} for role in ("system", "user", "developer")]
    for _ in range(2):
        memory.add_messages(same, namespace=("bob",), roles=("system", "user", "developer"))
        assert memory.stats(namespace=("bob",))["notes"] == 3


def test_what_is_no_message_is_refused_and_nothing_stored(memory):
    for message in ("hello", {"content": "x"}, {"role": "user", "content": 5}):
        with pytest.raises(InvalidInputError, match="message"):
            memory.add_messages([CHAT[1], message], namespace=ANN)
    for wrong in ({"thread": 42}, {"roles": None}, {"roles": "user"}):
        with pytest.raises(InvalidInputError, match=next(iter(wrong))):
            memory.add_messages(CHAT, namespace=ANN, **wrong)
    assert memory.stats()["notes"] == 0


def test_of_a_message_over_the_limit_the_beginning_is_stored_with_a_warning(caplog):
    with models.opened(max_content_chars=100) as memory:
        chat = [{"role": "user", "content": "Hello"}, {"role": "user", "content": "so " * 100}]
        notes = memory.add_messages(chat, namespace=ANN, thread="t")
        assert [note.content for note in notes] == ["Hello", ("so " * 100)[:100]]
        (warned,) = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
        assert "first 100 (MemoryConfig.max_content_chars)" in warned
        assert memory.add_messages(chat, namespace=ANN, thread="t") == notes
        # What is cut to the same words is said twice; what is nothing but characters that no store takes was not said.
        texts = ("so " * 100, "so " * 99, "\0", "a\0", "a")
        chat = [{"role": "user", "content": text} for text in texts]
        notes = memory.add_messages(chat, namespace=ANN, thread="u")
        assert [note.content for note in notes] == [("so " * 100)[:100]] * 2 + ["a"] * 2
        assert memory.stats(namespace=ANN)["notes"] == 6
