"""The three things the memory needs from outside: a chat model, an embedder, a store.

Each method may be a plain function or a coroutine function. For the asynchronous methods of the memory a
port may offer its own coroutine under the name with an `a` in front (`agenerate`, `aembed_documents`,
`aembed_query`); what exists only as a plain function is run in a worker thread.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, Union

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from .filters import Conditions
from .notes import Change, ChangeKind, Namespace, Note

T = TypeVar("T")

Vector = NDArray[np.float32]
MaybeAwaitable = Union[T, Awaitable[T]]  # noqa: UP007 - mypy takes no `|` for a generic alias

OPS_KEPT = 32  # last operations whose ids a note remembers in `ops`


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One question to a chat model.

    `prompt` is the rendered text; `reply` the pydantic model wanted back, as JSON. `inputs` is the
    plain data the prompt was rendered from (notes with `alias`, `key`, `content`, `speaker`, `at`;
    candidates likewise), so that fakes, caches and models without a language model can answer.
    """

    task: str
    system: str
    prompt: str
    reply: type[BaseModel]
    inputs: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """What a chat model answered, and what it cost."""

    text: str
    input_tokens: int = 0
    output_tokens: int = 0


class ChatModel(Protocol):
    """Answers a request with text. An attribute `name` is recorded with what the model wrote."""

    def generate(self, request: ModelRequest) -> MaybeAwaitable[Completion]:
        """Return the model's answer.

        Raises:
            ModelUnavailableError: The model cannot be reached, or did not answer in time.
        """
        ...


class Embedder(Protocol):
    """Turns texts into unit-length vectors.

    An attribute `max_tokens` may say how much of a text it reads; longer content is then split accordingly.
    """

    @property
    def name(self) -> str:
        """Identifies the embedder; a collection remembers it."""
        ...

    @property
    def dimensions(self) -> int:
        """Length of a vector."""
        ...

    def embed_documents(self, texts: Sequence[str]) -> MaybeAwaitable[Vector]:
        """Return a float32 array [len(texts), dimensions] of unit-length rows."""
        ...

    def embed_query(self, text: str) -> MaybeAwaitable[Vector]:
        """Return a float32 array [dimensions] of unit length."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Indexed:
    """A note with what it is searched by.

    `vector` is its dense vector (None: not known yet), `text` what BM25 reads. In a `replace`, None
    keeps what is stored; with an empty text, and no vector, nothing is kept to find it by.
    """

    note: Note
    vector: Vector | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One hybrid query: `vector` for the dense list, `text` for the BM25 list, `limit` for each."""

    vector: Vector | None = None
    text: str | None = None
    limit: int = 100
    where: Conditions = ()
    bring: Bring | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bring:
    """The notes that a store on a server brings with its answer, to save the request for them.

    They are the `limit` best by reciprocal rank, 1 / (`k` + rank), in both lists.
    """

    limit: int
    k: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """Answer to a `Query`: (note id, score) best first; dense scores are cosines.

    `cosines` are those of notes in the lexical list, and `brought` what `Query.bring` asked for, as far as the store
    knows them without another request; both may be empty.
    """

    dense: Sequence[tuple[str, float]] = field(default_factory=tuple)
    lexical: Sequence[tuple[str, float]] = field(default_factory=tuple)
    cosines: Mapping[str, float] = field(default_factory=dict)
    brought: Mapping[str, Note] = field(default_factory=dict)


