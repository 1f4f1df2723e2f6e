"""Makes a command of a function: its options, and how it ends."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import typer

from ..errors import AmemError, ConfigurationError
from . import INTERRUPTED
from .options import COMMON, Options, Ports, Shared, parse_namespace
from .terminal import one_line

FAILED = 1

Function = Callable[..., None]
Values = dict[str, Any]


def command(app: typer.Typer, name: str, *groups: Shared) -> Callable[[Function], Function]:
    """Return a decorator that makes a command of a function whose first parameter is `Options`.

    The command has the common options, those of `groups`, and the function's own parameters.
    """
    shared = {option: declared for group in (*groups, COMMON) for option, declared in group.items()}

    def decorate(function: Function) -> Function:
        def call(context: typer.Context, common: Values, own: Values) -> None:
            check_location(common["memory"])
            if (namespace := common.get("namespace")) is not None:
                common["namespace"] = parse_namespace(namespace)
            ports = context.obj if isinstance(context.obj, Ports) else Ports()
            function(Options(ports=ports, **common), **own)

        return add_command(app, name, function, shared, call)

    return decorate


def add_command(
    app: typer.Typer,
    name: str,
    function: Function,
    shared: Shared,
    call: Callable[[typer.Context, Values, Values], None],
) -> Function:
    """Add a command to an app, and return the function that Typer runs.

    Args:
        app: The app.
        name: Of the command.
        function: Its docstring is the help; its parameters but the first are options of this command alone.
        shared: Options that other commands have too.
        call: Runs the command, with the context, the values of the shared options, and those of the own ones.
    """

    @wraps(function)
    def run(context: typer.Context, **values: Any) -> None:  # noqa: ANN401 - by signature
        common = {option: values.pop(option) for option in shared}
        with plain_errors():
            call(context, common, values)

    # Typer reads the options from the signature.
    _, *own = inspect.signature(function, eval_str=True).parameters.values()
    kind = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        inspect.Parameter("context", kind, annotation=typer.Context),
        *(parameter.replace(kind=kind) for parameter in own),
        *(
            inspect.Parameter(option, kind, annotation=annotation, default=default)
            for option, (annotation, default) in shared.items()
        ),
    ]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    app.command(name)(run)
    return run


@contextmanager
def plain_errors() -> Iterator[None]:
    """Print an error as one line without a traceback, and exit with a status other than 0."""
    try:
        yield
    except BrokenPipeError:
        raise  # the reader has stopped, as in `amem export - | head`; Typer ends quietly
    except (AmemError, OSError) as error:
        typer.echo(f"amem: {_line(error)}", err=True)
        raise typer.Exit(FAILED) from None
    except KeyboardInterrupt:
        typer.echo("amem: stopped", err=True)
        raise typer.Exit(INTERRUPTED) from None


def _line(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return one_line(f"{error.filename}: {error.strerror}")
    return one_line(str(error))


def check_location(location: str) -> None:
    """Raise `ConfigurationError` if nothing would be kept there."""
    if not location or location == ":memory:":
        raise ConfigurationError(
            f"--memory {location!r} keeps nothing; give a folder, or the URL of a Qdrant server"
        )
