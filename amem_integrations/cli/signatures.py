"""Commands whose options are partly shared: Typer reads them from a signature put together here."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

import typer

from ._plain import plain_errors

Values = dict[str, Any]
Shared = Mapping[str, Any]  # by name of the option: its annotation and its default


def add_command(
    app: typer.Typer,
    name: str,
    function: Callable[..., None],
    shared: Shared,
    call: Callable[[typer.Context, Values, Values], None],
) -> Callable[..., None]:
    """Make a command of a function, and return what Typer runs.

    Args:
        app: Gets the command.
        name: Of the command.
        function: Its parameters but the first are options of the command's own.
        shared: Options beside these.
        call: Is given the caller, the shared options and the own ones; ends as `plain_errors` says.
    """

    @wraps(function)
    def run(caller: typer.Context, **given: Any) -> None:  # noqa: ANN401 - by signature
        common = {option: given.pop(option) for option in shared}
        with plain_errors():
            call(caller, common, given)

    _, *own = inspect.signature(function, eval_str=True).parameters.values()
    kind = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        inspect.Parameter("caller", kind, annotation=typer.Context),
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
