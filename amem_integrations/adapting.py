"""For those who write an adapter: what every framework's adapter needs, without a framework.

The turn of a conversation is the memory's own: `AgenticMemory.recall_turn`, `search_turn`, `remember_turn`,
`remember_fact`, `evolve_turn` and `evolve_later`; `Recalled` and `Remembered` are what the first three return.

- `both`, `Call`: one body of code for a method and its asynchronous twin; `in_thread`: the twin of what is only
  synchronous, in which `GIVEN_UP` says whether the twin was cancelled.
- `Failures`: go on without a memory that does not answer, and say so.
- `SearchOptions`, `RecallOptions`, `checked_recall`: what is recalled, by the same words at every door; `parse` checks a `where`.
- `Door`: the options of a way into a memory, checked, and what is asked by them.
- `told_of`, `shown`: what a tool tells a model of a note that it remembered, and of the notes that it found; `copied_id`: an
  id that the model took from there.
- `Documents`: what a loader or a pipeline gives is added, found by id, and removed with its source.
- `notes_of`: all notes of a namespace that meet conditions.
- `falling`: scores of several searches, to sort by; `marked`: hits that say of which namespace they are.
- `check_namespace`: nobody's memory is never a default.
- `storable`: a text without what no store can hold.
- `check_counts`, `check_flags`: options are whole numbers from 1, or True or False, and nothing that looks alike.
- `RECALLED`: how many notes the recall of a turn considers, unless it is told otherwise; `WINDOW`: how many messages before a question
  are searched with the question.
- `WrappedEmbedder`, `EmbedderOptions`: embeddings of a framework, with prefixes, as the memory's embedder; `Structured` and
  `Forms`: whether a chat model of the framework is asked by schema or in words.
- `decide`: the plan with the answers of a reviewer, or an error that says which of them cannot be used.
- `HELD`: why a plan does not write what `MemoryConfig(review=True)` leaves to a person.

Messages become notes by `amem_integrations.conversation`; a hit as JSON, for a document's metadata, is
`ScoredNote.to_dict()`.
"""

from __future__ import annotations

import logging
import re
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Container, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from inspect import iscoroutinefunction
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, Self, TypeVar

from .documents import RECORD as RECORD
from .documents import DocumentInput as DocumentInput
from .documents import DocumentReport as DocumentReport
from .documents import Documents as Documents
from .documents import described as described
from .documents import notes_of as notes_of
from .errors import (
    AmemError,
    ConfigurationError,
    EmbedderMismatchError,
    InvalidInputError,
    MissingExtraError,
    NamespaceError,
    StoreClosedError,
    status_of,
)
from .evolution.gate import decide as decide
from .filters import check_count, check_similarity, conditions_of
from .filters import check_names as check_names
from .filters import parse as parse
from .flows.read import marked as marked
from .flows.turn import ANSWERS as ANSWERS
from .flows.turn import HASH as HASH
from .flows.turn import LEFT_OVERS as LEFT_OVERS
from .flows.turn import RECALLED as RECALLED
from .flows.turn import Recalled as Recalled
from .flows.turn import RecallOptions as RecallOptions
from .flows.turn import Remembered as Remembered
from .flows.turn import SearchOptions as SearchOptions
from .ids import SPELLING
from .ids import parse_time as parse_time
from .memory import AgenticMemory
from .notes import Note, ScoredNote, plain, storable_values
from .notes import check_namespace as check_namespace
from .notes import storable as storable
from .plans import HELD as HELD
from .providers.embedders import EmbedderOptions as EmbedderOptions
from .providers.embedders import WrappedEmbedder as WrappedEmbedder
from .retrieval.context import render_notes
from .retrieval.relevance import WINDOW as WINDOW
from .retrieval.search import falling as falling
from .runtime import GIVEN_UP as GIVEN_UP
from .runtime import describe, run
from .runtime import in_thread as in_thread

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")

OnError = Literal["log", "raise"]
Structured = Literal["auto", "schema", "words"]
Whose = Sequence[str] | Callable[..., Sequence[str]]
Metadata = Mapping[str, Any] | Callable[..., Mapping[str, Any] | None] | None

