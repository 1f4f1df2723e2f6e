"""The ports: a chat model and an embedder, which come from outside, and the questions to a store.

Each method may be a plain function or a coroutine function. For the asynchronous methods of the memory a
port may offer its own coroutine under the name with an `a` in front (`agenerate`, `aembed_documents`,
`aembed_query`); what exists only as a plain function is run in a worker thread.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, TypeVar, Union

from pydantic import BaseModel

from .decisions import Call, Decision, Lease, Record, by_note
from .filters import Conditions
from .notes import Namespace, Wording
from .stored_note import StoredNote, Vector

T = TypeVar("T")

MaybeAwaitable = Union[T, Awaitable[T]]  # noqa: UP007 - mypy takes no `|` for a generic alias


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
    """The answer of a chat model, and its cost."""

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


class Embedder(Protocol):
    """Turns texts into unit-length vectors.

    An attribute `max_tokens` may say how much of a text it reads; longer content is then split accordingly.
    """

    @property
    def name(self) -> str:
        """Identifies the embedder; a collection remembers it."""

    @property
    def dimensions(self) -> int:
        """Length of a vector."""

    def embed_documents(self, texts: Sequence[str]) -> MaybeAwaitable[Vector]:
        """Return a float32 array [len(texts), dimensions] of unit-length rows."""

    def embed_query(self, text: str) -> MaybeAwaitable[Vector]:
        """Return a float32 array [dimensions] of unit length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One hybrid query: `vector` for the dense list, `text` for the BM25 list, `limit` for each.

    `namespace` is whose notes are looked for, where they are not those of the whole request.
    """

    namespace: Namespace | None = None
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
    """Answer to a `Query`: (note id, score) best first; dense scores are cosines, of a long note that of its best passage.

    `cosines` are those of notes in the lexical list, and `brought` the stored notes that `Query.bring` asked for, without
    their vectors, as far as the store knows them without another request; both may be empty.
    """

    dense: Sequence[tuple[str, float]] = field(default_factory=tuple)
    lexical: Sequence[tuple[str, float]] = field(default_factory=tuple)
    cosines: Mapping[str, float] = field(default_factory=dict)
    brought: Mapping[str, StoredNote] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NoteQuery:
    """A query for stored notes and tombstones: for what is alive alone, expired at a time, owes a purge, or has no vectors.

    With `least`, at least so many of them, if there are so many.
    """

    alive: bool = False
    expired_at: datetime | None = None
    owing: bool = False
    bare: bool = False
    least: int | None = None

    def finds(self, note: StoredNote) -> bool:
        """Return whether a note is one of those wanted."""
        if self.alive and note.is_deleted:
            return False
        if self.owing and note.purge is None:
            return False
        if self.bare and (note.is_deleted or note.has_vectors):
            return False
        return self.expired_at is None or note.is_expired(self.expired_at)


@dataclass(frozen=True, slots=True)
class RecordQuery:
    """A query for records; all conditions that are given have to hold. Leases are never found.

    Attributes:
        calls: Calls with these ids, and their decisions.
        about: Decisions that show on one of these notes.
        note: Decisions whose note or form is this one.
        newest: With `about`: of each of these notes its own decisions, those that supersede a note, and so many of the
            newest others that are not void. None: all.
        made_from: Decisions that have a wording of one of these notes, up to the rev given for the note, among their sources.
        shown: Calls that were shown a wording of one of these notes, up to the rev given for the note.
        unsettled: Decisions that are not settled.
        waiting: Decisions of which an item waits for a review.
        decisions: Decisions only.
        calls_only: Calls only.
        since: Records with a seq of at least so much.
    """

    calls: frozenset[str] | None = None
    about: frozenset[str] | None = None
    note: str | None = None
    newest: int | None = None
    made_from: Mapping[str, int] | None = None
    shown: Mapping[str, int] | None = None
    unsettled: bool = False
    waiting: bool = False
    decisions: bool = False
    calls_only: bool = False
    since: int = 0

    def of(self, records: Iterable[Record]) -> list[Record]:
        """Return the records that a query wants, out of some."""
        found = [record for record in records if self.finds(record)]
        if self.about is None or self.newest is None:
            return found
        about = by_note(one for one in found if isinstance(one, Decision))
        kept = {
            one.id for note in self.about for one in newest_about(note, about[note], self.newest)
        }
        return [one for one in found if one.id in kept]

    def finds(self, record: Record) -> bool:
        """Return whether a record meets all conditions but `newest`."""
        if isinstance(record, Lease) or record.seq < self.since:
            return False
        if isinstance(record, Call):
            return self._finds_call(record)
        return (
            not (self.calls_only or self.shown is not None)
            and (self.calls is None or record.call in self.calls)
            and (self.note is None or record.note == self.note)
            and (self.about is None or not self.about.isdisjoint(record.about))
            and (self.made_from is None or reaches(record.sources, self.made_from))
            and not (self.unsettled and not record.phase)
            and (record.waits or not self.waiting)
        )

    def _finds_call(self, call: Call) -> bool:
        if self.decisions or self.unsettled or self.waiting or self.note:
            return False
        if self.about is not None or self.made_from is not None:
            return False
        if self.shown is not None and not reaches(call.shown, self.shown):
            return False
        return self.calls is None or call.id in self.calls


def newest_about(note_id: str, about: Iterable[Decision], newest: int) -> list[Decision]:
    """Return out of all decisions about a note its own, those that supersede, and so many of the newest others."""
    decisions = sorted(about, key=lambda one: (-one.seq, one.id))
    own = [one for one in decisions if one.note == note_id or one.supersedes]
    others = [one for one in decisions if not (one.note == note_id or one.supersedes or one.void)]
    return [*own, *others[:newest]]


def reaches(sources: Iterable[Wording], upto: Mapping[str, int]) -> bool:
    """Return whether some wordings have one of these notes, up to the rev given for the note, among them."""
    return any(source.rev <= upto.get(source.id, -1) for source in sources)
