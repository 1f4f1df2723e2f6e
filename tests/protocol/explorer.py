"""Explicit-state exploration of writers that talk to the two collections of a memory.

One request is one atomic step. All orders of the requests of several writers are gone through, with kills between any
two, late copies of requests, requests that are applied in part, stale reads and power cuts. A writer is a coroutine of
the journal itself; what the writer knows is the list of the answers that it has got, so states are merged by what
the collections hold, by the answers of each writer, and by what is still under way.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from hashlib import blake2b
from typing import Any, NamedTuple

from amem_integrations.decisions import Call, Decision
from amem_integrations.journal.writer import Writer
from amem_integrations.notes import Namespace
from amem_integrations.ports import NoteQuery, RecordQuery
from amem_integrations.stored_note import StoredNote

NAMESPACE = ("ann",)
NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
MOST_STEPS = 80  # requests of one writer; more are an endless loop
MOST_RUNNING = (
    20_000  # coroutines that wait for an answer; others are brought as far when they are needed
)
DEAD, NOBODY = -1, -1  # in place of the number of answers, and of the place of a process
NOTES, RECORDS = 0, 1
BLIND = "*"  # in place of a token: a mutant writes whatever stands

Points = tuple[tuple[str, int], ...]  # the id of each point, and the number of its version
Process = Callable[[Writer], Coroutine[Any, Any, Any]]


class Table:
    """Values that are met again and again, each under a number."""

    def __init__(self, key: Callable[[Any], Any] = lambda value: value) -> None:
        self._key = key
        self._values: list[Any] = []
        self._numbers: dict[Any, int] = {}

    def number(self, value: Any) -> int:
        """Return the number of a value."""
        key = self._key(value)
        if key not in self._numbers:
            self._numbers[key] = len(self._values)
            self._values.append(value)
        return self._numbers[key]

    def __getitem__(self, number: int) -> Any:
        return self._values[number]


def _digest(point: Any) -> bytes:
    return blake2b(repr(point).encode(), digest_size=16).digest()


VERSIONS = Table(_digest)  # of points
CONTENTS = Table()  # of a collection: `Points`


@dataclass(frozen=True)
class Request:
    """One request: `get`, `find`, `insert`, `swap`, `remove` (of decisions) or `collect` (of tombstones)."""

    kind: str
    collection: int
    what: Any

    def __await__(self) -> Iterator[Request]:
        return (yield self)

    def __str__(self) -> str:
        name = ("notes", "records")[self.collection]
        if self.kind in ("get", "insert", "swap"):
            return f"{self.kind} {name} {' '.join(map(str, self._ids()))}"
        return f"{self.kind} {name} {self.what}"

    def _ids(self) -> list[str]:
        if self.kind == "get":
            return list(self.what)
        return [point[1].id if self.kind == "swap" else point.id for point in self.what]

    def key(self) -> str:
        """Return what tells this request from others."""
        return f"{self.kind} {self.collection} {self.what!r}"

    def part(self, shard: int) -> Request | None:
        """Return the request as one of two shards sees it; None if that is all of it, or nothing."""
        if self.kind not in ("insert", "swap"):
            return None
        of = [
            p
            for p, i in zip(self.what, self._ids(), strict=True)
            if zlib.crc32(i.encode()) % 2 == shard
        ]
        return replace(self, what=tuple(of)) if 0 < len(of) < len(self.what) else None

    @property
    def may_matter_again(self) -> bool:
        """Whether a late copy may change anything: no token that was replaced comes back."""
        return self.kind != "swap" or any(token == BLIND for token, _ in self.what)

    def apply(self, contents: int) -> tuple[int, Points]:
        """Return the number of what a collection holds after the request, and the answer."""
        points: Points = CONTENTS[contents]
        if self.kind == "get":
            return contents, tuple(one for one in points if one[0] in self.what)
        if self.kind == "find":
            return contents, _found(self.what, points)
        held = dict(points)
        if self.kind == "insert":
            for point in self.what:
                held.setdefault(point.id, VERSIONS.number(point))
        elif self.kind == "swap":
            for token, point in self.what:
                if point.id in held and token in (VERSIONS[held[point.id]].token, BLIND):
                    held[point.id] = VERSIONS.number(point)
        elif self.kind == "remove":
            held = {i: n for i, n in held.items() if i not in self.what}
        else:
            held = {i: n for i, n in held.items() if not is_collectable(VERSIONS[n])}
        return CONTENTS.number(tuple(sorted(held.items()))), ()


def _found(query: NoteQuery | RecordQuery, points: Points) -> Points:
    """Return the points that a query finds."""
    if isinstance(query, NoteQuery):
        return tuple(one for one in points if query.finds(VERSIONS[one[1]]))
    ids = {record.id for record in query.of(VERSIONS[number] for _, number in points)}
    return tuple(one for one in points if one[0] in ids)


def is_collectable(note: StoredNote) -> bool:
    return note.is_deleted and note.purge is None


class Requests:
    """The two collections, as a writer sees them: every call is a request that waits for its answer."""

    remote = True

    def notes(
        self,
        namespace: Namespace,
        ids: Sequence[str],
        *,
        vectors: bool = False,
        briefly: Sequence[str] = (),
    ) -> Request:
        del vectors  # a note has none here
        return Request("get", NOTES, tuple(sorted({*ids, *briefly})))

    def find_notes(self, namespace: Namespace, query: NoteQuery) -> Request:
        return Request("find", NOTES, query)

    def insert_notes(self, namespace: Namespace, notes: Sequence[StoredNote]) -> Request:
        return Request("insert", NOTES, tuple(notes))

    def swap_notes(self, namespace: Namespace, swaps: Sequence[tuple[str, StoredNote]]) -> Request:
        return Request("swap", NOTES, tuple(swaps))

    def records(self, namespace: Namespace, ids: Sequence[str]) -> Request:
        return Request("get", RECORDS, tuple(ids))

    def find_records(self, namespace: Namespace, query: RecordQuery) -> Request:
        return Request("find", RECORDS, query)

    def insert_records(self, namespace: Namespace, records: Sequence[Call | Decision]) -> Request:
        return Request("insert", RECORDS, tuple(records))

    def swap_records(self, namespace: Namespace, swaps: Sequence[tuple[str, Decision]]) -> Request:
        return Request("swap", RECORDS, tuple(swaps))

    def remove_decisions(self, namespace: Namespace, ids: Collection[str]) -> Request:
        return Request("remove", RECORDS, tuple(sorted(ids)))

    def remove_tombstones(self, namespace: Namespace, before: datetime) -> Request:
        del before  # in an exploration a day passes at once
        return Request("collect", NOTES, "")


def writer(name: str) -> Writer:
    """Return a writer whose tokens and times are the same whenever it runs with the same answers."""
    tokens, seqs = iter(range(10**6)), iter(range(1_000, 10**6))
    return Writer(
        store=Requests(),
        namespace=NAMESPACE,
        new_token=lambda: f"{name}.{next(tokens)}",
        new_seq=lambda: next(seqs),
        now=lambda: NOW,
    )


class Collections:
    """What both collections hold; a process can be run alone over them."""

    def __init__(self, contents: tuple[int, int] | None = None) -> None:
        empty = CONTENTS.number(())
        self.contents = contents or (empty, empty)

    def run(self, name: str, process: Process, requests: int | None = None) -> Any:
        """Run a process to its end, or through its first `requests`, and return what it returns."""
        coroutine = process(writer(name))
        try:
            request = coroutine.send(None)
            for _ in range(400 if requests is None else requests):
                held = list(self.contents)
                held[request.collection], answer = request.apply(held[request.collection])
                self.contents = (held[0], held[1])
                request = coroutine.send(_thawed(answer))
        except StopIteration as stop:
            return stop.value
        coroutine.close()
        if requests is None:
            raise BrokenError(f"{name} does not end")
        return None

    @property
    def notes(self) -> dict[str, StoredNote]:
        return _thawed(CONTENTS[self.contents[NOTES]])

    @property
    def records(self) -> dict[str, Call | Decision]:
        return _thawed(CONTENTS[self.contents[RECORDS]])


def _thawed(answer: Points) -> dict[str, Any]:
    return {key: VERSIONS[number] for key, number in answer}


class BrokenError(Exception):
    """Something does not hold, in the state that is given, or in what follows from the present one."""

    def __init__(self, problem: str, state: State | None = None) -> None:
        super().__init__(problem)
        self.state = state


@dataclass(frozen=True, slots=True)
class Faults:
    """How often what may go wrong.

    Attributes:
        kills: A writer dies between two of its requests.
        copies: A copy of a request arrives again, at any later time.
        stale: A read is answered from an older state, as by a replica that lags.
        partial: A request over several points is applied on one of two shards; the writer gets an error, and repeats it.
        power: The power fails: each collection loses up to two of its last writes, and every writer dies.
    """

    kills: int = 0
    copies: int = 0
    stale: int = 0
    partial: int = 0
    power: int = 0

    @cache  # noqa: B019 - there are few
    def without(self, name: str) -> Faults:
        """Return what may still go wrong once this has gone wrong."""
        return replace(self, **{name: getattr(self, name) - 1})


class State(NamedTuple):
    """Where an exploration stands."""

    contents: tuple[int, int]  # numbers of what the collections hold
    told: tuple[int, ...]  # of each process the number of the answers that it has got, or `DEAD`
    under_way: tuple[str, ...]  # keys of late copies
    left: Faults
    before: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())  # for stale reads and power cuts
    is_cut: bool = False


class Move(NamedTuple):
    """One step: a process, or None for a late copy and a power cut, its request, and what becomes of the request."""

    name: str | None
    request: Request | None
    fate: str

    def __str__(self) -> str:
        if self.name is None:
            return f"{self.fate}{self.request or ''}"
        return (
            f"{self.name} is killed"
            if self.request is None
            else f"{self.name}: {self.fate % self.request}"
        )


@dataclass
class Found:
    """What an exploration found.

    Attributes:
        states: How many states were reached.
        problem: What broke, if anything did.
        steps: The steps to the state that broke.
        switches: So many switches to another process before one ended were gone through in every order; None: all.
    """

    states: int
    problem: str | None = None
    steps: Sequence[str] = ()
    switches: int | None = None

    @property
    def is_bounded(self) -> bool:
        """Whether there were more states than the limit."""
        return self.switches is not None


@dataclass
class Exploration:
    """One scenario.

    The states that are reached with fewer switches to another process before one has ended or died are gone through first.
    So where there are more states than the limit, all orders with some number of switches have been gone through.

    Attributes:
        start: What the collections hold at first.
        processes: The writers by name.
        faults: What may go wrong.
        resume: What runs alone at the end, when everybody is finished or dead; None: nothing does.
        resume_power: What runs after a power cut.
        after: Returns what is wrong at the end, given the collections and what each process returned.
        always: Returns what is wrong in any state.
        late: Requests of a dead writer that arrive at any time.
        limit: Most states.
    """

    start: Collections
    processes: Mapping[str, Process]
    after: Callable[[Collections, Mapping[str, Any]], str | None]
    faults: Faults = field(default_factory=Faults)
    resume: Process | None = None
    resume_power: Process | None = None
    always: Callable[[Collections, Mapping[str, Any]], str | None] | None = None
    late: Sequence[Request] = ()
    limit: int = 400_000

    def __post_init__(self) -> None:
        self._names = list(self.processes)
        self._answers = Table()  # the number of the answers before, and the answer
        self._answers.number(None)
        self._lengths = [0]  # how many answers there are, by their number
        self._effects: dict[tuple[int, int], tuple[int, Points]] = {}
        self._next: dict[tuple[int, int], Request | Ended] = {}
        self._running: dict[tuple[int, int], Coroutine[Any, Any, Any]] = {}
        self._ended: dict[tuple[int, str], int] = {}
        self._late: dict[str, Request] = {}
        self._parted: dict[int, list[Request]] = {}
        self._resumed: dict[tuple[tuple[int, int], bool], tuple[int, int]] = {}
        self._checked: set[tuple[Any, ...]] = set()
        self._numbers: dict[State, int] = {}
        self._came_from: list[tuple[int, Move] | None] = []
        # Of each state one bit for each process: whether its next request was tried, and whether it will be, after a switch.
        self._tried: list[int] = []
        self._planned: list[int] = []
        self._now = deque[
            tuple[State, int]
        ]()  # a state and the place of the process that goes on, or `NOBODY`
        self._later = deque[tuple[State, int]]()

    def explore(self) -> Found:
        """Go through all states, until something breaks or there are too many."""
        first = State(
            contents=self.start.contents,
            told=(0,) * len(self.processes),
            under_way=tuple(sorted(map(self._remember, self.late))),
            left=self.faults,
        )
        switches, state = 0, first
        try:
            self._reach(first, None, NOBODY)
            while self._now or self._later:
                if not self._now:
                    switches += 1
                    self._now, self._later = self._later, self._now
                state, place = self._now.popleft()
                number = self._numbers[state]
                if place == NOBODY:
                    moves = self._moves_of_nobody(state)
                elif self._tried[number] & 1 << place:
                    continue
                else:
                    self._tried[number] |= 1 << place
                    moves = self._moves_of(state, place)
                for move, following in moves:
                    self._reach(following, (number, move), place)
                if len(self._came_from) >= self.limit:
                    return Found(len(self._came_from), switches=switches - 1)
        except BrokenError as broken:
            return Found(len(self._came_from), str(broken), self._steps(broken.state or state))
        return Found(len(self._came_from))

    def _reach(self, state: State, came_from: tuple[int, Move] | None, last: int) -> None:
        """Note what can go on from a state, and that the process at the place `last` goes on without a switch."""
        number = self._numbers.get(state)
        is_new = number is None
        if number is None:
            number = self._numbers[state] = len(self._came_from)
            self._came_from.append(came_from)
            self._tried.append(0)
            self._planned.append(0)
        waiting = [place for place, told in enumerate(state.told) if self._waits(place, told)]
        if is_new:
            self._check(state, is_end=not waiting and not state.under_way)
            if state.under_way or state.left.power:
                self._now.append((state, NOBODY))
        open_ = self._tried[number]
        for place in waiting:
            if open_ & 1 << place:
                continue
            if last == place or last not in waiting:
                self._now.append((state, place))
            elif not self._planned[number] & 1 << place:
                self._planned[number] |= 1 << place
                self._later.append((state, place))

    def _waits(self, place: int, told: int) -> bool:
        return told != DEAD and not isinstance(self._request(place, told), Ended)

    def _remember(self, request: Request) -> str:
        key = request.key()
        self._late.setdefault(key, request)
        return key

    def _check(self, state: State, *, is_end: bool) -> None:
        """Check what must hold in a state, once for all states that look the same to the checks."""
        if self.always is None and not is_end:
            return
        ended = tuple(
            t if t != DEAD and not self._waits(p, t) else DEAD for p, t in enumerate(state.told)
        )
        key = (state.contents, ended, is_end, state.is_cut)
        if key in self._checked:
            return
        self._checked.add(key)
        told = {self._names[p]: self._request(p, t).value for p, t in enumerate(ended) if t != DEAD}
        try:
            problem = self.always and self.always(Collections(state.contents), told)
            if not problem and is_end:
                problem = self.after(self._finished(state), told)
        except BrokenError as broken:
            problem = str(broken)
        if problem:
            raise BrokenError(problem, state)

    def _finished(self, state: State) -> Collections:
        """Return what the collections hold once somebody has resumed."""
        finish = self.resume_power if state.is_cut else self.resume
        key = (state.contents, state.is_cut)
        if key not in self._resumed:
            collections = Collections(state.contents)
            if finish is not None:
                collections.run("resume", finish)
            self._resumed[key] = collections.contents
        return Collections(self._resumed[key])

    def _request(self, place: int, told: int) -> Request | Ended:
        """Return what a process asks for next, once it has got some answers."""
        key = (place, told)
        if key not in self._next:
            name = self._names[place]
            answers = list[Points]()
            number, coroutine = told, None
            while number and coroutine is None:
                number, answer = self._answers[number]
                answers.append(answer)
                # One that waits for this very answer goes on; for another answer a new one is brought as far.
                coroutine = self._running.pop((place, number), None)
            try:
                if coroutine is None:
                    coroutine = self.processes[name](writer(name))
                    request = coroutine.send(None)
                for answer in reversed(answers):
                    request = coroutine.send(_thawed(answer))
                self._next[key] = request
                self._running[key] = coroutine
                if len(self._running) > MOST_RUNNING:
                    self._running.pop(next(iter(self._running))).close()
            except StopIteration as stop:
                self._next[key] = Ended(stop.value)
        return self._next[key]

    def _with_answer(self, place: int, told: int, answer: Points) -> int:
        """Return the number of the answers that a process has got; of one that has ended only what it returned counts."""
        number = self._answers.number((told, answer))
        if number == len(self._lengths):
            self._lengths.append(self._lengths[told] + 1)
        if self._lengths[number] > MOST_STEPS:
            raise BrokenError(f"{self._names[place]} does not end")
        request = self._request(place, number)
        if isinstance(request, Ended):
            return self._ended.setdefault((place, repr(request.value)), number)
        return number

    def _apply(self, request: Request, contents: int) -> tuple[int, Points]:
        """Return what `Request.apply` does; requests live as long as the exploration."""
        key = (id(request), contents)
        if key not in self._effects:
            self._effects[key] = request.apply(contents)
        return self._effects[key]

    def _moves_of_nobody(self, state: State) -> Iterator[tuple[Move, State]]:
        """Yield what may happen next that no process does."""
        for key in dict.fromkeys(state.under_way):
            rest = list(state.under_way)
            rest.remove(key)
            held, _ = self._applied(state, self._late[key])
            following = state._replace(contents=held, under_way=tuple(rest))
            yield Move(None, self._late[key], "late copy: "), following
        if state.left.power:
            yield from _power_cuts(state)

    def _moves_of(self, state: State, place: int) -> Iterator[tuple[Move, State]]:
        """Yield what may become of the next request of one process."""
        name, told, left = self._names[place], state.told[place], state.left
        request = self._request(place, told)
        assert isinstance(request, Request)
        contents, answer = self._applied(state, request)
        step = state._replace(
            contents=contents,
            told=_put(state.told, place, self._with_answer(place, told, answer)),
            before=self._before(state, contents, request),
        )
        yield Move(name, request, "%s"), step
        if request.kind in ("get", "find"):
            for old in state.before[request.collection] if left.stale else ():
                if (stale := self._apply(request, old)[1]) != answer:
                    known = _put(state.told, place, self._with_answer(place, told, stale))
                    following = step._replace(told=known, left=left.without("stale"))
                    yield Move(name, request, "%s [stale]"), following
        elif left.copies and request.may_matter_again:
            under_way = tuple(sorted((*state.under_way, self._remember(request))))
            following = step._replace(under_way=under_way, left=left.without("copies"))
            yield Move(name, request, "%s [a copy is under way]"), following
        if left.partial:
            for part in self._parts(request):
                held, _ = self._applied(state, part)
                yield (
                    Move(name, part, "only %s"),
                    step._replace(contents=held, told=state.told, left=left.without("partial")),
                )
        if left.kills:
            dead = _put(state.told, place, DEAD)
            yield Move(name, None, ""), state._replace(told=dead, left=left.without("kills"))

    def _parts(self, request: Request) -> list[Request]:
        if id(request) not in self._parted:
            self._parted[id(request)] = list(filter(None, map(request.part, (0, 1))))
        return self._parted[id(request)]

    def _applied(self, state: State, request: Request) -> tuple[tuple[int, int], Points]:
        held, answer = self._apply(request, state.contents[request.collection])
        other = state.contents[1 - request.collection]
        return ((held, other) if request.collection == NOTES else (other, held)), answer

    def _before(
        self, state: State, contents: tuple[int, int], request: Request
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the last two states of each collection, where something may go back to them."""
        if not (self.faults.stale or self.faults.power) or contents == state.contents:
            return state.before
        kept = [*state.before]
        place = request.collection
        kept[place] = (*kept[place], state.contents[place])[-2:]
        return (kept[0], kept[1])

    def _steps(self, state: State) -> list[str]:
        """Return the steps by which a state was reached."""
        steps, number = [], self._numbers[state]
        while (step := self._came_from[number]) is not None:
            number, move = step
            steps.append(str(move))
        return steps[::-1]


@dataclass(frozen=True)
class Ended:
    """What a process returned."""

    value: Any


def _put(told: tuple[int, ...], place: int, number: int) -> tuple[int, ...]:
    return (*told[:place], number, *told[place + 1 :])


def _power_cuts(state: State) -> Iterator[tuple[Move, State]]:
    dead = (DEAD,) * len(state.told)
    lost = State(state.contents, dead, under_way=(), left=Faults(), is_cut=True)
    for back, notes in enumerate((state.contents[NOTES], *reversed(state.before[NOTES]))):
        for far, records in enumerate((state.contents[RECORDS], *reversed(state.before[RECORDS]))):
            fate = f"power cut: notes lose {back} writes, records {far}"
            yield Move(None, None, fate), lost._replace(contents=(notes, records))
