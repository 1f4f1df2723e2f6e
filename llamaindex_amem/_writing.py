"""What is said becomes notes: raw at once, linked and evolved when a turn is complete."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import Literal

from amem_integrations import AgenticMemory, InvalidInputError, Note, NoteInput

from ._calls import call
from ._events import AMemWriteEvent, dispatcher
from ._evolution import Background, Job, afinish, background_of, finish
from ._failures import Failures
from ._versions import changed

Evolve = Literal["inline", "background", "off"]

# Messages kept while the store is down; beyond it the oldest are given up, and counted.
WAITING = 1000


class Writer:
    """Stores messages as raw notes, without any model, then has them evolved."""

    def __init__(
        self,
        memory: AgenticMemory,
        namespace: tuple[str, ...],
        failures: Failures,
        evolve: Evolve = "inline",
    ) -> None:
        self._memory, self._namespace, self._failures = memory, namespace, failures
        self._evolve = evolve
        self._lock = threading.Lock()
        self._waiting: deque[NoteInput] = deque()
        self._unfinished: dict[str, None] = {}
        self.background: Background | None = None
        if evolve == "background":
            self.background = background_of(memory)
            self.background.submit(self._job(()))

    @dispatcher.span
    async def write(self, items: Sequence[NoteInput]) -> None:
        """Store messages; what the store does not take now is written with the next ones."""
        todo = self._with_waiting(items)
        notes: list[Note] = []
        try:
            with self._failures.tolerated("write"):
                if not self._failures.resting("write"):
                    notes, todo = await self._store(todo), []
        finally:
            self._wait(todo)
        with self._lock:
            self._unfinished |= {note.id: None for note in notes if note.state != "done"}
        if any(item.source == "user" for item in items):
            # A new turn: the same question may have another answer by now.
            changed(self._memory, self._namespace)
        ids = [note.id for note in notes]
        dispatcher.event(AMemWriteEvent(note_ids=ids, waiting=len(self._waiting)))

    async def end_turn(self) -> None:
        """Have what was written since the last turn linked and evolved, both sides of it together."""
        with self._lock:
            ids, self._unfinished = tuple(self._unfinished), {}
        if not ids:
            return
        if self.background is not None:
            self.background.submit(self._job(ids))
        elif self._evolve == "inline" and not self._failures.resting("evolve"):
            await call(finish, afinish, self._job(ids))

    def close(self) -> None:
        """Stop evolving, once what is under way is finished."""
        self._evolve = "off"
        if self.background is not None:
            self.background.forget(self._namespace)
            self.background = None

    def _job(self, ids: tuple[str, ...]) -> Job:
        return Job(memory=self._memory, namespace=self._namespace, failures=self._failures, ids=ids)

    async def _store(self, items: Sequence[NoteInput]) -> list[Note]:
        try:
            return await self._add(items)
        except InvalidInputError as error:
            if len(items) == 1:
                # Too long, say. It is still in the chat history, and to raise would end the chat.
                self._failures.note("write", error)
                return []
        return [note for item in items for note in await self._store([item])]

    async def _add(self, items: Sequence[NoteInput]) -> list[Note]:
        add, aadd = self._memory.add_many, self._memory.aadd_many
        return await call(add, aadd, items, namespace=self._namespace, evolve=False)

    def _with_waiting(self, items: Sequence[NoteInput]) -> list[NoteInput]:
        with self._lock:
            todo = [*self._waiting, *items]
            self._waiting.clear()
        return todo

    def _wait(self, items: Sequence[NoteInput]) -> None:
        with self._lock:
            self._waiting.extendleft(reversed(items))
            while len(self._waiting) > WAITING:
                lost = self._waiting.popleft()
                self._failures.note("write", OverflowError(f"message {lost.key} was given up"))
