"""How a command ends: errors in one line, and no traceback when it is stopped."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperGroup

from ..errors import AmemError

FAILED = 1
INTERRUPTED = 130  # what a shell reports of a program that Ctrl-C ended

# Every complaint about how a command was called; Typer gives only this subclass of it a public name.
_UsageError: Any = typer.BadParameter.__base__


@contextmanager
def plain_errors() -> Iterator[None]:
    """Say what went wrong in one line and leave with a status other than 0."""
    try:
        yield
    except BrokenPipeError:
        raise  # who reads has seen enough, as in `amem export - | head`; Typer ends quietly
    except (AmemError, OSError) as error:
        typer.echo(f"amem: {_line(error)}", err=True)
        raise typer.Exit(FAILED) from None
    except KeyboardInterrupt:
        typer.echo("amem: stopped", err=True)
        raise typer.Exit(INTERRUPTED) from None


class PlainGroup(TyperGroup):
    """A group of commands that says in one line how it was called wrongly, too."""

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:  # noqa: ANN401
        """Run the command line; without `standalone_mode` errors are left to the caller."""
        extra.setdefault("prog_name", "amem")  # also as `python -m amem_integrations.cli`
        call: Any = super().main
        if not standalone_mode:
            return call(*args, standalone_mode=False, **extra)
        try:
            status = call(*args, standalone_mode=False, **extra)
        except _UsageError as error:
            _complain(error)
            sys.exit(error.exit_code)
        sys.exit(status if isinstance(status, int) else 0)


def _complain(error: Any) -> None:  # noqa: ANN401 - see _UsageError
    message = error.format_message()
    if message.lstrip().startswith("Usage:"):  # called without anything: the whole help
        typer.echo(message, err=True)
        return
    command = error.ctx.command_path if error.ctx else "amem"
    typer.echo(f"amem: {' '.join(message.split())} (see {command} --help)", err=True)


def _line(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split())
