"""What a run said that failed or was blocked, and answers that were given twice."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, PIIMiddleware
from langchain.agents.middleware.types import hook_config
from langchain_core.messages import AIMessage, HumanMessage
from langchain_kit import ANN, BOB, Contents, Talker, User, oslo, sequence, system_text, user
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import MessagesState

from amem_integrations import AgenticMemory
from langchain_amem import AMemMiddleware, MemoryState, recall_node, remember_node

CARD = "4242 4242 4242 4242"
PAYING = f"Please pay with {CARD}."


def thread(name: str) -> Any:
    return {"configurable": {"thread_id": name}}


def ask(text: str) -> Any:
    return {"messages": [HumanMessage(text)]}


class Refusing(AgentMiddleware[Any, Any, Any]):
    """Ends a run before it has begun, with an answer of its own."""

    @hook_config(can_jump_to=["end"])
    def before_agent(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        if CARD not in state["messages"][-1].text:
            return None
        return {"messages": [AIMessage("I cannot take that.")], "jump_to": "end"}


def built(memory: AgenticMemory, guard: Any, model: Talker | None = None, **options: Any) -> Any:
    return create_agent(
        model or Talker(answer=oslo, seen=[]),
        [],
        middleware=[guard, AMemMiddleware(memory, namespace=user, **options)],
        context_schema=User,
        checkpointer=InMemorySaver(),
    )


def pii(where: str = "input") -> PIIMiddleware:
    options: Any = {"apply_to_input": where == "input", "apply_to_output": where == "output"}
    return PIIMiddleware("credit_card", strategy="block", **options)


@pytest.mark.parametrize("who", ["ann", "bob"])
def test_what_a_blocked_run_said_is_in_no_note_and_no_later_prompt(
    memory: AgenticMemory, contents: Contents, who: str
) -> None:
    model = Talker(answer=oslo, seen=[])
    agent = built(memory, pii(), model, remember_unanswered=False)
    with pytest.raises(Exception, match="credit_card"):
        agent.invoke(ask(PAYING), thread("1"), context=User("ann"))
    agent.invoke(ask("I moved to Oslo."), thread("1"), context=User(who))
    agent.invoke(ask("How did I pay?"), thread("2"), context=User("ann"))
    assert not any(CARD in text for text in (*contents(ANN), *contents(BOB)))
    assert CARD not in system_text(model.seen[-1])
    assert "I moved to Oslo." in contents((who,))


def test_all_messages_of_one_input_are_remembered_and_none_of_a_failed_run_before(
    memory: AgenticMemory, contents: Contents
) -> None:
    agent = built(memory, pii(), remember_unanswered=False)
    with pytest.raises(Exception, match="credit_card"):
        agent.invoke(ask(PAYING), thread("1"), context=User("ann"))
    said = ["I moved to Oslo.", "I have a dog."]
    agent.invoke(
        {"messages": [HumanMessage(text) for text in said]}, thread("1"), context=User("ann")
    )
    assert [text for text in contents(ANN) if text in (PAYING, *said)] == said


async def test_by_default_it_is_stored_with_the_next_run(
    memory: AgenticMemory, contents: Contents
) -> None:
    agent = built(memory, pii())
    with pytest.raises(Exception, match="credit_card"):
        await agent.ainvoke(ask(PAYING), thread("1"), context=User("ann"))
    await agent.ainvoke(ask("I moved to Oslo."), thread("1"), context=User("ann"))
    assert contents(ANN)[:2] == [PAYING, "I moved to Oslo."]


def test_a_blocked_answer_is_left_out_too(memory: AgenticMemory, contents: Contents) -> None:
    replies = iter([f"Your card is {CARD}.", "I see."])
    model = Talker(answer=lambda _: next(replies))
    agent = built(memory, pii("output"), model, remember_unanswered=False)
    with pytest.raises(Exception, match="credit_card"):
        agent.invoke(ask("What is my card?"), thread("1"), context=User("ann"))
    agent.invoke(ask("I moved to Oslo."), thread("1"), context=User("ann"))
    assert contents(ANN) == ["What is my card?", "I moved to Oslo.", "I see."]


@pytest.mark.parametrize("unanswered", [True, False])
def test_a_run_that_a_middleware_before_it_ends_is_remembered_only_if_that_is_wanted(
    memory: AgenticMemory, contents: Contents, unanswered: bool
) -> None:
    agent = built(memory, Refusing(), remember_unanswered=unanswered)
    for text in (PAYING, "I moved to Oslo.", PAYING):
        agent.invoke(ask(text), thread("1"), context=User("ann"))
    asked = [text for text in contents(ANN) if text in (PAYING, "I moved to Oslo.")]
    assert asked == ([PAYING, "I moved to Oslo.", PAYING] if unanswered else ["I moved to Oslo."])


class Talk(MessagesState, MemoryState):
    """A conversation with a memory."""


def graph(memory: AgenticMemory, answer: Any, recalls: bool, **options: Any) -> Any:
    steps = {"recall": recall_node(memory, namespace=user)} if recalls else {}
    remember = remember_node(memory, namespace=user, **options)
    return sequence(Talk, **steps, answer=answer, remember=remember)


@pytest.mark.parametrize("recalls", [True, False])
def test_nodes_leave_out_what_a_failed_run_said(
    memory: AgenticMemory, contents: Contents, recalls: bool
) -> None:
    def answer(state: Any) -> Any:
        if CARD in state["messages"][-1].text:
            raise ConnectionError("no answer")
        return {"messages": [AIMessage("I see.")]}

    talk = graph(memory, answer, recalls, remember_unanswered=False)
    for text in ("Hello.", PAYING, "I moved to Oslo."):
        try:
            talk.invoke(ask(text), thread("1"), context=User("ann"))
        except ConnectionError:
            assert text == PAYING
    assert contents(ANN) == ["Hello.", "I see.", "I moved to Oslo.", "I see."]


@pytest.mark.parametrize("same", [True, False], ids=["in the same words", "in others"])
def test_an_answer_that_was_given_again_is_stored_once(
    memory: AgenticMemory, contents: Contents, same: bool
) -> None:
    node = remember_node(memory, namespace=ANN)
    question = HumanMessage("Where do I live?", id="q")
    earlier = [HumanMessage("I moved to Oslo.", id="p"), AIMessage("Nice.", id="a")]
    node.invoke({"messages": earlier}, thread("1"))
    for number, text in enumerate(("In Oslo.", "In Oslo." if same else "You live in Oslo.")):
        # A run that is resumed asks the model again, and the answer has another id.
        reply = AIMessage(text, id=f"run-{number}")
        node.invoke({"messages": [*earlier, question, reply]}, thread("1"))
        node.invoke({"messages": [*earlier, question, reply]}, thread("1"))
    assert contents(ANN) == ["I moved to Oslo.", "Nice.", "Where do I live?", text]


def test_several_answers_to_one_question_are_all_kept(
    memory: AgenticMemory, contents: Contents
) -> None:
    node = remember_node(memory, namespace=ANN)
    said: list[Any] = [HumanMessage("Where do I live?", id="q"), AIMessage("Let me see.", id="1")]
    node.invoke({"messages": said}, thread("1"))
    node.invoke({"messages": [*said, AIMessage("In Oslo.", id="2")]}, thread("1"))
    assert contents(ANN) == ["Where do I live?", "Let me see.", "In Oslo."]
