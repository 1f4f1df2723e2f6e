"""`memory_tools`: an agent searches, remembers, corrects and forgets by itself."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

from langchain_core.tools import BaseTool, StructuredTool, ToolException
from langchain_core.tools.base import create_schema_from_function
from pydantic import Field, create_model
from typing_extensions import Unpack

from amem_integrations import AgenticMemory, ConfigurationError, adapting
from amem_integrations.adapting import Call
from amem_integrations.errors import InvalidInputError, NoteNotFoundError, needed

from .run import Door, Failures, NamespaceOf

Kind = Literal["search", "remember", "correct", "forget"]
Outcome = tuple[str, list[dict[str, Any]]]
Limit = Annotated[int | None, Field(ge=1)]

NAMES = {kind: f"{kind}_memory" for kind in get_args(Kind)} | {"remember": "remember"}

NO_ANSWER = "The memory does not answer now; go on without it."
NOTHING = "Nothing is known about that."


class ToolOptions(adapting.SearchOptions, total=False):
    """The options of a search by a tool."""

    max_tokens: int


def memory_tools(
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
    on_error: adapting.OnError = "log",
    **recall: Unpack[ToolOptions],
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
            `as_of`, `known_at`; see `AgenticMemory.search`.

    Raises:
        ConfigurationError: An unknown kind, or an option that has a value it cannot have.
        NamespaceError: The namespace is malformed; in a run, that the run has none.
        TypeError: An option of `recall` is unknown.
        MissingExtraError: `namespace` is a function, and langgraph is not installed.
    """
    if unknown := [kind for kind in kinds if kind not in NAMES]:
        raise ConfigurationError(f"kinds={unknown!r} are unknown; use {', '.join(NAMES)}")
    adapting.check_flags(assistant_supersedes=assistant_supersedes)
    searched = adapting.checked_recall({"k": 10, "max_tokens": 1000, **recall}, ToolOptions)
    door: dict[str, Any] = {"also": also, "recall": searched, "evolve": evolve}
    door |= {"failures": Failures(on_error), "supersedes": assistant_supersedes}
    actions = Actions(memory, namespace, **door)
    tools = list[BaseTool]()
    for kind in kinds:
        act, fields, sources = getattr(actions, kind), dict[str, Any](), list[Any]([namespace])
        if kind == "search":
            sources += [*(also or {}).values(), recall.get("where")]
            if taken := (filters or {}).keys() & inspect.signature(act).parameters.keys():
                raise ConfigurationError(
                    f"filters={sorted(taken)} are arguments of the tool itself"
                )
            for name, text in (filters or {}).items():
                fields[name] = (str | None, Field(None, description=text))
        if any(map(callable, sources)):
            # LangGraph alone fills it in. A bare ToolRuntime would make pydantic warn of every context that is not None.
            fields["runtime"] = (
                needed("langgraph.prebuilt", "langgraph").ToolRuntime[Any, Any],
                None,
            )
        schema: Any = create_schema_from_function(
            kind, act, filter_args=["runtime", "filters"], parse_docstring=True
        )
        does, *_ = inspect.cleandoc(act.__doc__).split("\n\nArgs:")
        tool = StructuredTool(
            name=f"{prefix}{NAMES[kind]}",
            description=does.format(owner=owner, prefix=prefix),
            args_schema=create_model(kind, __base__=schema, **fields),
            func=act,
            coroutine=getattr(actions, f"a{kind}"),
            response_format="content_and_artifact",
            handle_tool_error=True,
        )
        tools.append(tool)
    return tools


