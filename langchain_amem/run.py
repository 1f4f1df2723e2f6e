"""The run behind every door: whose memory it is about, what is recalled and stored of its messages, and failures."""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from amem_integrations import ConfigurationError, NamespaceError, Note, adapting
from amem_integrations.adapting import Call
from amem_integrations.conversation import Message

from .messages import ShouldStore, is_spoken
from .record import Entry, Record

log = logging.getLogger("langchain_amem")

Namespace = tuple[str, ...]
NamespaceOf = tuple[str, ...] | Callable[[Any], Sequence[str]]
ByRun = Mapping[str, Any] | Callable[[Any], Mapping[str, Any] | None] | None

HEARD = 1024  # messages of which a process knows to whom they were said, where no state does
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
    def agent(self) -> str:
        """The nodes in which the graph of the run stands, outermost first; "" if it is not in another graph."""
        place = str(self.config.get("configurable", {}).get("checkpoint_ns", ""))
        return "|".join(node.partition(":")[0] for node in place.split("|")[:-1])

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


@dataclass(eq=False)
class Turns(Door):
    """Recalls for what was asked, and remembers what was said.

    Errors of the application's functions and of the memory are counted, and take no answer away.

    Attributes:
        heard: By thread and id of a message, whose memory it was said to; of the last messages that this process knows.
    """

    should_store: ShouldStore = is_spoken
    metadata: ByRun = None
    unanswered: bool = True
    heard: dict[tuple[str | None, str | None], Namespace] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the options; the result of a coroutine function would always count as true."""
        super().__post_init__()
        adapting.check_flags(remember_unanswered=self.unanswered)
        adapting.check_plain(should_store=self.should_store, metadata=self.metadata)
        if not callable(self.should_store):
            raise ConfigurationError(
                f"should_store={self.should_store!r} must be a function of a message"
            )

    def entry(self, run: Run, node: str) -> Entry:
        """Return the entry of a run by what is known before its messages are read.

        Raises:
            NamespaceError: Nothing says whose it is.
        """
        fixed = not callable(self.namespace)
        return Entry(namespace=self.space(run), is_fixed=fixed, by=run.caller, node=node)

    def begun(self, record: Record, run: Run, mine: Entry) -> Entry:
        """Return the entry of a run that begins.

        Where the state knows of no earlier run, as in a graph that is a node of another one and keeps no state, this process
        may know that a message was said to somebody else; the run begins after that message.
        """
        begun = record.begin(mine)
        for place in record.words(begun.start) if begun.run == 0 else ():
            key = (run.thread, record.messages[place].id)
            if key[1] and self.heard.setdefault(key, mine.namespace) != mine.namespace:
                start = min(record.words(place + 1), default=record.end)
                begun = replace(begun, start=start)
        for key in [*self.heard][:-HEARD]:
            self.heard.pop(key, None)
        return begun

    async def store(
        self,
        call: Call,
        record: Record,
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
        said, recent = list(record.said), len(record.said) - RECENT
        for place, message in enumerate(record.messages):
            if place in wanted:
                with self.failures.tolerated("should_store", callback=True):
                    said[place] = replace(said[place], stored=bool(self.should_store(message)))
            elif looks and place >= recent:
                said[place] = replace(said[place], stored=None)
        said_in = {"thread": run.thread, "agent": run.agent}
        options = {"metadata": self.metadata_of(self.metadata, run), "complete": complete}
        roles = tuple({one.party for one in said})
        return await self.remembered(call, said, space, roles=roles, **said_in, **options)
