"""The running of flows: for synchronous and asynchronous callers, over the ports, with the state that they share.

The core is written as coroutines that await nothing but port methods, through `resolve`. When the
ports are synchronous such a coroutine never suspends, so `run` drives it to its end with a single
`send`: no event loop, no thread, and it works inside a running loop too. The asynchronous twin of a
method runs the same coroutine on the caller's loop, over `Awaiting` views of the ports.

Doing many things at once is the one primitive that has two forms: `map_in_threads`, `map_in_tasks`.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import logging
import threading
import time
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

from .budget import Budget
from .config import Cosines, MemoryConfig
from .errors import AmemError, ConfigurationError, InvalidInputError
from .ids import Clock
from .notes import Namespace, Note, NoteInput
from .ports import ChatModel, Embedder, MaybeAwaitable
from .stored_note import Vector

if TYPE_CHECKING:
    from .stores.store import Store

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
U = TypeVar("U")

log = logging.getLogger("amem_integrations")

MOST_WAITING = 10_000  # messages that wait for the store
SIZE = 1024  # vectors; with 384 dimensions 1.5 MiB
RULES = "rules"  # the name of the model that works by rules and costs nothing
COSTS = ("calls", "input_tokens", "output_tokens")
# The methods of a store that write what a caller who is cancelled would leave half done.
WRITES = frozenset(
    {"insert_notes", "swap_notes", "insert_records", "swap_records", "remove_decisions"}
)

# Set once nobody waits any more for the call that runs in this context; never for a synchronous caller.
GIVEN_UP = contextvars.ContextVar("given_up", default=threading.Event())  # noqa: B039

Progress = Callable[[int, int], None]  # is told how much is done, and of how much


async def resolve(value: MaybeAwaitable[T]) -> T:
    """Return the value itself, or what it gives when awaited."""
    if inspect.isawaitable(value):
        return await value
    return value


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that never suspends.

    Raises:
        ConfigurationError: It did suspend: one of its ports is asynchronous.
    """
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    coroutine.close()
    message = (
        "a port of this memory is asynchronous: call the a… twin of this method (aadd, asearch, …)"
    )
    raise ConfigurationError(message)


async def in_thread(call: Callable[[], R], *, whole: bool = False) -> R:
    """Return the result of a call in a thread, under a copy of the caller's context.

    A caller who is cancelled gives the call up, which then tries nothing again, and with `whole` waits for its end.
    """
    given_up = threading.Event()

    def work() -> R:
        GIVEN_UP.set(given_up)
        return call()

    task = asyncio.create_task(asyncio.to_thread(work))
    try:
        return await (asyncio.shield(task) if whole else task)
    except asyncio.CancelledError:
        given_up.set()
        await ended([task])
        raise


async def ended(tasks: Sequence[asyncio.Task[T]]) -> list[asyncio.Task[T]]:
    """Wait for the end of tasks, however often the caller is cancelled, and return those that failed.

    A scope of anyio, as web servers have around a request, cancels again at each await.
    """
    while waiting := [task for task in tasks if not task.done()]:
        with suppress(asyncio.CancelledError):
            await asyncio.wait(waiting)
    return [task for task in tasks if not task.cancelled() and task.exception()]


class Blocking:
    """A synchronous view of a port; what is a coroutine function says what to do.

    Called without a loop that would only fail somewhere within, and look as if the port were down.
    """

    def __init__(self, port: object) -> None:
        """Wrap `port`; all else is passed through."""
        self._port = port

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the port decides
        """Return an attribute of the port; raise `ConfigurationError` for a coroutine function."""
        attribute, kind = getattr(self._port, name), type(self._port).__name__
        if inspect.iscoroutinefunction(attribute):
            raise ConfigurationError(
                f"{kind}.{name} is a coroutine function, which a synchronous method cannot wait for: call "
                f"the a… twin of this method (aadd, asearch, aevolve, …), or give {kind} a plain {name!r}"
            )
        return attribute


class Awaiting:
    """An asynchronous view of a port.

    A call to `method` awaits the port's own coroutine function `amethod` (or `method`, if that is
    one); what exists only in a synchronous form runs in a worker thread under a copy of the
    caller's context, so that tracing and context variables survive.

    A caller who is cancelled waits for a write under way: the next call finishes what it finds, and would not find what
    is written after that.
    """

    def __init__(self, port: object) -> None:
        """Wrap `port`; its plain attributes are passed through."""
        self._port = port

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the port decides
        """Return the asynchronous form of a method, or the attribute as it is."""
        native = getattr(self._port, f"a{name}", None)
        if inspect.iscoroutinefunction(native):
            return native
        attribute = getattr(self._port, name)
        if not callable(attribute) or inspect.iscoroutinefunction(attribute):
            return attribute

        async def awaited(*args: object, **kwargs: object) -> object:
            call = functools.partial(attribute, *args, **kwargs)
            return await resolve(await in_thread(call, whole=name in WRITES))

        return awaited