@dataclass(eq=False)
class Actions(Door):
    """The actions of the tools: text for the model, and the notes themselves as the artifact.

    The model reads the docstrings, of which each names the arguments that the model gives. `runtime` is LangGraph's
    `ToolRuntime`; None outside of a run.
    """

    supersedes: bool = False

    async def _search(
        self,
        call: Call,
        /,
        query: str,
        limit: Limit = None,
        runtime: Any = None,
        **filters: str | None,
    ) -> Outcome:
        """Search the long-term memory of {owner}. Returns notes, each with its id.

        Args:
            query: what to look for, in words
            limit: most notes to return
        """
        own = {f"metadata.{name}": given for name, given in filters.items() if given}
        # A model narrows what it may see.
        options = self.asked(runtime, namespace=self.space(runtime), narrowed=[own])
        if options is None:
            raise ToolException(NO_ANSWER)
        max_tokens = options.pop("max_tokens")
        options["k"] = min(limit or options["k"], options["k"])
        with self._explained("search"):
            search = self.memory.search_turn
            found = await self.found(call, query, lambda call: call(search, query, **options))
            self.failures.failed("search", found.error)
        text = adapting.shown(found.hits, options["also"], max_tokens)
        if text is None:
            text = f"{NOTHING} The memory could look for words only." if found.error else NOTHING
        return text, [hit.to_dict() for hit in found.hits]

    async def _remember(
        self, call: Call, content: str, supersedes: list[str] | None = None, runtime: Any = None
    ) -> Outcome:
        """Keep something in the long-term memory of {owner}. Returns the id of the note.

        Args:
            content: one fact or event, in a full sentence with names and dates
            supersedes: ids of notes that are no longer true because of it, as a search of this memory shows them
        """
        space, older = self.space(runtime), [*map(adapting.copied_id, supersedes or ())]
        named: dict[str, Any] = {"supersedes": older, "assistant_supersedes": self.supersedes}
        with self._explained("remember"):
            remember = self.memory.remember_fact
            note, taken = await call(remember, content, namespace=space, **named)
            self.evolve_later(space)
        return adapting.told_of(note, older, taken), []

    async def _correct(
        self, call: Call, note_id: str, content: str, runtime: Any = None
    ) -> Outcome:
        """Correct a note of {owner} that was wrong from the start, by its id. For changes use {prefix}remember.

        Args:
            note_id: id of the note, as a search of this memory shows it
            content: what the note should say instead
        """
        space, note_id = self.space(runtime), adapting.copied_id(note_id)
        with self._explained("correct"):
            await call(self.memory.update, note_id, namespace=space, content=content)
            self.evolve_later(space)
        return f"Note {note_id} is corrected.", []

    async def _forget(
        self, call: Call, note_id: str, *, thorough: bool | None = False, runtime: Any = None
    ) -> Outcome:
        """Delete a note of {owner} for good, by its id. Only when the user asks for it.

        Args:
            note_id: id of the note, as a search of this memory shows it
            thorough: also everything that was concluded with the note in view; only when every trace has to go
        """
        space, note_id = self.space(runtime), adapting.copied_id(note_id)
        with self._explained("forget"):
            await call(self.memory.delete, note_id, namespace=space, thorough=thorough or False)
        return f"Note {note_id} is forgotten.", []

    search, asearch = adapting.both(_search)
    remember, aremember = adapting.both(_remember)
    correct, acorrect = adapting.both(_correct)
    forget, aforget = adapting.both(_forget)

    @contextmanager
    def _explained(self, doing: str) -> Iterator[None]:
        """Tell the model what it did wrong, or that the memory does not answer."""
        with self.failures.tolerated(doing) as reasons:
            try:
                yield
            except (InvalidInputError, NoteNotFoundError) as error:
                raise ToolException(str(error)) from error
        if reasons:
            raise ToolException(NO_ANSWER)


def described_call(
    memory: AgenticMemory, *, namespace: NamespaceOf
) -> Callable[[Any, Any, Any], str]:
    """Return a `description` for `HumanInTheLoopMiddleware` that shows the note which a tool is about.

    ``HumanInTheLoopMiddleware({"forget_memory": {"allowed_decisions": ["approve", "reject"], "description":
    described_call(memory, namespace=whose)}})``
    """
    door = Door(memory, namespace, failures=Failures())

    def description(tool_call: Any, state: Any, runtime: Any) -> str:  # noqa: ARG001 - LangChain's signature
        space, arguments = door.space(runtime), tool_call["args"]
        older, shown = arguments.get("supersedes"), [NO_ANSWER]
        # Nobody has checked what the model says.
        named = [arguments.get("note_id"), *(older if isinstance(older, list) else [])]
        ids = [adapting.copied_id(one) for one in named if isinstance(one, str)]
        with door.failures.tolerated("describe"):
            notes = memory.get_all(namespace=space, where={"id": {"$in": ids}})
            shown = [f"note {note.id}: {note.content}" for note in notes]
        said = [f"{key}: {value}" for key, value in arguments.items()]
        return "\n".join([tool_call["name"], *said, *shown])

    return description
