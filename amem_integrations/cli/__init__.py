"""The command line, `amem …`."""

from __future__ import annotations

import sys
from io import TextIOWrapper

from ..errors import MissingExtraError

INTERRUPTED = 130  # the status that a shell shows for a program ended by Ctrl-C


def main() -> None:
    """Run the command line, which needs the extra `cli`."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # what the terminal has no character for is escaped
            stream.reconfigure(errors="backslashreplace")
    try:
        from .app import app  # noqa: PLC0415 - imports typer

        app()
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.exit(f"amem: {MissingExtraError(error.name, 'cli')}")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
