"""What the nodes share: the run they are in, their place in the state, their voice in the stream."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from langchain_core.messages import BaseMessage, convert_to_messages
from langchain_core.runnables import RunnableConfig

from amem_integrations import MissingExtraError

from ._run import Run

try:
    from langgraph.config import get_config, get_stream_writer
    from langgraph.runtime import get_runtime
except ImportError as error:
    raise MissingExtraError("langgraph", "langgraph") from error

State = Any  # a mapping, a dataclass or a pydantic model: whatever the graph was built with


def run_of(state: State, config: RunnableConfig) -> Run:
    """Return what a callable `namespace` is given; `context` is None outside a graph."""
    return Run(context=_context(), state=state, config=config)


def _context() -> Any:  # noqa: ANN401 - the user's own type
    try:
        runtime = get_runtime()
    except (RuntimeError, KeyError):
        return None
    return getattr(runtime, "context", None)


def run_now(state: State, context: Any) -> Run:  # noqa: ANN401 - the user's own type
    """Return the run that a hook is called in, which is told its context but not its config."""
    try:
        config = get_config()
    except RuntimeError:
        config = {}
    return Run(context=context, state=state, config=config)


def tell(step: str, **what: Any) -> None:  # noqa: ANN401 - JSON values
    """Send `{"amem": step, …}` to those who read the stream in the mode `custom`."""
    try:
        writer = get_stream_writer()
    except (RuntimeError, KeyError):
        return
    writer({"amem": step, **what})


def value_of(state: State, key: str) -> Any:  # noqa: ANN401 - the user's own type
    """Return a value of the state, or None if it is not there."""
    return state.get(key) if isinstance(state, Mapping) else getattr(state, key, None)


def messages_of(state: State, key: str) -> list[BaseMessage]:
    """Return the messages of the state, whichever form LangChain allows they are in."""
    return convert_to_messages(value_of(state, key) or [])


def as_json(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the value with nothing but JSON types in it, as a checkpoint gives it back."""
    plain: dict[str, Any] = json.loads(json.dumps(value))
    return plain
