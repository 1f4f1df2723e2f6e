"""What is recalled for a follow-up, by the default embedder."""

from __future__ import annotations

import pytest
from llamaindex_fakes import ANN, assistant, user

from amem_integrations import AgenticMemory
from amem_integrations.providers.minilm import MiniLmEmbedder
from llamaindex_amem import AMemMemory


@pytest.fixture
def memory():
    with AgenticMemory.open(":memory:", embedder=MiniLmEmbedder()) as opened:
        yield opened


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
