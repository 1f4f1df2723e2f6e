"""The values of the memory: frozen, plain, and convertible to and from JSON. What a caller gives is checked here.

A note is m = {c, t, K, G, X, e, L} of the paper (arXiv 2502.12110, section 3.1): content, time, keywords, tags, context,
embedding, links. Content is the user's and never changes by a model; a model only appends `ContextEntry` values, from
which keywords, tags and context are derived. Removing one entry therefore undoes exactly what it brought.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain
from typing import Any, Literal, NamedTuple, get_args

from .errors import InvalidInputError, NamespaceError
from .kinds import Kind, kind_of

Namespace = tuple[str, ...]
Source = Literal["user", "assistant", "tool", "import"]
Origin = Literal["conversation", "document", "item"]
State = Literal["pending", "constructed", "done", "failed"]
Direction = Literal["out", "in"]
Relation = Literal["updates", "corrects", "retracts", "contradicts"]
ChangeKind = Literal[
    "add", "update", "delete", "construct", "link", "relink", "evolve", "supersede", "fill", "undo",
]  # fmt: skip
ChangeState = Literal["on", "off", "waiting", "rejected", "failed", "void"]

SOURCES: tuple[Source, ...] = get_args(Source)
ORIGINS: tuple[Origin, ...] = get_args(Origin)
RELATIONS: tuple[Relation, ...] = get_args(Relation)
MAX_DEPTH = 32  # of metadata; the engine cannot read back what is nested deeper than about 127
INTEGERS = range(-(2**63), 2**63)
# Why a value would not come back the same, by its type.
NOT_PLAIN: Mapping[type | tuple[type, ...], str] = {
    str: "contains NUL or half of a surrogate pair; remove it",
    int: "is an integer of more than 64 bits; store it as text",
    float: "is a number that JSON cannot hold",
    (Mapping, list, tuple): f"is nested more than {MAX_DEPTH} deep, or has keys that are no texts",
    object: "is no JSON value; store it as text",
}
USER = "user"  # stands for the name of a model where a person decided


class Wording(NamedTuple):
    """A note in one of its wordings: the id of the note, and the revision that the wording has."""

    id: str
    rev: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextEntry:
    """One interpretation of a note, and where it came from.

    `cause` is the id of the note that gave rise to it: the note itself for the entry written at construction, a later
    note for an entry added by evolution. `at` is the event time of that note.
    """

    text: str
    keywords: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    cause: str
    model: str
    change: str
    at: datetime
    recorded_at: datetime
    until: datetime | None = None
    sources: tuple[Wording, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Supersession:
    """The reason why a later note takes the place of an earlier one, which holds the reason by the id of the later one.

    The later note `updates` the earlier (the world changed), `corrects` it (it was never so), `retracts` it (it no longer
    holds, and nothing takes its place) or `contradicts` it (neither wins). `since` is the event time from which it
    counts, `model` who decided (`"user"` for the user).
    """

    relation: Relation
    reason: str
    model: str
    change: str
    since: datetime
    recorded_at: datetime

    @property
    def replaces(self) -> bool:
        """Whether the earlier note is no longer current."""
        return self.relation != "contradicts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """The reason why two notes belong together. Both ends hold the link; `direction` is `"out"` on the newer note.

    `strength` (0 to 1) is as the link was made, until a model or the user decides otherwise.
    """

    relation: str
    reason: str
    strength: float
    direction: Direction
    created: datetime


class Attempts(NamedTuple):
    """The attempt of each stage at which the next decision about the present wording would be written."""

    construct: int = 0
    link: int = 0
    failure: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One experience, with everything that has been understood of it.

    `seq` (nanoseconds at first add, strictly increasing) orders notes; `at` is only the time of the event, if the caller
    gave one. `id` is also the id of the Qdrant point. `rev` is the seq of the present wording; it is never used twice.
    `origin` says whether the note was said in a conversation, is (a part of) a document, or an item of a store: only
    conversations evolve. `passages` are the spans (start, end) of a content that is longer than the embedder reads, each
    of which has a vector; empty where one vector is enough. `supersessions` are by the ids of the later notes that make
    this one outdated; none of its text goes for it. `until` is how long it holds, if the user said. `kind` follows from
    the content (see `kinds.py`), until the note is constructed.
    """

    id: str
    seq: int
    namespace: Namespace
    content: str
    recorded_at: datetime
    at: datetime | None = None
    speaker: str | None = None
    source: Source = "user"
    kind: Kind = "statement"
    origin: Origin = "conversation"
    thread: str | None = None
    key: str | None = None
    rev: int = 0
    passages: tuple[tuple[int, int], ...] = ()
    contexts: tuple[ContextEntry, ...] = ()
    links: Mapping[str, Link] = field(default_factory=dict)
    state: State = "pending"
    failure: str | None = None
    attempts: int = 0
    next_attempts: Attempts = Attempts()  # noqa: RUF009 - a tuple
    supersessions: Mapping[str, Supersession] = field(default_factory=dict)
    until: datetime | None = None
    expires_at: datetime | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def when(self) -> datetime:
        """The event time, or the time of recording where no event time is known."""
        return self.at or self.recorded_at

    @property
    def keywords(self) -> tuple[str, ...]:
        """Keywords of all context entries, oldest first, without repeats."""
        return tuple(dict.fromkeys(chain.from_iterable(e.keywords for e in self.contexts)))

    @property
    def tags(self) -> tuple[str, ...]:
        """Tags of all context entries, oldest first, without repeats."""
        return tuple(dict.fromkeys(chain.from_iterable(e.tags for e in self.contexts)))

    @property
    def own_entry(self) -> ContextEntry | None:
        """The entry written at construction, if the note has been constructed."""
        return next((entry for entry in self.contexts if entry.cause == self.id), None)

    @property
    def attributes_source(self) -> str | None:
        """Name of the model that constructed the note (`"rules"` without a language model), if any has."""
        return self.own_entry.model if self.own_entry else None

    @property
    def superseded_by(self) -> str | None:
        """The latest note that takes the place of this one, if any does."""
        return self._newest[0] if self._newest else None

    @property
    def superseded_since(self) -> datetime | None:
        """The event time since when another note takes the place of this one."""
        return self._newest[1].since if self._newest else None

    @property
    def holds_until(self) -> datetime | None:
        """Until when it holds, as the user said or as its text says; None: no end is known."""
        own = self.own_entry
        return self.until or (own.until if own else None)

    @property
    def _newest(self) -> tuple[str, Supersession] | None:
        replacing = [one for one in self.supersessions.items() if one[1].replaces]
        return max(replacing, key=lambda o: (o[1].since, o[1].recorded_at, o[0]), default=None)

    def is_expired(self, time: datetime) -> bool:
        """Return whether the note is not to be found any more at a time."""
        return self.expires_at is not None and self.expires_at <= time

    def revised(self, **changes: Any) -> Note:  # noqa: ANN401 - any field
        """Return a copy with these fields changed, and the kind of another content."""
        kind = {"kind": kind_of(changes["content"])} if "content" in changes else {}
        return replace(self, **{**kind, **changes})


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteInput:
    """One experience as the caller tells it.

    Attributes:
        content: What was said or seen; never changed by a model.
        at: When it happened, if that is not now; with a time zone.
        default_at: The event time of a note that is new and has no `at`; it never changes a stored one.
        key: Identifies the experience, such as a message id; without one, thread, speaker, content and `at` do.
        thread: The conversation; notes of one thread give each other context.
        speaker: Who said it.
        source: `"user"`, `"assistant"`, `"tool"` or `"import"`.
        metadata: JSON values of your own, to filter on.
        until: How long it holds. After that it is over: it is found as before, but below what is current, and what
            it had superseded is current again.
        expires_at: From this time on the note is not found any more. None: as `MemoryConfig.ttl` has it.
        supersedes: Ids of earlier notes whose place it takes (see `AgenticMemory.supersede`).
        origin: `"conversation"`, `"document"` or `"item"` (of a store): only conversations evolve.
    """

    content: str
    at: datetime | None = None
    default_at: datetime | None = None
    key: str | None = None
    thread: str | None = None
    speaker: str | None = None
    source: Source = "user"
    metadata: Mapping[str, Any] = field(default_factory=dict)
    until: datetime | None = None
    expires_at: datetime | None = None
    supersedes: Sequence[str] = ()
    origin: Origin = "conversation"

    def __post_init__(self) -> None:
        """Take out what no store can hold: see `storable`."""
        for name in ("content", "key", "thread", "speaker", "metadata"):
            object.__setattr__(self, name, storable_values(getattr(self, name)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Via:
    """One step of the path that led to a note: it is linked to `note_id`, for this reason."""

    note_id: str
    relation: str
    reason: str
    strength: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """The origin of a score: 1-based ranks in each list (None: not in it), match, fusion and spread.

    `match` is the cosine and the BM25 score, each as a share of the best of the search, on the scale of `fusion`: the
    notes that match best stand first.
    """

    dense_rank: int | None
    lexical_rank: int | None
    match: float
    fusion: float
    spread: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A part of a long text that a query matches, and where that stands in the content.

    `score` orders passages (higher is better), of all texts that one search finds.
    """

    text: str
    start: int
    end: int
    score: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredNote:
    """A note found by a search.

    `score` orders hits (higher is better) and is comparable within one search only; `similarity` is the cosine of
    query and note, for thresholds (None if the note has no vector yet). `via` is `"match"` if a search without links
    finds the note too, or else the links that led here, or the note that it supersedes. `superseded_by` is the
    current note that takes the place of this one, at the end of a chain of several; `contradicted_by` are notes that
    say otherwise without taking its place; `is_over`: its `until` has passed. `why` is filled with `explain=True`.
    `times_said` and `last_said` tell of a hit that stands for others which say the same how often that was said, and when
    last, by event time (None: once, or `search` was to return all of them). `passages` are the parts of a long text
    that match best, best first, of at most 1,500 characters together (empty: the text is short), and `passage` is the
    first of them.
    """

    note: Note
    score: float
    similarity: float | None
    via: Literal["match"] | tuple[Via, ...]
    superseded_by: str | None = None
    contradicted_by: tuple[str, ...] = ()
    is_over: bool = False
    why: Why | None = None
    times_said: int = 1
    last_said: datetime | None = None
    passages: tuple[Passage, ...] = ()

    @property
    def passage(self) -> Passage | None:
        """The part of a long text that matches best; None: the text is short."""
        return self.passages[0] if self.passages else None

    def to_dict(self) -> dict[str, Any]:
        """Return the facts about the hit and its note, without the content, as JSON values: metadata of a document."""
        note = self.note
        of_note = ("speaker", "source", "kind", "origin", "thread", "state")
        of_hit = ("superseded_by", "is_over", "times_said")
        times = {"at": note.at, "recorded_at": note.recorded_at, "last_said": self.last_said}
        return {
            "note_id": note.id,
            "namespace": list(note.namespace),
            "score": float(self.score),
            "similarity": None if self.similarity is None else float(self.similarity),
            "via": self.via if isinstance(self.via, str) else [asdict(step) for step in self.via],
            "contexts": [entry.text for entry in note.contexts],
            "keywords": list(note.keywords),
            "tags": list(note.tags),
            "links": list(note.links),
            "contradicted_by": list(self.contradicted_by),
            "passage": [self.passage.start, self.passage.end] if self.passage else None,
            "metadata": dict(note.metadata),
            **{name: time.isoformat() if time else None for name, time in times.items()},
            **{name: getattr(note, name) for name in of_note},
            **{name: getattr(self, name) for name in of_hit},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One entry of the history: what was said about a note, or decided about it, and whether that is in force.

    Attributes:
        id: What `undo`, `approve` and `reject` take: a decision and the number of its item, or the write of an edit.
        note_id: The note that is changed; of a link, the newer of the two; of a form, its own id.
        at: When that was recorded.
        by: The name of the model, `"rules"`, or `"user"`.
        kind: `add`, `update` (by the user), `delete`; `construct` (keywords, tags and context), `link`, `relink`
            (another strength), `evolve` (a sentence that a later note adds), `supersede`; `fill` (a form); `undo` (a
            switch that was set: undone, redone, approved, rejected).
        before: The values that were there before, by name; empty where there were none.
        after: The values that are there since. `construct`, `evolve`: `context`, `keywords`, `tags` (and `cause`, the id
            of the later note). `link`, `relink`: `to`, `relation`, `reason`, `strength`. `supersede`: `by` (the id of
            the newer note), `relation`, `reason`, `since`. `fill`: `value`. `undo`: `change`, `state`. A change that
            waits or has failed says `why`.
        state: `on`; `off` (undone); `waiting` or `rejected` (a proposal); `failed` (no usable answer); `void` (the text
            that it was made of is gone, and so are its values).
    """

    id: str
    note_id: str
    at: datetime
    by: str
    kind: ChangeKind
    before: Mapping[str, Any] = field(default_factory=dict)
    after: Mapping[str, Any] = field(default_factory=dict)
    state: ChangeState = "on"


def check_namespace(namespace: object) -> Namespace:
    """Return the namespace as a tuple.

    Raises:
        NamespaceError: It is not a non-empty sequence of non-empty strings that can be stored.
    """
    labels: tuple[object, ...] = ()
    if isinstance(namespace, Sequence) and not isinstance(namespace, str):
        labels = tuple(namespace)
    checked = tuple(label for label in labels if isinstance(label, str) and label)
    if not checked or len(checked) < len(labels):
        raise NamespaceError(
            f"namespace={namespace!r} must be a tuple of non-empty strings, such as ('user-42',)"
        )
    try:
        plain(checked, "namespace")
    except InvalidInputError as error:
        raise NamespaceError(str(error)) from error
    return checked


def storable(text: str) -> str:
    """Return a text as it can be stored: without NUL, and with U+FFFD for half of a surrogate pair, as of a cut emoji."""
    if text.isascii():
        return text.replace("\0", "")
    return text.replace("\0", "").encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def storable_values(value: Any, depth: int = 0) -> Any:  # noqa: ANN401 - JSON values
    """Return a value with all texts in it as they can be stored; what is nested too deep stays for `plain` to refuse."""
    if isinstance(value, str):
        return storable(value)
    if depth > MAX_DEPTH:
        return value
    if isinstance(value, Mapping):
        return {
            storable_values(key, depth + 1): storable_values(item, depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [storable_values(item, depth + 1) for item in value]
    return value


def check_note_input(item: NoteInput, max_chars: int) -> None:
    """Check what a caller says about one experience; its content has at most `max_chars` characters.

    Raises:
        InvalidInputError: Empty or too long content, no time zone, an unknown source, or no JSON.
    """
    if not isinstance(item.content, str) or not item.content.strip():
        raise InvalidInputError(f"content={item.content!r} is empty; give the text to remember")
    if len(item.content) > max_chars:
        raise InvalidInputError(
            f"content has {len(item.content)} characters, more than {max_chars}: split it, such as by "
            "RecursiveCharacterTextSplitter of LangChain or SentenceSplitter of LlamaIndex, or raise "
            "MemoryConfig.max_content_chars"
        )
    for name in ("key", "thread", "speaker"):
        if not isinstance(given := getattr(item, name), str | None):
            raise InvalidInputError(f"{name}={given!r} must be a string")
    for name in ("at", "default_at", "until", "expires_at"):
        check_time(name, getattr(item, name))
    for name, known in (("source", SOURCES), ("origin", ORIGINS)):
        if (given := getattr(item, name)) not in known:
            raise InvalidInputError(f"{name}={given!r} must be one of {', '.join(known)}")
    ids = item.supersedes
    if not isinstance(ids, tuple | list) or not all(isinstance(one, str) for one in ids):
        raise InvalidInputError(f"supersedes={ids!r} must be a list of ids of notes")
    if not isinstance(item.metadata, Mapping):
        raise InvalidInputError(f"metadata={item.metadata!r:.200} must be a dict of JSON values")
    plain(item.metadata, "metadata")


def check_time(name: str, value: object) -> None:
    """Check a time that may be None.

    Raises:
        InvalidInputError: It is no datetime with a time zone, or outside the calendar in UTC.
    """
    if value is None:
        return
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise InvalidInputError(f"{name}={value!r} must be a datetime with a zone, such as UTC")
    try:
        value.astimezone(UTC)
    except OverflowError as error:
        raise InvalidInputError(f"{name}={value!r} is outside the calendar in UTC") from error


def plain(value: object, where: str, depth: int = 0) -> Any:  # noqa: ANN401 - any JSON value
    """Return a value as plain JSON values: a copy, with lists for tuples and dicts for mappings.

    Raises:
        InvalidInputError: It would not come back the same; the message names the place.
    """
    if isinstance(value, str):
        is_plain = storable(value) == value
    elif value is None or isinstance(value, bool):
        is_plain = True
    elif isinstance(value, int | float):
        is_plain = value in INTEGERS if isinstance(value, int) else math.isfinite(value)
    elif depth < MAX_DEPTH and isinstance(value, list | tuple):
        return [plain(item, where, depth + 1) for item in value]
    elif (
        depth < MAX_DEPTH and isinstance(value, Mapping) and all(isinstance(k, str) for k in value)
    ):
        return {plain(k, where): plain(v, f"{where}.{k}", depth + 1) for k, v in value.items()}
    else:
        is_plain = False
    if not is_plain:
        problem = next(text for kind, text in NOT_PLAIN.items() if isinstance(value, kind))
        shown = reprlib.repr(value)  # `repr` itself fails at what is nested very deep
        raise InvalidInputError(f"{where} {problem}: {shown}")
    return value
