"""What every door shares: whose memory a run is about, what failed, and what is reported to the stream."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from amem_integrations import ConfigurationError, NamespaceError, adapting
from amem_integrations.adapting import OnError, check_namespace

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

log = logging.getLogger("langchain_amem")

Namespace = tuple[str, ...]
NamespaceOf = tuple[str, ...] | Callable[[Any], Sequence[str]]

_lock = threading.Lock()
_total: Counter[str] = Counter()


def _no_config() -> RunnableConfig:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a callable `namespace` is given: `context`, `state` and `config` of the run.

    LangChain's `ToolRuntime` has the same three, so one callable serves the middleware, the nodes and
    the tools: `lambda run: (run.context.user_id,)`.
    """

    context: Any = None
    state: Any = None
    config: RunnableConfig = field(default_factory=_no_config)

    @property
    def thread(self) -> str | None:
        """The `thread_id` the run was configured with, if any."""
        thread = self.config.get("configurable", {}).get("thread_id")
        return None if thread is None else str(thread)


def run_of(state: Any, config: RunnableConfig) -> Run:  # noqa: ANN401 - the user's own type
    """Return the run that a node is called in; `context` is None outside a graph."""
    from langgraph.runtime import get_runtime  # noqa: PLC0415 - an extra

    try:
        runtime = get_runtime()
    except (RuntimeError, KeyError):
        return Run(state=state, config=config)
    return Run(context=getattr(runtime, "context", None), state=state, config=config)


def run_now(state: Any, context: Any) -> Run:  # noqa: ANN401 - the user's own types
    """Return the run that a hook is called in, which gets its context but not its config."""
    from langgraph.config import get_config  # noqa: PLC0415 - an extra

    try:
        config = get_config()
    except RuntimeError:
        config = {}
    return Run(context=context, state=state, config=config)


def report(step: str, **what: Any) -> None:  # noqa: ANN401 - JSON values
    """Send `{"amem": step, …}` to those who read the stream in the mode `custom`."""
    from langgraph.config import get_stream_writer  # noqa: PLC0415 - an extra

    try:
        writer = get_stream_writer()
    except (RuntimeError, KeyError):
        return
    writer({"amem": step, **what})


def checked_source(namespace: NamespaceOf) -> NamespaceOf:
    """Return a callable as it is, and a tuple checked, so that a mistake shows at construction."""
    return namespace if callable(namespace) else check_namespace(namespace)


def namespace_of(namespace: NamespaceOf, run: Any) -> Namespace:  # noqa: ANN401 - Run or ToolRuntime
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


def others_of(also: Mapping[str, NamespaceOf], run: Any) -> dict[str, Namespace]:  # noqa: ANN401 - as above
    """Return the namespaces that this run reads besides its own, by name.

    Raises:
        NamespaceError: The run does not say one of them.
    """
    return {name: namespace_of(source, run) for name, source in also.items()}


def source_name(namespace: NamespaceOf) -> str:
    """Return by what name the nodes of one memory know each other in the state of a graph.

    Of functions, many are called `<lambda>`: those are of one memory that read the same.
    """
    if not callable(namespace):
        return "/".join(namespace)
    if isinstance(namespace, partial):
        given = (*namespace.args, *namespace.keywords.values())
        return " ".join([source_name(namespace.func), *map(str, given)])
    name = str(getattr(namespace, "__name__", type(namespace).__name__))
    if (code := getattr(namespace, "__code__", None)) is None:
        return name
    held = [cell.cell_contents for cell in getattr(namespace, "__closure__", None) or ()]
    texts = [value for value in (*code.co_consts, *held) if isinstance(value, str)]
    texts = [text for text in texts if text != namespace.__doc__]
    return " ".join([name, *code.co_names, *texts])


def failures() -> dict[str, int]:
    """Return how often the memory did not work in this process, by what an adapter was doing.

    Keys: `recall`, `remember`, `evolve`, and so on; also messages that could not be stored as they are.
    """
    with _lock:
        return dict(_total)


class Failures(adapting.Failures):
    """Counts for itself, and for the whole process."""

    def __init__(self, on_error: OnError = "log") -> None:
        """Start at zero."""
        super().__init__(log, on_error)

    def count(self, doing: str, error: BaseException | None = None) -> None:
        """Count one failure."""
        super().count(doing, error)
        with _lock:
            _total[doing] += 1
