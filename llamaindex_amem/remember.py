"""What is said becomes notes: raw at once, linked and evolved when a turn is complete."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Literal
from weakref import WeakKeyDictionary

from amem_integrations import (
    AgenticMemory,
    AmemError,
    EvolutionReport,
    InvalidInputError,
    ModelUnavailableError,
    Note,
    NoteInput,
)
from amem_integrations.adapting import (
    LEFT_OVERS,
    Background,
    Call,
    Unembedded,
    both,
    evolve_turn,
)
from amem_integrations.conversation import Message, count_spoken, note_inputs

from .events import AMemEvolutionEvent, AMemWriteEvent, Failures, dispatcher, log
from .messages import find_offset

Evolve = Literal["inline", "background", "worker", "off"]

# Messages kept while the store is down; beyond it the oldest are given up, and counted.
WAITING = 1000
MOST_AT_ONCE = 64  # notes that evolve in one turn; after an outage there may be many more
# Threads whose keys are kept; of another, they are read again.
THREADS = 32
PAGE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Messages to store.

    Attributes:
        messages: In the order in which they were said.
        thread: The conversation.
        offset: How many messages were spoken in it before these; None finds out by what is stored of it.
        now: The time of messages that carry none, if they have just been said.
    """

    messages: tuple[Message, ...]
    thread: str | None
    offset: int | None = None
    now: datetime | None = None


@dataclass(slots=True)
class Thread:
    """A conversation whose batches do not say where they stand: keys stored, and messages spoken so far."""

    keys: set[str | None] = field(default_factory=set)
    count: int = 0


