"""Whose memory a call is about: a fixed tuple, or what a callable reads from the run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.runnables import RunnableConfig

from amem_integrations import NamespaceError
from amem_integrations.adapting import check_namespace

NamespaceOf = tuple[str, ...] | Callable[[Any], Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a callable `namespace` is given: `context`, `state` and `config` of the run.

    LangChain's `ToolRuntime` has the same three, so one callable serves the middleware, the nodes and
    the tools: `lambda run: (run.context.user_id,)`.
    """

    context: Any = None
    state: Any = None
    config: RunnableConfig = field(default_factory=RunnableConfig)

    @property
    def thread(self) -> str | None:
        """The `thread_id` the run was configured with, if any."""
        thread = self.config.get("configurable", {}).get("thread_id")
        return None if thread is None else str(thread)


def checked_source(namespace: NamespaceOf) -> NamespaceOf:
    """Return a callable as it is, and a tuple checked, so that a typing error shows at once."""
    return namespace if callable(namespace) else check_namespace(namespace)


def namespace_of(namespace: NamespaceOf, run: Any) -> tuple[str, ...]:  # noqa: ANN401 - Run or ToolRuntime
    """Return the namespace of this run.

    Raises:
        NamespaceError: The run does not say whose memory it is; there is no shared default.
    """
    if not callable(namespace):
        return namespace
    try:
        found = namespace(run)
    except (AttributeError, KeyError, TypeError) as error:
        raise NamespaceError(
            f"this run does not say whose memory it is ({error!r}); pass what `namespace` reads, "
            "such as invoke(…, context=…), also when a run is resumed"
        ) from error
    return check_namespace(found)
