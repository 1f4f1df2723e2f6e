"""Recall for a conversation: one search for each question, and nothing that the prompt says already."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from llama_index.core.base.llms.types import ChatMessage

from amem_integrations import AgenticMemory, ScoredNote
from amem_integrations.adapting import Call, RecallOptions, clock

from .events import AMemRecallEvent, Failures, dispatcher
from .messages import answers, question, said_before, spoken

V = TypeVar("V")

# Questions whose notes are kept: more than there are sessions that share a block at one time.
KEPT = 32
# A search ranks about this many; to ask for more, in place of what is left out, brings nothing.
RANKED = 100


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
        options: RecallOptions,
    ) -> None:
        self._memory, self._namespace, self._failures = memory, namespace, failures
        self._options, self._k = options, options.k
        self._found: dict[str, Found] = {}
        self._shown: dict[str, tuple[Sequence[ScoredNote], str]] = {}  # by text, with what is above

    @dispatcher.span
    async def text(self, call: Call, messages: Sequence[ChatMessage], thread: str | None) -> str:
        """Return the notes for the last question in `messages` as text for a prompt, or ""."""
        asked = question(messages)
        if not asked or self._failures.resting("recall"):
            return ""
        said = {text for message in messages if (text := spoken(message))}
        with self._failures.tolerated("recall", answered=answers(messages[-1:])):
            before = said_before(messages)[-self._options.window :] if self._options.window else []
            notes = await self._lookup(call, asked, thread, said, before)
            about = await self._options.about(call, self._memory, self._namespace)
            return self._render(_fresh(notes, said), about)
        return ""

    def new_turn(self) -> None:
        """Look the next question up, also one that was asked before: it may have another answer by now."""
        self._found.clear()

    def shorter(self, text: str, tokens: int, count: Callable[[str], int]) -> str | None:
        """Return `text` without its weakest notes, at least `tokens` shorter; None if nothing is left."""
        (notes, about), limit = self._shown.get(text, ((), "")), count(text) - tokens
        for kept in range(len(notes) - 1, 0, -1):
            less = self._options.render(notes[:kept], about=about)
            if count(less) <= limit:
                return less
        return None

    async def _lookup(
        self, call: Call, asked: str, thread: str | None, said: set[str], before: Sequence[str]
    ) -> Sequence[ScoredNote]:
        key = "\n".join([asked, *before])
        found = self._found.get(key)
        cached = found is not None and await self._is_current(call, found, thread)
        if found is None or not cached:
            at = clock.tick()
            found = Found(await self._search(call, asked, said, before), at)
            _keep(self._found, key, found)
        ids = [hit.note.id for hit in found.notes]
        dispatcher.event(AMemRecallEvent(question=asked, note_ids=ids, cached=cached))
        return found.notes

    async def _search(
        self, call: Call, asked: str, said: set[str], before: Sequence[str]
    ) -> list[ScoredNote]:
        """Return enough notes to fill the prompt; what it says already stands before all else."""
        search = partial(
            self._options.search,
            call,
            self._memory,
            asked,
            [self._namespace],
            recall=True,
            messages=before,
        )
        limit = min(RANKED, 2 * self._k + min(len(said), 2 * self._k))
        notes = await search(k=limit)
        if len(notes) == limit < RANKED and len(_fresh(notes, said)) <= self._k // 2:
            notes = await search(k=RANKED)
        return notes

    async def _is_current(self, call: Call, found: Found, thread: str | None) -> bool:
        """Return whether nothing was learnt since, here or in another process.

        What this conversation itself has added stands in the prompt.
        """
        where: dict[str, object] = {"seq": {"$gt": found.at}}
        if thread is not None:
            where["thread"] = {"$ne": thread}
        get_all, space = self._memory.get_all, self._namespace
        if await call(get_all, namespace=space, limit=1, where=where):
            return False
        said = {hit.note.id: hit.note.content for hit in found.notes}
        where = {"id": {"$in": list(said)}}
        notes = await call(get_all, namespace=space, limit=len(said), where=where) if said else []
        # A user may have corrected or deleted one.
        return {note.id: note.content for note in notes} == said

    def _render(self, notes: Sequence[ScoredNote], about: str) -> str:
        best = notes[: self._k]
        text = self._options.render(best, about=about)
        _keep(self._shown, text, (best, about))
        return text


def check_options(options: Iterable[str], known: Collection[str]) -> None:
    """Check the names of keyword arguments.

    Raises:
        TypeError: One is unknown.
    """
    unknown = [name for name in options if name not in known]
    if unknown:
        raise TypeError(
            f"unexpected option {unknown[0]!r}; the options are {', '.join(sorted(known))}"
        )


def _fresh(notes: Sequence[ScoredNote], said: Collection[str]) -> list[ScoredNote]:
    """Return what the prompt does not say already, each thing once."""
    best: dict[str, ScoredNote] = {}
    for hit in notes:
        content = hit.note.content
        if content not in said:
            best.setdefault(content, hit)
    return list(best.values())


def _keep(values: dict[str, V], key: str, value: V) -> None:
    values.pop(key, None)
    values[key] = value
    while len(values) > KEPT:
        values.pop(next(iter(values), key), None)
