"""The run behind every door: whose memory it is about, what is recalled and stored of its messages, and failures.

A graph keeps an `Entry` of a run in its state: JSON values without any text of a message. A mark stands for a message: its
id, or a digest where it has none. A place between two messages has the marks of both, since a call of the model may show
the end of a history alone. The keys of an entry:

- `namespace`: Whose run it is.
- `seen`: The mark of the last message when the run began, or, of a run that has ended, when the run ended.
- `start`: The place from which on messages are to be remembered; only until the run has ended.
- `since`: The place from which on messages are of this run alone; what stands between `start` and `since` was left by
  earlier runs. Only until the run has ended.

Nodes add:

- `run`: A digest of who began the run, and the mark of the last message then.
- `by`: A digest of who had the node run.
- `fixed`: Whether the namespace is the same for everybody.
- `left`: True if what was said could not be stored, so that the next run of the namespace stores that.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, NamedTuple

from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from langchain_core.retrievers import BaseRetriever

from amem_integrations import ConfigurationError, NamespaceError, Note, adapting
from amem_integrations.adapting import Call
from amem_integrations.conversation import Message

from .messages import ShouldStore, conversation, is_spoken

log = logging.getLogger("langchain_amem")

Namespace = tuple[str, ...]
NamespaceOf = tuple[str, ...] | Callable[[Any], Sequence[str]]
ByRun = Mapping[str, Any] | Callable[[Any], Mapping[str, Any] | None] | None
Entry = dict[str, Any]

RECENT = 32  # messages of which it is looked whether they were edited since they were stored

_everywhere = adapting.Failures(log)


class Failures(adapting.Failures):
    """Counts for itself, and for the whole process."""

    def __init__(self, on_error: adapting.OnError = "log") -> None:
        super().__init__(log, on_error)

    def count(self, doing: str, error: Exception) -> None:
        """Count one failure."""
        super().count(doing, error)
        _everywhere.count(doing, error)


def failures() -> dict[str, int]:
    """Return how often the memory did not work in this process, by what an adapter was doing.

    Keys: `recall`, `remember`, `evolve`, and so on; also callbacks of yours that raised, such as `should_store`.
    """
    return _everywhere.snapshot()


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
        named = sorted(each for each in given if not each[0].startswith(machinery))
        # The text of an object may name an address, which another process has not.
        context = getattr(self.context, "__dict__", self.context)
        return sha256(repr((context, named)).encode()).hexdigest()[:16]


def current_run(state: Any, config: Mapping[str, Any] | None = None) -> Run:
    """Return the run that a hook or a node is called in; outside a graph there is no `context`."""
    from langgraph.config import get_config  # noqa: PLC0415 - an extra
    from langgraph.runtime import get_runtime  # noqa: PLC0415 - an extra

    try:
        context = getattr(get_runtime(), "context", None)
        return Run(context=context, state=state, config=get_config())
    except (RuntimeError, KeyError):
        return Run(state=state, config=config or {})


# Recall as a retriever run


class AMemRecall(BaseRetriever):
    """One recall of another door, as a retriever run below the run that is under way."""

    find: Callable[[Call], Any]
    found: adapting.Recalled = adapting.Recalled()

    async def _search(self, call: Call, /, query: str, *, run_manager: Any) -> list[Document]:
        self.found = await self.find(call)
        return to_documents(self.found) if run_manager.handlers else []

    _get_relevant_documents, _aget_relevant_documents = adapting.both(_search)


def to_documents(found: adapting.Recalled) -> list[Document]:
    """Return notes as documents: the content word for word, what is known of the hit, and its own metadata above all."""
    documents = []
    for hit in found.hits:
        about, given = hit.to_dict(), adapting.described(hit.note)
        if given.id or hit.note.origin == "document":
            del about["source"]  # of the note, not of the document
        del about["metadata"]
        about["passage"] = " … ".join(each.text for each in hit.passages) if hit.passage else None
        document = Document(
            id=hit.note.id, page_content=hit.note.content, metadata={**about, **given.metadata}
        )
        documents.append(document)
    return documents


# The options of the doors


class Door(adapting.Door):
    """The options that middleware, nodes and tools share, checked; the functions among them are given the run."""

    def settled(self, namespace: adapting.Whose, *run: object, optional: bool = False) -> Namespace:
        """Return the namespace that is meant in a run; an empty one only if it is optional.

        Raises:
            NamespaceError: The run does not say whose memory it is; there is no shared default.
        """
        try:
            return super().settled(namespace, *run, optional=optional)
        except (AttributeError, KeyError, TypeError) as error:
            raise NamespaceError(
                f"this run does not say whose memory it is ({error!r}); pass what `namespace` reads, "
                "such as invoke(…, context=…), also when a run is resumed"
            ) from error

    async def found(
        self, call: Call, question: str, search: Callable[[Call], Any]
    ) -> adapting.Recalled:
        """Return the result of a search of the memory, as a retriever run."""
        run = AMemRecall(find=search)
        await call(run.invoke, question)
        return run.found

    async def recalled(
        self, call: Call, said: Sequence[Message], run: Any, space: Namespace
    ) -> adapting.Recalled:
        """Return the notes that are worth showing for the last message of a person; none if the memory does not answer."""
        found, options = adapting.Recalled(), self.asked(run, namespace=space)
        question = next((one.text for one in reversed(said) if one.party == "user"), "")
        if options is None:
            return found
        with self.failures.tolerated("recall"):
            search = self.memory.recall_turn
            found = await self.found(call, question, lambda call: call(search, said, **options))
        self.failures.failed("recall", found.error)
        return found

    async def remembered(
        self, call: Call, said: Sequence[Message], space: Namespace, **options: Any
    ) -> list[Note] | None:
        """Store messages, and return their notes; None if the memory does not answer."""
        done: adapting.Remembered | None = None
        with self.failures.tolerated("remember"):
            done = await call(self.memory.remember_turn, said, namespace=space, **options)
        if done is None:
            return None
        self.failures.failed("remember", done.error)
        return done.notes


# The messages of a graph


def merged(left: Mapping[str, Entry], right: Mapping[str, Entry] | None) -> dict[str, Entry]:
    """Return the entries of two updates of a state, the latest last; of one name the later."""
    later = right or {}
    return {**{name: one for name, one in left.items() if name not in later}, **later}


class History:
    """The messages of a graph, and the places in them that entries name by marks.

    Attributes:
        messages: Oldest first.
        said: The messages as the core reads them; nothing of them is to be stored.
        marks: By place the id of the message before, or a digest of its place and text; None at the beginning.
        people: The places of what people said.
    """

    def __init__(self, messages: Sequence[BaseMessage]) -> None:
        """Take the messages."""
        self.messages, self.said = messages, conversation(messages)
        self.marks = [None, *(one.id or _digest(n, one) for n, one in enumerate(messages))]
        self.people = [n for n, one in enumerate(self.said) if one.party == "user"]

    def place(self, entry: Entry, name: str) -> int | None:
        """Return the place that an entry names, by the message before, else by the next; None if neither is there."""
        marks = entry.get(name, ())
        found = (self.marks.index(mark) - n for n, mark in enumerate(marks) if mark in self.marks)
        return next(found, None)

    def entry(self, namespace: Namespace, **places: int) -> Entry:
        """Return the entry of a run that has these places, or that has ended now."""
        marks = {name: self.marks[place : place + 2] for name, place in places.items()}
        return {"namespace": list(namespace), **marks, "seen": self.marks[-1:]}

    def began(
        self,
        known: Iterable[Entry],
        namespace: Namespace,
        *,
        by: str | None = None,
        is_over: bool = False,
        is_fixed: bool = False,
    ) -> Entry:
        """Return the entry of a run that begins with these messages, or that has ended without an entry.

        What an earlier run of the same namespace left unanswered is to be remembered with this one. What was said in a
        run of another namespace is not, nor the answers to that.

        Args:
            known: The entries of earlier runs, the latest last.
            namespace: Whose run it is.
            by: A digest of who has the run; None: a middleware, which notes no `by`.
            is_over: Whether the run has ended: then its beginning was not noted.
            is_fixed: Whether the namespace is the same for everybody.
        """
        last, starts, is_cut = max(self.people, default=-1), list[int](), False
        sinces = [last if is_over else 0]
        for entry in known:
            is_own = entry.get("namespace") == list(namespace)
            left = self.place(entry, "start") if is_own else None
            seen = self.place(entry, "seen")
            seen = left if seen is None else seen
            if seen is None:
                is_cut |= "namespace" in entry and not is_own
                continue
            is_cut &= not is_own  # it was before
            # Another memory may have dealt with this very run: then the same caller had it run (which a middleware does not
            # note), and it has seen the last words of people. Where the state says whose memory it is callers do not differ,
            # so a run that was left to the next one, or was over before, is another all the same.
            is_same = not is_own and entry.get("by", "") == by
            if is_same and is_over:
                is_same = seen == len(self.said) or (seen > last and (is_fixed or entry["fixed"]))
            elif is_same:
                is_same = seen > last and "start" in entry and "left" not in entry
            if is_same:
                continue
            if "start" in entry or not is_own:
                end = seen if is_over else len(self.said)
                seen = min((n for n in self.people if n >= seen), default=end)
            starts.append(seen if left is None else left)
            sinces.append(seen)
        # Where it is not known which messages were said in the runs of others, the last question alone is of this run.
        starts += [max(last, 0)] if is_cut else []
        start = max(starts, default=self.guess())
        return self.entry(namespace, start=start, since=max(start, *sinces))

    def guess(self) -> int:
        """Return the place where an unknown run begins: after the last answer before the last words of a person.

        So it is in a first run, without a checkpointer (the history is passed in each time), and where a history was cut.
        """
        last = max(self.people, default=len(self.said) - 1)
        for place in range(last, 0, -1):
            before = self.said[place - 1]
            if before.party == "assistant" and not before.calls_tools:
                return place
        return 0


def _digest(place: int, message: BaseMessage) -> str:
    said = f"{place} {message.type} {message.text}"
    return sha256(said.encode(errors="replace")).hexdigest()[:24]


class Part(NamedTuple):
    """Whose the messages at some places are, and whether an earlier run left them, which failed or was not stored."""

    namespace: Namespace
    places: range
    is_left: bool = False


@dataclass(eq=False)
class Turns(Door):
    """Recalls for what was asked, and remembers what was said.

    What the functions of the application or the memory raise is counted, and takes no answer away.
    """

    should_store: ShouldStore = is_spoken
    metadata: ByRun = None
    unanswered: bool = True

    def __post_init__(self) -> None:
        """Check the options; the result of a coroutine function would always count as true."""
        super().__post_init__()
        adapting.check_flags(remember_unanswered=self.unanswered)
        adapting.check_plain(should_store=self.should_store, metadata=self.metadata)
        if not callable(self.should_store):
            raise ConfigurationError(
                f"should_store={self.should_store!r} must be a function of a message"
            )

    def parts(self, history: History, entry: Entry, known: Iterable[Entry], run: Run) -> list[Part]:
        """Return the messages to remember, oldest first, the last part of this run; `known` are the entries of earlier runs.

        They are for whom the run began, as its entry says; where a person has added something since, such as who resumed
        the run, what follows is for that person.

        Raises:
            NamespaceError: Nothing says whose it is.
        """
        is_noted = "start" in entry
        if not is_noted:  # when it began
            fixed = not callable(self.namespace)
            entry = history.began(
                known, self.space(run), by=run.caller, is_over=True, is_fixed=fixed
            )
        begun, end = tuple(entry["namespace"]), len(history.messages)
        seen = history.place(entry, "seen")
        seen = end if seen is None else seen
        names = ("start", "since") if self.unanswered else ("since",)
        starts = [at for name in names if (at := history.place(entry, name)) is not None]
        # Where the history was cut meanwhile, the last question alone is surely of this run.
        last = max((at for at in history.people if at < seen), default=0)
        start = starts[0] if starts else last
        added = min((at for at in history.people if at >= max(start, seen)), default=end)
        space = self.space(run) if added < end else begun
        since = history.place(entry, "since")
        since = min(max(start, since), added) if since is not None and is_noted else start
        left = [Part(begun, range(start, since), is_left=True)] if start < since else []
        if space == begun:
            return [*left, Part(begun, range(since, end))]
        return [*left, Part(begun, range(since, added)), Part(space, range(added, end))]

    async def store(
        self,
        call: Call,
        history: History,
        run: Run,
        space: Namespace,
        wanted: Container[int],
        *,
        looks: bool = True,
        complete: bool = True,
    ) -> list[Note] | None:
        """Store those of the messages that are wanted, by place, and worth storing; return their notes, None if that failed.

        If it `looks`, notes of other messages among the last ones are edited where the messages were.
        """
        said, recent = list(history.said), len(history.said) - RECENT
        for place, message in enumerate(history.messages):
            if place in wanted:
                with self.failures.tolerated("should_store", callback=True):
                    said[place] = replace(said[place], stored=bool(self.should_store(message)))
            elif looks and place >= recent:
                said[place] = replace(said[place], stored=None)
        options = {"metadata": self.metadata_of(self.metadata, run), "complete": complete}
        roles = tuple({one.party for one in said})
        return await self.remembered(call, said, space, thread=run.thread, roles=roles, **options)
