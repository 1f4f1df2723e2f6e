"""What is recalled for a turn: facts, whatever was asked and chatted before; nothing where nothing fits."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from llamaindex_fakes import ANN, assistant, user
from support import chatter

from amem_integrations import AgenticMemory
from amem_integrations.providers.minilm import MiniLmEmbedder
from llamaindex_amem import AMemMemory, AMemRetriever


@pytest.fixture(scope="module")
def embedder() -> MiniLmEmbedder:
    return MiniLmEmbedder()


@pytest.fixture
def memory(embedder: MiniLmEmbedder) -> Iterator[AgenticMemory]:
    with AgenticMemory.open(":memory:", embedder=embedder) as opened:
        opened.add(chatter.FACT, namespace=ANN, thread="0", speaker="user")
        yield opened


def chat(memory: AgenticMemory, asked: str, answer: str = chatter.UNKNOWN, **options: int) -> str:
    """Run one turn in a new session, and return what is recalled for it."""
    session = f"session {len(memory.get_all(namespace=ANN, limit=1000))}"
    chatting = AMemMemory.from_defaults(memory=memory, namespace=ANN, session_id=session, **options)
    chatting.put(user(asked))
    shown = "\n".join(str(message.content) for message in chatting.get())
    chatting.put(assistant(answer))
    return shown


def first_three(memory: AgenticMemory) -> list[str]:
    found = AMemRetriever(memory, ANN, k=3).retrieve(chatter.QUESTION)
    return [each.node.get_content() for each in found]


def test_a_question_asked_twenty_times_does_not_bury_the_fact(memory):
    for _ in range(20):
        assert "Rex" in chat(memory, chatter.QUESTION)
    assert chatter.FACT in first_three(memory)
    assert "Rex" in chat(memory, chatter.QUESTION, k=3)


def test_a_follow_up_is_searched_with_the_messages_before_the_question(memory):
    memory.add("nina's wedding is on 12 july at the mill", namespace=ANN, thread="x")
    memory.add_many(
        [f"{what} is on {day} {month}" for what in EVENTS for day, month in DAYS], namespace=ANN
    )
    shown = []
    for window in (0, 3):
        chatting = AMemMemory.from_defaults(
            memory=memory, namespace=ANN, session_id=f"w{window}", k=5, window=window
        )
        chatting.put(user("Nina sent us the invitation to her wedding."))
        chatting.put(assistant("How exciting!"))
        chatting.put(user("And when is it?"))
        shown.append("12 july" in "\n".join(str(m.content) for m in chatting.get()))
    assert shown == [False, True]


EVENTS = ("the concert", "the exam", "our flight", "the match", "the market", "the fair")
DAYS = ((3, "may"), (5, "june"), (8, "august"), (19, "march"), (21, "april"), (30, "october"))
