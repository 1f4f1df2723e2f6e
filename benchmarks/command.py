"""How every command reads its arguments and ends."""

from __future__ import annotations

import re
import sys
from argparse import (
    ArgumentDefaultsHelpFormatter,
    ArgumentParser,
    ArgumentTypeError,
    Namespace,
)
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from amem_integrations.errors import AmemError, InvalidInputError

EMBEDDER_HELP = "a sentence-transformers model by name or folder, openai:NAME, fastembed:NAME, python:MODULE:NAME, or hash (words only); by default all-MiniLM-L6-v2"
_NUMBERS = re.compile(r"([1-9]\d*)(?:\.\.([1-9]\d*)(?::([1-9]\d*))?)?")

Option = tuple[tuple[str, ...], dict[str, Any]]
Main = Callable[..., int]  # takes the arguments, by default those of the process


def parser_of(name: str, about: str | None) -> ArgumentParser:
    """Return the parser of `python -m benchmarks.NAME`."""
    shown = {"description": about, "formatter_class": ArgumentDefaultsHelpFormatter}
    return ArgumentParser(f"python -m benchmarks.{name}", **shown)  # type: ignore[arg-type]


def option(*names: str, **how: Any) -> Option:  # noqa: ANN401 - as `add_argument` takes them
    """Return an option of a command."""
    return names, how


def command(
    name: str, about: str | None, work: Callable[[Namespace], None], *options: Option
) -> Main:
    """Return the command `python -m benchmarks.NAME`, which does some work with its options."""
    parser = parser_of(name, about)
    for names, how in options:
        parser.add_argument(*names, **how)
    return partial(run, lambda: parser, work)


def script(name: str, about: str | None, work: Callable[..., None], **numbers: int) -> Main:
    """Return the command of a script whose options are whole numbers, each with its default."""
    options = [option(f"--{n}", type=int, default=value, help=" ") for n, value in numbers.items()]
    return command(name, about, lambda given: work(**vars(given)), *options)


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
    parts = [_NUMBERS.fullmatch(part.strip()) for part in text.split(",")]
    bounds = [(int(n) if n else None for n in part.groups()) for part in parts if part]
    found = {n for a, z, step in bounds if a for n in range(a, (z or a) + 1, step or 10)}
    if not all(parts) or not found:
        raise InvalidInputError(
            f"{name}={text!r} must be numbers of at least 1, such as 5,10,20 or 10..50:5"
        )
    return tuple(sorted(found))


def count(text: str) -> int:
    """Return a number of things, of at least 1, as the type of an option."""
    if (number := int(text)) < 1:
        raise ArgumentTypeError(f"{number} is less than 1")
    return number


def names(text: str) -> list[str]:
    """Return the names in a list with commas."""
    return [name for name in map(str.strip, text.split(",")) if name]
