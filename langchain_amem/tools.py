"""`memory_tools`: an agent searches, remembers, corrects and forgets by itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, get_args

from langchain_core.tools import BaseTool, StructuredTool, ToolException
from pydantic import BaseModel, ConfigDict, Field, create_model, field_validator
from typing_extensions import Unpack

from amem_integrations import (
    AgenticMemory,
    ConfigurationError,
    InvalidInputError,
    MissingExtraError,
    NamespaceError,
    NoteNotFoundError,
    render_notes,
)
from amem_integrations.adapting import (
    Call,
    OnError,
    Recalled,
    RecallOptions,
    both,
    check_flags,
    checked_recall,
    marked,
)

from .retriever import traced
from .run import (
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


def memory_tools(  # noqa: PLR0913 - options are keywords
    memory: AgenticMemory,
    *,
    namespace: NamespaceOf,
    also: Mapping[str, NamespaceOf] | None = None,
    kinds: Sequence[Kind] = ("search", "remember", "correct", "forget"),
    prefix: str = "",
    owner: str = "this user",
    filters: Mapping[str, str] | None = None,
    assistant_supersedes: bool = False,
    evolve: bool = True,
    on_error: OnError = "log",
    **recall: Unpack[RecallOptions],
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
        filters: Metadata by which the model may filter a search, each with a description for it:
            `{"project": "name of a project"}`.
        assistant_supersedes: Whether what the model remembers takes the place of what a user said, as `supersedes` asks
            for; else that is proposed, and the tool says so.
        evolve: Whether the memory evolves in the background what is remembered; False leaves that to `memory.evolve()`.
        on_error: `"log"` tells the model when the memory does not answer; `"raise"` raises.
        recall: Of a search: `k`, `max_tokens`, `where` (also a function of the `ToolRuntime`), `min_similarity`, `links`,
            `as_of`; see `AgenticMemory.search`.

    Raises:
        ConfigurationError: An unknown kind, or an option that has a value it cannot have.
        NamespaceError: The namespace is malformed; in a run, that the run has none.
        MissingExtraError: `namespace` is a function, and langgraph is not installed.
    """
    if unknown := [kind for kind in kinds if kind not in get_args(Kind)]:
        raise ConfigurationError(f"kinds={unknown!r} are unknown; use {', '.join(get_args(Kind))}")
    check_flags(evolve=evolve, assistant_supersedes=assistant_supersedes)
    _check_prefix(prefix)
    actions = Actions(
        memory=memory,
        options=checked_recall(recall),
        also=checked_also(also),
        filters=dict(filters or {}),
        supersedes=assistant_supersedes,
        evolve=evolve,
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
    limit: int | None = Field(default=None, ge=1, description="most notes to return")


class RememberInput(MemoryInput):
    """Arguments of `remember`."""

    _none_is_empty = field_validator("supersedes", mode="before")(lambda value: value or [])

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
    options: Mapping[str, Any]
    also: Mapping[str, NamespaceOf]
    filters: Mapping[str, str]
    supersedes: bool
    evolve: bool
    failures: Failures

    async def _search(
        self,
        call: Call,
        /,
        namespace: Namespace,
        query: str,
        limit: int | None = None,
        runtime: Any = None,  # noqa: ANN401 - ToolRuntime
        **filters: str | None,
    ) -> Outcome:
        """Return the notes found."""
        options = dict(self.options)
        most = {"max_tokens": options.pop("max_tokens", 1000)}
        options.pop("window", None)
        with self._explained("search"):
            where = options.pop("where", None)
            where = dict((where(runtime) if callable(where) else where) or {})
            where |= {f"metadata.{name}": given for name, given in filters.items() if given}
            k = min(limit or options.get("k", 10), options.pop("k", 10))
            also = others_of(self.also, runtime)
            search = call(
                self.memory.search_turn,
                query,
                namespace=namespace,
                also=also,
                k=k,
                where=where or None,
                **options,
            )
            found = await traced(call, self.memory, query, search)
            self.failures.failed("search", found.error)
            if not found.hits:
                missing = " The memory could look for words only." if found.error else ""
                return f"Nothing is known about that.{missing}", []
            return self._text(found, also, **most), [hit.to_dict() for hit in found.hits]

    search, asearch = both(_search)

    async def _remember(
        self, call: Call, namespace: Namespace, content: str, supersedes: Sequence[str] = ()
    ) -> Outcome:
        """Store a note; saying the same again makes no second one, unless the first was corrected."""
        with self._explained("remember"):
            before = {
                one: await call(self.memory.get, one, namespace=namespace) for one in supersedes
            }
            note = await call(
                self.memory.add,
                content,
                namespace=namespace,
                source="assistant",
                supersedes=() if self.supersedes else supersedes,
                evolve=False,
            )
            for older, was in before.items() if self.supersedes else ():
                if note.id not in was.supersessions:
                    await call(self.memory.supersede, older, note.id, namespace=namespace)
            self._evolve(namespace)
            said = [f"Remembered as note {note.id}."]
            for older in before:
                stands = await call(self.memory.get, older, namespace=namespace)
                said.append(
                    f"It takes the place of note {older}."
                    if stands.superseded_by is not None
                    else f"That it takes the place of note {older}, which a user said, is only proposed: "
                    "both count until somebody approves."
                )
            return " ".join(said), []

    remember, aremember = both(_remember)

    async def _correct(
        self, call: Call, namespace: Namespace, note_id: str, content: str
    ) -> Outcome:
        """Give a note other content; the old text stays in its history."""
        with self._explained("correct"):
            await call(self.memory.update, note_id, namespace=namespace, content=content)
            self._evolve(namespace)
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

    def _evolve(self, namespace: Namespace) -> None:
        if self.evolve:
            self.memory.evolve_later(namespace)

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

    def _text(self, found: Recalled, also: Mapping[str, Namespace], max_tokens: int) -> str:
        text = render_notes(marked(found.hits, also), max_tokens=max_tokens, ids=True)
        return text or (
            f"{len(found.hits)} notes were found, too long to be shown in {max_tokens} tokens; their ids "
            f"are {', '.join(hit.note.id for hit in found.hits)}."
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
    name, sources = f"{prefix}{ending}", list[Any]([whose])
    if kind == "search":
        sources += [*actions.also.values(), actions.options.get("where")]
        fields: dict[str, Any] = {
            one: (str | None, Field(default=None, description=text))
            for one, text in actions.filters.items()
        }
        schema = create_model(schema.__name__, __base__=schema, **fields) if fields else schema
    asks_run = any(map(callable, sources))

    def given(runtime: Any, arguments: dict[str, Any]) -> dict[str, Any]:  # noqa: ANN401 - ToolRuntime
        if asks_run and runtime is None:
            raise _outside(name)
        run = {"runtime": runtime} if kind == "search" else {}
        return {**arguments, **run, "namespace": namespace_of(whose, runtime)}

    def run(runtime: Any = None, **arguments: Any) -> Any:  # noqa: ANN401 - ToolRuntime; text and artifact
        return act(**given(runtime, arguments))

    async def arun(runtime: Any = None, **arguments: Any) -> Any:  # noqa: ANN401 - as `run`
        return await aact(**given(runtime, arguments))

    return StructuredTool(
        name=name,
        description=description.format(owner=owner, prefix=prefix),
        args_schema=_with_runtime(schema) if asks_run else schema,
        func=run,
        coroutine=arun,
        response_format="content_and_artifact",
        handle_tool_error=True,
    )


def described_call(
    memory: AgenticMemory, *, namespace: NamespaceOf
) -> Callable[[Any, Any, Any], str]:
    """Return a `description` for `HumanInTheLoopMiddleware` that shows the note which a tool is about.

    ``HumanInTheLoopMiddleware({"forget_memory": {"allowed_decisions": ["approve", "reject"], "description":
    described_call(memory, namespace=whose)}})``
    """

    def description(tool_call: Any, state: Any, runtime: Any) -> str:  # noqa: ANN401, ARG001 - LangChain's signature
        space, arguments = namespace_of(namespace, runtime), tool_call["args"]
        ids = [arguments.get("note_id"), *(arguments.get("supersedes") or ())]
        notes = memory.get_all(namespace=space, where={"id": {"$in": [i for i in ids if i]}})
        said = [f"{key}: {value}" for key, value in arguments.items()]
        return "\n".join(
            [tool_call["name"], *said, *(f"note {note.id}: {note.content}" for note in notes)]
        )

    return description


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
