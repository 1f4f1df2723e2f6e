"""A group of commands whose module is imported when one of them is called."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup


def lazy(target: str, help_: str) -> typer.Typer:
    """Return an app that stands for the one at `module:name`, which is not imported before it is used."""

    class Lazy(TyperGroup):
        def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401 - Typer does not export its type
            names: list[str] = _group(target).list_commands(ctx)
            return names

        def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401
            return _group(target).get_command(ctx, cmd_name)

    app = typer.Typer(cls=Lazy, help=help_, no_args_is_help=True, rich_markup_mode=None)
    app.callback()(_no_options)
    return app


def _no_options() -> None:
    """Make a group of an app without commands."""


def _group(target: str) -> Any:  # noqa: ANN401
    module, _, name = target.partition(":")
    return typer.main.get_group(getattr(import_module(module), name))
