"""`AMemToolSpec`: what an agent can do with its memory by itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from llama_index.core.tools.tool_spec.base import SPEC_FUNCTION_TYPE, BaseToolSpec

from amem_integrations import (
    AgenticMemory,
    InvalidInputError,
    Note,
    NoteNotFoundError,
    ScoredNote,
    render_notes,
)
from amem_integrations.adapting import (
    PASSING,
    Call,
    Evolving,
    both,
    check_namespace,
    evolve_turn,
    evolves_now,
)

from .events import Failures
from .recall import check_count

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
        k: Most notes to recall.
        max_tokens: About how long the recalled text may be.
        thread: The conversation that what is remembered belongs to.
        evolve: Link and evolve what is remembered at once; False leaves that to `AgenticMemory.evolve`,
            `"worker"` to `amem worker`.

    Raises:
        NamespaceError: The namespace is not a non-empty tuple of strings.
        ConfigurationError: `k` or `max_tokens` is no whole number of at least 1.

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
        k: int = 5,
        max_tokens: int = 1000,
        thread: str | None = None,
        evolve: Evolving = True,
    ) -> None:
        self._memory, self._namespace = memory, check_namespace(namespace)
        self._k, self._max_tokens = check_count("k", k), check_count("max_tokens", max_tokens)
        self._thread, self._evolve = thread, evolves_now(evolve)
        self._failures = Failures()

    @property
    def failures(self) -> dict[str, int]:
        """How often each tool could not do its work so far."""
        return self._failures.snapshot()

    async def _remember(self, call: Call, content: str, supersedes: list[str] | None = None) -> str:
        """Store one fact in long-term memory, as a full sentence that can be understood months later.

        In supersedes, give the ids (from recall) of notes that are no longer true because of it.
        """
        with self._answering("remember") as answers:
            note = await call(
                self._memory.add,
                content,
                namespace=self._namespace,
                thread=self._thread,
                source="assistant",
                supersedes=supersedes or (),
                evolve=self._evolve,
            )
            answers.append(f"Remembered as note {note.id}.")
        return answers[-1]

    async def _recall(self, call: Call, query: str) -> str:
        """Look up in long-term memory what is known about something; each note comes with its id."""
        with self._answering("recall") as answers:
            limit = self._k + QUESTIONS
            hits = await call(self._memory.search, query, namespace=self._namespace, k=limit)
            found = [hit for hit in hits if not _asks(hit.note, query)]
            answers.append(self._listed(found[: self._k]))
        return answers[-1]

    async def _forget(self, call: Call, note_id: str) -> str:
        """Delete one note from long-term memory for good. Take the id from recall."""
        with self._answering("forget") as answers:
            await call(self._memory.delete, note_id.strip(), namespace=self._namespace)
            answers.append("Forgotten.")
        return answers[-1]

    async def _correct(self, call: Call, note_id: str, content: str) -> str:
        """Replace what one note of long-term memory says. Take the id from recall."""
        with self._answering("correct") as answers:
            space = self._namespace
            note = await call(
                self._memory.update, note_id.strip(), namespace=space, content=content
            )
            answers.append("Corrected.")
            if self._evolve:
                with self._failures.tolerated("evolve", answered=True):
                    await evolve_turn(call, self._memory, space, [note.id], left_overs=0)
        return answers[-1]

    remember, aremember = both(_remember)
    recall, arecall = both(_recall)
    forget, aforget = both(_forget)
    correct, acorrect = both(_correct)

    @contextmanager
    def _answering(self, doing: str) -> Iterator[list[str]]:
        """Yield a list for the answer; when the work fails, what to say about it is put there."""
        answers: list[str] = []
        try:
            yield answers
        except NoteNotFoundError:
            answers.append(UNKNOWN)
        except InvalidInputError:
            answers.append(INVALID)
        except PASSING as error:
            self._failures.note(doing, error)
            answers.append(DOWN)

    def _listed(self, hits: Sequence[ScoredNote]) -> str:
        # The id goes where the speaker stands, so that all of it is rendered, and made harmless, as ever.
        marked = [
            hit.note.revised(speaker=", ".join(filter(None, (hit.note.id, hit.note.speaker))))
            for hit in hits
        ]
        return render_notes(marked, max_tokens=self._max_tokens) or NOTHING


def _asks(note: Note, query: str) -> bool:
    """Return whether a note is the question itself, or one of the user's that is still to be answered."""
    waiting = note.source == "user" and note.state == "pending"
    return _words(note.content) == _words(query) or (waiting and note.content.endswith("?"))


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold()) or [text]
