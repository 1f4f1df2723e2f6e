"""What is recalled for a question, by the same words at every door of every adapter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypedDict

from ..context import render_notes
from ..errors import ConfigurationError, InvalidInputError
from ..filters import check_count, check_similarity, parse
from ..flows.search import merged
from ..follow_up import WINDOW
from ..memory import AgenticMemory
from ..notes import Namespace, ScoredNote, check_time
from .twins import Call


class SearchKeywords(TypedDict, total=False):
    """What a search takes of `RecallOptions`, as keyword arguments: `**search: Unpack[SearchKeywords]`."""

    k: int
    where: Any
    min_similarity: float | None
    links: bool
    as_of: datetime | None


class RecallKeywords(SearchKeywords, total=False):
    """What `AgenticMemory.recall_turn` takes, as keyword arguments of a door; `where` may be a function of its run."""

    max_tokens: int
    window: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallOptions:
    """What is recalled, and how much of it is shown; see `AgenticMemory.search` and `AgenticMemory.recall`.

    Attributes:
        k: Most notes.
        max_tokens: Most tokens of text, about.
        where: Conditions on fields.
        min_similarity: Least cosine of question and note.
        links: Whether links are followed.
        as_of: What was true then.
        window: How many messages before a question make clear what it is about ("And where does she work?"). 0 searches
            for the question alone.

    Raises:
        ConfigurationError: A value cannot be used.
    """

    k: int = 10
    max_tokens: int = 1000
    where: Mapping[str, Any] | None = None
    min_similarity: float | None = None
    links: bool = True
    as_of: datetime | None = None
    window: int = WINDOW

    def __post_init__(self) -> None:
        """Check the values, so that a mistake shows when an object is made and not in its first search."""
        check_counts(k=self.k, max_tokens=self.max_tokens)
        check_counts(least=0, window=self.window)
        check_flags(links=self.links)
        try:
            parse({} if self.where is None else self.where)
            check_similarity(self.min_similarity)
            check_time("as_of", self.as_of)
        except InvalidInputError as error:
            raise ConfigurationError(str(error)) from error

    async def search(
        self,
        call: Call,
        memory: AgenticMemory,
        question: str,
        namespaces: Sequence[Namespace],
        *,
        k: int | None = None,
        recall: bool = False,
        messages: Sequence[str] = (),
    ) -> list[ScoredNote]:
        """Return the best `k` notes of these namespaces, best first; a hit says whose it is by its note.

        With `recall`, only what is worth showing. Of the `messages` that were said before the question the last ones of
        the window count. Of notes that say the same one is returned. Each namespace is searched by itself: no link leads into another.
        """
        most, spaces = self.k if k is None else k, dict.fromkeys(namespaces)
        options: dict[str, Any] = {
            "k": most,
            "where": self.where,
            "min_similarity": self.min_similarity,
            "links": self.links,
            "as_of": self.as_of,
            "messages": messages[-self.window :] if self.window else (),
        }
        found = [
            await call(memory.recall, question, namespace=namespace, **options)
            if recall
            else await call(memory.search, question, namespace=namespace, repeats=False, **options)
            for namespace in spaces
        ]
        hits = found[0] if len(found) == 1 else merged(found)
        return hits[:most]

    async def about(self, call: Call, memory: AgenticMemory, namespace: Namespace) -> str:
        """Return who the user is, for `render`: "" without a profile, and under `where` or `as_of`."""
        plain = self.where is None and self.as_of is None
        wanted = memory.config.profile and plain
        return str((await call(memory.profile, namespace=namespace) if wanted else None) or "")

    def render(
        self,
        hits: Sequence[ScoredNote],
        others: Mapping[str, Namespace] | None = None,
        *,
        ids: bool = False,
        about: str = "",
    ) -> str:
        """Return notes as text for a prompt, or "" if there are none; see `render_notes`.

        A note of one of the `others` is marked with the name that stands there for its namespace. `about` stands above the notes.
        """
        names = {namespace: name for name, namespace in (others or {}).items()}
        marked = [_marked(hit, names.get(hit.note.namespace)) for hit in hits]
        return render_notes(marked, max_tokens=self.max_tokens, ids=ids, about=about)


def checked_recall(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a recall, checked, so that a mistake shows when a door is made and not in its first search.

    Raises:
        ConfigurationError: An option has a value that it cannot have.
        TypeError: An option is unknown.
    """
    if unknown := options.keys() - RecallKeywords.__annotations__.keys():
        known = ", ".join(RecallKeywords.__annotations__)
        raise TypeError(f"unknown options {sorted(unknown)}; the options are {known}")
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


def _marked(hit: ScoredNote, name: str | None) -> ScoredNote:
    """Return a hit whose speaker says whose note it is."""
    if name is None:
        return hit
    speaker = f"from {name}: {hit.note.speaker}" if hit.note.speaker else f"from {name}"
    return replace(hit, note=hit.note.revised(speaker=speaker))
