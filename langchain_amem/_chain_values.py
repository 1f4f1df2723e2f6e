"""Pure: what a classic chain passes in and out, as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from langchain_core.messages import BaseMessage

from amem_integrations import ConfigurationError

Role = Literal["user", "assistant"]


def text_of(value: object) -> str:
    """Return the words in a value: a string, a message, the last of several messages; else ""."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, BaseMessage):
        return value.text.strip()
    if isinstance(value, list) and value and isinstance(value[-1], BaseMessage):
        return value[-1].text.strip()
    return ""


def only(values: Mapping[str, Any], key: str | None, name: str) -> Any:  # noqa: ANN401 - any input
    """Return the value of `key`, or the only one there is.

    Raises:
        ConfigurationError: There is no such key, or several values and no key.
    """
    if key is None and len(values) == 1:
        return next(iter(values.values()))
    if key is None or key not in values:
        raise ConfigurationError(
            f"{name}={key!r}: the chain has {sorted(values)}; set {name} to the one to remember"
        )
    return values[key]
