"""What the tests of the LangChain adapter share: users, models and agents, and a store that fails."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    SystemMessage,
)
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import Field
from support.models import each

from amem_integrations.testing import ScriptedModel
from langchain_amem import AMemMiddleware, MemoryState, recall_node, remember_node

ANN = ("ann",)
BOB = ("bob",)


@dataclass
class User:
    """What an application passes as `context`."""

    user_id: str


def user(run):
    """Return the namespace of a run from its context."""
    return (run.context.user_id,)


class State(MessagesState, MemoryState):
    """A conversation, and what the memory adds to it."""

    plan: str


# Models


@each
def construct(note):
    """Give every note a context and keywords made of its own words."""
    words, context = note["content"].split(), f"It was said: {note['content']}"
    return {"context": context, "keywords": words[:3], "tags": ["talk"]}


def evolve(request):
    """Link every note to its first candidate, and tell that one about it."""
    shown = {c["alias"]: c for c in (*request.inputs["candidates"], *request.inputs["notes"])}

    def told(note):
        if not note["candidates"]:
            return None
        to = note["candidates"][0]["alias"]
        link = {"to": to, "relation": "about", "reason": "same talk", "strength": 0.9}
        context = f"{shown[to]['content']} Later: {note['content']}"
        return {"links": [link], "updates": [{"to": to, "context": context, "tags": ["evolved"]}]}

    return each(told)(request)


def scripted():
    """Return a model that constructs, links and evolves in a fixed way."""
    return ScriptedModel({"construct": construct, "evolve": evolve})


def oslo(messages):
    """Answer from what was recalled, and from nothing else."""
    recalled = [re.findall("<memories>.*?</memories>", m.text, re.DOTALL) for m in messages]
    return "In Oslo." if "Oslo" in str(recalled) else "I do not know."


class Talker(BaseChatModel):
    """A chat model that says what `answer` makes of the messages, and streams it word by word."""

    answer: Callable[[list[BaseMessage]], AIMessage | str] = oslo
    seen: list[list[BaseMessage]] = Field(default_factory=list)

    @property
    def _llm_type(self):
        return "talker"

    def bind_tools(self, tools, **kwargs):
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools])

    def _reply(self, messages):
        self.seen.append(messages)
        answer = self.answer(messages)
        return AIMessage(answer) if isinstance(answer, str) else answer

    def _generate(self, messages, *args, **kwargs):
        return ChatResult(generations=[ChatGeneration(message=self._reply(messages))])

    def _stream(self, messages, *args, **kwargs):
        reply = self._reply(messages)
        if reply.tool_calls:
            chunk = AIMessageChunk(content=reply.text, tool_calls=reply.tool_calls)
            yield ChatGenerationChunk(message=chunk)
            return
        for word in re.findall(r"\S+\s*", reply.text):
            yield ChatGenerationChunk(message=AIMessageChunk(content=word))


def called(tool_name, said="", /, **arguments):
    """Return the message by which a model calls a tool."""
    call = {"name": tool_name, "args": arguments, "id": tool_name, "type": "tool_call"}
    return AIMessage(said, tool_calls=[call])


def calling(*calls, answer="Done."):
    """Return a model that makes these calls of tools, one after the other, and then answers."""

    def act(messages):
        done = sum(message.type == "tool" for message in messages)
        return calls[done] if done < len(calls) else answer

    return Talker(answer=act)


@tool
def look(what: str) -> str:
    """Look something up."""
    return f"{what}: 42"


def looking():
    """Return a model that looks something up, and answers."""
    return calling(called("look", "One moment.", what="it"), answer="It is 42.")


# Memories


def kept(memory, namespace=ANN):
    """Return what a namespace holds, oldest first."""
    return [note.content for note in memory.get_all(namespace=namespace, limit=9999)]


# Agents and graphs


def agent_of(
    memory, model=None, *, before=(), after=(), tools=(), keeps=True, prompt=None, **options
):
    """Return an agent with the middleware, of which the context says whose memory it is; if it `keeps`, with checkpoints."""
    return create_agent(
        model or Talker(),
        list(tools),
        system_prompt=prompt,
        middleware=[*before, AMemMiddleware(memory, **{"namespace": user, **options}), *after],
        context_schema=User,
        checkpointer=InMemorySaver() if keeps else None,
    )


def sequence(state, **steps):
    """Return a graph of these steps, one after the other, with checkpoints."""
    builder = StateGraph(state, context_schema=User).add_sequence(list(steps.items()))
    return builder.add_edge(START, next(iter(steps))).compile(checkpointer=InMemorySaver())


def around(memory, namespace=user, *, evolve=False, after=None, **steps):
    """Return a graph that recalls, takes these steps, remembers, and takes those `after`."""
    recall = recall_node(memory, namespace=namespace)
    remember = remember_node(memory, namespace=namespace, evolve=evolve)
    return sequence(State, recall=recall, **steps, remember=remember, **(after or {}))


def within(thread="1", **more):
    """Return the configuration of a run in a thread."""
    return {"configurable": {"thread_id": thread, **more}}


def ask(*said):
    """Return the input of a run: messages, or texts of people."""
    return {"messages": [HumanMessage(one) if isinstance(one, str) else one for one in said]}


def say(runnable, said, who="ann", thread="1"):
    """Run one turn, and return the state after it; anything but a text or a message is given as it is."""
    given = ask(said) if isinstance(said, str | BaseMessage) else said
    return runnable.invoke(given, within(thread), context=User(who))


async def asay(runnable, said, who="ann", thread="1"):
    """Do what `say` does."""
    given = ask(said) if isinstance(said, str | BaseMessage) else said
    return await runnable.ainvoke(given, within(thread), context=User(who))


def last(state):
    """Return the text of the last message."""
    return str(state["messages"][-1].text)


def system_text(messages):
    """Return the text of the system messages."""
    return "\n".join(message.text for message in messages if isinstance(message, SystemMessage))
