"""`AMemToolSpec`: what an agent can do with its memory by itself."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import partial, wraps
from inspect import signature
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar, Unpack

from llama_index.core.tools.tool_spec.base import SPEC_FUNCTION_TYPE, BaseToolSpec

from amem_integrations import AgenticMemory, ConfigurationError, adapting
from amem_integrations.errors import AmemError, InvalidInputError, NoteNotFoundError

from .conversation import Door, Search, Whose
from .events import AMemToolEvent, Failures, dispatcher

P = ParamSpec("P")
S = TypeVar("S", bound="AMemToolSpec")

DOWN = "The memory does not answer now. Go on without it."
UNKNOWN = "Error: there is no note with this id. Use recall, and take an id from there."
NOTHING = "Nothing is known about this."

MOST = 50  # notes that a model may ask for, unless more are shown anyway


class Answer(NamedTuple):
    """The words that a model is told, the notes that they are about, and why only words counted, if so."""

    text: str
    note_ids: Sequence[str]
    error: AmemError | None = None


def _tool(work: Callable[Concatenate[S, P], Answer]) -> Callable[Concatenate[S, P], str]:
    """Return a tool that tells the model the answer, or what is wrong; each call of the tool is a span and an event.

    Agents copy their tools, which a span of the framework cannot bear: the tool is a function around it.
    """
    spanned, takes = dispatcher.span(work), signature(work)

    @wraps(work)
    def tool(self: S, /, *args: P.args, **kwargs: P.kwargs) -> str:
        takes.bind(self, *args, **kwargs)  # raises what agents tell the model: it is no outage
        name, answer = work.__name__, Answer(DOWN, [])
        with self._door.failures.tolerated(name, callback=True):
            try:
                answer = spanned(self, *args, **kwargs)
            except NoteNotFoundError:
                answer = Answer(UNKNOWN, [])
            except InvalidInputError as error:
                answer = Answer(f"Error: {error}", [])
        dispatcher.event(AMemToolEvent(tool=name, note_ids=[*answer.note_ids], answer=answer.text))
        self._door.failures.failed(name, answer.error)
        return answer.text

    # Of the signature the framework makes what it tells the model about the tool.
    tool.__signature__ = takes.replace(return_annotation="str")  # type: ignore[attr-defined]
    return tool


def threaded(tool: Callable[P, str]) -> Callable[P, Coroutine[Any, Any, str]]:
    """Return the asynchronous twin of a tool, in a thread: the framework's own has no context of the caller before 0.14.25."""

    @wraps(tool)
    async def twin(*args: P.args, **kwargs: P.kwargs) -> str:
        return await adapting.in_thread(partial(tool, *args, **kwargs))

    return twin


