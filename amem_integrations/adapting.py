"""For those who write an adapter: what every framework's adapter needs, without a framework.

The turn of a conversation is the memory's own: `AgenticMemory.recall_turn`, `search_turn`, `remember_turn`,
`remember_fact`, `evolve_turn` and `evolve_later`; `Recalled` and `Remembered` are what they return.

- `both`, `Call`: one body of code for a method and its asynchronous twin.
- `Failures`: go on without a memory that does not answer, and say so.
- `SearchOptions`, `RecallOptions`, `checked_recall`: what is recalled, by the same words at every door; `FIELDS`: what `where` knows of a
  note, which `parse` checks.
- `Documents`: what a loader or a pipeline gives is added, found by id, and removed with its source.
- `notes_of`: all notes of a namespace that meet conditions.
- `falling`: scores of several searches, to sort by; `merged`: the hits of several searches, best first; `marked`: hits that say of which namespace they are.
- `check_namespace`: nobody's memory is never a default.
- `storable`: a text without what no store can hold.
- `check_counts`, `check_flags`: options are whole numbers from 1, or True or False, and nothing that looks alike.
- `RECALLED`: how many notes the recall of a turn considers, unless it is told otherwise; `WINDOW`: how many messages before a question
  are searched with the question.
- `WrappedEmbedder`, `EmbedderOptions`: embeddings of a framework, with prefixes, as the memory's embedder; `Structured`, `check_structured` and
  `refuses_schemas`: whether a chat model of the framework is asked by schema or in words.
- `decide`: the plan with the answers of a reviewer, or an error that says which of them cannot be used.
- `HELD`: why a plan does not write what `MemoryConfig(review=True)` leaves to a person.

Messages become notes by `amem_integrations.conversation`; a hit as JSON, for a document's metadata, is
`ScoredNote.to_dict()`.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, Self, TypeVar

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
from .filters import FIELDS as FIELDS
from .filters import check_count, check_similarity, conditions_of
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
from .ids import derive, note_id
from .ids import parse_time as parse_time
from .memory import AgenticMemory
from .notes import Note, NoteInput
from .notes import check_namespace as check_namespace
from .notes import storable as storable
from .plans import HELD as HELD
from .providers.embedders import EmbedderOptions as EmbedderOptions
from .providers.embedders import WrappedEmbedder as WrappedEmbedder
from .retrieval.relevance import WINDOW as WINDOW
from .retrieval.search import falling as falling
from .retrieval.search import merged as merged
from .runtime import Meter, Progress, describe, run

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")

OnError = Literal["log", "raise"]
Structured = Literal["auto", "schema", "words"]

# A server says by these that it does not take a request in this form, rather than that it is down.
REFUSALS = {400, 404, 415, 422, 501}

# Mistakes that no chat should hide: nothing says whose memory it is, or the memory cannot be used at all.
ALWAYS = (NamespaceError, StoreClosedError, EmbedderMismatchError, MissingExtraError)

SLOW = 0.5  # seconds that a failure takes which is a time-out, with repeats

BATCH = 64  # documents stored at once
PAGE = 64  # notes of a listing: most callers want a few
RECORD = "_document"  # of a note's metadata: {"id", "source"}


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
) -> tuple[
    Callable[Concatenate[S, P], R],
    Callable[Concatenate[S, P], Coroutine[Any, Any, R]],
]:
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
        conditions_of(None if callable(where) else where, options.get("as_of"), None)
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


def check_memory(memory: object) -> None:
    """Check that an adapter is given a memory.

    Raises:
        ConfigurationError: It is something else, such as the path of a memory.
    """
    if not isinstance(memory, AgenticMemory):
        kind = type(memory).__name__
        raise ConfigurationError(f"memory is a {kind} and must be an AgenticMemory: open_memory(…)")


def check_flags(**values: object) -> None:
    """Check that each value is True or False.

    Raises:
        ConfigurationError: One is not.
    """
    for name, value in values.items():
        if not isinstance(value, bool):
            raise ConfigurationError(f"{name}={value!r} must be True or False")


def check_structured(structured: str) -> None:
    """Check how a chat model is to be asked.

    Raises:
        ConfigurationError: In none of the ways of `Structured`.
    """
    if structured not in ("auto", "schema", "words"):
        raise ConfigurationError(f"structured={structured!r} must be 'auto', 'schema', 'words'")


def refuses_schemas(error: Exception) -> bool:
    """Return whether a model says that it cannot be asked by schema. Each vendor has error classes of its own."""
    return isinstance(error, NotImplementedError) or status_of(error) in REFUSALS


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
        self._rests_until: dict[str, float] = {}

    @contextmanager
    def tolerated(self, doing: str, *, callback: bool = False) -> Iterator[list[str]]:
        """Leave the block early, with a warning, when the memory does not work.

        Yields a list in which the reason is found afterwards.

        Args:
            doing: Names what is done, in the log and in the counts.
            callback: A function of the application is called, which may raise anything.
        """
        reasons, start = list[str](), time.monotonic()
        try:
            yield reasons
        except ALWAYS:
            raise
        except Exception as error:
            if not callback and not isinstance(error, AmemError | TimeoutError):
                raise
            self.failed(doing, error)
            reasons.append(f"{doing}: {error}")
            # A step that failed slowly is then left alone for ten times as long, but never for longer than a minute.
            if (took := time.monotonic() - start) >= SLOW:
                self._rests_until[doing] = start + took + min(60.0, 10 * took)

    def failed(self, doing: str, error: Exception | None) -> None:
        """Log and count an error, if there is one; with `on_error="raise"` raise the error."""
        if error is not None:
            self.count(doing, error)
            if self._on_error == "raise":
                raise error
            self._log.warning("%s failed and is skipped: %s", doing, error)

    def resting(self, doing: str) -> bool:
        """Return whether to do without, as not every message can wait for the same time-out; count it."""
        if time.monotonic() >= self._rests_until.get(doing, 0.0):
            return False
        self.count(doing)
        return True

    def count(self, doing: str, error: BaseException | None = None) -> None:  # noqa: ARG002 - for adapters
        """Count one failure; without an error it was not tried again, so soon after a time-out."""
        with self._lock:
            self._counts[doing] += 1

    def __deepcopy__(self, memo: object) -> Self:
        """Return the counter itself: a copy of what uses it counts there too."""
        return self

    def snapshot(self) -> dict[str, int]:
        """Return how often each thing failed so far."""
        with self._lock:
            return dict(self._counts)


# Notes


def notes_of(
    memory: AgenticMemory, namespace: Sequence[str], where: Mapping[str, Any]
) -> Iterator[Note]:
    """Yield the notes of a namespace that meet conditions, in the order in which they were first stored."""
    after, more = -1, True
    while more:
        further = {**where, "seq": {"$gt": after}}
        page = memory.get_all(namespace=namespace, where=further, limit=PAGE)
        yield from page
        after, more = page[-1].seq if page else after, len(page) == PAGE


# Documents


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentInput:
    """A document, or a chunk that somebody else made of one."""

    text: str
    id: str | None = None
    source: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class DocumentReport:
    """The result of adding documents: their ids in order, and how many notes were new, changed, or removed.

    A document without text is not stored, and has the id "".
    """

    ids: list[str] = field(default_factory=list)
    added: int = 0
    changed: int = 0
    removed: int = 0


class Documents:
    """The documents in one namespace of a memory."""

    def __init__(self, memory: AgenticMemory, namespace: Sequence[str]) -> None:
        """Take a memory and whose documents they are.

        Raises:
            NamespaceError: The namespace is not a non-empty tuple of strings.
        """
        self.memory, self.namespace = memory, check_namespace(namespace)

    def add(
        self,
        documents: Iterable[DocumentInput],
        *,
        replace: bool = False,
        evolve: bool = False,
        progress: bool | Progress = False,
    ) -> DocumentReport:
        """Add documents, and return what that did. After an interruption the same call goes on where it was.

        Args:
            documents: They are taken from it in batches, so that it may be a loader that yields them.
            replace: Remove what their sources held before and is not among them now.
            evolve: Put notes of a conversation, which are constructed, linked and evolve; False puts documents, which
                are found by words and meaning, and which no model reads, links or declares outdated.
            progress: True logs how far it is; a function is called with (documents added, documents in all), of
                which the second is not known before the end if `documents` has no length.

        Raises:
            InvalidInputError: A document cannot be stored, such as one that is longer than
                `MemoryConfig.max_content_chars`; those of earlier batches are.
            ModelUnavailableError: Only with `on_model_error="raise"`; the raw notes are stored.
        """
        report, seen, stays = DocumentReport(), Counter[str](), set[str]()
        sources = set[str | None]()
        meter = Meter(progress, len(documents) if isinstance(documents, Sized) else 0)
        rest = iter(documents)
        while batch := list(islice(rest, BATCH)):
            made = [_note(one, seen, evolve=evolve) for one in batch]
            items = [item for item in made if item is not None]
            before = {note.id: note for note in self._of(item.key for item in items)}
            notes = self.memory.add_many(items, namespace=self.namespace, evolve=evolve)
            stored = {note.id: note for note in notes}
            same = (_given(note) == _given(stored[i]) for i, note in before.items())
            report.added += len(stored.keys() - before.keys())
            report.changed += len(before) - sum(same)
            stays |= stored.keys()
            sources |= {one.source for one in batch}
            report.ids += ["" if item is None else item.metadata[RECORD]["id"] for item in made]
            meter.add(len(batch))
        if replace:
            held = self.held(sources)
            report.removed = self._delete(note for note in held if note.id not in stays)
        return report

    def remove(self, *, ids: Iterable[str] = (), sources: Iterable[str] = ()) -> int:
        """Remove the documents of these ids, and all of these sources, for good; return how many that were."""
        return self._delete([*self._of(map(_key, ids)), *self.held(sources)])

    def get(self, ids: Iterable[str]) -> list[DocumentInput]:
        """Return the documents of these ids, in this order, with all of their text; unknown ones are left out."""
        wanted = list(ids)
        found = {one.id: one for one in map(described, self._of(map(_key, wanted)))}
        return [found[one] for one in wanted if one in found]

    def held(self, sources: Iterable[str | None]) -> list[Note]:
        """Return the notes of all documents of some sources."""
        named = sorted({storable(source) for source in sources if source is not None})
        return self._find({f"metadata.{RECORD}.source": {"$in": named}})

    def _of(self, keys: Iterable[str | None]) -> list[Note]:
        items = [NoteInput(content="", key=key) for key in keys]
        return self._find({"id": {"$in": [note_id(self.namespace, item) for item in items]}})

    def _find(self, where: Mapping[str, Any]) -> list[Note]:
        return list(notes_of(self.memory, self.namespace, where))

    def _delete(self, notes: Iterable[Note]) -> int:
        gone = {note.id for note in notes}
        for one in gone:
            self.memory.delete(one, namespace=self.namespace)
        return len(gone)


def described(note: Note) -> DocumentInput:
    """Return the document that a note is of, its metadata as they were given."""
    metadata = dict(note.metadata)
    return DocumentInput(text=note.content, **metadata.pop(RECORD, {}), metadata=metadata)


def _given(note: Note) -> object:
    return described(note), note.origin


def _note(document: DocumentInput, seen: Counter[str], *, evolve: bool) -> NoteInput | None:
    """Return the note of a document; None if the document has no text."""
    if not storable(document.text).strip():
        return None
    # What is no JSON, such as a path or a date, becomes its text.
    metadata = json.loads(json.dumps(dict(document.metadata), default=str), parse_constant=str)
    identity = document.id
    if identity is None:
        identity = derive("document", document.source, document.text, sorted(metadata.items()))
        seen[identity] += 1  # the same text may stand there several times
        identity = identity if seen[identity] == 1 else derive("document", identity, seen[identity])
    return NoteInput(
        content=document.text,
        key=_key(identity),
        thread=document.source,
        source="import",
        metadata={**metadata, RECORD: {"id": identity, "source": document.source}},
        origin="conversation" if evolve else "document",
    )


def _key(identity: str) -> str:
    return json.dumps(["document", identity], ensure_ascii=False)
