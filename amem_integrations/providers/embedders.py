"""The common part of embedders: prefixes of models, texts that are cut, the latest vectors, and threads."""

from __future__ import annotations

import logging
import os
import re
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from ..runtime import VectorCache
from ..stored_note import Vector
from ..texts import count_tokens

log = logging.getLogger("amem_integrations")

Role = Literal["query", "document"]

# How long a fork waits for what another thread is encoding, in seconds.
FORK_PATIENCE = 30.0

_SEARCHING = "Represent this sentence for searching relevant passages: "


@dataclass(frozen=True, slots=True)
class Prefixes:
    """The texts before a query and before a document, by which a model knows which of the two it reads."""

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


def unit_rows(rows: Vector) -> Vector:
    """Return rows, or a single one, of unit length; a row of zeros stays."""
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    unit: Vector = rows / np.maximum(lengths, np.finfo(np.float32).tiny)
    return unit


def prefixed(prefix: str, texts: Sequence[str]) -> list[str]:
    """Return texts with a prefix before each."""
    return [prefix + text for text in texts]


class CachedEmbedder(ABC):
    """Encodes each text once, as long as its vector is among the latest.

    It may be used from many threads, and in a forked child.

    Attributes:
        name: The model's name, which a collection remembers.
        dimensions: Length of a vector.
        max_tokens: How many tokens of a text are read, if the model says.
        encoded: How many texts the model has encoded so far.
    """

    dimensions: int
    _roles_take_turns = True  # or a query may be encoded beside documents

    def __init__(self, name: str, cache_size: int, max_tokens: int | None) -> None:
        """Keep the vectors of the last `cache_size` documents and of as many queries."""
        self.name, self.max_tokens, self.encoded = name, max_tokens, 0
        self._truncation = Truncation(name, max_tokens)
        self._cache_size = cache_size
        self._renew()
        _embedders.add(self)

    def __repr__(self) -> str:
        """Return the name and size of the model."""
        return f"{type(self).__name__}({self.name!r}, dimensions={self.dimensions})"

    @property
    def truncated(self) -> int:
        """Of how many texts only the beginning was read."""
        return self._truncation.count

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Return a float32 array [len(texts), dimensions] of unit-length rows."""
        if not texts:
            return np.empty((0, self.dimensions), dtype=np.float32)
        vectors = self._vectors(texts, "document")
        return np.stack([vectors[text] for text in texts])

    def embed_query(self, text: str) -> Vector:
        """Return a float32 array [dimensions] of unit length."""
        return self._vectors([text], "query")[text].copy()

    @abstractmethod
    def _encode(self, texts: list[str], role: Role) -> Vector:
        """Return one unit-length row for each text."""

    def _vectors(self, texts: Sequence[str], role: Role) -> dict[str, Vector]:
        known = self._known(texts, role)
        if len(known) == len(set(texts)):
            return known  # without waiting for what another thread encodes
        with self._turns[role]:
            known |= self._known(texts, role)  # another thread may just have encoded some
            missing = [text for text in dict.fromkeys(texts) if text not in known]
            if missing:
                self.encoded += len(missing)
                new = dict(zip(missing, self._encode(missing, role), strict=True))
                for text, vector in new.items():
                    self._latest[role].put(role, text, vector)
                known |= new
        return known

    def _known(self, texts: Sequence[str], role: Role) -> dict[str, Vector]:
        found = ((text, self._latest[role].get(role, text)) for text in texts)
        return {text: vector for text, vector in found if vector is not None}

    def _renew(self) -> None:
        """Start without vectors, and with locks that nobody holds."""
        roles: tuple[Role, ...] = get_args(Role)
        self._turns = dict.fromkeys(roles, threading.Lock())
        if not self._roles_take_turns:
            self._turns = {role: threading.Lock() for role in roles}
        self._latest = {role: VectorCache(self._cache_size) for role in roles}


_embedders: weakref.WeakSet[CachedEmbedder] = weakref.WeakSet()
_held: list[threading.Lock] = []


def _before_fork() -> None:
    # A fork while another thread multiplies matrices would leave the linear algebra of the child locked for ever.
    for embedder in list(_embedders):
        locks = set(embedder._turns.values())  # noqa: SLF001 - of this module
        _held.extend(lock for lock in locks if lock.acquire(timeout=FORK_PATIENCE))


def _after_fork_in_parent() -> None:
    while _held:
        _held.pop().release()


def _after_fork_in_child() -> None:
    # A lock that another thread of the parent held would never be released in the child.
    _held.clear()
    for embedder in list(_embedders):
        embedder._renew()  # noqa: SLF001 - of this module


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )
