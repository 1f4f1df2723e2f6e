"""What the tools do: text for the model, and the notes themselves as the artifact."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from langchain_core.tools import ToolException
from pydantic import BaseModel, ConfigDict, Field

from amem_integrations import (
    AgenticMemory,
    InvalidInputError,
    NoteNotFoundError,
    ScoredNote,
    render_notes,
)

from ._failures import Failures

Namespace = tuple[str, ...]
Outcome = tuple[str, list[dict[str, Any]]]
Action = Callable[..., Outcome]
AsyncAction = Callable[..., Coroutine[Any, Any, Outcome]]


class MemoryInput(BaseModel):
    """What the model gives to a tool; in a run LangGraph adds its runtime, which is no pydantic type."""

    model_config = ConfigDict(arbitrary_types_allowed=True)


class SearchInput(MemoryInput):
    """Arguments of `search_memory`."""

    query: str = Field(description="what to look for, in words")


class RememberInput(MemoryInput):
    """Arguments of `remember`."""

    content: str = Field(description="one fact or event, in a full sentence with names and dates")


class CorrectInput(MemoryInput):
    """Arguments of `correct_memory`."""

    note_id: str = Field(description="id of the note, as search_memory shows it")
    content: str = Field(description="what the note should say instead")


class ForgetInput(MemoryInput):
    """Arguments of `forget_memory`."""

    note_id: str = Field(description="id of the note, as search_memory shows it")


@dataclass(frozen=True, slots=True, kw_only=True)
class Actions:
    """Four things to do with a memory, each in both forms."""

    memory: AgenticMemory
    k: int
    max_tokens: int
    evolve: bool
    failures: Failures

    def of(self, kind: str) -> tuple[Action, AsyncAction]:
        """Return both forms of an action."""
        return getattr(self, kind), getattr(self, f"a{kind}")

    def search(self, namespace: Namespace, query: str) -> Outcome:
        """Return the notes found."""
        with self._told("search"):
            return self._found(self.memory.search(query, namespace=namespace, k=self.k))
        raise _silent()

    async def asearch(self, namespace: Namespace, query: str) -> Outcome:
        """Asynchronous twin of `search`."""
        with self._told("search"):
            return self._found(await self.memory.asearch(query, namespace=namespace, k=self.k))
        raise _silent()

    def remember(self, namespace: Namespace, content: str) -> Outcome:
        """Store a note; saying the same again makes no second one."""
        with self._told("remember"):
            note = self.memory.add(content, namespace=namespace, **self._how())
            if note.content != content:
                note = self.memory.add(content, namespace=namespace, key=_anew(), **self._how())
            return f"Remembered as note {note.id}.", []
        raise _silent()

    async def aremember(self, namespace: Namespace, content: str) -> Outcome:
        """Asynchronous twin of `remember`."""
        with self._told("remember"):
            note = await self.memory.aadd(content, namespace=namespace, **self._how())
            if note.content != content:
                how = {"key": _anew(), **self._how()}
                note = await self.memory.aadd(content, namespace=namespace, **how)
            return f"Remembered as note {note.id}.", []
        raise _silent()

    def correct(self, namespace: Namespace, note_id: str, content: str) -> Outcome:
        """Give a note other content; the old text stays in its history."""
        with self._told("correct"):
            self.memory.update(note_id, namespace=namespace, content=content)
            if self.evolve:
                self.memory.evolve(namespace=namespace)
            return f"Note {note_id} is corrected.", []
        raise _silent()

    async def acorrect(self, namespace: Namespace, note_id: str, content: str) -> Outcome:
        """Asynchronous twin of `correct`."""
        with self._told("correct"):
            await self.memory.aupdate(note_id, namespace=namespace, content=content)
            if self.evolve:
                await self.memory.aevolve(namespace=namespace)
            return f"Note {note_id} is corrected.", []
        raise _silent()

    def forget(self, namespace: Namespace, note_id: str) -> Outcome:
        """Delete a note."""
        with self._told("forget"):
            self.memory.delete(note_id, namespace=namespace)
            return f"Note {note_id} is forgotten.", []
        raise _silent()

    async def aforget(self, namespace: Namespace, note_id: str) -> Outcome:
        """Asynchronous twin of `forget`."""
        with self._told("forget"):
            await self.memory.adelete(note_id, namespace=namespace)
            return f"Note {note_id} is forgotten.", []
        raise _silent()

    def _how(self) -> dict[str, Any]:
        return {"source": "assistant", "evolve": self.evolve}

    @contextmanager
    def _told(self, doing: str) -> Iterator[None]:
        """Tell the model what it did wrong; leave the block when the memory does not answer."""
        with self.failures.tolerated(doing):
            try:
                yield
            except (InvalidInputError, NoteNotFoundError) as error:
                raise ToolException(str(error)) from error

    def _found(self, hits: Sequence[ScoredNote]) -> Outcome:
        # The id stands before the content, which could pretend to another one.
        shown = [hit.note.revised(content=f"(id {hit.note.id}) {hit.note.content}") for hit in hits]
        text = render_notes(shown, max_tokens=self.max_tokens)
        return text or "Nothing is known about that.", [hit.to_dict() for hit in hits]


def _anew() -> str:
    """Return a key for what was remembered before, corrected since, and is true again."""
    return f"remember:{uuid4()}"


def _silent() -> ToolException:
    return ToolException("The memory does not answer now; go on without it.")
