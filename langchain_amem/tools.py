"""`memory_tools`: an agent searches, remembers, corrects and forgets by itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from langchain_core.tools import BaseTool, StructuredTool, ToolException
from pydantic import BaseModel, ConfigDict, Field, create_model
from typing_extensions import Unpack

from amem_integrations import (
    AgenticMemory,
    ConfigurationError,
    InvalidInputError,
    MissingExtraError,
    NamespaceError,
    NoteNotFoundError,
    ScoredNote,
)
from amem_integrations.adapting import (
    Call,
    Evolving,
    OnError,
    RecallKeywords,
    RecallOptions,
    both,
    evolve_turn,
    evolves_now,
)

from .retriever import traced
from .runs import (
    Failures,
    Namespace,
    NamespaceOf,
    checked_also,
    checked_source,
    namespace_of,
    others_of,
)

Kind = Literal["search", "remember", "correct", "forget"]
Outcome = tuple[str, list[dict[str, Any]]]

NAME = re.compile(r"[A-Za-z0-9_-]{0,40}")  # vendors take 64 characters, and no others than these


def memory_tools(
    memory: AgenticMemory,
    *,
    namespace: NamespaceOf,
    also: Mapping[str, NamespaceOf] | None = None,
    kinds: Sequence[Kind] = ("search", "remember", "correct", "forget"),
    prefix: str = "",
    owner: str = "this user",
    evolve: Evolving = True,
    on_error: OnError = "log",
    **recall: Unpack[RecallKeywords],
) -> list[BaseTool]:
    """Return tools over a memory, for `create_agent` or any graph with a `ToolNode`.

    Whose memory it is never comes from the model: it is fixed here, or read from the `ToolRuntime`, of
    which the model sees nothing and which it cannot fill in. Tools with a fixed namespace also work
    outside an agent. The model is told what it does wrong (an unknown id, an empty query).
    https://docs.langchain.com/oss/python/langchain/tools

    Args:
        memory: The memory to use.
        namespace: A tuple, or a function of the `ToolRuntime` (`context`, `state`, `config`).
        also: Further namespaces that a search reads, as in `AMemMiddleware`; the other tools know nothing of them.
        kinds: Which tools.
        prefix: Begins their names, such as `"team_"`, so that one agent can have the tools of two memories.
        owner: Tells the model whose memory it is, such as `"the team"`.
        evolve: Whether what is remembered is constructed, linked and evolved before the tool returns;
            False leaves that to the middleware, or to `memory.evolve()`; `"worker"` to `amem worker`.
        on_error: `"log"` tells the model when the memory does not answer; `"raise"` raises.
        recall: Of a search: `k`, `max_tokens`, `where`, `min_similarity`, `links`, `as_of`; see `RecallOptions`.

    Raises:
        ConfigurationError: An unknown kind, or an option that has a value it cannot have.
        NamespaceError: The namespace is malformed; in a run, that the run has none.
        MissingExtraError: `namespace` is a function, and langgraph is not installed.
    """
    if unknown := [kind for kind in kinds if kind not in get_args(Kind)]:
        raise ConfigurationError(f"kinds={unknown!r} are unknown; use {', '.join(get_args(Kind))}")
    _check_prefix(prefix)
    actions = Actions(
        memory=memory,
        options=RecallOptions(**recall),
        also=checked_also(also),
        evolve=evolves_now(evolve),
        failures=Failures(on_error),
    )
    whose = checked_source(namespace)
    return [_tool(kind, actions, whose, prefix, owner) for kind in kinds]


def _check_prefix(prefix: str) -> None:
    if not isinstance(prefix, str) or not NAME.fullmatch(prefix):
        raise ConfigurationError(
            f"prefix={prefix!r} must be at most 40 letters, digits, '_' or '-', as in the name of a tool"
        )


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
        description="ids of notes that are no longer true because of it, as a search of this memory shows them",
    )


class OneNoteInput(MemoryInput):
    """Arguments of a tool for one note."""

    note_id: str = Field(description="id of the note, as a search of this memory shows it")


class ForgetInput(OneNoteInput):
    """Arguments of `forget_memory`."""

    thorough: bool = Field(
        default=False,
        description="also everything that was concluded with the note in view; only when every trace has to go",
    )


class CorrectInput(OneNoteInput):
    """Arguments of `correct_memory`."""

    content: str = Field(description="what the note should say instead")


@dataclass(frozen=True, slots=True, kw_only=True)
class Actions:
    """What the tools do: text for the model, and the notes themselves as the artifact."""

    memory: AgenticMemory
    options: RecallOptions
    also: Mapping[str, NamespaceOf]
    evolve: bool
    failures: Failures

    async def _search(
        self, call: Call, namespace: Namespace, query: str, others: Mapping[str, Namespace]
    ) -> Outcome:
        """Return the notes found."""
        with self._explained("search"):
            search = self.options.search(call, self.memory, query, [namespace, *others.values()])
            hits = await traced(call, self.memory, query, search)
            return self._text(hits, others), [hit.to_dict() for hit in hits]

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

    async def _forget(
        self, call: Call, namespace: Namespace, note_id: str, *, thorough: bool = False
    ) -> Outcome:
        """Delete a note; see `AgenticMemory.delete`."""
        with self._explained("forget"):
            await call(self.memory.delete, note_id, namespace=namespace, thorough=thorough)
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

    def _text(self, hits: Sequence[ScoredNote], others: Mapping[str, Namespace]) -> str:
        if not hits:
            return "Nothing is known about that."
        # The id stands before the content, which could pretend to another one.
        shown = [
            replace(hit, note=hit.note.revised(content=f"(id {hit.note.id}) {hit.note.content}"))
            for hit in hits
        ]
        return self.options.render(shown, others) or (
            f"{len(hits)} notes were found, too long to be shown in {self.options.max_tokens} tokens; their ids "
            f"are {', '.join(hit.note.id for hit in hits)}."
        )


_TOOLS: dict[Kind, tuple[str, type[MemoryInput], str]] = {
    "search": (
        "search_memory",
        SearchInput,
        "Search the long-term memory of {owner}. Returns notes, each with its id.",
    ),
    "remember": (
        "remember",
        RememberInput,
        "Keep something in the long-term memory of {owner}. Returns the id of the note.",
    ),
    "correct": (
        "correct_memory",
        CorrectInput,
        "Correct a note of {owner} that was wrong from the start, by its id. For changes use {prefix}remember.",
    ),
    "forget": (
        "forget_memory",
        ForgetInput,
        "Delete a note of {owner} for good, by its id. Only when the user asks for it.",
    ),
}


def _tool(kind: Kind, actions: Actions, whose: NamespaceOf, prefix: str, owner: str) -> BaseTool:
    """Return a tool; with a namespace that asks the run, one that LangGraph gives its runtime."""
    act, aact = getattr(actions, kind), getattr(actions, f"a{kind}")
    ending, schema, description = _TOOLS[kind]
    name, also = f"{prefix}{ending}", actions.also if kind == "search" else None
    asks_run = any(map(callable, (whose, *(also or {}).values())))

    def spaces(runtime: Any) -> tuple[Namespace, dict[str, Any]]:  # noqa: ANN401 - ToolRuntime
        if asks_run and runtime is None:
            raise _outside(name)
        others = {} if also is None else {"others": others_of(also, runtime)}
        return namespace_of(whose, runtime), others

    def run(runtime: Any = None, **arguments: Any) -> Any:  # noqa: ANN401 - ToolRuntime; text and artifact
        namespace, others = spaces(runtime)
        return act(namespace, **arguments, **others)

    async def arun(runtime: Any = None, **arguments: Any) -> Any:  # noqa: ANN401 - as `run`
        namespace, others = spaces(runtime)
        return await aact(namespace, **arguments, **others)

    return StructuredTool(
        name=name,
        description=description.format(owner=owner, prefix=prefix),
        args_schema=_with_runtime(schema) if asks_run else schema,
        func=run,
        coroutine=arun,
        response_format="content_and_artifact",
        handle_tool_error=True,
    )


def _outside(tool: str) -> NamespaceError:
    return NamespaceError(
        f"the tool {tool!r} asks the run of an agent whose memory it is, and it was called "
        "outside of one; use it in create_agent or a ToolNode, or give memory_tools a tuple as namespace"
    )


def _with_runtime(schema: type[MemoryInput]) -> type[MemoryInput]:
    """Return the schema with a `runtime` that LangGraph fills in, whatever the model says."""
    try:
        from langgraph.prebuilt import ToolRuntime  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtraError("langgraph", "langgraph") from error
    # A bare ToolRuntime would make pydantic warn about every context that is not None.
    return create_model(schema.__name__, __base__=schema, runtime=(ToolRuntime[Any, Any], None))
