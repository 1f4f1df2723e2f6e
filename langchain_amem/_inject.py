"""Pure: show recalled notes to the model, and to nobody else: the history stays as it is."""

from __future__ import annotations

from typing import Any, Literal

from langchain_core.messages import HumanMessage, SystemMessage

from amem_integrations import MissingExtraError

from ._agent_state import entry_of

try:
    from langchain.agents.middleware import ModelRequest
except ImportError as error:
    raise MissingExtraError("langchain", "langchain") from error

Inject = Literal["system", "message"]


def with_memories(request: ModelRequest[Any], name: str, inject: Inject) -> ModelRequest[Any]:
    """Return the request with the notes that `name` recalled, or as it is if there are none."""
    text = str(entry_of(request.state, name).get("recalled", ""))
    if not text:
        return request
    if inject == "system":
        return request.override(system_message=_extended(request.system_message, text))
    messages = list(request.messages)
    people = [i for i, message in enumerate(messages) if isinstance(message, HumanMessage)]
    messages.insert(people[-1] if people else 0, HumanMessage(text))
    return request.override(messages=messages)


def _extended(system: SystemMessage | None, text: str) -> SystemMessage:
    """Return the system message with the notes at its end; plain text stays plain text."""
    if system is None:
        return SystemMessage(text)
    if isinstance(system.content, str):
        return system.model_copy(update={"content": f"{system.content}\n\n{text}".strip()})
    block = {"type": "text", "text": text}
    return system.model_copy(update={"content": [*system.content, block]})
