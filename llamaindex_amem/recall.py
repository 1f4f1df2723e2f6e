"""Recall for a conversation: one search for each question, and nothing that the prompt says already."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, TypeVar

from llama_index.core.base.llms.types import ChatMessage

from amem_integrations import AgenticMemory, ConfigurationError, Note, ScoredNote, render_notes
from amem_integrations.adapting import Call

from .events import AMemRecallEvent, Failures, dispatcher
from .messages import answers, question, spoken

V = TypeVar("V")

# Questions whose notes are kept: more than there are sessions that share a block at one time.
KEPT = 32
# A search ranks about this many; to ask for more, in place of what is left out, brings nothing.
RANKED = 100
# A note of at least so many characters may be a chunk of a message that stands in the prompt.
CHUNK_CHARS = 80


class Found(NamedTuple):
    """Notes for a question, and when they were looked up."""

    notes: Sequence[ScoredNote]
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
        self._k, self._max_tokens = check_count("k", k), check_count("max_tokens", max_tokens)
        self._found: dict[str, Found] = {}
        self._shown: dict[str, Sequence[ScoredNote]] = {}

    @dispatcher.span
    async def text(self, call: Call, messages: Sequence[ChatMessage], thread: str | None) -> str:
        """Return the notes for the last question in `messages` as text for a prompt, or ""."""
        asked = question(messages)
        if not asked or self._failures.resting("recall"):
            return ""
        said = {text for message in messages if (text := spoken(message))}
        with self._failures.tolerated("recall", answered=answers(messages[-1:])):
            notes = await self._lookup(call, asked, thread, said)
            return self._render(_fresh(notes, said))
        return ""

    def new_turn(self) -> None:
        """Look the next question up, also one that was asked before: it may have another answer by now."""
        self._found.clear()

    def shorter(self, text: str, tokens: int, count: Callable[[str], int]) -> str | None:
        """Return `text` without its weakest notes, at least `tokens` shorter; None if nothing is left."""
        notes, limit = self._shown.get(text, ()), count(text) - tokens
        for kept in range(len(notes) - 1, 0, -1):
            less = render_notes(notes[:kept], max_tokens=self._max_tokens)
            if count(less) <= limit:
                return less
        return None

    async def _lookup(
        self, call: Call, asked: str, thread: str | None, said: set[str]
    ) -> Sequence[ScoredNote]:
        found = self._found.get(asked)
        cached = found is not None and await self._is_current(call, found, thread)
        if found is None or not cached:
            at = time.time_ns()
            found = Found(await self._search(call, asked, said), at)
            _keep(self._found, asked, found)
        ids = [hit.note.id for hit in found.notes]
        dispatcher.event(AMemRecallEvent(question=asked, note_ids=ids, cached=cached))
        return found.notes

    async def _search(self, call: Call, asked: str, said: set[str]) -> list[ScoredNote]:
        """Return enough notes to fill the prompt; what it says already stands before all else."""
        limit = min(RANKED, 2 * self._k + min(len(said), 2 * self._k))
        notes = await self._ask(call, asked, limit)
        if len(notes) == limit < RANKED and len(_fresh(notes, said)) < self._k // 2 + 1:
            notes = await self._ask(call, asked, RANKED)
        return notes

    async def _ask(self, call: Call, asked: str, limit: int) -> list[ScoredNote]:
        return await call(self._memory.search, asked, namespace=self._namespace, k=limit)

    async def _is_current(self, call: Call, found: Found, thread: str | None) -> bool:
        """Return whether nothing was learnt since, here or in another process.

        What this conversation itself has added stands in the prompt.
        """
        where: dict[str, object] = {"seq": {"$gt": found.at}}
        if thread is not None:
            where["thread"] = {"$ne": thread}
        new = await self._get(call, where, 1)
        return not new and await self._unchanged(call, found.notes)

    async def _unchanged(self, call: Call, hits: Sequence[ScoredNote]) -> bool:
        """Return whether the notes are there and say what they said: a user may have corrected one."""
        said = {hit.note.id: hit.note.content for hit in hits}
        notes = await self._get(call, {"id": {"$in": list(said)}}, len(said)) if said else []
        return {note.id: note.content for note in notes} == said

    async def _get(self, call: Call, where: dict[str, object], limit: int) -> list[Note]:
        return await call(self._memory.get_all, namespace=self._namespace, limit=limit, where=where)

    def _render(self, notes: Sequence[ScoredNote]) -> str:
        best = notes[: self._k]
        text = render_notes(best, max_tokens=self._max_tokens)
        _keep(self._shown, text, best)
        return text


def check_count(name: str, value: int) -> int:
    """Return a setting that is a number of things.

    Raises:
        ConfigurationError: It is no whole number of at least 1.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigurationError(f"{name}={value!r} must be a whole number of at least 1")
    return value


def _fresh(notes: Sequence[ScoredNote], said: Collection[str]) -> list[ScoredNote]:
    """Return what the prompt does not say already, each thing once."""
    best: dict[str, ScoredNote] = {}
    for hit in notes:
        content = hit.note.content
        chunk = len(content) >= CHUNK_CHARS and any(content in text for text in said)
        if content not in said and not chunk:
            best.setdefault(content, hit)
    return list(best.values())


def _keep(values: dict[str, V], key: str, value: V) -> None:
    values.pop(key, None)
    values[key] = value
    while len(values) > KEPT:
        values.pop(next(iter(values)), None)
