"""`memory_tools`: an agent searches, remembers, corrects and forgets by itself."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Literal, get_args

from langchain_core.tools import BaseTool, StructuredTool

from amem_integrations import AgenticMemory, ConfigurationError

from ._actions import (
    Actions,
    CorrectInput,
    ForgetInput,
    MemoryInput,
    RememberInput,
    SearchInput,
)
from ._failures import Failures, OnError
from ._run import NamespaceOf, checked_source, namespace_of

Kind = Literal["search", "remember", "correct", "forget"]

_TEXTS: dict[Kind, tuple[str, type[MemoryInput], str]] = {
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
        "Correct a note that turned out to be wrong or out of date, by its id.",
    ),
    "forget": (
        "forget_memory",
        ForgetInput,
        "Delete a note for good, by its id. Only when the user asks for it.",
    ),
}


def memory_tools(
    memory: AgenticMemory,
    *,
    namespace: NamespaceOf,
    kinds: Sequence[Kind] = ("search", "remember", "correct", "forget"),
    k: int = 10,
    max_tokens: int = 1000,
    evolve: bool = True,
    on_error: OnError = "log",
) -> list[BaseTool]:
    """Return tools over a memory, for `create_agent` or any graph with a `ToolNode`.

    Whose memory it is never comes from the model: it is fixed here, or read from the `ToolRuntime`, of
    which the model sees nothing and which it cannot fill in. Tools with a fixed namespace also work
    outside an agent. What a tool does wrong (an unknown id, an empty query) is told to the model.
    https://docs.langchain.com/oss/python/langchain/tools

    Args:
        memory: The memory to use.
        namespace: A tuple, or a function of the `ToolRuntime` (`context`, `state`, `config`).
        kinds: Which tools.
        k: Most notes a search returns.
        max_tokens: Most tokens of notes a search returns, about.
        evolve: Whether what is remembered is constructed, linked and evolved before the tool returns;
            False leaves that to the middleware, or to `memory.evolve()`.
        on_error: `"log"` tells the model when the memory does not answer; `"raise"` raises.

    Raises:
        ConfigurationError: An unknown kind.
        NamespaceError: The namespace is malformed; in a run, that the run has none.
        MissingExtraError: `namespace` is a function, and langgraph is not installed.
    """
    if unknown := [kind for kind in kinds if kind not in get_args(Kind)]:
        raise ConfigurationError(f"kinds={unknown!r} are unknown; use {', '.join(get_args(Kind))}")
    actions = Actions(
        memory=memory, k=k, max_tokens=max_tokens, evolve=evolve, failures=Failures(on_error)
    )
    whose = checked_source(namespace)
    make = _for_runs if callable(whose) else _for_one
    return [make(kind, actions, whose) for kind in kinds]


def _for_one(kind: Kind, actions: Actions, whose: NamespaceOf) -> BaseTool:
    """Return a tool for one namespace."""
    space = namespace_of(whose, None)
    act, aact = actions.of(kind)

    def run(**arguments: Any) -> Any:  # noqa: ANN401 - text and artifact
        return act(space, **arguments)

    async def arun(**arguments: Any) -> Any:  # noqa: ANN401 - text and artifact
        return await aact(space, **arguments)

    return _tool(kind, run, arun, _TEXTS[kind][1])


def _for_runs(kind: Kind, actions: Actions, whose: NamespaceOf) -> BaseTool:
    """Return a tool that asks the run it is called in whose memory it is."""
    from ._tool_runtime import with_runtime  # noqa: PLC0415 - needs langgraph

    act, aact = actions.of(kind)

    def run(runtime: Any, **arguments: Any) -> Any:  # noqa: ANN401 - ToolRuntime; text and artifact
        return act(namespace_of(whose, runtime), **arguments)

    async def arun(runtime: Any, **arguments: Any) -> Any:  # noqa: ANN401 - ToolRuntime; as above
        return await aact(namespace_of(whose, runtime), **arguments)

    return _tool(kind, run, arun, with_runtime(_TEXTS[kind][1]))


def _tool(
    kind: Kind,
    run: Callable[..., Any],
    arun: Callable[..., Coroutine[Any, Any, Any]],
    schema: type[MemoryInput],
) -> BaseTool:
    name, _, description = _TEXTS[kind]
    return StructuredTool(
        name=name,
        description=description,
        args_schema=schema,
        func=run,
        coroutine=arun,
        response_format="content_and_artifact",
        handle_tool_error=True,
    )
