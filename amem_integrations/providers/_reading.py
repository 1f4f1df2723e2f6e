"""What embedders have in common about the texts they read: the prefixes that a model wants, and where it stops reading."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..texts import count_tokens

log = logging.getLogger("amem_integrations")

_SEARCHING = "Represent this sentence for searching relevant passages: "


@dataclass(frozen=True, slots=True)
class Prefixes:
    """What stands before a query and before a document, so that a model knows which of the two it reads."""

    query: str = ""
    document: str = ""

    def named(self, model: str) -> str:
        """Return the name of an embedder with these prefixes: vectors with others cannot be compared with its own."""
        if not (self.query or self.document):
            return model
        return f"{model} ({self.query.strip()} | {self.document.strip()})"


# As the cards of the models have them; found by a part of the model's name.
_KNOWN = (
    (re.compile(r"\be5-(?!mistral)|multilingual-e5"), Prefixes("query: ", "passage: ")),
    (re.compile(r"nomic-embed-text"), Prefixes("search_query: ", "search_document: ")),
    (re.compile(r"bge-(small|base|large)-en|mxbai-embed-large"), Prefixes(_SEARCHING)),
    (re.compile(r"arctic-embed.*v2|arctic-embed2"), Prefixes("query: ")),
    (re.compile(r"arctic-embed"), Prefixes(_SEARCHING)),
)


def prefixes_of(model: str, query: str | None, document: str | None) -> Prefixes:
    """Return the prefixes that were given, and for what was not those that the model is known to want."""
    known = next((p for pattern, p in _KNOWN if pattern.search(model.lower())), Prefixes())
    return Prefixes(
        known.query if query is None else query,
        known.document if document is None else document,
    )


class Truncation:
    """Counts the texts of which only the beginning was embedded, and tells of the first of them.

    Attributes:
        count: How many there were.
    """

    def __init__(self, name: str, max_tokens: int | None = None) -> None:
        """Take the name of an embedder, and how many tokens of a text it reads, if that is known."""
        self._name, self.max_tokens, self.count = name, max_tokens, 0

    def add(self, count: int = 1) -> None:
        """Count texts that were too long."""
        if count and not self.count:
            limit = f"the first {self.max_tokens} tokens" if self.max_tokens else "the beginning"
            log.warning(
                "%s reads only %s of a text that is longer; such texts are counted in `truncated`",
                self._name,
                limit,
            )
        self.count += count

    def estimate(self, texts: Iterable[str]) -> None:
        """Count the texts that are too long by their length in bytes, for models that do not say."""
        if self.max_tokens is not None:
            self.add(sum(count_tokens(text) > self.max_tokens for text in texts))


def prefixed(prefix: str, texts: Sequence[str]) -> list[str]:
    """Return texts with a prefix before each."""
    return [prefix + text for text in texts]
