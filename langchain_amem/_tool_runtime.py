"""The argument by which a tool learns of its run, hidden from the model."""

from __future__ import annotations

from typing import Any

from pydantic import create_model

from amem_integrations import MissingExtraError

from ._actions import MemoryInput

try:
    from langgraph.prebuilt import ToolRuntime
except ImportError as error:
    raise MissingExtraError("langgraph", "langgraph") from error


def with_runtime(schema: type[MemoryInput]) -> type[MemoryInput]:
    """Return the schema with a `runtime` that LangGraph fills in, whatever the model says."""
    # A bare ToolRuntime would make pydantic warn about every context that is not None.
    return create_model(schema.__name__, __base__=schema, runtime=(ToolRuntime[Any, Any], ...))
