"""The program `amem`: its commands, each imported only when it is called."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from . import INTERRUPTED

# By name: the module whose `app` has the command, and its line in `amem --help`. A module whose `app` has no
# command of that name is a group of commands itself.
COMMANDS: Mapping[str, tuple[str, str]] = {
    "add": (".add_commands", "Remember something."),
    "import": (".import_command", "Import many notes from a file."),
    "evolve": (".add_commands", "Finish what is unfinished."),
    "worker": (".worker_command", "Evolve what is pending, for as long as it runs."),
    "search": (".search_commands", "Find notes by meaning, by words and over links."),
    "show": (".search_commands", "Show a note, or list the last ones."),
    "stats": (".stats", "Count notes, links and states, and what needs a look."),
    "update": (".change_commands", "Correct the text of a note, or when it expires."),
    "supersede": (
        ".change_commands",
        "Say that a later note takes the place of an earlier one.",
    ),
    "delete": (
        ".change_commands",
        "Remove a note for good, with what was made of it.",
    ),
    "clear": (".change_commands", "Remove all notes of a namespace for good, with their history."),
    "history": (".change_commands", "Show what was changed, as diffs, oldest first."),
    "undo": (".change_commands", "Take changes back, or all that a model did."),
    "proposals": (".change_commands", "Show what waits for a decision."),
    "approve": (".change_commands", "Write what was proposed."),
    "reject": (".change_commands", "Take proposals off the list."),
    "graph": (".graph_page", "Draw the notes and their links."),
    "export": (
        ".maintenance_commands",
        "Write a namespace, or all, to a file, with links and history.",
    ),
    "reindex": (
        ".maintenance_commands",
        "Embed all notes again, with the same embedder or another.",
    ),
    "sweep": (".maintenance_commands", "Delete the notes that have expired."),
    "optimize": (".maintenance_commands", "Build the index for very many notes."),
    "compact": (
        ".maintenance_commands",
        "Write a folder anew, without the bytes of what was deleted.",
    ),
    "doctor": (".doctor", "Check the memory, and say what is wrong."),
}

# The base class of all errors of usage; Typer gives a public name only to this subclass.
_UsageError: Any = typer.BadParameter.__base__


class LazyGroup(TyperGroup):
    """A group that imports a command when it is called, and reports wrong usage in one line."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401, ARG002 - a click.Context
        """Return the names of the commands, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401, ARG002 - of click
        """Return a command, or None if there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(COMMANDS[cmd_name][0], __package__)
        group = typer.main.get_group(module.app)
        return group.commands.get(cmd_name, group)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401, ARG002 - of click
        """Write the commands into the help without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:  # noqa: ANN401
        """Run the command line; without `standalone_mode` errors are left to the caller."""
        extra.setdefault("prog_name", "amem")  # also as `python -m amem_integrations.cli`
        call: Any = super().main
        if not standalone_mode:
            return call(*args, standalone_mode=False, **extra)
        try:
            status = call(*args, standalone_mode=False, **extra)
        except _UsageError as error:
            _print_usage_error(error)
            sys.exit(error.exit_code)
        except typer.Abort:  # Ctrl-C while a command is imported
            typer.echo("amem: stopped", err=True)
            sys.exit(INTERRUPTED)
        sys.exit(status if isinstance(status, int) else 0)


def _print_usage_error(error: Any) -> None:  # noqa: ANN401 - see _UsageError
    message = error.format_message()
    if message.lstrip().startswith("Usage:"):  # called without arguments: the whole help
        typer.echo(message, err=True)
        return
    command = error.ctx.command_path if error.ctx else "amem"
    typer.echo(f"amem: {' '.join(message.split())} (see {command} --help)", err=True)


app = typer.Typer(
    name="amem",
    cls=LazyGroup,
    help="Long-term memory for LLM agents that organises itself.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # help and errors as plain lines, for terminals and logs alike
)


@app.callback()
def _root() -> None:
    """Make a group of an app that has no commands of its own."""
