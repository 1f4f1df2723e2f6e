"""What the recall and remember nodes do in a run, in both forms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig

from amem_integrations import Note, ScoredNote, render_notes

from ._failures import Failures
from ._graphs import State, messages_of, run_of, tell, value_of
from ._recall import Recall
from ._remember import Remember
from ._run import NamespaceOf, namespace_of
from ._turns import begin, parts, stored

Namespace = tuple[str, ...]
Update = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """Where the state keeps things."""

    messages: str
    output: str
    turn: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallStep:
    """Recalls for what is asked, and notes what the run was asked and for whom."""

    recall: Recall
    namespace: NamespaceOf
    keys: Keys
    failures: Failures

    def run(self, state: State, config: RunnableConfig) -> Update:
        """Return the text recalled."""
        space, messages, update = self._begin(state, config)
        with self.failures.tolerated("recall"):
            update[self.keys.output] = self._text(self.recall.find(messages, space))
        return update

    async def arun(self, state: State, config: RunnableConfig) -> Update:
        """Asynchronous twin of `run`."""
        space, messages, update = self._begin(state, config)
        with self.failures.tolerated("recall"):
            update[self.keys.output] = self._text(await self.recall.afind(messages, space))
        return update

    def _begin(
        self, state: State, config: RunnableConfig
    ) -> tuple[Namespace, list[BaseMessage], Update]:
        space = namespace_of(self.namespace, run_of(state, config))
        messages = messages_of(state, self.keys.messages)
        entry, _ = begin(messages, value_of(state, self.keys.turn) or {}, space)
        del entry["recalled"]
        return space, messages, {self.keys.output: "", self.keys.turn: entry}

    def _text(self, hits: Sequence[ScoredNote]) -> str:
        tell("recall", notes=[hit.note.id for hit in hits])
        return render_notes(hits, max_tokens=self.recall.max_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberStep:
    """Stores what the run was asked and what it answered, for whom it was asked."""

    remember: Remember
    namespace: NamespaceOf
    keys: Keys

    def run(self, state: State, config: RunnableConfig) -> Update:
        """Return the ids of the notes."""
        space, messages, plan = self._plan(state, config)
        found = [self.remember.store(messages[:end], **how) for end, how in plan]
        return self._done(found, state, messages, space)

    async def arun(self, state: State, config: RunnableConfig) -> Update:
        """Asynchronous twin of `run`."""
        space, messages, plan = self._plan(state, config)
        found = [await self.remember.astore(messages[:end], **how) for end, how in plan]
        return self._done(found, state, messages, space)

    def _plan(
        self, state: State, config: RunnableConfig
    ) -> tuple[Namespace, list[BaseMessage], list[tuple[int, dict[str, Any]]]]:
        """Return whose run it is, its messages, and how to store those up to which place."""
        run, messages = run_of(state, config), messages_of(state, self.keys.messages)
        space = namespace_of(self.namespace, run)
        turn = value_of(state, self.keys.turn) or {}
        plan = [
            (part.stop, {"namespace": whose, "thread": run.thread, "skip": part.start})
            for whose, part in parts(messages, turn, space)
        ]
        return space, messages, plan

    def _done(
        self,
        found: Sequence[list[Note] | None],
        state: State,
        messages: Sequence[BaseMessage],
        space: Namespace,
    ) -> Update:
        ids = [note.id for notes in found for note in notes or ()]
        tell("remember", notes=ids)
        before = value_of(state, self.keys.turn) or {}
        # What could not be stored stays with whom it was said to, for the next run to store.
        missed = before if before.get("namespace") == list(space) else {"namespace": list(space)}
        turn = missed if None in found else stored(messages, space)
        return {self.keys.output: ids, self.keys.turn: turn}
