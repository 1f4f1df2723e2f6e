"""What is recalled for a turn: facts, whatever was asked and chatted before; nothing where nothing fits."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_kit import ANN, Talker, system_text
from support import chatter

from amem_integrations import AgenticMemory
from amem_integrations.providers.minilm import MiniLmEmbedder
from langchain_amem import AMemMiddleware, AMemRetriever


@pytest.fixture(scope="module")
def embedder() -> MiniLmEmbedder:
    return MiniLmEmbedder()


@pytest.fixture
def memory(embedder: MiniLmEmbedder) -> Iterator[AgenticMemory]:
    with AgenticMemory.open(":memory:", embedder=embedder) as opened:
        opened.add(chatter.FACT, namespace=ANN, thread="0", speaker="user")
        yield opened


def chat(memory: AgenticMemory, asked: str, answer: str = chatter.UNKNOWN, **options: int) -> str:
    """Run one turn in a new thread, and return what the model was shown of the memory."""
    model = Talker(answer=lambda _: answer)
    agent = create_agent(model, [], middleware=[AMemMiddleware(memory, namespace=ANN, **options)])
    chat.threads += 1
    config = {"configurable": {"thread_id": str(chat.threads)}}
    agent.invoke({"messages": [HumanMessage(asked)]}, config)
    return system_text(model.seen[0])


chat.threads = 0


def first_three(memory: AgenticMemory) -> list[str]:
    retriever = AMemRetriever(memory=memory, namespace=ANN, k=3)
    return [document.page_content for document in retriever.invoke(chatter.QUESTION)]


def test_twenty_paraphrases_of_a_question_do_not_bury_the_fact(memory):
    for asked in chatter.PARAPHRASES:
        chat(memory, asked)
    assert chatter.FACT in first_three(memory)
    assert "Rex" in chat(memory, chatter.QUESTION, k=3)


def test_small_talk_on_the_subject_does_not_bury_the_fact(memory):
    for said, answered in chatter.SMALL_TALK:
        chat(memory, said, answered)
    assert chatter.FACT in first_three(memory)
    assert "Rex" in chat(memory, chatter.QUESTION, k=3)


def test_what_a_visible_message_says_is_not_recalled_as_well(memory):
    assert chatter.FACT not in chat(memory, chatter.FACT)


def test_a_follow_up_is_searched_with_the_messages_before_the_question(memory):
    memory.add("nina's wedding is on 12 july at the mill", namespace=ANN, thread="x")
    memory.add_many(
        [f"{what} is on {day} {month}" for what in EVENTS for day, month in DAYS], namespace=ANN
    )
    said = [
        HumanMessage("Nina sent us the invitation to her wedding."),
        AIMessage("How exciting!"),
        HumanMessage("And when is it?"),
    ]
    shown = []
    for window in (0, 3):
        model = Talker(answer=lambda _: "I see.")
        middleware = AMemMiddleware(memory, namespace=ANN, k=5, window=window)
        agent = create_agent(model, [], middleware=[middleware])
        agent.invoke({"messages": said}, {"configurable": {"thread_id": f"w{window}"}})
        shown.append("12 july" in system_text(model.seen[0]))
    assert shown == [False, True]


EVENTS = ("the concert", "the exam", "our flight", "the match", "the market", "the fair")
DAYS = ((3, "may"), (5, "june"), (8, "august"), (19, "march"), (21, "april"), (30, "october"))
