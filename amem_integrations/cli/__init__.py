"""The command line, `amem …`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from io import TextIOWrapper

from ..errors import MissingExtraError

INTERRUPTED = 130  # the status that a shell shows for a program ended by Ctrl-C


def commands() -> Callable[..., object]:
    """Return the program with its commands, in the order of the help."""
    from . import notes, changes, upkeep  # noqa: F401, I001, PLC0415 - each imports typer
    from .app import app  # noqa: PLC0415

    return app


def main() -> None:
    """Run the command line, which needs the extra `cli`."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # it was closed, as `>&-` does
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # what the terminal has no character for is escaped
            stream.reconfigure(errors="backslashreplace")
    try:
        commands()()
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.exit(f"amem: {MissingExtraError(error.name, 'cli')}")
    except KeyboardInterrupt:  # while modules are imported
        sys.exit(INTERRUPTED)
