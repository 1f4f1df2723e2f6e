"""The record of a thread: which messages were said in which run, so that a memory is given what was said to it alone.

An `Entry` says of one run and one memory where in the history the run begins, how far it has come, who began it, and
whether the memory has its messages. A run begins with the first words of a person that no run has seen yet. Memories have a
run in common if the same caller has it, nobody has spoken since, and no entry of it is by the same node: a node that comes
again is in another run. When a run ends, its memory is given what was said in it, and what earlier runs left that failed or
could not be stored. If somebody else came next, what a failed run left ends with the last message that it is known to have
seen, since what follows may be theirs. If somebody else has resumed a run, it is still of the memory for which it began;
what a person has added since is of who resumed it. A run that nobody noted when it began is noted when it ends. A message
is known by its mark, which is its id or else a digest, and a place by the marks beside it, so no text is in the state.
Where a history was cut so that a place is not known any more, a run begins after the last answer before the last words of a
person. The state keeps the entries from the first run on that is not stored, and at most 32.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from itertools import pairwise
from typing import Any, Literal

from langchain_core.messages import BaseMessage

from amem_integrations import NamespaceError

from .messages import conversation

Saved = dict[str, dict[str, Any]]

ENTRIES = 32  # in a state
MARKS = 8  # of messages by which the place is known that a run has reached


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The state of one run for one memory.

    Attributes:
        namespace: Whose memory.
        is_fixed: Whether the namespace is the same for everybody.
        by: A digest of who began the run.
        node: The name of the node or middleware that made the entry.
        run: The number of the run in its thread.
        start: The place where the run begins; beyond the end where that is not known any more.
        seen: The place that the run had reached when it began, or when it was remembered; 0 where that is not known.
        state: `left` is what could not be stored.
    """

    namespace: tuple[str, ...]
    is_fixed: bool
    by: str
    node: str
    run: int = 0
    start: int = 0
    seen: int = 0
    state: Literal["begun", "left", "stored"] = "begun"

    def is_others(self, one: Entry) -> bool:
        """Return whether another entry's run is not of this memory; all runs are of one whose namespace is fixed."""
        return not self.is_fixed and self.by != one.by


def merged(left: Saved, right: Saved | None) -> Saved:
    """Return the entries of two updates of a state, from the first run on that is not stored, and of the last two runs."""
    both = {**left, **(right or {})}
    last = max((one["run"] for one in both.values()), default=0)
    first = min((one["run"] for one in both.values() if one["state"] != "stored"), default=last)
    needed = {name: one for name, one in both.items() if one["run"] >= min(first, last - 1)}
    return dict([*needed.items()][-ENTRIES:])


