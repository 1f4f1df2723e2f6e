"""Recall for one turn of a conversation: what the memory knows that the conversation does not show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import BaseMessage

from amem_integrations import AgenticMemory, ScoredNote
from amem_integrations.adapting import Call, RecallOptions, reinforce_used

from .messages import answer_in, keys_of, question_in
from .runs import Failures, Namespace, NamespaceOf, Run, others_of
from .tracing import traced

# The model sees the end of the conversation anyway. What is further back is recalled like anything else,
# since a conversation may be trimmed before the model reads it.
VISIBLE = 10


@dataclass(frozen=True, slots=True)
class Recall:
    """Finds notes for what was last asked, in one namespace and in others that are read `also`."""

    memory: AgenticMemory
    options: RecallOptions
    failures: Failures
    also: Mapping[str, NamespaceOf]

    async def find(
        self, call: Call, messages: Sequence[BaseMessage], namespace: Namespace, run: Run
    ) -> list[ScoredNote]:
        """Return notes for the last question, best first, without what visible messages say."""
        question = question_in(messages)
        if not question or self.failures.resting("recall"):
            return []
        visible = keys_of(messages, run.thread, VISIBLE)
        said = {str(message.text).strip() for message in messages[-VISIBLE:]}
        spaces = [namespace, *others_of(self.also, run).values()]
        with self.failures.tolerated("recall"):
            most = self.options.k
            search = self.options.recall(call, self.memory, question, spaces, k=most + len(visible))
            hits = await traced(call, self.memory, question, search)
            fresh = [hit for hit in hits if hit.note.key not in visible]
            return [hit for hit in fresh if hit.note.content not in said][:most]
        return []

    def text(
        self, hits: Sequence[ScoredNote], run: Run, messages: Sequence[BaseMessage] = ()
    ) -> str:
        """Return the notes for the last question as a marked block of data for a prompt, or "" if there are none."""
        others, asked = others_of(self.also, run), question_in(messages)
        return self.options.render(hits, others, question=asked)


async def reinforce(
    call: Call,
    memory: AgenticMemory,
    messages: Sequence[BaseMessage],
    entry: Mapping[str, Any],
    failures: Failures,
) -> None:
    """Reinforce the links that led to what the last answer used of the notes that the entry says were `found`."""
    answer, found = answer_in(messages), entry.get("found")
    if not answer or not found:
        return
    with failures.tolerated("reinforce", answered=True):
        whose = tuple(entry["namespace"])
        await reinforce_used(call, memory, whose, found, answer, question_in(messages))
