"""Recall for a conversation: one search for each question, and nothing that the prompt says already."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from llama_index.core.base.llms.types import ChatMessage

from amem_integrations import AgenticMemory, Note, ScoredNote, render_notes

from ._calls import call
from ._events import AMemRecallEvent, dispatcher
from ._failures import Failures
from ._messages import question, texts_in
from ._versions import version

V = TypeVar("V")

# Questions whose notes are kept: more than there are sessions that share a block at one time.
KEPT = 32
# A search ranks about this many; to ask for more, in place of what is left out, brings nothing.
RANKED = 100


class Found(NamedTuple):
    """Notes for a question, and the state of the memory they come from."""

    notes: Sequence[ScoredNote]
    version: int
    at: int


class Recall:
    """Looks notes up, and makes text of them."""

    def __init__(
        self,
        memory: AgenticMemory,
        namespace: tuple[str, ...],
        failures: Failures,
        *,
        k: int,
        max_tokens: int,
    ) -> None:
        self._memory, self._namespace, self._failures = memory, namespace, failures
        self._k, self._max_tokens = k, max_tokens
        self._found: dict[str, Found] = {}
        self._shown: dict[str, Sequence[ScoredNote]] = {}

    @dispatcher.span
    async def text(self, messages: Sequence[ChatMessage], thread: str | None) -> str:
        """Return the notes for the last question in `messages` as text for a prompt, or ""."""
        asked = question(messages)
        if not asked or self._failures.resting("recall"):
            return ""
        said = texts_in(messages)
        with self._failures.tolerated("recall"):
            notes = await self._lookup(asked, thread, said)
            return self._render(_fresh(notes, said))
        return ""

    def shorter(self, text: str, tokens: int, count: Callable[[str], int]) -> str | None:
        """Return `text` without its weakest notes, at least `tokens` shorter; None if nothing is left."""
        notes, limit = self._shown.get(text, ()), count(text) - tokens
        for kept in range(len(notes) - 1, 0, -1):
            less = render_notes(notes[:kept], max_tokens=self._max_tokens)
            if count(less) <= limit:
                return less
        return None

    async def _lookup(self, asked: str, thread: str | None, said: set[str]) -> Sequence[ScoredNote]:
        found = self._found.get(asked)
        cached = found is not None and await self._is_current(found, thread)
        if found is None or not cached:
            found = await self._search(asked, said)
            _keep(self._found, asked, found)
        ids = [hit.note.id for hit in found.notes]
        dispatcher.event(AMemRecallEvent(question=asked, note_ids=ids, cached=cached))
        return found.notes

    async def _search(self, asked: str, said: set[str]) -> Found:
        seen, at = version(self._memory, self._namespace), time.time_ns()
        limit = self._k + min(len(said), 2 * self._k)
        notes = await self._ask(asked, limit)
        if len(notes) == limit < RANKED and len(_fresh(notes, said)) < self._k:
            # What the prompt says already stands before all else.
            notes = await self._ask(asked, RANKED)
        return Found(notes, seen, at)

    async def _ask(self, asked: str, limit: int) -> list[ScoredNote]:
        search, asearch = self._memory.search, self._memory.asearch
        return await call(search, asearch, asked, namespace=self._namespace, k=limit)

    async def _is_current(self, found: Found, thread: str | None) -> bool:
        """Return whether nothing was learnt since, here or in another process.

        What this conversation itself has added stands in the prompt.
        """
        if found.version != version(self._memory, self._namespace):
            return False
        where: dict[str, object] = {"seq": {"$gt": found.at}}
        if thread is not None:
            where["thread"] = {"$ne": thread}
        new = await self._get(where, 1)
        return not new and await self._still_say(found.notes)

    async def _still_say(self, hits: Sequence[ScoredNote]) -> bool:
        """Return whether the notes are there and say what they said: a user may have corrected one."""
        said = {hit.note.id: hit.note.content for hit in hits}
        notes = await self._get({"id": {"$in": list(said)}}, max(len(said), 1)) if said else []
        return {note.id: note.content for note in notes} == said

    async def _get(self, where: dict[str, object], limit: int) -> list[Note]:
        get_all, aget_all = self._memory.get_all, self._memory.aget_all
        return await call(get_all, aget_all, namespace=self._namespace, limit=limit, where=where)

    def _render(self, notes: Sequence[ScoredNote]) -> str:
        best = notes[: self._k]
        text = render_notes(best, max_tokens=self._max_tokens)
        _keep(self._shown, text, best)
        return text


def _fresh(notes: Sequence[ScoredNote], said: set[str]) -> list[ScoredNote]:
    """Return what the prompt does not say already, each thing once."""
    best: dict[str, ScoredNote] = {}
    for hit in notes:
        if hit.note.content not in said:
            best.setdefault(hit.note.content, hit)
    return list(best.values())


def _keep(values: dict[str, V], key: str, value: V) -> None:
    values.pop(key, None)
    values[key] = value
    while len(values) > KEPT:
        values.pop(next(iter(values)), None)
