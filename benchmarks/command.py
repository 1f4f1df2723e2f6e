"""How every command reads its arguments and ends."""

from __future__ import annotations

import sys
from argparse import ArgumentDefaultsHelpFormatter, ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from functools import partial

from amem_integrations.errors import AmemError, InvalidInputError

EMBEDDER_HELP = "a sentence-transformers model by name or folder, openai:NAME, fastembed:NAME, python:MODULE:NAME, or hash (words only); by default all-MiniLM-L6-v2"
Main = Callable[..., int]  # takes the arguments, by default those of the process


def parser_of(name: str, about: str | None) -> ArgumentParser:
    """Return the parser of `python -m benchmarks.NAME`."""
    shown = {"description": about, "formatter_class": ArgumentDefaultsHelpFormatter}
    return ArgumentParser(f"python -m benchmarks.{name}", **shown)  # type: ignore[arg-type]


def script(name: str, about: str | None, work: Callable[..., None], **numbers: int) -> Main:
    """Return the command of a script whose options are whole numbers, each with its default."""
    parser = parser_of(name, about)
    for option, default in numbers.items():
        parser.add_argument(f"--{option}", type=int, default=default, help=" ")
    return partial(run, lambda: parser, lambda given: work(**vars(given)))


def run(
    make_parser: Callable[[], ArgumentParser],
    work: Callable[[Namespace], None],
    arguments: Sequence[str] | None = None,
) -> int:
    """Run a command, by default with the arguments of the process, and return its exit status; an error is one line."""
    parser = make_parser()
    given = parser.parse_args(arguments)
    try:
        work(given)
    except (AmemError, OSError) as error:
        print(f"{parser.prog}: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{parser.prog}: stopped", file=sys.stderr)
        return 130
    return 0


def numbers(text: str, name: str = "k") -> tuple[int, ...]:
    """Return the numbers in `5,10,20`, in `10..50` (in steps of ten) or in `10..50:5`, sorted."""
    found: set[int] = set()
    try:
        for part in text.split(","):
            bounds, _, step = part.partition(":")
            first, *last = map(int, bounds.split(".."))
            found.update(range(first, last[0] + 1, int(step or 10)) if last else [first])
    except ValueError as error:
        raise InvalidInputError(
            f"{name}={text!r} must be numbers such as 5,10,20 or 10..50:5"
        ) from error
    return tuple(sorted(found))


def names(text: str) -> list[str]:
    """Return the names in a list with commas."""
    return [name for name in map(str.strip, text.split(",")) if name]
