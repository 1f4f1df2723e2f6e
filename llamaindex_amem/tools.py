"""`AMemToolSpec`: what an agent can do with its memory by itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Unpack, get_type_hints

from llama_index.core.tools.tool_spec.base import SPEC_FUNCTION_TYPE, BaseToolSpec

from amem_integrations import (
    AgenticMemory,
    ConfigurationError,
    InvalidInputError,
    Note,
    NoteNotFoundError,
    ScoredNote,
)
from amem_integrations.adapting import (
    PASSING,
    Call,
    Evolving,
    RecallKeywords,
    RecallOptions,
    both,
    check_namespace,
    evolve_turn,
    evolves_now,
)

from .events import AMemToolEvent, Failures, dispatcher
from .recall import check_options

DOWN = "The memory does not answer now. Go on without it."
INVALID = "Error: this text is empty or too long."
UNKNOWN = "Error: there is no note with this id. Use recall, and take an id from there."
NOTHING = "Nothing is known about this."

# The question of the turn is stored already, and may have been asked before: so many notes may be left out.
QUESTIONS = 10


class AMemToolSpec(BaseToolSpec):
    """Tools to remember, recall, forget and correct; `spec.to_tool_list()` gives them to an agent.

    They answer in one sentence, also when something is wrong: agents show a tool's exception to the
    model, with whatever stands in it.
    https://developers.llamaindex.ai/python/framework/module_guides/deploying/agents/tools/

    Args:
        memory: Where notes are kept.
        namespace: Whose notes.
        thread: The conversation that what is remembered belongs to.
        evolve: Link and evolve what is remembered at once; False leaves that to `AgenticMemory.evolve`,
            `"worker"` to `amem worker`.
        recall: `k` (5), `max_tokens`, `where`, `min_similarity`, `links`, `as_of`: see `RecallOptions`.

    Raises:
        NamespaceError: The namespace is not a non-empty tuple of strings.
        ConfigurationError: An option has a value that cannot be used.

    Example:
        >>> from amem_integrations import AgenticMemory
        >>> from amem_integrations.testing import HashEmbedder
        >>> memory = AgenticMemory.open(":memory:", embedder=HashEmbedder())
        >>> tools = AMemToolSpec(memory=memory, namespace=("ann",)).to_tool_list()
        >>> ", ".join(tool.metadata.name for tool in tools)
        'remember, recall, forget, correct'
    """

    # The docstrings of these are what the model reads.
    spec_functions: list[SPEC_FUNCTION_TYPE] = [  # noqa: RUF012 - declared so by the framework
        ("remember", "aremember"),
        ("recall", "arecall"),
        ("forget", "aforget"),
        ("correct", "acorrect"),
    ]

    def __init__(
        self,
        memory: AgenticMemory,
        namespace: Sequence[str],
        *,
        thread: str | None = None,
        evolve: Evolving = True,
        **recall: Unpack[RecallKeywords],
    ) -> None:
        check_options(recall, get_type_hints(RecallKeywords))
        if not isinstance(thread, str | None):
            raise ConfigurationError(f"thread={thread!r} must be a text")
        recall.setdefault("k", 5)
        self._memory, self._namespace = memory, check_namespace(namespace)
        self._options = RecallOptions(**recall)
        self._thread, self._evolve = thread, evolves_now(evolve)
        self._failures = Failures()

    @property
    def failures(self) -> dict[str, int]:
        """How often each tool could not do its work so far."""
        return self._failures.snapshot()

    @dispatcher.span
    async def _remember(self, call: Call, content: str, supersedes: list[str] | None = None) -> str:
        """Store one fact in long-term memory, as a full sentence that can be understood months later.

        In supersedes, give the ids (from recall) of notes that are no longer true because of it.
        """
        with self._answering("remember") as answer:
            note = await call(
                self._memory.add,
                content,
                namespace=self._namespace,
                thread=self._thread,
                source="assistant",
                supersedes=supersedes or (),
                evolve=self._evolve,
            )
            answer.says(f"Remembered as note {note.id}.", [note.id])
        return answer.text

    @dispatcher.span
    async def _recall(self, call: Call, query: str) -> str:
        """Look up in long-term memory what is known about something; each note comes with its id."""
        with self._answering("recall") as answer:
            limit, spaces = self._options.k + QUESTIONS, [self._namespace]
            hits = await self._options.search(call, self._memory, query, spaces, k=limit)
            found = [hit for hit in hits if not _asks(hit.note, query)][: self._options.k]
            answer.says(self._listed(found), [hit.note.id for hit in found])
        return answer.text

    @dispatcher.span
    async def _forget(self, call: Call, note_id: str, thorough: bool = False) -> str:
        """Delete one note from long-term memory for good. Take the id from recall.

        With thorough, everything goes too that was concluded with the note in view; only when every trace has to go.
        """
        with self._answering("forget") as answer:
            wanted, space = str(note_id).strip(), self._namespace
            await call(self._memory.delete, wanted, namespace=space, thorough=thorough)
            answer.says("Forgotten.", [wanted])
        return answer.text

    @dispatcher.span
    async def _correct(self, call: Call, note_id: str, content: str) -> str:
        """Replace what one note of long-term memory says. Take the id from recall."""
        with self._answering("correct") as answer:
            space = self._namespace
            note = await call(
                self._memory.update, str(note_id).strip(), namespace=space, content=content
            )
            answer.says("Corrected.", [note.id])
            if self._evolve:
                with self._failures.tolerated("evolve", answered=True):
                    await evolve_turn(call, self._memory, space, [note.id], left_overs=0)
        return answer.text

    remember, aremember = both(_remember)
    recall, arecall = both(_recall)
    forget, aforget = both(_forget)
    correct, acorrect = both(_correct)

    @contextmanager
    def _answering(self, tool: str) -> Iterator[Answer]:
        """Yield the answer to be; when the work fails, it says what there is to say about that."""
        answer = Answer()
        try:
            yield answer
        except NoteNotFoundError:
            answer.says(UNKNOWN)
        except InvalidInputError:
            answer.says(INVALID)
        except PASSING as error:
            self._failures.note(tool, error)
            answer.says(DOWN)
        dispatcher.event(AMemToolEvent(tool=tool, note_ids=answer.note_ids, answer=answer.text))

    def _listed(self, hits: Sequence[ScoredNote]) -> str:
        return self._options.render(hits, ids=True) or NOTHING


@dataclass(slots=True)
class Answer:
    """What a tool tells the model, and the notes it is about."""

    text: str = ""
    note_ids: list[str] = field(default_factory=list)

    def says(self, text: str, note_ids: Sequence[str] = ()) -> None:
        """Set both."""
        self.text, self.note_ids = text, list(note_ids)


def _asks(note: Note, query: str) -> bool:
    """Return whether a note is the question itself, or one of the user's that is still to be answered."""
    waiting = note.source == "user" and note.state == "pending"
    return _words(note.content) == _words(query) or (waiting and note.content.endswith("?"))


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold()) or [text]