class NoteStore(Protocol):
    """Keeps notes and their history. Calls are about one namespace; none sees another's notes.

    All writes are durable against a killed process when they return. `StoreError` and its subclasses
    are the only errors a store raises for reasons of its own. An id that is no UUID, or that belongs to
    another namespace, is unknown here: reads leave it out, removals ignore it. A malformed namespace is
    a `NamespaceError`, a value that cannot be stored an `InvalidInputError`, before anything is written.

    A store may have an attribute `interrupted`: all changes of those operations that an earlier process,
    killed or out of disk space, may not have finished. The memory finishes them when it is opened or next written to,
    and says so by `finished(changes)`.
    """

    def insert(
        self, namespace: Namespace, items: Sequence[Indexed], changes: Sequence[Change]
    ) -> MaybeAwaitable[set[str]]:
        """Store notes whose ids are not there yet; return the ids that were new. Others stay as they are.

        Raises:
            StoreError: An id is that of a note in another namespace; nothing was written.
        """
        ...

    def get(self, namespace: Namespace, ids: Sequence[str]) -> MaybeAwaitable[list[Note]]:
        """Return the notes with these ids, in this order; unknown ones are left out."""
        ...

    def get_indexed(
        self, namespace: Namespace, ids: Sequence[str]
    ) -> MaybeAwaitable[list[Indexed]]:
        """Return these notes with their dense vectors, by one read; unknown ones are left out.

        They come in this order. `vector` is None for a note without one, `text` always.
        """
        ...

    def last_seq(self) -> MaybeAwaitable[int]:
        """Return the greatest `seq` of all notes and changes in all namespaces; 0 if there are none."""
        ...

    def search(
        self, namespace: Namespace, queries: Sequence[Query]
    ) -> MaybeAwaitable[list[Ranked]]:
        """Return for each query its dense and its BM25 list."""
        ...

    def replace(
        self,
        namespace: Namespace,
        items: Sequence[Indexed],
        changes: Sequence[Change],
    ) -> MaybeAwaitable[set[str]]:
        """Write new versions of stored notes, in one batch, after the changes (the intent).

        Each note comes with `revision` one above the stored one. A note whose stored revision is
        another, or that is gone, is stale. Writing the same version again, known by its last operation id,
        succeeds.

        A store within this process writes all or nothing: if any note is stale, no note and no change is
        written, and the ids of all notes are returned. A store on a server, which has a true attribute
        `remote`, writes the others; it leaves out the stale notes and the changes about them, and returns
        their ids. Either way the caller reads the returned notes again, and tries again.

        Such a store takes ids of notes as the keyword `first`: it writes these before any other, and no other if one
        of them is stale.
        """
        ...

    def rewrite_changes(
        self, namespace: Namespace, changes: Sequence[Change]
    ) -> MaybeAwaitable[None]:
        """Replace stored changes by these, which have the same ids; unknown ones are not added.

        It is how text is taken out of the history of other notes; everything else is only appended. A text
        of the data that is empty by now, or gone from a list, stays so: two writers may do this at once.
        """
        ...

    def delete(
        self,
        namespace: Namespace,
        ids: Sequence[str],
        receipts: Sequence[Change],
        *,
        revisions: Mapping[str, int] | None = None,
    ) -> MaybeAwaitable[set[str]]:
        """Remove these notes and all changes about them (`note_id`); keep the receipts.

        Changes that only mention one of them (see `mentions`) stay as they are. With `revisions`, by id, a store
        within this process removes nothing if a stored revision is another, and returns the ids of all notes. A
        store on a server removes them all the same. What is removed is not returned.

        When it raises, the removal was not begun, or it is finished before the next write: what is written
        after it is never removed by it, also not after a kill.
        """
        ...

    def clear(self, namespace: Namespace, receipts: Sequence[Change]) -> MaybeAwaitable[None]:
        """Remove everything of a namespace but receipts of removals, and changes of kind `usage`."""
        ...

    def backlinks(self, namespace: Namespace, ids: Sequence[str]) -> MaybeAwaitable[list[Note]]:
        """Return the notes that hold a link to any of these others, or a context entry caused by one.

        So are those that one of them supersedes, or that were derived from one.
        """
        ...

    def count(self, namespace: Namespace, where: Conditions = ()) -> MaybeAwaitable[int]:
        """Return how many notes meet the conditions, exactly."""
        ...

    def scan(
        self,
        namespace: Namespace,
        *,
        where: Conditions = (),
        limit: int = 256,
        newest_first: bool = False,
    ) -> MaybeAwaitable[list[Note]]:
        """Return up to `limit` notes in order of (seq, id); continue with a condition on `seq`."""
        ...

    def namespaces(
        self, where: Conditions = (), *, recorded: bool = False
    ) -> MaybeAwaitable[list[Namespace]]:
        """Return the namespaces that hold notes which meet the conditions, sorted.

        With `recorded` also those of which nothing but a history is left, such as the receipts of a `clear`. It is
        the only call over all namespaces: what waits for work is found by it.
        """
        ...

    def changes(
        self,
        namespace: Namespace,
        *,
        note_id: str | None = None,
        kinds: Sequence[ChangeKind] = (),
        after: int | None = None,
        limit: int = 1000,
    ) -> MaybeAwaitable[list[Change]]:
        """Return the history of a note, or of the whole namespace, oldest first.

        It is the last `limit` changes, or, with `after`, the first `limit` of those with a greater `seq`:
        start with `after=-1` and go on with the `seq` of the last one. `kinds` keeps only these.
        """
        ...

    def changes_by_id(
        self, namespace: Namespace, ids: Sequence[str]
    ) -> MaybeAwaitable[list[Change]]:
        """Return the changes with these ids, in this order; unknown ones are left out."""
        ...

    def changes_by_op(
        self, namespace: Namespace, ops: Sequence[str]
    ) -> MaybeAwaitable[list[Change]]:
        """Return all changes of these operations (`Change.op`), oldest first."""
        ...

    def mentions(
        self,
        namespace: Namespace,
        ids: Sequence[str],
        *,
        prompts_after: int | None = None,
        about: Sequence[ChangeKind] = (),
    ) -> MaybeAwaitable[list[Change]]:
        """Return the changes about other notes that mention one of these, oldest first.

        With `prompts_after` also those of the kind `prompt` whose `seq` is above it, whatever they mention; with
        `about` also changes of these kinds about the notes themselves.

        A change mentions the note that caused it (`cause`), and those in `data["shown"]`, a list of the
        ids of the notes that were shown when it was made and may be quoted in it.
        """
        ...

    def flush(self) -> MaybeAwaitable[None]:
        """Make everything written so far survive a power cut as well."""
        ...

    def close(self) -> MaybeAwaitable[None]:
        """Flush and let go of the store; calling it again does nothing."""
        ...
