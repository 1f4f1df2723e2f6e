"""LangChain's messages as the core reads them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import takewhile

from langchain_core.messages import AIMessage, BaseMessage, ChatMessage, HumanMessage, ToolMessage
from pydantic_core import to_jsonable_python

from amem_integrations import adapting
from amem_integrations.conversation import SPEAKING, Message, time_of

ShouldStore = Callable[[BaseMessage], bool]

TIMES = ("created_at", "timestamp")


def to_message(message: BaseMessage, *, stored: bool = True) -> Message:
    """Return a LangChain message as the core reads it.

    A summary that another middleware wrote counts as a system message: it is no turn of the conversation.
    """
    role = message.role if isinstance(message, ChatMessage) else message.type
    given = (message.additional_kwargs, message.response_metadata)
    texts = [message.text]
    # The parts of a person's message are texts of their own; those of a model's may be halves of a sentence.
    if isinstance(message, HumanMessage) and isinstance(message.content, list):
        texts = [HumanMessage([part]).text for part in message.content]
    is_summary = message.additional_kwargs.get("lc_source")
    return Message(
        role="system" if is_summary else role.removesuffix("MessageChunk"),
        text="\n".join(filter(None, texts)),
        id=message.id or None,
        speaker=message.name,
        at=time_of(data[name] for data in given for name in TIMES if name in data),
        calls_tools=isinstance(message, AIMessage) and bool(message.tool_calls),
        stored=stored,
    )


def is_spoken(message: BaseMessage) -> bool:
    """Return whether a message is a person's, or an answer of the agent: the default of `should_store`.

    What the agent says beside a call of a tool is said too. Results of tools, and summaries that another middleware
    wrote, are left out.
    """
    return to_message(message).party in SPEAKING


def conversation(messages: Sequence[BaseMessage]) -> list[Message]:
    """Return a conversation as the core reads it; nothing of it is to be stored.

    An answer names the message that it answers, by which an answer that is given again is known.
    """
    said, question = [], None
    for message in messages:
        found = to_message(message, stored=False)
        if found.party == "user":
            question = found.id
        elif found.party == "assistant" and question is not None:
            found = replace(found, metadata={adapting.ANSWERS: question})
        said.append(found)
    return said


def with_final_answer(messages: Sequence[BaseMessage], structured: object) -> list[BaseMessage]:
    """Return the messages of a run that has ended; where a tool had the last word, it is the agent's answer.

    So it is with `return_direct`, and with `response_format` by a tool, whose answer is JSON.
    """
    # Of calls at the same time each has the last word.
    answers = [*takewhile(lambda one: isinstance(one, ToolMessage), reversed(messages))][::-1]
    if structured is None or not answers:
        said = [AIMessage(str(one.text), id=f"{one.id}:answer") for one in answers]
    else:
        values = to_jsonable_python(structured, fallback=str, bytes_mode="base64")
        text = json.dumps(values, ensure_ascii=False)
        said = [AIMessage(text, id=f"{one.id}:answer") for one in answers[-1:]]
    return [*messages, *said]
