"""Pure: from LangChain messages to notes, and the question in them."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from amem_integrations import NoteInput

ShouldStore = Callable[[BaseMessage], bool]

# Metadata of a note: what its message said. It tells an edited message from a corrected note.
HASH = "message_hash"


def said(message: BaseMessage) -> bool:
    """Return whether a person said it, or the agent answered it.

    Tool calls, tool results, and summaries that another middleware wrote are left out.
    """
    if message.additional_kwargs.get("lc_source"):
        return False
    return isinstance(message, HumanMessage) or (
        isinstance(message, AIMessage) and not message.tool_calls
    )


def note_inputs(
    messages: Iterable[BaseMessage],
    *,
    thread: str | None,
    should_store: ShouldStore = said,
    skip: int = 0,
) -> list[NoteInput]:
    """Return a note for each message worth storing that holds text, from number `skip` on.

    The key is the message's id, so storing a message again makes no second note. Without an id it is
    known by how often its speaker has said the same before, in the messages given.
    """
    seen: Counter[tuple[str, str]] = Counter()
    items = []
    for position, message in enumerate(messages):
        text = message.text.strip()
        if not text or not should_store(message):
            continue
        role = "assistant" if isinstance(message, AIMessage) else "user"
        seen[role, text] += 1
        if position < skip:
            continue
        items.append(
            NoteInput(
                content=text,
                key=message.id or occurrence_key(thread, role, text, seen[role, text]),
                thread=thread,
                speaker=message.name or role,
                source="assistant" if role == "assistant" else "user",
                metadata={HASH: digest(text)},
            )
        )
    return items


def occurrence_key(thread: str | None, role: str, text: str, number: int) -> str:
    """Return the key of the `number`-th time that `role` says `text` in a thread."""
    return f"{thread or ''}/{role}/{digest(text)}/{number}"


def digest(text: str) -> str:
    """Return a short fingerprint of a text."""
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16]


def question(messages: Sequence[BaseMessage]) -> str:
    """Return what was last asked, or "" if nobody said anything in words."""
    for message in reversed(messages):
        if isinstance(message, HumanMessage) and not message.additional_kwargs.get("lc_source"):
            return message.text.strip()
    return ""
