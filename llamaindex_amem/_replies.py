"""Pure: the core's request as chat messages, and an LLM's response as the core's `Completion`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, MessageRole, ToolCallBlock
from llama_index.core.llms import LLM
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.utils import get_tokenizer

from amem_integrations import Completion, ModelRequest

# What integrations call the tokens of prompt and answer.
ASKED = ("prompt_tokens", "input_tokens", "prompt_token_count")
ANSWERED = ("completion_tokens", "output_tokens", "candidates_token_count")


def to_messages(request: ModelRequest, llm: LLM) -> list[ChatMessage]:
    """Return the request as messages.

    Not through a prompt template: braces in what a user said are not placeholders.
    """
    system = ChatMessage(role=llm.metadata.system_role, content=request.system)
    return [system, ChatMessage(role=MessageRole.USER, content=request.prompt)]


def to_completion(
    messages: Sequence[ChatMessage],
    response: ChatResponse,
    caller: FunctionCallingLLM | None = None,
) -> Completion:
    """Return what was answered, and what it cost; where nobody says so, that is estimated.

    Args:
        messages: What was asked.
        response: The answer.
        caller: The model, if it was to call a function; the arguments are the answer then.
    """
    text = (_arguments(response, caller) if caller else "") or response.message.content or ""
    count = get_tokenizer()
    return Completion(
        text=text,
        input_tokens=_reported(response, ASKED)
        or sum(len(count(message.content or "")) for message in messages),
        output_tokens=_reported(response, ANSWERED) or len(count(text)),
    )


def _arguments(response: ChatResponse, caller: FunctionCallingLLM) -> str:
    """Return the arguments of all calls as JSON, the way the model wrote them where that is known.

    An integration makes nothing, or an error, of broken JSON; the core can often mend it.
    """
    blocks = [block for block in response.message.blocks if isinstance(block, ToolCallBlock)]
    # Integrations of an older date have no such blocks.
    calls = blocks or caller.get_tool_calls_from_response(response, error_on_no_tool_call=False)
    texts = [text for call in calls if (text := _as_json(call.tool_kwargs)) != "{}"]
    if len(texts) < 2:  # noqa: PLR2004 - one, or none
        return "".join(texts)
    # Each says a part of the reply. Where the last one breaks off, the list is to be seen to do so.
    return f"[{', '.join(texts)}{']' if texts[-1].endswith('}') else ''}"


def _as_json(arguments: dict[str, Any] | str) -> str:
    if isinstance(arguments, str):
        return arguments.strip() or "{}"
    return json.dumps(arguments, ensure_ascii=False, default=str)


def _reported(response: ChatResponse, names: Sequence[str]) -> int:
    """Return how many tokens the integration speaks of, or 0."""
    usage = (_part(response.raw, "usage"), _part(response.raw, "usage_metadata"))
    counts = (
        _part(place, name) for place in (response.additional_kwargs, *usage) for name in names
    )
    return next((count for count in counts if isinstance(count, int) and count > 0), 0)


def _part(whole: object, name: str) -> Any:  # noqa: ANN401 - each vendor has classes of its own
    return whole.get(name) if isinstance(whole, Mapping) else getattr(whole, name, None)
