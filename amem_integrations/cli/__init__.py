"""The command line, `amem …`."""

from __future__ import annotations

import sys

from ..errors import MissingExtraError

_EXTRA = ("typer", "rich")
_INTERRUPTED = 130  # what a shell reports of a program that Ctrl-C ended


def main() -> None:
    """Run the command line. What it needs beyond the core comes with the extra `cli`."""
    try:
        from .app import app  # noqa: PLC0415 - imports typer
    except ModuleNotFoundError as error:
        if error.name not in _EXTRA:
            raise
        sys.exit(f"amem: {MissingExtraError(error.name, 'cli')}")
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    app()
