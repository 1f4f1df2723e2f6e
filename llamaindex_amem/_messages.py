"""Pure: what was said in a chat message, and how it becomes a note."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from hashlib import sha256

from llama_index.core.base.llms.types import (
    ChatMessage,
    MessageRole,
    TextBlock,
    ToolCallBlock,
)

from amem_integrations import NoteInput

ShouldStore = Callable[[ChatMessage], bool]
Occurrences = Counter[tuple[str, str]]

SPOKEN = (MessageRole.USER, MessageRole.ASSISTANT)
ASSISTANTS = (MessageRole.ASSISTANT, MessageRole.CHATBOT, MessageRole.MODEL)

# `ReActAgent` keeps its whole reasoning as the assistant's message; only the answer was said to the user.
_ANSWERING = re.compile(
    r"^Thought:(?:(?!^(?:Thought|Action|Observation|Answer):).)*^Answer:", re.MULTILINE | re.DOTALL
)
_ACTING = re.compile(r"Thought:.*^Action:", re.MULTILINE | re.DOTALL)
# `CodeActAgent` puts code into the assistant's messages, and its results into messages of the user.
_CODE = re.compile(r"<execute>.*?</execute>", re.DOTALL)
_CODE_RESULT = "Result of executing the code given:"


def text_of(message: ChatMessage) -> str:
    """Return the text of a message; images, tool calls and thoughts have none.

    What no store can hold (NUL, lone surrogates) is replaced.
    """
    texts = [block.text for block in message.blocks if isinstance(block, TextBlock)]
    joined = "\n".join(text for text in texts if text)
    return joined.encode("utf-8", "replace").decode().replace("\0", "").strip()


def spoken(message: ChatMessage) -> str:
    """Return what a user or an assistant said to the other, or "" if it is nothing of the kind."""
    text = text_of(message)
    if message.role == MessageRole.USER:
        return "" if text.startswith(_CODE_RESULT) else text
    if message.role not in ASSISTANTS or _calls_tools(message):
        return ""
    if text.startswith("Thought:") and (answers := list(_ANSWERING.finditer(text))):
        return text[answers[-1].end() :].strip()
    return "" if _ACTING.match(text) else _CODE.sub("", text).strip()


def role_of(message: ChatMessage) -> str:
    """Return the role of a message; a few models have other names for the assistant."""
    role = MessageRole.ASSISTANT if message.role in ASSISTANTS else message.role
    return role.value


def _calls_tools(message: ChatMessage) -> bool:
    in_blocks = any(isinstance(block, ToolCallBlock) for block in message.blocks)
    return in_blocks or bool(message.additional_kwargs.get("tool_calls"))


def question(messages: Sequence[ChatMessage]) -> str:
    """Return the last thing the user said; at the end of an agent's run, that is not the last message."""
    said = (spoken(m) for m in reversed(messages) if m.role == MessageRole.USER)
    return next((text for text in said if text), "")


def texts_in(messages: Sequence[ChatMessage]) -> set[str]:
    """Return everything that was said in these messages."""
    return {text for message in messages if (text := spoken(message))}


def occurrences(messages: Sequence[ChatMessage]) -> Occurrences:
    """Return how often each role has said each text."""
    said = ((role_of(message), spoken(message)) for message in messages)
    return Counter(pair for pair in said if pair[1])


def to_notes(
    messages: Sequence[ChatMessage],
    *,
    thread: str | None,
    roles: Collection[str] = SPOKEN,
    should_store: ShouldStore | None = None,
    seen: Occurrences | None = None,
) -> list[NoteInput]:
    """Return what is to be remembered of messages: nothing of tools, systems and empty ones.

    Args:
        messages: In the order they were said.
        thread: The conversation.
        roles: Whose messages are remembered.
        should_store: Called with each message; False leaves it out.
        seen: How often each role has said each text in this thread before; counted up. Without it
            the messages are counted among themselves, so that a repeated delivery gives the same keys.
    """
    seen = Counter() if seen is None else seen
    items = []
    for message in messages:
        text = spoken(message)
        if not text:
            continue
        role = role_of(message)
        seen[role, text] += 1
        if role in roles and (should_store is None or should_store(message)):
            items.append(_note(message, text, thread, seen[role, text]))
    return items


def _note(message: ChatMessage, text: str, thread: str | None, occurrence: int) -> NoteInput:
    role = role_of(message)
    known = message.additional_kwargs.get("id")
    identity = known if isinstance(known, str) and known else _identity(role, text, occurrence)
    name = message.additional_kwargs.get("name")
    return NoteInput(
        content=text,
        key=f"{thread or ''}/{identity}",
        thread=thread,
        speaker=name if isinstance(name, str) and name else role,
        source="user" if message.role == MessageRole.USER else "assistant",
    )


def _identity(role: str, text: str, occurrence: int) -> str:
    return f"{role}:{sha256(text.encode()).hexdigest()[:32]}:{occurrence}"
