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
from typing import Any

from amem_integrations.decisions import Call, Decision
from amem_integrations.journal.writer import Writer
from amem_integrations.notes import Namespace
from amem_integrations.ports import NoteQuery, RecordQuery
from amem_integrations.stored_note import StoredNote

NAMESPACE = ("ann",)
NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
MOST_STEPS = 80  # requests of one writer; more are an endless loop
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


VERSIONS = Table(repr)  # of points
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
    """Something does not hold."""


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


@dataclass(frozen=True, slots=True)
class State:
    """Where an exploration stands."""

    contents: tuple[int, int]  # numbers of what the collections hold
    processes: tuple[tuple[str, int], ...]  # by name the number of the answers that each has got
    under_way: tuple[str, ...]  # keys of late copies
    left: Faults
    before: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())  # for stale reads and power cuts
    switches: int | None = None
    last: str | None = None
    is_cut: bool = False


@dataclass
class Found:
    """What an exploration found: how many states there are, and what broke by which steps, if anything did."""

    states: int
    problem: str | None = None
    steps: Sequence[str] = ()
    is_bounded: bool = False  # there were more states than the limit


@dataclass
class Exploration:
    """One scenario.

    Attributes:
        start: What the collections hold at first.
        processes: The writers by name.
        faults: What may go wrong.
        resume: What runs alone at the end, when everybody is finished or dead; None: nothing does.
        resume_power: What runs after a power cut.
        after: Returns what is wrong at the end, given the collections and what each process returned.
        always: Returns what is wrong in any state.
        late: Requests of a dead writer that arrive at any time.
        switches: How often a writer may be interrupted before its end; None: as often as one likes.
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
    switches: int | None = None
    limit: int = 400_000

    def __post_init__(self) -> None:
        self._answers = Table()  # the number of the answers before, and the answer
        self._answers.number(None)
        self._effects: dict[tuple[int, int], tuple[int, Points]] = {}
        self._next: dict[tuple[str, int], Request | Ended] = {}
        self._ended: dict[tuple[str, str], int] = {}
        self._late: dict[str, Request] = {}
        self._parted: dict[int, list[Request]] = {}

    def explore(self) -> Found:
        """Go through all states, until something breaks or there are too many."""
        first = State(
            contents=self.start.contents,
            processes=tuple((name, 0) for name in self.processes),
            under_way=tuple(sorted(map(self._remember, self.late))),
            left=self.faults,
            switches=self.switches,
        )
        came_from: dict[State, tuple[State, str] | None] = {first: None}
        queue = deque([first])
        while queue:
            state = queue.popleft()
            try:
                self._check_always(state)
                moves = list(self._moves(state))
                if not moves:
                    self._check_end(state)
            except BrokenError as broken:
                return Found(len(came_from), str(broken), _steps(came_from, state))
            for label, following in moves:
                if following not in came_from:
                    came_from[following] = (state, label)
                    queue.append(following)
            if len(came_from) >= self.limit:
                return Found(len(came_from), is_bounded=True)
        return Found(len(came_from))

    def _remember(self, request: Request) -> str:
        key = request.key()
        self._late.setdefault(key, request)
        return key

    def _check_always(self, state: State) -> None:
        if self.always and (problem := self.always(Collections(state.contents), self._told(state))):
            raise BrokenError(problem)

    def _check_end(self, state: State) -> None:
        collections = Collections(state.contents)
        finish = self.resume_power if state.is_cut else self.resume
        if finish is not None:
            collections.run("resume", finish)
        if problem := self.after(collections, self._told(state)):
            raise BrokenError(problem)

    def _told(self, state: State) -> dict[str, Any]:
        """Return what each process has returned that is finished."""
        asked = ((name, self._request(name, told)) for name, told in state.processes)
        return {name: one.value for name, one in asked if isinstance(one, Ended)}

    def _request(self, name: str, told: int) -> Request | Ended:
        """Return what a process asks for next, once it has got some answers."""
        if (name, told) not in self._next:
            answers = []
            number = told
            while number:
                number, answer = self._answers[number]
                answers.append(answer)
            if len(answers) > MOST_STEPS:
                raise BrokenError(f"{name} does not end")
            coroutine = self.processes[name](writer(name))
            try:
                request = coroutine.send(None)
                for answer in reversed(answers):
                    request = coroutine.send(_thawed(answer))
                self._next[name, told] = request
                coroutine.close()
            except StopIteration as stop:
                self._next[name, told] = Ended(stop.value)
        return self._next[name, told]

    def _with_answer(self, name: str, told: int, answer: Points) -> int:
        """Return the number of the answers that a process has got; of one that has ended only what it returned counts."""
        number = self._answers.number((told, answer))
        request = self._request(name, number)
        if isinstance(request, Ended):
            return self._ended.setdefault((name, repr(request.value)), number)
        return number

    def _apply(self, request: Request, contents: int) -> tuple[int, Points]:
        """Return what `Request.apply` does; requests live as long as the exploration."""
        key = (id(request), contents)
        if key not in self._effects:
            self._effects[key] = request.apply(contents)
        return self._effects[key]

    def _moves(self, state: State) -> Iterator[tuple[str, State]]:
        """Yield what may happen next."""
        waiting = [name for name, told in state.processes if not self._has_ended(name, told)]
        for place, (name, told) in enumerate(state.processes):
            request = self._request(name, told)
            if isinstance(request, Ended):
                continue
            left = state.switches
            if left is not None and state.last in waiting and state.last != name:
                left -= 1
                if left < 0:
                    continue
            yield from self._steps_of(replace(state, switches=left), place, request)
        for key in dict.fromkeys(state.under_way):
            rest = list(state.under_way)
            rest.remove(key)
            held, _ = self._applied(state, self._late[key])
            yield (
                f"late copy: {self._late[key]}",
                replace(state, contents=held, under_way=tuple(rest)),
            )
        if state.left.power and (waiting or any(state.before)):
            yield from _power_cuts(state)

    def _has_ended(self, name: str, told: int) -> bool:
        return isinstance(self._request(name, told), Ended)

    def _steps_of(self, state: State, place: int, request: Request) -> Iterator[tuple[str, State]]:
        """Yield what may become of the next request of one process."""
        name, told = state.processes[place]
        contents, answer = self._applied(state, request)
        others = state.processes[:place], state.processes[place + 1 :]
        step = replace(
            state,
            contents=contents,
            processes=(*others[0], (name, self._with_answer(name, told, answer)), *others[1]),
            before=self._before(state, contents, request),
            last=name if state.switches is not None else None,
        )
        yield f"{name}: {request}", step
        left = state.left
        if request.kind in ("get", "find"):
            for old in state.before[request.collection] if left.stale else ():
                if (stale := self._apply(request, old)[1]) != answer:
                    known = (*others[0], (name, self._with_answer(name, told, stale)), *others[1])
                    fewer = replace(left, stale=left.stale - 1)
                    yield f"{name}: {request} [stale]", replace(step, processes=known, left=fewer)
        elif left.copies and request.may_matter_again:
            under_way = tuple(sorted((*state.under_way, self._remember(request))))
            fewer = replace(left, copies=left.copies - 1)
            yield (
                f"{name}: {request} [a copy is under way]",
                replace(step, under_way=under_way, left=fewer),
            )
        dead = (*others[0], *others[1])
        if left.partial:
            for part in self._parts(request):
                held, _ = self._applied(state, part)
                fewer = replace(left, partial=left.partial - 1)
                unknown = (*others[0], (name, told), *others[1])
                yield (
                    f"{name}: only {part}",
                    replace(step, contents=held, processes=unknown, left=fewer),
                )
        if left.kills:
            fewer = replace(left, kills=left.kills - 1)
            yield f"{name} is killed", replace(state, processes=dead, left=fewer)

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


@dataclass(frozen=True)
class Ended:
    """What a process returned."""

    value: Any


def _power_cuts(state: State) -> Iterator[tuple[str, State]]:
    lost = replace(state, processes=(), under_way=(), left=Faults(), before=((), ()), is_cut=True)
    for back, notes in enumerate((state.contents[NOTES], *reversed(state.before[NOTES]))):
        for far, records in enumerate((state.contents[RECORDS], *reversed(state.before[RECORDS]))):
            label = f"power cut: notes lose {back} writes, records {far}"
            yield label, replace(lost, contents=(notes, records))


def _steps(came_from: Mapping[State, tuple[State, str] | None], state: State) -> list[str]:
    steps = []
    while (step := came_from[state]) is not None:
        state, label = step
        steps.append(label)
    return steps[::-1]
