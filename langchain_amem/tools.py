"""`memory_tools`: an agent searches, remembers, corrects and forgets by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, get_args

from langchain_core.tools import BaseTool, StructuredTool, ToolException
from pydantic import BaseModel, ConfigDict, Field, create_model

from amem_integrations import (
    AgenticMemory,
    ConfigurationError,
    InvalidInputError,
    MissingExtraError,
    NamespaceError,
    NoteNotFoundError,
    ScoredNote,
    render_notes,
)
from amem_integrations.adapting import Call, Evolving, OnError, both, evolve_turn, evolves_now

from .runs import Failures, Namespace, NamespaceOf, checked_source, namespace_of, require_counts

Kind = Literal["search", "remember", "correct", "forget"]
Outcome = tuple[str, list[dict[str, Any]]]


def memory_tools(
    memory: AgenticMemory,
    *,
    namespace: NamespaceOf,
    kinds: Sequence[Kind] = ("search", "remember", "correct", "forget"),
    k: int = 10,
    max_tokens: int = 1000,
    evolve: Evolving = True,
    on_error: OnError = "log",
) -> list[BaseTool]:
    """Return tools over a memory, for `create_agent` or any graph with a `ToolNode`.

    Whose memory it is never comes from the model: it is fixed here, or read from the `ToolRuntime`, of
    which the model sees nothing and which it cannot fill in. Tools with a fixed namespace also work
    outside an agent. The model is told what it does wrong (an unknown id, an empty query).
    https://docs.langchain.com/oss/python/langchain/tools

    Args:
        memory: The memory to use.
        namespace: A tuple, or a function of the `ToolRuntime` (`context`, `state`, `config`).
        kinds: Which tools.
        k: Most notes a search returns.
        max_tokens: Most tokens of notes a search returns, about.
        evolve: Whether what is remembered is constructed, linked and evolved before the tool returns;
            False leaves that to the middleware, or to `memory.evolve()`; `"worker"` to `amem worker`.
        on_error: `"log"` tells the model when the memory does not answer; `"raise"` raises.

    Raises:
        ConfigurationError: An unknown kind, or a number below 1.
        NamespaceError: The namespace is malformed; in a run, that the run has none.
        MissingExtraError: `namespace` is a function, and langgraph is not installed.
    """
    if unknown := [kind for kind in kinds if kind not in get_args(Kind)]:
        raise ConfigurationError(f"kinds={unknown!r} are unknown; use {', '.join(get_args(Kind))}")
    require_counts(k=k, max_tokens=max_tokens)
    actions = Actions(
        memory=memory,
        k=k,
        max_tokens=max_tokens,
        evolve=evolves_now(evolve),
        failures=Failures(on_error),
    )
    whose = checked_source(namespace)
    return [_tool(kind, actions, whose) for kind in kinds]


class MemoryInput(BaseModel):
    """What the model gives to a tool; in a run LangGraph adds its runtime, which is no pydantic type."""

    model_config = ConfigDict(arbitrary_types_allowed=True)


class SearchInput(MemoryInput):
    """Arguments of `search_memory`."""

    query: str = Field(description="what to look for, in words")


class RememberInput(MemoryInput):
    """Arguments of `remember`."""

    content: str = Field(description="one fact or event, in a full sentence with names and dates")
    supersedes: list[str] = Field(
        default_factory=list,
        description="ids of notes that are no longer true because of it, as search_memory shows them",
    )


class ForgetInput(MemoryInput):
    """Arguments of `forget_memory`."""

    note_id: str = Field(description="id of the note, as search_memory shows it")


class CorrectInput(ForgetInput):
    """Arguments of `correct_memory`."""

    content: str = Field(description="what the note should say instead")


@dataclass(frozen=True, slots=True, kw_only=True)
class Actions:
    """What the tools do: text for the model, and the notes themselves as the artifact."""

    memory: AgenticMemory
    k: int
    max_tokens: int
    evolve: bool
    failures: Failures

    async def _search(self, call: Call, namespace: Namespace, query: str) -> Outcome:
        """Return the notes found."""
        with self._explained("search"):
            hits = await call(self.memory.search, query, namespace=namespace, k=self.k)
            return self._text(hits), [hit.to_dict() for hit in hits]

    search, asearch = both(_search)

    async def _remember(
        self, call: Call, namespace: Namespace, content: str, supersedes: Sequence[str] = ()
    ) -> Outcome:
        """Store a note; saying the same again makes no second one, unless the first was corrected."""
        with self._explained("remember"):
            note = await call(
                self.memory.add,
                content,
                namespace=namespace,
                source="assistant",
                supersedes=supersedes,
                evolve=False,
            )
            await self._evolve(call, namespace, note.id)
            return f"Remembered as note {note.id}.", []

    remember, aremember = both(_remember)

    async def _correct(
        self, call: Call, namespace: Namespace, note_id: str, content: str
    ) -> Outcome:
        """Give a note other content; the old text stays in its history."""
        with self._explained("correct"):
            await call(self.memory.update, note_id, namespace=namespace, content=content)
            await self._evolve(call, namespace, note_id)
            return f"Note {note_id} is corrected.", []

    correct, acorrect = both(_correct)

    async def _forget(self, call: Call, namespace: Namespace, note_id: str) -> Outcome:
        """Delete a note."""
        with self._explained("forget"):
            await call(self.memory.delete, note_id, namespace=namespace)
            return f"Note {note_id} is forgotten.", []

    forget, aforget = both(_forget)

    async def _evolve(self, call: Call, namespace: Namespace, note_id: str) -> None:
        if self.evolve:
            with self.failures.tolerated("evolve", answered=True):
                await evolve_turn(call, self.memory, namespace, [note_id])

    @contextmanager
    def _explained(self, doing: str) -> Iterator[None]:
        """Tell the model what it did wrong, or that the memory does not answer."""
        with self.failures.tolerated(doing) as reasons:
            try:
                yield
            except (InvalidInputError, NoteNotFoundError) as error:
                raise ToolException(str(error)) from error
        if reasons:
            raise ToolException("The memory does not answer now; go on without it.")

    def _text(self, hits: Sequence[ScoredNote]) -> str:
        if not hits:
            return "Nothing is known about that."
        # The id stands before the content, which could pretend to another one.
        shown = [hit.note.revised(content=f"(id {hit.note.id}) {hit.note.content}") for hit in hits]
        return render_notes(shown, max_tokens=self.max_tokens) or (
            f"{len(hits)} notes were found, too long to be shown in {self.max_tokens} tokens; their ids "
            f"are {', '.join(hit.note.id for hit in hits)}."
        )


_TOOLS: dict[Kind, tuple[str, type[MemoryInput], str]] = {
    "search": (
        "search_memory",
        SearchInput,
        "Search the long-term memory of this user. Returns notes, each with its id.",
    ),
    "remember": (
        "remember",
        RememberInput,
        "Keep something in the long-term memory of this user. Returns the id of the note.",
    ),
    "correct": (
        "correct_memory",
        CorrectInput,
        "Correct a note that was wrong from the start, by its id. What has changed since is for remember.",
    ),
    "forget": (
        "forget_memory",
        ForgetInput,
        "Delete a note for good, by its id. Only when the user asks for it.",
    ),
}


def _tool(kind: Kind, actions: Actions, whose: NamespaceOf) -> BaseTool:
    """Return a tool; with a callable namespace, one that LangGraph gives its runtime."""
    act, aact = getattr(actions, kind), getattr(actions, f"a{kind}")
    name, schema, description = _TOOLS[kind]

    def run(runtime: Any = None, **arguments: Any) -> Any:  # noqa: ANN401 - ToolRuntime; text and artifact
        return act(_asked(name, whose, runtime), **arguments)

    async def arun(runtime: Any = None, **arguments: Any) -> Any:  # noqa: ANN401 - as `run`
        return await aact(_asked(name, whose, runtime), **arguments)

    return StructuredTool(
        name=name,
        description=description,
        args_schema=_with_runtime(schema) if callable(whose) else schema,
        func=run,
        coroutine=arun,
        response_format="content_and_artifact",
        handle_tool_error=True,
    )


def _asked(tool: str, whose: NamespaceOf, runtime: Any) -> Namespace:  # noqa: ANN401 - ToolRuntime
    if callable(whose) and runtime is None:
        raise NamespaceError(
            f"the tool {tool!r} asks the run of an agent whose memory it is, and it was called "
            "outside of one; use it in create_agent or a ToolNode, or give memory_tools a tuple as namespace"
        )
    return namespace_of(whose, runtime)


def _with_runtime(schema: type[MemoryInput]) -> type[MemoryInput]:
    """Return the schema with a `runtime` that LangGraph fills in, whatever the model says."""
    try:
        from langgraph.prebuilt import ToolRuntime  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtraError("langgraph", "langgraph") from error
    # A bare ToolRuntime would make pydantic warn about every context that is not None.
    return create_model(schema.__name__, __base__=schema, runtime=(ToolRuntime[Any, Any], None))
