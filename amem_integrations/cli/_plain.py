"""How a command ends: errors in one line, and no traceback when it is stopped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from ..errors import AmemError

FAILED = 1
INTERRUPTED = 130  # what a shell reports of a program that Ctrl-C ended


@contextmanager
def plain_errors() -> Iterator[None]:
    """Say what went wrong in one line and leave with a status other than 0."""
    try:
        yield
    except (AmemError, OSError) as error:
        typer.echo(f"amem: {_line(error)}", err=True)
        raise typer.Exit(FAILED) from None
    except KeyboardInterrupt:
        typer.echo("amem: stopped", err=True)
        raise typer.Exit(INTERRUPTED) from None


def _line(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split())