class Writer:
    """Stores messages as raw notes, without any model, then has them evolved."""

    def __init__(
        self,
        memory: AgenticMemory,
        namespace: tuple[str, ...],
        failures: Failures,
        *,
        roles: Sequence[str],
        evolve: Evolve,
    ) -> None:
        self._memory, self._namespace, self._failures = memory, namespace, failures
        self._roles, self._evolving = roles, evolve
        self._lock = threading.Lock()
        self._waiting: deque[Batch] = deque()
        self._added: dict[str, None] = {}
        self._unembedded, self._raw = Unembedded(memory), False  # whether notes may have no vector
        self._threads: dict[str | None, Thread] = {}
        self.background: Background[Writer] | None = None
        if evolve == "background":
            self.background = worker_of(memory)
            self.background.submit(self)  # what an earlier process has left

    @dispatcher.span
    async def write(self, call: Call, batch: Batch, *, answered: bool) -> bool:
        """Store messages, and return whether that was done; else they are written with the next ones.

        Args:
            call: How the memory is called.
            batch: The messages.
            answered: Whether the chat model has answered, so that nothing may be raised.
        """
        notes: list[Note] = []
        with self._lock:
            todo = [*self._waiting, batch]
            self._waiting.clear()
        try:
            with self._failures.tolerated("write", answered=answered):
                if not self._failures.resting("write"):
                    notes, todo = await self._store(call, todo), []
        finally:
            self._wait(todo)
        with self._lock:
            self._added |= {note.id: None for note in notes if note.state != "done"}
            self._raw |= any(note.own_entry is None for note in notes)
        ids = [note.id for note in notes]
        waiting = sum(len(some.messages) for some in todo)
        dispatcher.event(AMemWriteEvent(note_ids=ids, waiting=waiting))
        return not todo

    async def end_turn(self, call: Call) -> None:
        """Have what was written since the last turn embedded, linked and evolved, and some of what was left before."""
        if not await self._embed(call):
            return
        if self._evolving == "background" and self.background is not None:
            self.background.submit(self)
        elif self._evolving == "inline" and not self._failures.resting("evolve"):
            await self._evolve(call, self._taken(MOST_AT_ONCE), LEFT_OVERS)

    async def _embed(self, call: Call) -> bool:
        """Make vectors for all that was written since, by one call; return False if that failed.

        The notes are then found by their words, and a later turn tries again.
        """
        if not self._raw or self._failures.resting("write"):
            return True
        with self._failures.tolerated("write", answered=True):
            self._raw = False
            done = await call(self._unembedded.embed_missing, namespace=self._namespace)
            self._raw = self._raw or not done
            return True
        self._raw = True
        return False

    def evolve_some(self) -> bool:
        """Evolve a few notes, those of this conversation first; return whether there may be more."""
        if self._evolving == "off" or self._failures.resting("evolve"):
            return False
        ids = self._taken(LEFT_OVERS)
        try:
            report = self.evolve(ids, 0 if ids else LEFT_OVERS)
        except Exception as error:
            # At the end of the interpreter there are no more threads to work with.
            if threading.main_thread().is_alive():
                log.exception("evolution failed: %s", error)
            raise
        handled = len(report.done) + len(report.failed)
        return handled >= (1 if ids else LEFT_OVERS)

    def close(self) -> None:
        """Stop evolving; a step that is under way has a second to end."""
        self._evolving = "off"
        if self.background is not None:
            self.background.drop(lambda writer: writer is self)

    @dispatcher.span
    async def _evolve(self, call: Call, ids: Sequence[str], left_overs: int) -> EvolutionReport:
        """Evolve these notes and some that are unfinished; what fails is left for a later turn."""
        report = EvolutionReport()
        with self._failures.tolerated("evolve", answered=True):
            try:
                report = await evolve_turn(
                    call, self._memory, self._namespace, ids, left_overs=left_overs
                )
            except AmemError:
                closing = self._evolving == "off"
                if closing or (self.background is not None and self.background.closed):
                    return report  # the memory may be closed by now; the next start goes on
                raise
            if report.interrupted and not report.limited:
                raise ModelUnavailableError(report.interrupted)
        dispatcher.event(AMemEvolutionEvent(report=report.to_dict()))
        return report

    evolve, aevolve = both(_evolve)

    def _taken(self, limit: int) -> tuple[str, ...]:
        with self._lock:
            ids = tuple(islice(self._added, limit))
            for note_id in ids:
                del self._added[note_id]
        return ids

    async def _store(self, call: Call, batches: Sequence[Batch]) -> list[Note]:
        items: list[NoteInput] = []
        for batch in batches:
            items += await self._inputs(call, batch)
        return await self._add(call, items) if items else []

    async def _inputs(self, call: Call, batch: Batch) -> list[NoteInput]:
        offset, known = batch.offset, self._threads.get(batch.thread)
        if offset is None:
            known = known or await self._read(call, batch.thread)
            offset = find_offset(
                batch.messages,
                thread=batch.thread,
                roles=self._roles,
                stored=known.keys,
                count=known.count,
            )
        items = note_inputs(
            batch.messages,
            thread=batch.thread,
            roles=self._roles,
            offset=offset,
            now=batch.now,
            max_chars=self._memory.config.max_content_chars,
        )
        if known is not None:
            known.keys |= {item.key for item in items}
            known.count = max(known.count, offset + count_spoken(batch.messages))
        return items

    async def _read(self, call: Call, thread: str | None) -> Thread:
        """Return what is stored of a thread."""
        known, after = Thread(), -1
        while True:
            where = {"thread": thread, "seq": {"$gt": after}}
            notes = await call(
                self._memory.get_all, namespace=self._namespace, limit=PAGE, where=where
            )
            known.keys |= {note.key for note in notes}
            known.count += sum(note.source in ("user", "assistant") for note in notes)
            if len(notes) < PAGE:
                break
            after = notes[-1].seq
        self._threads[thread] = known
        while len(self._threads) > THREADS:
            del self._threads[next(iter(self._threads))]
        return known

    async def _add(self, call: Call, items: Sequence[NoteInput]) -> list[Note]:
        try:
            return await call(self._unembedded.add_by_words, items, namespace=self._namespace)
        except InvalidInputError as error:
            if len(items) == 1:
                # It is still in the chat history, and to raise would end the chat.
                self._failures.note("write", error)
                return []
        return [note for item in items for note in await self._add(call, [item])]

    def _wait(self, batches: Sequence[Batch]) -> None:
        with self._lock:
            self._waiting.extendleft(reversed(batches))
            left = sum(len(batch.messages) for batch in self._waiting) - WAITING
            while left > 0:
                lost = len(self._waiting.popleft().messages)
                left -= lost
                self._failures.note("write", OverflowError(f"{lost} messages were given up"))


_lock = threading.Lock()
_workers: WeakKeyDictionary[AgenticMemory, Background[Writer]] = WeakKeyDictionary()


def worker_of(memory: AgenticMemory) -> Background[Writer]:
    """Return the thread that evolves this memory; there is one, for all users."""
    with _lock:
        if memory not in _workers:
            _workers[memory] = Background(Writer.evolve_some)
            worker = _workers[memory]
            memory.on_close(worker.close, flush=worker.flush)
        return _workers[memory]
