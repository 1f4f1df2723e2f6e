"""What a chat completion says, wherever an endpoint has put it."""

from __future__ import annotations

import json
from typing import Any


def text_of(message: Any) -> str:  # noqa: ANN401 - of the SDK, as loosely as the endpoint made it
    """Return the answer of a message; empty if there is none.

    That is what a function was called with, else the content, else a refusal. Of several calls each says a
    part, so they are given as a list. Thoughts are no answer; only where there is nothing else and they are
    JSON from the start has the endpoint taken the answer for a thought.
    """
    calls = [text for call in getattr(message, "tool_calls", None) or () if (text := _given(call))]
    if len(calls) == 1:
        return calls[0]
    if calls:  # a list that breaks off must be seen to
        return f"[{', '.join(calls)}{']' if calls[-1].endswith('}') else ''}"
    said = _plain(getattr(message, "content", None)) or getattr(message, "refusal", None)
    if said:
        return str(said)
    thoughts = getattr(message, "reasoning_content", None) or getattr(message, "reasoning", None)
    return thoughts if isinstance(thoughts, str) and thoughts.lstrip()[:1] in {"{", "["} else ""


def tokens(answer: Any, name: str) -> int:  # noqa: ANN401 - of the SDK
    """Return one count of the `usage`, or 0 where an endpoint gives none."""
    count = getattr(getattr(answer, "usage", None), name, None)
    return count if isinstance(count, int) else 0


def _given(call: Any) -> str:  # noqa: ANN401 - of the SDK
    """Return the arguments of a call as text; empty if it has none."""
    arguments = getattr(getattr(call, "function", None), "arguments", None)
    if isinstance(arguments, dict):  # as a few endpoints send it
        arguments = json.dumps(arguments, ensure_ascii=False)
    text = arguments.strip() if isinstance(arguments, str) else ""
    return "" if text == "{}" else text


def _plain(content: Any) -> str:  # noqa: ANN401 - of the SDK
    """Return the text of a content that is a text or a list of parts."""
    if not isinstance(content, list):
        return content if isinstance(content, str) else ""
    return "".join(
        part["text"]
        for part in content
        if isinstance(part, dict) and isinstance(part.get("text"), str)
    )
