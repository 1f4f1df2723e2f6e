"""`AMemToolSpec`: what an agent can do with its memory by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from llama_index.core.tools.tool_spec.base import SPEC_FUNCTION_TYPE, BaseToolSpec

from amem_integrations import (
    AgenticMemory,
    InvalidInputError,
    NoteNotFoundError,
    ScoredNote,
    render_notes,
)
from amem_integrations.adapting import PASSING, check_namespace

from ._evolution import Job, afinish, finish
from ._failures import Failures
from ._versions import changed

DOWN = "The memory does not answer now. Go on without it."
INVALID = "Error: this text is empty or too long."
UNKNOWN = "Error: there is no note with this id. Use recall, and take an id from there."
NOTHING = "Nothing is known about this."


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
        evolve: Link and evolve what is remembered at once; False leaves that to `AgenticMemory.evolve`.

    Raises:
        NamespaceError: The namespace is not a non-empty tuple of strings.

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
        evolve: bool = True,
    ) -> None:
        self._memory, self._namespace = memory, check_namespace(namespace)
        self._k, self._max_tokens = k, max_tokens
        self._thread, self._evolve = thread, evolve
        self._failures = Failures()

    @property
    def failures(self) -> dict[str, int]:
        """How often each tool could not do its work so far."""
        return self._failures.snapshot()

    def remember(self, content: str) -> str:
        """Store one fact in long-term memory, as a full sentence that can be understood months later."""
        with self._answering("remember") as answers:
            note = self._memory.add(
                content, namespace=self._namespace, thread=self._thread, evolve=self._evolve
            )
            answers.append(self._changed(f"Remembered as note {note.id}."))
        return answers[-1]

    async def aremember(self, content: str) -> str:
        """Asynchronous twin of `remember`."""
        with self._answering("remember") as answers:
            note = await self._memory.aadd(
                content, namespace=self._namespace, thread=self._thread, evolve=self._evolve
            )
            answers.append(self._changed(f"Remembered as note {note.id}."))
        return answers[-1]

    def recall(self, query: str) -> str:
        """Look up in long-term memory what is known about something; each note comes with its id."""
        with self._answering("recall") as answers:
            hits = self._memory.search(query, namespace=self._namespace, k=self._k)
            answers.append(self._listed(hits))
        return answers[-1]

    async def arecall(self, query: str) -> str:
        """Asynchronous twin of `recall`."""
        with self._answering("recall") as answers:
            hits = await self._memory.asearch(query, namespace=self._namespace, k=self._k)
            answers.append(self._listed(hits))
        return answers[-1]

    def forget(self, note_id: str) -> str:
        """Delete one note from long-term memory for good. Take the id from recall."""
        with self._answering("forget") as answers:
            self._memory.delete(note_id.strip(), namespace=self._namespace)
            answers.append(self._changed("Forgotten."))
        return answers[-1]

    async def aforget(self, note_id: str) -> str:
        """Asynchronous twin of `forget`."""
        with self._answering("forget") as answers:
            await self._memory.adelete(note_id.strip(), namespace=self._namespace)
            answers.append(self._changed("Forgotten."))
        return answers[-1]

    def correct(self, note_id: str, content: str) -> str:
        """Replace what one note of long-term memory says. Take the id from recall."""
        with self._answering("correct") as answers:
            note = self._memory.update(note_id.strip(), namespace=self._namespace, content=content)
            answers.append(self._changed("Corrected."))
            if self._evolve:
                finish(self._job(note.id))
        return answers[-1]

    async def acorrect(self, note_id: str, content: str) -> str:
        """Asynchronous twin of `correct`."""
        with self._answering("correct") as answers:
            note = await self._memory.aupdate(
                note_id.strip(), namespace=self._namespace, content=content
            )
            answers.append(self._changed("Corrected."))
            if self._evolve:
                await afinish(self._job(note.id))
        return answers[-1]

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

    def _changed(self, answer: str) -> str:
        changed(self._memory, self._namespace)
        return answer

    def _listed(self, hits: Sequence[ScoredNote]) -> str:
        # The id goes where the speaker stands, so that all of it is rendered, and made harmless, as ever.
        marked = [
            hit.note.revised(speaker=", ".join(filter(None, (hit.note.id, hit.note.speaker))))
            for hit in hits
        ]
        return render_notes(marked, max_tokens=self._max_tokens) or NOTHING

    def _job(self, note_id: str) -> Job:
        return Job(
            memory=self._memory,
            namespace=self._namespace,
            failures=self._failures,
            ids=(note_id,),
        )
