"""MemGPT (Packer et al., 2023, arXiv 2310.08560): core memory, archival and recall search by function calls.

From the paper: the context holds core memory in blocks that functions edit (here one for each speaker, at most 2,000
characters as in the authors' program), a queue of the latest messages, and a summary of those that were evicted, which is
written anew when half of a full queue goes; all messages can be searched by their words, and what the model archives by
vectors, five results a page. A call may ask for a further step (a "heartbeat"), up to a bound. Here function calls are JSON
of one schema, so that any model can make them; messages come in batches of a session, not one by one; and the answer is
not sent by a function: what a question has brought into the context is put before it as with every other system.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby, islice
from typing import Literal

from pydantic import BaseModel, Field

from amem_integrations import NoteInput
from amem_integrations.texts import count_tokens

from ..systems import Vectors
from .base import Rival, day_of, said, transcript

QUEUE_TOKENS, BLOCK_CHARACTERS, BATCH, PAGE, STEPS = 2_000, 2_000, 20, 5, 5


class Call(BaseModel):
    """A call of a function; only the arguments that the function has are given."""

    function: Literal[
        "core_memory_append",
        "core_memory_replace",
        "archival_memory_insert",
        "archival_memory_search",
        "conversation_search",
    ]
    block: str = Field(default="", description="of core memory: the name of the block")
    old: str = Field(default="", description="of core_memory_replace: the text to replace")
    content: str = Field(default="", description="the text to append, to put in place, to archive")
    query: str = Field(default="", description="what to search for")
    page: int = Field(default=0, ge=0, description="of a search: 0 is the first page of results")


class Step(BaseModel):
    """The reply of a step."""

    calls: list[Call] = []
    heartbeat: bool = Field(default=False, description="whether to see the results and go on")


class Summary(BaseModel):
    """The reply to evicted messages."""

    summary: str = Field(description="the new summary")


class MemGpt:
    """The memory of an agent that reads a conversation."""

    def __init__(self, rival: Rival) -> None:
        self._ask, self._vectors = rival.ask, Vectors(rival.embedder)
        self._core: dict[str, str] = {}
        self._archive: list[str] = []
        self._messages: list[NoteInput] = []  # all, for recall
        self._queue: list[NoteInput] = []
        self._summary = ""

    def add(self, turns: Sequence[NoteInput]) -> None:
        """Read turns in batches, and let the model file what it wants to keep."""
        for _, some in groupby(turns, key=lambda turn: turn.thread):
            session = list(some)
            for start in range(0, len(session), BATCH):
                self._hear(session[start : start + BATCH])

    def _hear(self, batch: Sequence[NoteInput]) -> None:
        for turn in batch:
            self._core.setdefault(turn.speaker or "speaker", "")
        self._messages += batch
        self._queue += batch
        self._work("New messages are at the end of the queue. File what is worth keeping.")
        while len(self._queue) > 1 and count_tokens(transcript(self._queue)) > QUEUE_TOKENS:
            gone = self._queue[: len(self._queue) // 2]
            del self._queue[: len(gone)]
            values = {"summary": self._summary or "(none)", "messages": transcript(gone)}
            found = self._ask("memgpt_evict", Summary, **values)
            self._summary = found.summary if found else self._summary

    def recall(self, question: str) -> str:
        """Return the context once the model has searched its memory for a question."""
        seen = self._work(f"Question: {question}\nSearch what you need to answer it.", edit=False)
        return "\n\n".join([self._context(), *seen])

    def _work(self, event: str, *, edit: bool = True) -> list[str]:
        """Return the results of the functions that the model calls, step by step."""
        seen: list[str] = []
        for _ in range(STEPS):
            shown = "\n".join(seen) or "(none yet)"
            context = self._context()
            found = self._ask("memgpt_step", Step, context=context, event=event, results=shown)
            if found is None:
                break
            seen += [self._result(call, edit=edit) for call in found.calls]
            if not found.heartbeat:
                break
        return seen

    def _context(self) -> str:
        blocks = "\n".join(f"<{name}>\n{text}" for name, text in self._core.items())
        archived = f"{len(self._archive)} texts archived, {len(self._messages)} messages in all"
        parts = {"Core memory": blocks, "Summary of evicted messages": self._summary}
        parts |= {"Stored": archived, "Latest messages": transcript(self._queue)}
        return "\n\n".join(f"{name}:\n{text or '(empty)'}" for name, text in parts.items())

    def _result(self, call: Call, *, edit: bool) -> str:
        if call.function == "archival_memory_search":
            texts = (self._archive[place] for place in self._vectors.nearest(call.query))
            return _page("archival memory", call, texts)
        if call.function == "conversation_search":
            words = set(_words(call.query))
            holding = (one for one in self._messages if words <= set(_words(said(one))))
            return _page("messages", call, (f"[{day_of(one.at)}] {said(one)}" for one in holding))
        if not edit:
            return f"{call.function}: memory is not edited for a question"
        if call.function == "archival_memory_insert":
            self._archive.append(call.content)
            self._vectors.put(call.content)
            return "archived"
        return self._edited(call)

    def _edited(self, call: Call) -> str:
        before = self._core.get(call.block)
        replaces = call.function == "core_memory_replace"
        if before is None or (replaces and (not call.old or call.old not in before)):
            return f"{call.function}: no block {call.block!r}, or the old text is not in it"
        after = before.replace(call.old, call.content) if replaces else f"{before}\n{call.content}"
        if len(after) > BLOCK_CHARACTERS:
            return f"{call.function}: {call.block!r} would be over {BLOCK_CHARACTERS} characters"
        self._core[call.block] = after.strip()
        return "edited"


def _page(where: str, call: Call, texts: Iterable[str]) -> str:
    found = islice(texts, call.page * PAGE, (call.page + 1) * PAGE)
    return "\n".join([f"Found in {where} for {call.query!r}:", *found])


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())
