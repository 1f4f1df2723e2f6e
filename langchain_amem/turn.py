"""A turn of a graph: which messages belong to it, and for whom; what is recalled for it, and what of it is stored.

A graph keeps of it in its state, by `began` and `ended`, an entry without any text: `namespace`, whose run it is; `seen`,
the last message when the run began, or when it ended; and, until it has ended, `start`, the last message before those that
are to be remembered, and `since`, the last before those of this run alone. Of a message stands its id there, or a digest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from amem_integrations import AgenticMemory, Note, adapting

from .messages import ShouldStore, conversation, is_human, is_spoken
from .retriever import traced
from .run import ByRun, Failures, Namespace, NamespaceOf, Run, others_of

Entry = dict[str, Any]

RECENT = 32  # messages of which it is looked whether they were edited since they were stored


def merged(left: Mapping[str, Entry] | None, right: Mapping[str, Entry] | None) -> dict[str, Entry]:
    """Return the entries of two updates of a state; of one name the later."""
    return {**(left or {}), **(right or {})}


def began(
    messages: Sequence[BaseMessage],
    known: Iterable[Entry],
    namespace: Namespace,
    *,
    is_over: bool = False,
) -> Entry:
    """Return the entry of a run that begins with these messages, or `is_over`; `known` are the entries of earlier ones.

    What an earlier run of the same namespace left unanswered is to be remembered with this one. What was said in a run of
    another namespace is not, nor what it was answered.
    """
    marks = marks_of(messages)
    people = [number for number, message in enumerate(messages) if is_human(message)]
    last = people[-1] if people else -1
    begins, sinces = [], [last if is_over else 0]
    for entry in known:
        seen = _after(marks, entry["seen"])
        is_own, is_open = entry["namespace"] == list(namespace), "start" in entry
        # Another memory may have dealt with this very run: then the entry has seen the last thing that was said.
        if seen is None or (seen > last and not is_own):
            continue
        fresh = seen
        if is_open or not is_own:
            fresh = next((number for number in people if number >= seen), len(messages))
        begun = _after(marks, entry["start"]) if is_own and is_open else fresh
        begins.append(fresh if begun is None else begun)
        sinces.append(fresh)
    start = max(begins, default=_guess(messages, people))
    return {
        "namespace": list(namespace),
        "start": _before(marks, start),
        "since": _before(marks, max(start, *sinces)),
        "seen": _before(marks, len(marks)),
    }


def ended(messages: Sequence[BaseMessage], namespace: Namespace) -> Entry:
    """Return the entry after a run of which everything was dealt with."""
    marks = marks_of(messages)
    return {"namespace": list(namespace), "seen": _before(marks, len(marks))}


def parts_of(
    messages: Sequence[BaseMessage],
    entry: Entry,
    whose: Callable[[], Namespace],
    *,
    unanswered: bool = True,
) -> dict[Namespace, range]:
    """Return which messages of a run there are to remember, by place, and for whom.

    They are for whom the run began; where a person has added something since, such as who resumed the run, what follows
    is for `whose`.
    """
    marks, begun = marks_of(messages), tuple(entry["namespace"])
    start = _after(marks, entry["start" if unanswered else "since"])
    seen, end = _after(marks, entry["seen"]), len(messages)
    if start is None:  # the history was cut meanwhile
        start = _guess(messages, [n for n, message in enumerate(messages) if is_human(message)])
    seen = end if seen is None else max(seen, start)
    space = whose() if any(map(is_human, messages[seen:])) else begun
    if space == begun:
        return {begun: range(start, end)}
    return {begun: range(start, seen), space: range(seen, end)}


def marks_of(messages: Sequence[BaseMessage]) -> list[str]:
    """Return the marks by which a state knows messages: their ids; without one a digest of the text, and its occurrence."""
    marks, seen = [], Counter[str]()
    for message in messages:
        said = f"{message.type} {message.text}".encode(errors="replace")
        digest = "" if message.id else sha256(said).hexdigest()[:24]
        seen[digest] += 1
        marks.append(message.id or f"{digest} {seen[digest]}")
    return marks


def _before(marks: Sequence[str], place: int) -> str | None:
    return marks[place - 1] if place else None


def _after(marks: Sequence[str], mark: str | None) -> int | None:
    """Return the place after the last message of a mark, the beginning for None; None if there is no such message."""
    if mark is None:
        return 0
    return next((n + 1 for n in range(len(marks) - 1, -1, -1) if marks[n] == mark), None)


def _guess(messages: Sequence[BaseMessage], people: Sequence[int]) -> int:
    """Return where a run begins of which nothing is known: after the last answer before the last thing a person said.

    So it is in a first run, without a checkpointer (the history is passed in each time), and where a history was cut.
    """
    if not people:
        return max(0, len(messages) - 1)
    for number in range(people[-1] - 1, -1, -1):
        message = messages[number]
        if isinstance(message, AIMessage) and not message.tool_calls:
            return number + 1
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """Recalls for what was asked, and remembers what was said.

    `where` of the options and `metadata` may be functions of the run. What these, `should_store` or the memory raise is
    counted, and takes no answer away.
    """

    memory: AgenticMemory
    failures: Failures
    also: Mapping[str, NamespaceOf] = field(default_factory=dict)
    recall: Mapping[str, Any] = field(default_factory=dict)
    should_store: ShouldStore = is_spoken
    metadata: ByRun = None

    async def find(
        self, call: adapting.Call, messages: Sequence[BaseMessage], run: Run, space: Namespace
    ) -> adapting.Recalled:
        """Return the notes that are worth showing for the last message of a person."""
        others, options, found = others_of(self.also, run), dict(self.recall), adapting.Recalled()
        with self.failures.tolerated("where", callback=True) as reasons:
            options["where"] = _by_run(options.get("where"), run)
        if reasons or self.failures.resting("recall"):
            return found
        said = conversation(messages)
        question = next((one.text for one in reversed(said) if one.party == "user"), "")
        options |= {"namespace": space, "also": others}
        with self.failures.tolerated("recall"):
            method = self.memory.recall_turn
            found = await traced(call, self.memory, question, method, said, **options)
        self.failures.failed("recall", found.error)
        return found

    async def store(
        self,
        call: adapting.Call,
        messages: Sequence[BaseMessage],
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

        def is_stored(number: int, message: BaseMessage) -> bool | None:
            if number not in wanted:
                is_recent = number >= len(messages) - RECENT and message.id is not None
                return None if looks and is_recent else False
            with self.failures.tolerated("should_store", callback=True):
                return bool(self.should_store(message))
            return False

        done, metadata = adapting.Remembered(), None
        with self.failures.tolerated("metadata", callback=True):
            metadata = _by_run(self.metadata, run)
        said = conversation(messages, is_stored)
        with self.failures.tolerated("remember"):
            done = await call(
                self.memory.remember_turn,
                said,
                namespace=space,
                thread=run.thread,
                roles=tuple({one.party for one in said}),
                metadata=metadata,
                complete=complete,
            )
        self.failures.failed("remember", done.error)
        return done.notes


def _by_run(value: ByRun, run: Run) -> Mapping[str, Any] | None:
    return value(run) if callable(value) else value
