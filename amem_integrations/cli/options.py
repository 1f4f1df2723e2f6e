"""What every command is told: which memory is meant, and how to encode and to think."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from ..errors import ConfigurationError, NamespaceError
from ..notes import Namespace
from .namespaces import parse_namespace
from .ports import Ports
from .signatures import add_command

COMMON: Mapping[str, Any] = {
    "memory": (
        Annotated[
            str,
            typer.Option(
                "--memory",
                "-m",
                metavar="LOCATION",
                envvar="AMEM_MEMORY",
                help="A folder, or the URL of a Qdrant server.",
            ),
        ],
        "./memory",
    ),
    "collection": (
        Annotated[str, typer.Option(help="Which of the memories kept in one place.")],
        "amem",
    ),
    "api_key": (
        Annotated[
            str | None,
            typer.Option(
                envvar="QDRANT_API_KEY",
                show_envvar=True,
                help="Of the Qdrant server, if it has one.",
            ),
        ],
        None,
    ),
    "as_json": (Annotated[bool, typer.Option("--json", help="Print JSON.")], False),
}
NAMESPACE: Mapping[str, Any] = {
    "namespace": (
        Annotated[
            str | None,
            typer.Option(
                "--namespace",
                "-n",
                envvar="AMEM_NAMESPACE",
                help='Whose memory: labels with "/" between them, such as team/ann, or a JSON list.',
            ),
        ],
        None,
    )
}
EMBEDDER: Mapping[str, Any] = {
    "embedder": (
        Annotated[
            str | None,
            typer.Option(
                metavar="NAME",
                envvar="AMEM_EMBEDDER",
                help="A model by name or folder, or openai:NAME. By default the "
                "one the memory was made with; for a new memory all-MiniLM-L6-v2.",
            ),
        ],
        None,
    ),
    "base_url": (
        Annotated[
            str | None,
            typer.Option(
                envvar="OPENAI_BASE_URL", help="Of an OpenAI-compatible endpoint: Ollama, vLLM, …"
            ),
        ],
        None,
    ),
}
MODEL: Mapping[str, Any] = {
    **EMBEDDER,
    "model": (
        Annotated[
            str | None,
            typer.Option(
                envvar="AMEM_MODEL",
                help="A chat model, such as gpt-4o-mini, with OPENAI_API_KEY; without one notes are "
                "made by rules.",
            ),
        ],
        None,
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The common options of one call; those a command does not take have their defaults."""

    memory: str
    collection: str
    api_key: str | None = field(repr=False)
    as_json: bool
    namespace: str | None = None
    embedder: str | None = None
    base_url: str | None = None
    model: str | None = None
    ports: Ports

    @property
    def remote(self) -> bool:
        """Whether the memory is on a server."""
        return "://" in self.memory

    @property
    def space(self) -> Namespace:
        """The namespace.

        Raises:
            NamespaceError: None was given, or a malformed one.
        """
        if self.namespace is None:
            raise NamespaceError(
                "whose memory? Give --namespace, or set AMEM_NAMESPACE; `amem stats` lists those "
                "there are"
            )
        return parse_namespace(self.namespace)

    @property
    def optional_space(self) -> Namespace | None:
        """The namespace, if one was given."""
        return None if self.namespace is None else self.space


def command(
    app: typer.Typer, name: str, *more: Mapping[str, Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that makes a command of a function that takes `Options` first.

    The command has the common options, those of `more`, and the function's own parameters; it ends as
    `plain_errors` says.
    """
    shared = {option: given for group in (*more, COMMON) for option, given in group.items()}

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        def call(caller: typer.Context, common: dict[str, Any], own: dict[str, Any]) -> None:
            _check_location(common["memory"])
            ports = caller.obj if isinstance(caller.obj, Ports) else Ports()
            function(Options(ports=ports, **common), **own)

        return add_command(app, name, function, shared, call)

    return decorate


def _check_location(location: str) -> None:
    if not location or location == ":memory:":
        raise ConfigurationError(
            f"--memory {location!r} keeps nothing; give a folder, or the URL of a Qdrant server"
        )