class Record:
    """The messages of a thread, and the entries of its runs.

    Attributes:
        messages: Oldest first.
        said: The messages as the core reads them; nothing of them is to be stored.
        end: The place after the last message.
        marks: By place the mark of the message before; None at the beginning.
        people: The places of what people said.
        known: The entries, those of the latest run last.
        latest: The entries of the latest run.
        reached: The last place that entries have seen.
    """

    def __init__(self, messages: Sequence[BaseMessage], saved: Saved | None = None) -> None:
        """Take the messages, and the entries that a state holds."""
        self.messages, self.said, self.end = messages, conversation(messages), len(messages)
        self.marks = [None, *(one.id or _digest(n, one) for n, one in enumerate(messages))]
        self.people = [n for n, one in enumerate(self.said) if one.party == "user"]
        self.known = [self._read(**one) for one in (saved or {}).values()]
        self.latest = [one for one in self.known if one.run == self.known[-1].run]
        self.reached = max((one.seen for one in self.known), default=0)

    def _read(self, namespace: Any, start: Any, seen: Any, **more: Any) -> Entry:
        # By the message before a place, else by the one after it; or by the last one before it that is still there.
        starts = (self.marks.index(one) - n for n, one in enumerate(start) if one in self.marks)
        reached = max((self.marks.index(one) for one in seen if one in self.marks), default=0)
        begins = next(starts, self.end + 1)
        return Entry(namespace=tuple(namespace), start=begins, seen=reached, **more)

    def saved(self, entries: Iterable[Entry]) -> Saved:
        """Return the update of a state that holds the entries, as JSON."""
        saved = Saved()
        for one in entries:
            start = self.marks[one.start : one.start + 2]
            seen = self.marks[: one.seen + 1][-MARKS:]
            values = {"namespace": list(one.namespace), "start": start, "seen": seen}
            saved[json.dumps([one.run, *one.namespace])] = {**asdict(one), **values}
        return saved

    def words(self, start: int) -> list[int]:
        """Return the places of what people said from a place on."""
        return [place for place in self.people if place >= start]

    def guess(self, known: Iterable[Entry]) -> int:
        """Return the place where an unknown run begins, after these entries have seen something.

        It is after the last answer before the last words of a person: so it is in a first run, without a checkpointer (the
        history is passed in each time), and where a history was cut.
        """
        reached = max((one.seen for one in known), default=0)
        last = max(self.people, default=self.end - 1)
        for place in range(last, reached, -1):
            before = self.said[place - 1]
            if before.party == "assistant" and not before.calls_tools:
                return place
        return reached

    def begin(self, mine: Entry, *, is_over: bool = False) -> Entry:
        """Return the entry of a run that begins with these messages, or (`is_over`) that ends without one.

        Args:
            mine: Whose memory it is, and who has the run.
            is_over: Whether the run ends.
        """
        is_again = any(one.node == mine.node for one in self.latest)
        is_noted = is_over and any(one.state == "begun" for one in self.latest)
        if not is_again and (is_noted or not self.words(self.reached)):
            for one in self.latest:
                if not mine.is_others(one):  # another memory has noted the run
                    return replace(mine, run=one.run, by=one.by, start=one.start, seen=one.seen)
        # Where nobody has spoken, the answer alone is surely of the run.
        silent = max(self.reached, self.end - 1) if is_over else self.end
        start = min(self.words(self.reached), default=silent)
        if not any(one.seen for one in self.latest):
            start = self.guess(self.known)
        elif any(one.namespace == mine.namespace and one.state == "stored" for one in self.latest):
            start = self.reached
        run = self.latest[0].run + 1 if self.latest else 0
        return replace(mine, run=run, start=start, seen=self.end)

    def due(self, mine: Entry, *, unanswered: bool = True) -> tuple[list[Entry], list[Entry]]:
        """Return the entries of what earlier runs left, and of what was said in this one, with the places of that.

        Args:
            mine: Whose memory it is, and who has the run.
            unanswered: Whether what earlier runs left is to be stored.

        Raises:
            NamespaceError: It cannot be told for whom the run began.
        """
        begun, added = [one for one in self.latest if one.state == "begun"], list[Entry]()
        this = next((one for one in begun if one.namespace == mine.namespace), None)
        if this is None and begun and all(mine.is_others(one) for one in self.latest):
            theirs = [one for one in begun if not one.is_fixed]
            if len(theirs) != 1:
                raise NamespaceError(
                    "this run was begun by somebody else, and for whom is not known; resume it with the context of who began it"
                )
            this = theirs[0]
            for place in self.words(this.seen or self.end)[:1]:
                added = [replace(mine, run=this.run, start=place, seen=self.end)]
        elif this is None:
            this = self.begin(mine, is_over=True)
            if not unanswered:  # nobody has noted where a run failed
                this = replace(this, start=max(self.words(this.start), default=this.start))
        if this.start > self.end:  # the history was cut meanwhile
            this = replace(this, start=self.guess(one for one in self.known if one.run < this.run))
        left = list[Entry]()
        own = [one for one in self.known if one.namespace == this.namespace and one.run < this.run]
        for one, later in pairwise([*own, this]):
            # Where another run came next, what follows the last message that was seen may be of that.
            is_next = later.run == one.run + 1 and later.start <= self.end
            stop = later.start if is_next and one.state == "begun" else one.seen
            if one.state != "stored":
                left.append(replace(one, seen=stop if unanswered else one.start))
        stop = added[0].start if added else self.end
        return left, [replace(this, seen=stop), *added]


def _digest(place: int, message: BaseMessage) -> str:
    said = f"{place} {message.type} {message.text}"
    return sha256(said.encode(errors="replace")).hexdigest()[:24]
