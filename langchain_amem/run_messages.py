"""The messages of a run of a graph: which belong to it, and for whom; what is recalled for them, and what of them is stored.

A graph keeps an entry of it in its state, without any text: `namespace`, whose run it is; `seen`, the last message when
the run began, or when it ended; and, until it has ended, `start`, the last message before those that are to be
remembered, and `since`, the last before those of this run alone. Of a message the entry has the id, or a digest. Nodes
add `by`, a digest of who began the run, `run`, the number of the run in its thread, and `fixed`, whether the namespace
is the same for everybody.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from inspect import iscoroutinefunction
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from amem_integrations import ConfigurationError, Note, adapting
from amem_integrations.conversation import Message

from .messages import ShouldStore, conversation, is_human, is_spoken
from .run import ByRun, Door, Namespace, Run

Entry = dict[str, Any]

RECENT = 32  # messages of which it is looked whether they were edited since they were stored


def merged(left: Mapping[str, Entry] | None, right: Mapping[str, Entry] | None) -> dict[str, Entry]:
    """Return the entries of two updates of a state; of one name the later."""
    return {**(left or {}), **(right or {})}


class History:
    """The messages of a graph, and the places in them that entries name by marks.

    Attributes:
        messages: Oldest first.
        marks: The ids of the messages; of one without an id a digest of the text, and the number of its occurrence.
        people: The places of what people said.
    """

    def __init__(self, messages: Sequence[BaseMessage]) -> None:
        """Take the messages."""
        self.messages, self.marks, seen = messages, list[str](), Counter[str]()
        for message in messages:
            said = f"{message.type} {message.text}".encode(errors="replace")
            digest = "" if message.id else sha256(said).hexdigest()[:24]
            seen[digest] += 1
            self.marks.append(message.id or f"{digest} {seen[digest]}")
        self.people = [number for number, message in enumerate(messages) if is_human(message)]
        # The places after the messages of the marks.
        self._after: dict[str | None, int] = {
            None: 0,
            **{mark: place for place, mark in enumerate(self.marks, 1)},
        }

    @cached_property
    def said(self) -> list[Message]:
        """The messages as the core reads them; nothing of them is to be stored."""
        return conversation(self.messages)

    def began(
        self, known: Iterable[Entry], namespace: Namespace, *, is_over: bool = False
    ) -> Entry:
        """Return the entry of a run that begins with these messages, or `is_over`; `known` are the entries of earlier ones.

        What an earlier run of the same namespace left unanswered is to be remembered with this one. What was said in a
        run of another namespace is not, nor what it was answered.
        """
        last, end = max(self.people, default=-1), len(self.messages)
        starts, sinces = list[int](), [last if is_over else 0]
        for entry in filter(None, known):
            seen = self.place(entry, "seen")
            is_own, is_open = entry["namespace"] == list(namespace), "start" in entry
            # Another memory may have dealt with this very run: then the entry has seen the last thing that was said.
            if seen is None or (seen > last and not is_own):
                continue
            fresh = seen
            if is_open or not is_own:
                fresh = min((number for number in self.people if number >= seen), default=end)
            left = self.place(entry, "start") if is_own and is_open else None
            starts.append(fresh if left is None else left)
            sinces.append(fresh)
        start = max(starts) if starts else self.guess()
        return self._entry(namespace, start=start, since=max(start, *sinces))

    def place(self, entry: Entry, name: str) -> int | None:
        """Return the place after a message that an entry names; None if there is no such message any more."""
        return self._after.get(entry[name])

    def ended(self, namespace: Namespace) -> Entry:
        """Return the entry after a run of which everything was dealt with."""
        return self._entry(namespace)

    def _entry(self, namespace: Namespace, **places: int) -> Entry:
        places["seen"] = len(self.marks)
        marks = {name: self.marks[at - 1] if at else None for name, at in places.items()}
        return {"namespace": list(namespace), **marks}

    def guess(self) -> int:
        """Return where a run begins of which nothing is known: after the last answer before the last thing a person said.

        So it is in a first run, without a checkpointer (the history is passed in each time), and where a history was cut.
        """
        if not self.people:
            return max(0, len(self.messages) - 1)
        for number in range(self.people[-1] - 1, -1, -1):
            message = self.messages[number]
            if isinstance(message, AIMessage) and not message.tool_calls:
                return number + 1
        return 0


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
        if not callable(self.should_store) or iscoroutinefunction(self.should_store):
            raise ConfigurationError(
                f"should_store={self.should_store!r} must be a plain function of a message that returns a bool"
            )

    def parts(
        self, history: History, entry: Entry, known: Iterable[Entry], run: Run
    ) -> dict[Namespace, range]:
        """Return which messages there are to remember, by place, and for whom; `known` are the entries of earlier runs.

        They are for whom the run began, as its entry says; where a person has added something since, such as who resumed
        the run, what follows is for that person.

        Raises:
            NamespaceError: Nothing says whose it is.
        """
        if "start" not in entry:  # nobody has noted the run when it began
            entry = history.began(known, self.space(run), is_over=True)
        begun, end = tuple(entry["namespace"]), len(history.messages)
        start = history.place(entry, "start" if self.unanswered else "since")
        start = history.guess() if start is None else start  # the history was cut meanwhile
        seen = history.place(entry, "seen")
        seen = end if seen is None else max(start, seen)
        space = self.space(run) if any(at >= seen for at in history.people) else begun
        if space == begun:
            return {begun: range(start, end)}
        return {begun: range(start, seen), space: range(seen, end)}

    async def find(
        self, call: adapting.Call, history: History, run: Run, space: Namespace
    ) -> adapting.Recalled:
        """Return the notes that are worth showing for the last message of a person."""
        with self.failures.tolerated("where", callback=True) as reasons:
            options = self.asked(run, space)
        if reasons:
            return adapting.Recalled()
        return await self.recalled(call, history.said, options)

    async def store(
        self,
        call: adapting.Call,
        history: History,
        run: Run,
        space: Namespace,
        wanted: Container[int],
        *,
        looks: bool = True,
        complete: bool = True,
    ) -> list[Note]:
        """Store those of the messages that are wanted, by place, and worth storing; return their notes.

        If it `looks`, notes of other messages among the last ones are edited where the messages were.
        """
        said, recent = list(history.said), len(history.said) - RECENT
        for place, (message, one) in enumerate(zip(history.messages, history.said, strict=True)):
            if place in wanted:
                with self.failures.tolerated("should_store", callback=True):
                    said[place] = replace(one, stored=bool(self.should_store(message)))
            elif looks and place >= recent and message.id is not None:
                said[place] = replace(one, stored=None)
        metadata = self.metadata
        if callable(metadata):
            given, metadata = metadata, None
            with self.failures.tolerated("metadata", callback=True):
                metadata = dict(given(run) or {})
        options = {"metadata": metadata, "complete": complete}
        roles = tuple({one.party for one in said})
        return await self.remembered(call, said, space, thread=run.thread, roles=roles, **options)
