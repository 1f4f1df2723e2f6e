"""What the middleware keeps in an agent's state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, NotRequired, cast

from amem_integrations import MissingExtraError

from ._turns import Entry

try:
    from langchain.agents.middleware import AgentState
    from langchain.agents.middleware.types import PrivateStateAttr
except ImportError as error:
    raise MissingExtraError("langchain", "langchain") from error

Entries = dict[str, Entry]


def _merged(left: Entries | None, right: Entries | None) -> Entries:
    return {**(left or {}), **(right or {})}


class AMemState(AgentState[Any]):
    """What the middleware keeps in the agent's state: JSON, by its name, in no input or output."""

    amem: NotRequired[Annotated[Entries, PrivateStateAttr, _merged]]


def entry_of(state: object, name: str) -> Entry:
    """Return what the middleware of this name keeps."""
    entries = cast("Mapping[str, Any]", state).get("amem") or {}
    return cast("Entry", entries.get(name, {}))