# A server says by these that it does not take a request in this form, rather than that it is down.
REFUSALS = {400, 404, 415, 422, 501}

# Mistakes that no chat should hide: nothing says whose memory it is, or the memory cannot be used at all.
ALWAYS = (NamespaceError, StoreClosedError, EmbedderMismatchError, MissingExtraError)

_ID = re.compile(SPELLING)
# The words of a tool to a model about a supersession.
TAKEN = "It takes the place of note {}."
PROPOSED = "Note {} stands as before: it is the user's own, so it is only proposed that this takes its place."


# Methods with an asynchronous twin


class Call(Protocol):
    """Calls a synchronous method of the memory in the form that suits the caller."""

    async def __call__(self, method: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Return the result of the method, or of its asynchronous twin."""
        ...


async def directly(method: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Call the method here and now: the caller is synchronous."""
    return method(*args, **kwargs)


async def awaited(method: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Await the method's twin, whose name has an `a` in front: the running loop is the caller's own."""
    bound: Any = method
    result: R = await getattr(bound.__self__, f"a{bound.__name__}")(*args, **kwargs)
    return result


def both(
    flow: Callable[Concatenate[S, Call, P], Coroutine[Any, Any, R]],
) -> tuple[Callable[Concatenate[S, P], R], Callable[Concatenate[S, P], Coroutine[Any, Any, R]]]:
    """Return the synchronous and the asynchronous method of a flow, with its signature and docstring."""

    def now(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return run(flow(self, directly, *args, **kwargs))

    async def later(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await flow(self, awaited, *args, **kwargs)

    name = flow.__name__.lstrip("_")
    describe(now, flow, name, given=2)
    describe(later, flow, f"a{name}", given=2)
    return now, later


# Options


def checked_recall(
    options: Mapping[str, Any], known: type[SearchOptions] = RecallOptions
) -> dict[str, Any]:
    """Return the options of a recall, checked, so that a mistake shows when a door is made and not in its first search.

    Raises:
        ConfigurationError: An option has a value that it cannot have.
        TypeError: An option is unknown.
    """
    if unknown := sorted(options.keys() - known.__annotations__.keys()):
        names = ", ".join(known.__annotations__)
        raise TypeError(f"unknown option {unknown[0]!r}; use one of {names}")
    check_flags(links=options.get("links", True))
    where = options.get("where")
    try:
        for name, least in (("k", 1), ("max_tokens", 1), ("window", 0)):
            check_count(name, options.get(name, least), least)
        conditions_of(
            None if callable(where) else where, options.get("as_of"), options.get("known_at")
        )
        check_similarity(options.get("min_similarity"))
    except InvalidInputError as error:
        raise ConfigurationError(str(error)) from error
    return dict(options)


def check_counts(*, least: int = 1, **values: object) -> None:
    """Check that each value is a whole number of at least `least`.

    Raises:
        ConfigurationError: One is not.
    """
    for name, value in values.items():
        check_count(name, value, least, ConfigurationError)


def check_flags(**values: object) -> None:
    """Check that each value is True or False.

    Raises:
        ConfigurationError: One is not.
    """
    for name, value in values.items():
        if not isinstance(value, bool):
            raise ConfigurationError(f"{name}={value!r} must be True or False")


def check_plain(**values: object) -> None:
    """Check that no function among values is a coroutine function.

    Raises:
        ConfigurationError: One is.
    """
    for name, value in values.items():
        if iscoroutinefunction(value):
            raise ConfigurationError(f"{name}={value!r} is a coroutine function; give a plain one")


class Forms:
    """The forms in which a chat model is asked: by schema, or in words once it has refused schemas and answered in words."""

    def __init__(self, structured: Structured, log: logging.Logger) -> None:
        """Take the form that is wanted, and where it is said that a model refuses schemas.

        Raises:
            ConfigurationError: `structured` is none of the ways of `Structured`.
        """
        if structured not in ("auto", "schema", "words"):
            raise ConfigurationError(f"structured={structured!r} must be 'auto', 'schema', 'words'")
        self._structured, self._log = structured, log
        self._wordy: object = None  # the model that was last asked in words

    async def answer(self, ask: Callable[[bool], Awaitable[R]], model: object) -> R:
        """Return the answer of a model, where `ask` asks it by schema (True) or in words.

        A model is known to refuse schemas once it has answered in words: what is refused in both forms, such as a prompt
        that is too long, says nothing about schemas.
        """
        if self._structured != "words" and model is not self._wordy:
            try:
                return await ask(True)
            except Exception as error:
                cannot = isinstance(error, NotImplementedError | ConfigurationError)
                if self._structured == "schema" or not (cannot or status_of(error) in REFUSALS):
                    raise
                self._log.info("a model takes no schema, it is asked in words now: %r", error)
        answer = await ask(False)
        self._wordy = model
        return answer


# Failures


class Failures:
    """Counts and logs what the user of a chat cannot mend, so that no answer is lost by it.

    That is any error of the memory, of its store, its embedder and its models, such as a time-out or a refused key; and,
    where a callback is called, any error of the callback. A missing user id and a closed memory raise (`ALWAYS`). May be
    used by several threads at once.

    Example:
        >>> import logging
        >>> failures = Failures(logging.getLogger("my_adapter"))
        >>> def recall(question):
        ...     with failures.tolerated("recall"):
        ...         raise TimeoutError("too slow")
        ...     return []
        >>> recall("Where does Ann live?")
        []
        >>> failures.snapshot()
        {'recall': 1}
    """

    def __init__(self, log: logging.Logger, on_error: OnError = "log") -> None:
        """Start at zero.

        Args:
            log: Where warnings go.
            on_error: `"log"` skips what fails, with a warning; `"raise"` counts and raises it.

        Raises:
            ConfigurationError: `on_error` is something else.
        """
        if on_error not in ("log", "raise"):
            raise ConfigurationError(f"on_error={on_error!r} must be 'log' or 'raise'")
        self._log, self._on_error = log, on_error
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    @contextmanager
    def tolerated(self, doing: str, *, callback: bool = False) -> Iterator[list[str]]:
        """Leave the block early, with a warning, when the memory does not work.

        Yields a list in which the reason is found afterwards.

        Args:
            doing: Names what is done, in the log and in the counts.
            callback: A function of the application is called, which may raise anything.
        """
        reasons = list[str]()
        try:
            yield reasons
        except ALWAYS:
            raise
        except Exception as error:
            if not callback and not isinstance(error, AmemError | TimeoutError):
                raise
            self.failed(doing, error)
            reasons.append(f"{doing}: {error}")

    def failed(self, doing: str, error: Exception | None) -> None:
        """Log and count an error, if there is one; with `on_error="raise"` raise the error."""
        if error is not None:
            self.count(doing, error)
            if self._on_error == "raise":
                raise error
            self._log.warning("%s failed and is skipped: %s", doing, error)

    def count(self, doing: str, error: Exception) -> None:  # noqa: ARG002 - for adapters
        """Count one failure."""
        with self._lock:
            self._counts[doing] += 1

    def __deepcopy__(self, memo: object) -> Self:
        """Return the counter itself: a copy of what uses it counts there too."""
        return self

    def snapshot(self) -> dict[str, int]:
        """Return how often each thing failed so far."""
        with self._lock:
            return dict(self._counts)


# Doors


@dataclass(eq=False)
class Door:
    """The options of a way into a memory, checked: whose memory, what is read of it, and what is done about failures.

    `namespace`, the namespaces of `also`, and `where` may be functions of the framework's run; where a framework has no
    object for a run, of nothing.

    Raises:
        ConfigurationError: There is no memory, or an option has a value that it cannot have.
        NamespaceError: A namespace is malformed.
        TypeError: An option of `recall` is unknown.
    """

    memory: AgenticMemory
    namespace: Whose
    _: KW_ONLY
    failures: Failures
    also: Mapping[str, Whose] | None = None
    recall: Mapping[str, Any] = field(default_factory=dict)
    evolve: bool = False

    def __post_init__(self) -> None:
        """Check the options, so that a mistake shows when the door is made and not in its first search."""
        if not isinstance(self.memory, AgenticMemory):
            kind = type(self.memory).__name__
            raise ConfigurationError(
                f"memory is a {kind} and must be an AgenticMemory: open_memory(…)"
            )
        check_flags(evolve=self.evolve)
        checked_recall(self.recall)
        also = self.also = {} if self.also is None else self.also
        if not isinstance(also, Mapping) or not all(isinstance(n, str) and n.strip() for n in also):
            raise ConfigurationError(
                f"also={also!r} must be a dict of names to namespaces, such as {{'team': ('acme',)}}"
            )
        spaces = {"namespace": self.namespace, **{f"also[{n!r}]": one for n, one in also.items()}}
        check_plain(**spaces, where=self.recall.get("where"))
        for one in spaces.values():
            if not callable(one):
                check_namespace(one)

    def space(self, *run: object) -> tuple[str, ...]:
        """Return the namespace of a run."""
        return self.settled(self.namespace, *run)

    def settled(self, namespace: Whose, *run: object, optional: bool = False) -> tuple[str, ...]:
        """Return the namespace that is meant in a run; an empty one only if it is optional.

        Raises:
            NamespaceError: The run does not say whose memory it is; there is no shared default.
        """
        found = namespace(*run) if callable(namespace) else namespace
        return () if optional and not found else check_namespace(found)

    def asked(
        self,
        *run: object,
        namespace: Sequence[str],
        narrowed: Sequence[Mapping[str, Any]] = (),
        **options: Any,  # noqa: ANN401 - those of a search
    ) -> dict[str, Any] | None:
        """Return the options of a search in a run; a function may give an empty namespace of `also` to read none.

        A function that fails costs the search that namespace, or, if it is `where`, all notes: the options are None then,
        as none is shown unfiltered.

        Args:
            run: The argument of functions.
            namespace: Whose memory.
            narrowed: Further conditions.
            options: Other values of the options.

        Raises:
            NamespaceError: The run does not say one of the further namespaces.
        """
        also = dict[str, tuple[str, ...]]()
        for name, one in (self.also or {}).items():
            with self.failures.tolerated("also", callback=True):
                if found := self.settled(one, *run, optional=True):
                    also[name] = found
        with self.failures.tolerated("where", callback=True):
            where = self.recall.get("where")
            where = where(*run) if callable(where) else where
            parse({} if where is None else where)  # else a search would fail, or know no filter
            tests = [one for one in (where, *narrowed) if one]
            asked = {**self.recall, **options, "namespace": namespace, "also": also}
            return {**asked, "where": {"$and": tests} if tests else None}
        return None

    def metadata_of(self, given: Metadata, *run: object) -> dict[str, Any]:
        """Return the metadata of what is stored in a run; none where a function fails, or gives what cannot be stored.

        The words are worth more than the metadata.
        """
        with self.failures.tolerated("metadata", callback=True):
            made = given(*run) if callable(given) else given
            stored: dict[str, Any] = plain(storable_values(dict(made or {})), "metadata")
            check_names(stored, HASH, ANSWERS)
            return stored
        return {}

    def evolve_later(self, namespace: Sequence[str]) -> None:
        """Have the memory evolve a namespace in the background, if it shall."""
        if self.evolve:
            self.memory.evolve_later(namespace)


# Tools


def copied_id(text: object) -> str:
    """Return the id of a note as a model copied it, with what may stand around it; a text that names not one id as it is."""
    found = _ID.findall(str(text))
    return found[0] if len(found) == 1 else str(text)


def told_of(note: Note, older: Sequence[str], taken: Container[str]) -> str:
    """Return the words of a tool about a note that it remembered, and about the notes whose place this one was to take."""
    came = [(TAKEN if one in taken else PROPOSED).format(one) for one in older]
    return " ".join([f"Remembered as note {note.id}.", *came])


def shown(
    hits: Sequence[ScoredNote], also: Mapping[str, Sequence[str]], max_tokens: int
) -> str | None:
    """Return the hits of a search as a tool shows them, with their ids; None if there are none."""
    text = render_notes(marked(hits, also), max_tokens=max_tokens, ids=True)
    if text or not hits:
        return text or None
    ids = ", ".join(hit.note.id for hit in hits)
    return f"{len(hits)} notes were found, too long to be shown in {max_tokens} tokens; their ids are {ids}."
