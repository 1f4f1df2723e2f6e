"""`Turns`: what the middleware and the nodes do with the memory in a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import BaseMessage

from amem_integrations import AgenticMemory, Note
from amem_integrations.adapting import Call, Recalled

from .messages import ShouldStore, conversation, is_spoken
from .retriever import traced
from .run import Failures, Namespace, NamespaceOf, Run, others_of

RECENT = 32  # messages of which it is looked whether they were edited since they were stored

ByRun = Mapping[str, Any] | Callable[[Run], Mapping[str, Any] | None] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """Recalls for what was asked, and remembers what was said.

    `where` of the options and `metadata` may be functions of the run. What these, `should_store` or the memory raise is
    counted, and takes no answer away.
    """

    memory: AgenticMemory
    failures: Failures
    also: Mapping[str, NamespaceOf] = field(default_factory=dict)
    recall: Mapping[str, Any] = field(default_factory=dict)
    should_store: ShouldStore = is_spoken
    metadata: ByRun = None

    async def find(
        self, call: Call, messages: Sequence[BaseMessage], run: Run, space: Namespace
    ) -> Recalled:
        """Return what is worth showing for the last thing that a person said."""
        if self.failures.resting("recall"):
            return Recalled()
        others, options, found = others_of(self.also, run), dict(self.recall), Recalled()
        with self.failures.tolerated("where", callback=True) as reasons:
            options["where"] = _by_run(options.get("where"), run)
        if reasons:
            return found
        said = conversation(messages)
        question = next((one.text for one in reversed(said) if one.party == "user"), "")
        with self.failures.tolerated("recall"):
            search = call(self.memory.recall_turn, said, namespace=space, also=others, **options)
            found = await traced(call, self.memory, question, search)
        self.failures.failed("recall", found.error)
        return found

    async def store(
        self,
        call: Call,
        messages: Sequence[BaseMessage],
        run: Run,
        space: Namespace,
        *,
        wanted: Callable[[int], bool],
        edited: Callable[[int], bool],
        complete: bool = True,
    ) -> list[Note]:
        """Store those of the messages that are wanted, by place, and worth storing; return their notes.

        Of the last messages the notes of those that are `edited` are edited too.
        """

        def is_stored(number: int, message: BaseMessage) -> bool | None:
            if not wanted(number):
                is_recent = number >= len(messages) - RECENT and message.id is not None
                return None if is_recent and edited(number) else False
            with self.failures.tolerated("should_store", callback=True):
                return bool(self.should_store(message))
            return False

        metadata: Mapping[str, Any] | None = None
        with self.failures.tolerated("metadata", callback=True):
            metadata = _by_run(self.metadata, run)
        said, error = conversation(messages, is_stored), None
        notes: list[Note] = []
        with self.failures.tolerated("remember"):
            done = await call(
                self.memory.remember_turn,
                said,
                namespace=space,
                thread=run.thread,
                roles=tuple({one.party for one in said}),
                metadata=metadata,
                complete=complete,
            )
            notes, error = done.notes, done.error
        self.failures.failed("remember", error)
        return notes


def _by_run(value: ByRun, run: Run) -> Mapping[str, Any] | None:
    return value(run) if callable(value) else value