class Mapper(Protocol):
    """Runs one coroutine function over many items, at most `limit` at once."""

    async def __call__(
        self, function: Callable[[T], Coroutine[Any, Any, U]], items: Sequence[T], limit: int
    ) -> list[U]:
        """Return the results in the order of the items; the first error is raised."""
        ...


async def map_in_threads(
    function: Callable[[T], Coroutine[Any, Any, U]], items: Sequence[T], limit: int
) -> list[U]:
    """Return `function` of each item, in order, by synchronous ports in worker threads.

    After an error no other item is begun. The end of the interpreter does not wait for these threads, as it
    would for those of an executor.
    """
    if len(items) < 2 or limit < 2:  # noqa: PLR2004 - nothing to do at the same time
        return [await function(item) for item in items]
    tasks = [(contextvars.copy_context(), item, Future[U]()) for item in items]
    waiting = deque(tasks)

    def work() -> None:
        with suppress(IndexError):
            while True:
                context, item, future = waiting.popleft()
                try:
                    future.set_result(context.run(run, function(item)))
                except BaseException as error:  # noqa: BLE001 - raised again below
                    future.set_exception(error)

    threads: list[threading.Thread] = []
    try:
        for _ in items[:limit]:
            thread = threading.Thread(target=work, daemon=True)
            thread.start()
            threads.append(thread)
        return [future.result() for *_, future in tasks]
    finally:
        waiting.clear()
        for thread in threads:
            thread.join()


async def map_in_tasks(
    function: Callable[[T], Coroutine[Any, Any, U]], items: Sequence[T], limit: int
) -> list[U]:
    """Return `function` of each item, in order, as tasks on the running loop."""
    gate = asyncio.Semaphore(limit)

    async def bounded(item: T) -> U:
        async with gate:
            return await function(item)

    tasks = [asyncio.create_task(bounded(item)) for item in items]
    try:
        if tasks:  # who gathered them would cancel them as often as the caller is cancelled
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        # After an error or a cancellation nothing of this call may go on by itself. A second cancellation would
        # interrupt what a task gives back at its end.
        for task in tasks:
            task.cancel()
        failed = await ended(tasks)
    return [task.result() for task in failed or tasks]


class VectorCache:
    """The latest vectors. A text is known by a digest, so that nothing deleted lives on in here.

    It is safe to use from threads, and has no lock that a forked child would find closed: each step is atomic, and a vector
    that another thread drops between two of them is one that is not known.
    """

    def __init__(self, size: int = SIZE) -> None:
        """Start empty; of more than `size` vectors the least recently used go first."""
        self._size = size
        self._vectors: OrderedDict[bytes, Vector] = OrderedDict()

    def get(self, role: str, text: str) -> Vector | None:
        """Return the vector of a text as a `"document"` or as a `"query"`, if it is known."""
        key = _key(role, text)
        with suppress(KeyError):
            self._vectors.move_to_end(key)
        return self._vectors.get(key)

    def put(self, role: str, text: str, vector: Vector) -> None:
        """Keep a vector."""
        # A row is a view that would keep its whole batch in memory.
        self._vectors[_key(role, text)] = vector.copy()
        with suppress(KeyError):
            while len(self._vectors) > self._size:
                self._vectors.popitem(last=False)


def _key(role: str, text: str) -> bytes:
    return blake2b(f"{role}:{text}".encode(errors="surrogatepass"), digest_size=16).digest()


class Usage:
    """Thread-safe counters of one model, readable as a dict at any time."""

    def __init__(self, model: str) -> None:
        """Start at zero; `model` is the name by which the history knows the model."""
        self._model = model
        self._lock = threading.Lock()
        self._tasks: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def count(self, task: str, **amounts: int) -> None:
        """Add to the counters of a task, such as `calls`, `rejected_replies`, `refused`, `unavailable`."""
        with self._lock:
            self._tasks[task].update(amounts)

    def snapshot(self) -> dict[str, Mapping[str, Any]]:
        """Return the counters of each task, their sums under `"total"`, and under `"models"` those by model."""
        with self._lock:
            tasks = {task: dict(counts) for task, counts in self._tasks.items()}
        total: Counter[str] = Counter()
        for counts in tasks.values():
            total.update(counts)
        models = {self._model: dict(total)} if tasks else {}
        return {**tasks, "total": dict(total), "models": models}


class Claims:
    """The notes that this process is working on, so that no two evolutions take the same one."""

    def __init__(self) -> None:
        """Start with nothing claimed."""
        self._lock = threading.Lock()
        self._ids: set[str] = set()

    @contextmanager
    def claiming(self, notes: Iterable[Note]) -> Iterator[Sequence[Note]]:
        """Yield those of the notes that nobody else is working on, and hold them meanwhile."""
        with self._lock:
            mine = [note for note in notes if note.id not in self._ids]
            self._ids.update(note.id for note in mine)
        try:
            yield mine
        finally:
            with self._lock:
                self._ids.difference_update(note.id for note in mine)


