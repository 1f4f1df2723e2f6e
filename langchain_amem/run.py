"""The run behind every door: whose memory it is about, failures, and reports to the stream."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from amem_integrations import ConfigurationError, NamespaceError, adapting

log = logging.getLogger("langchain_amem")

Namespace = tuple[str, ...]
NamespaceOf = tuple[str, ...] | Callable[[Any], Sequence[str]]
ByRun = Mapping[str, Any] | Callable[[Any], Mapping[str, Any] | None] | None

_lock = threading.Lock()
_total: Counter[str] = Counter()


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The argument of a callable `namespace`, `where` or `metadata`: `context`, `state` and `config` of the run.

    LangChain's `ToolRuntime` has the same three, so one function serves the middleware, the nodes and
    the tools: `lambda run: (run.context.user_id,)`.
    """

    context: Any = None
    state: Any = None
    config: Mapping[str, Any] = field(default_factory=dict)

    @property
    def thread(self) -> str | None:
        """The `thread_id` the run was configured with, if any."""
        thread = self.config.get("configurable", {}).get("thread_id")
        return None if thread is None else str(thread)

    @property
    def caller(self) -> str:
        """A digest of the `context` and the configuration of the run, which tells one caller from another."""
        machinery = ("__", "checkpoint", "thread_id")
        given = self.config.get("configurable", {}).items()
        named = sorted((each for each in given if not each[0].startswith(machinery)), key=str)
        return sha256(repr((self.context, named)).encode()).hexdigest()[:16]


def current_run(state: Any, config: Mapping[str, Any] | None = None) -> Run:  # noqa: ANN401 - the user's own type
    """Return the run that a hook or a node is called in; outside a graph there is no `context`."""
    from langgraph.config import get_config  # noqa: PLC0415 - an extra
    from langgraph.runtime import get_runtime  # noqa: PLC0415 - an extra

    try:
        context = getattr(get_runtime(), "context", None)
        return Run(context=context, state=state, config=config or get_config())
    except (RuntimeError, KeyError):
        return Run(state=state, config=config or {})


def report(step: str, **what: Any) -> None:  # noqa: ANN401 - JSON values
    """Send `{"amem": step, …}` to those who read the stream in the mode `custom`."""
    from langgraph.config import get_stream_writer  # noqa: PLC0415 - an extra

    try:
        get_stream_writer()({"amem": step, **what})
    except (RuntimeError, KeyError):
        return


def checked_source(namespace: NamespaceOf) -> NamespaceOf:
    """Return a callable as it is, and a tuple checked, so that a mistake shows at construction."""
    return namespace if callable(namespace) else adapting.check_namespace(namespace)


def namespace_of(namespace: NamespaceOf, run: Any, *, optional: bool = False) -> Namespace:  # noqa: ANN401 - Run or ToolRuntime
    """Return the namespace of this run; an empty one only if it is optional.

    Raises:
        NamespaceError: The run does not say whose memory it is; there is no shared default.
    """
    if not callable(namespace):
        return namespace
    try:
        found = namespace(run)
        return () if optional and not found else adapting.check_namespace(found)
    except (AttributeError, KeyError, TypeError) as error:
        raise NamespaceError(
            f"this run does not say whose memory it is ({error!r}); pass what `namespace` reads, "
            "such as invoke(…, context=…), also when a run is resumed"
        ) from error


def checked_also(also: Mapping[str, NamespaceOf] | None) -> dict[str, NamespaceOf]:
    """Return the namespaces that are read besides, by the names that mark their notes.

    Raises:
        ConfigurationError: A name is empty, or it is no mapping.
        NamespaceError: A namespace is malformed.
    """
    named = {} if also is None else also
    if not isinstance(named, Mapping) or not all(isinstance(n, str) and n.strip() for n in named):
        raise ConfigurationError(
            f"also={also!r} must be a dict of names to namespaces, such as {{'team': ('acme',)}}"
        )
    return {name: checked_source(source) for name, source in named.items()}


def others_of(also: Mapping[str, NamespaceOf], run: Any) -> dict[str, Namespace]:  # noqa: ANN401 - Run or ToolRuntime
    """Return the namespaces that this run reads besides its own, by name; a function may return an empty one for none.

    Raises:
        NamespaceError: The run does not say one of them.
    """
    named = {name: namespace_of(source, run, optional=True) for name, source in also.items()}
    return {name: space for name, space in named.items() if space}


def failures() -> dict[str, int]:
    """Return how often the memory did not work in this process, by what an adapter was doing.

    Keys: `recall`, `remember`, `evolve`, and so on; also callbacks of yours that raised, such as `should_store`.
    """
    with _lock:
        return dict(_total)


class Failures(adapting.Failures):
    """Counts for itself, and for the whole process."""

    def __init__(self, on_error: adapting.OnError = "log") -> None:
        """Start at zero."""
        super().__init__(log, on_error)

    def count(self, doing: str, error: BaseException | None = None) -> None:
        """Count one failure."""
        super().count(doing, error)
        with _lock:
            _total[doing] += 1
