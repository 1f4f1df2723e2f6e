"""The options of recall, which have the same names at every door of every adapter."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypedDict

from ..errors import ConfigurationError, InvalidInputError
from ..filters import check_count, check_similarity, parse
from ..notes import check_time


class SearchOptions(TypedDict, total=False):
    """The arguments of `AgenticMemory.search`, as keyword arguments of a door; `where` may be a function of its run."""

    k: int
    where: Any
    min_similarity: float | None
    links: bool
    as_of: datetime | None


class RecallOptions(SearchOptions, total=False):
    """The arguments of `AgenticMemory.recall_turn`, as keyword arguments of a door."""

    max_tokens: int
    window: int


def checked_recall(
    options: Mapping[str, Any], known: type[SearchOptions] = RecallOptions
) -> dict[str, Any]:
    """Return the options of a recall, checked, so that a mistake shows when a door is made and not in its first search.

    Raises:
        ConfigurationError: An option has a value that it cannot have.
        TypeError: An option is unknown.
    """
    if unknown := sorted(options.keys() - known.__annotations__.keys()):
        known_names = ", ".join(known.__annotations__)
        raise TypeError(f"unknown option {unknown[0]!r}; use one of {known_names}")
    for name, least in (("k", 1), ("max_tokens", 1), ("window", 0)):
        check_counts(least=least, **{name: options.get(name, least)})
    check_flags(links=options.get("links", True))
    where = options.get("where")
    try:
        parse({} if where is None or callable(where) else where)
        check_similarity(options.get("min_similarity"))
        check_time("as_of", options.get("as_of"))
    except InvalidInputError as error:
        raise ConfigurationError(str(error)) from error
    return dict(options)


def check_counts(*, least: int = 1, **values: object) -> None:
    """Check that each value is a whole number of at least `least`.

    Raises:
        ConfigurationError: One is not.
    """
    for name, value in values.items():
        check_count(name, value, least, ConfigurationError)


def check_flags(**values: object) -> None:
    """Check that each value is True or False.

    Raises:
        ConfigurationError: One is not.
    """
    for name, value in values.items():
        if not isinstance(value, bool):
            raise ConfigurationError(f"{name}={value!r} must be True or False")
