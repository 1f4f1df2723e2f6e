"""Whose memory a call is about: a fixed tuple, or what a callable reads from the run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.runnables import RunnableConfig

from amem_integrations import NamespaceError

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


def checked_namespace(namespace: object) -> tuple[str, ...]:
    """Return the namespace as a tuple.

    Raises:
        NamespaceError: It is no non-empty sequence of non-empty strings.
    """
    labels = tuple(namespace) if isinstance(namespace, list | tuple) else ()
    if not labels or not all(isinstance(label, str) and label for label in labels):
        raise NamespaceError(
            f"namespace={namespace!r} must be a tuple of non-empty strings, such as ('user-42',)"
        )
    return labels


def checked_source(namespace: NamespaceOf) -> NamespaceOf:
    """Return a callable as it is, and a tuple checked, so that a typing error shows at once."""
    return namespace if callable(namespace) else checked_namespace(namespace)


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
    return checked_namespace(found)