class AMemToolSpec(BaseToolSpec):
    """Tools to remember, recall, forget and correct; `spec.to_tool_list()` gives them to an agent.

    They answer in one sentence, also when something is wrong: agents show a tool's exception to the
    model, with whatever stands in it.
    https://developers.llamaindex.ai/python/framework/module_guides/deploying/agents/tools/

    Args:
        memory: Where notes are kept.
        namespace: Whose notes: a tuple, or a function without arguments that is called by each tool.
        thread: The conversation that what is remembered belongs to.
        evolve: Whether the background worker links and evolves what is remembered; False leaves that to
            `AgenticMemory.evolve` and `amem worker`.
        assistant_supersedes: Whether a note that the agent remembers may take the place of the user's own words at
            once, as if the user had said so; False proposes that, but where `MemoryConfig.assistant_supersedes` is set.
        max_tokens: About how many tokens of text `recall` shows.
        on_error: `"log"` tells the model when the memory does not answer; `"raise"` raises.
        search: Of `recall`: `k` (5), `also` (further namespaces, by the names that mark their notes), `where` (or a
            function that returns it), `min_similarity`, `links`, `as_of`, `known_at`: see `AgenticMemory.search`.

    Raises:
        NamespaceError: The namespace is not a non-empty tuple of strings.
        ConfigurationError: An option has a value that cannot be used.
        TypeError: An option is unknown.

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
        (name, f"a{name}") for name in ("remember", "recall", "forget", "correct")
    ]

    def __init__(
        self,
        memory: AgenticMemory,
        namespace: Whose,
        *,
        thread: str | None = None,
        evolve: bool = True,
        assistant_supersedes: bool = False,
        max_tokens: int = 1000,
        on_error: adapting.OnError = "log",
        **search: Unpack[Search],
    ) -> None:
        adapting.check_flags(assistant_supersedes=assistant_supersedes)
        adapting.check_counts(max_tokens=max_tokens)
        if not isinstance(thread, str | None):
            raise ConfigurationError(f"thread={thread!r} must be a text")
        options: dict[str, Any] = {"also": search.pop("also", None), "failures": Failures(on_error)}
        recall = adapting.checked_recall({"k": 5, **search}, adapting.SearchOptions)
        self._door = Door(memory, namespace, recall=recall, evolve=evolve, **options)
        self._thread, self._max_tokens = thread, max_tokens
        self._supersedes = assistant_supersedes

    @property
    def failures(self) -> dict[str, int]:
        """How often each tool could not do its work so far."""
        return self._door.failures.snapshot()

    @_tool
    def remember(self, content: str, supersedes: list[str] | None = None) -> Answer:
        """Store one fact in long-term memory, as a full sentence that can be understood months later.

        In supersedes, give the ids (from recall) of notes that are no longer true because of it.
        """
        named = [supersedes] if isinstance(supersedes, str | float | int) else supersedes or ()
        older, space = list(dict.fromkeys(map(adapting.copied_id, named))), self._door.space()
        how: dict[str, Any] = {"thread": self._thread, "assistant_supersedes": self._supersedes}
        remember = self._door.memory.remember_fact
        note, taken = remember(content, namespace=space, supersedes=older, **how)
        self._door.evolve_later(space)
        return Answer(adapting.told_of(note, older, taken), [note.id, *older])

    @_tool
    def recall(
        self,
        query: str,
        limit: int | None = None,
        speaker: str | None = None,
        since: str | None = None,
    ) -> Answer:
        """Look up in long-term memory what is known about something; each note comes with its id.

        Optionally at most limit notes, only what a speaker said, or only since a date such as 2024-05-31.
        """
        asked = str(limit or 0).strip().removesuffix(".0")  # some models write each number so
        if not asked.isdecimal():
            raise InvalidInputError(f"limit={limit!r} must be a whole number of at least 1")
        k = min(int(asked) or self._door.recall["k"], max(self._door.recall["k"], MOST))
        told: dict[str, Any] = {"speaker": speaker} if speaker else {}
        when: dict[str, Any] = {"when": {"$gte": adapting.parse_time(str(since))}} if since else {}
        space = self._door.space()
        options = self._door.asked(namespace=space, narrowed=[told, when], k=k)
        if options is None:
            return Answer(DOWN, [])
        found = self._door.memory.search_turn(query, **options)
        text = adapting.shown(found.hits, options["also"], self._max_tokens)
        return Answer(text or NOTHING, [hit.note.id for hit in found.hits], found.error)

    @_tool
    def forget(self, note_id: str, thorough: bool = False) -> Answer:
        """Delete one note from long-term memory for good. Take the id from recall.

        With thorough, everything goes too that was concluded with the note in view; only when every trace has to go.
        """
        space, wanted = self._door.space(), adapting.copied_id(note_id)
        self._door.memory.delete(wanted, namespace=space, thorough=thorough or False)
        return Answer("Forgotten.", [wanted])

    @_tool
    def correct(self, note_id: str, content: str) -> Answer:
        """Replace what one note of long-term memory says. Take the id from recall."""
        space, wanted = self._door.space(), adapting.copied_id(note_id)
        note = self._door.memory.update(wanted, namespace=space, content=content)
        self._door.evolve_later(space)
        return Answer("Corrected.", [note.id])

    aremember, arecall = threaded(remember), threaded(recall)
    aforget, acorrect = threaded(forget), threaded(correct)