class Outbox:
    """Messages that the store did not take, by namespace, until the next turn there. Safe to use from threads."""

    def __init__(self, most: int = MOST_WAITING) -> None:
        """Start empty; of more than `most` messages the oldest of the namespace are given up."""
        self._most = most
        self._lock = threading.Lock()
        self._waiting: dict[Namespace, list[NoteInput]] = {}

    def take(self, namespace: Namespace) -> list[NoteInput]:
        """Return the items that wait in a namespace, oldest first, and keep them no longer."""
        with self._lock:
            return self._waiting.pop(namespace, [])

    def keep(self, namespace: Namespace, items: Sequence[NoteInput]) -> int:
        """Keep items that could not be stored, of each key the first; return how many were given up for want of room."""
        with self._lock:
            every = [*items, *self._waiting.get(namespace, ())]
            mine = [*{item.key or id(item): item for item in reversed(every)}.values()][::-1]
            others = sum(len(some) for space, some in self._waiting.items() if space != namespace)
            room = max(0, self._most - others)
            self._waiting[namespace] = mine[len(mine) - min(room, len(mine)) :]
            return max(0, len(mine) - room)

    def __len__(self) -> int:
        """Return how many messages wait."""
        with self._lock:
            return sum(map(len, self._waiting.values()))


def _by_words(error: AmemError) -> None:
    log.warning("%s; notes are found by their words alone meanwhile", error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """All that a flow works with: the ports in the form that suits its caller, the settings, and the state of an open memory.

    The two runtimes of a memory, for synchronous and for asynchronous callers, share that state.
    """

    store: Store
    embedder: Embedder
    model: ChatModel
    model_name: str
    config: MemoryConfig
    usage: Usage
    map: Mapper
    clock: Clock = field(default_factory=Clock)
    budget: Budget = field(default_factory=Budget)  # without limits
    vectors: VectorCache = field(default_factory=VectorCache)
    thresholds: dict[str, Cosines] = field(default_factory=dict)  # by embedder
    claims: Claims = field(default_factory=Claims)
    unfinished: set[Namespace] = field(default_factory=set)  # where a write has failed half way
    outbox: Outbox = field(default_factory=Outbox)
    degraded: Callable[[AmemError], object] = _by_words  # told why the embedder gave no vectors
    pause: Callable[[float], MaybeAwaitable[None]] = time.sleep  # for so many seconds
    # Goes round each call of the model: a worker counts it, and whether it was answered.
    calling: Callable[[], AbstractAsyncContextManager[None]] = nullcontext
    closing: threading.Event = field(default_factory=threading.Event)  # the store is let go


Flow = Callable[Concatenate[Runtime, P], Coroutine[Any, Any, R]]


def sync_method(flow: Flow[P, R]) -> Callable[Concatenate[Any, P], R]:
    """Return the flow as a synchronous method of `AgenticMemory`."""

    def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:  # noqa: ANN401
        return run(flow(self._runtime, *args, **kwargs))

    _describe_method(method, flow, flow.__name__)
    return method


def both_methods(
    flow: Flow[P, R],
) -> tuple[Callable[Concatenate[Any, P], R], Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]]:
    """Return the flow as a method of `AgenticMemory` and as its asynchronous twin."""

    async def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:  # noqa: ANN401
        return await flow(self._async_runtime, *args, **kwargs)

    _describe_method(method, flow, f"a{flow.__name__}")
    return sync_method(flow), method


def _describe_method(method: Any, flow: Callable[..., object], name: str) -> None:  # noqa: ANN401
    """Give a method of `AgenticMemory` what describes its flow."""
    describe(method, flow, name)
    # Documentation tools take what says it is from elsewhere for an import.
    method.__module__, method.__qualname__ = f"{__package__}.memory", f"AgenticMemory.{name}"


def describe(method: Any, flow: Callable[..., object], name: str, given: int = 1) -> None:  # noqa: ANN401 - a function
    """Give a method that was made of a flow its name, docstring and signature: `self` for the first `given` parameters."""
    # `typing.get_type_hints` finds the names of types in the module of the flow.
    functools.update_wrapper(method, flow)
    method.__name__ = name
    method.__qualname__ = f"{flow.__qualname__.removesuffix(flow.__name__)}{name}"
    whole = inspect.signature(flow)
    itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    taken = [itself, *list(whole.parameters.values())[given:]]
    method.__signature__ = whole.replace(parameters=taken)
    named = {"return", *method.__signature__.parameters}
    method.__annotations__ = {n: v for n, v in flow.__annotations__.items() if n in named}


class Meter:
    """Counts the steps done of a total, and tells the caller's function, or the log, if the caller wants that."""

    def __init__(self, progress: bool | Progress, total: int = 0) -> None:
        """Start at zero; nothing is told before something is done.

        Raises:
            InvalidInputError: `progress` is neither a bool nor a function.
        """
        if not isinstance(progress, bool) and not callable(progress):
            raise InvalidInputError(f"progress={progress!r} must be True, False or a function")
        self._progress = progress
        self.total = total
        self.done = 0

    def add(self, number: int) -> None:
        """Count so many more; what came in meanwhile makes the total larger."""
        self.done += number
        self.total = max(self.total, self.done)
        if callable(self._progress) and number:
            self._progress(self.done, self.total)
        elif self._progress and number:
            log.info("%d of %d notes", self.done, self.total)
