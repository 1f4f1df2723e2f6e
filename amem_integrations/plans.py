"""What the write path hands from step to step: plain values that travel as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import Field, FiniteFloat, TypeAdapter, ValidationError

from .errors import InvalidInputError
from .notes import Namespace, Relation

T = TypeVar("T")

# What a plan holds may come back from a client: these are checked when it is read.
MAX_RELATION_CHARS = 40
MAX_REASON_CHARS = 200
Share = Annotated[float, Field(ge=0, le=1)]
Relating = Annotated[str, Field(max_length=MAX_RELATION_CHARS)]
Reason = Annotated[str, Field(max_length=MAX_REASON_CHARS)]
Count = Annotated[int, Field(ge=0, lt=2**63)]
Identity = Annotated[str, Field(pattern="^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]
Wording = tuple[Identity, Count]  # the id of a note, and the rev of a wording

LinkChange = Literal["strengthen", "weaken", "remove"]
LINK_CHANGES: tuple[LinkChange, ...] = get_args(LinkChange)
FOLLOWS = "follows"  # the relation of a turn to the one before it, where nothing more is known
ANSWERS = "answers"  # the relation of a reply to the question
REPEATS = "repeats"  # the relation of a note to an earlier one that says the same: recall shows one of them
HELD = "it waits for a review"  # why what passed the gate is not written, with `MemoryConfig(review=True)`


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An earlier note shown for a new one, with the cosine of the two.

    `previous` says that it is the turn before; `same` that words and vectors find that both say the same, which is
    looked for where rules decide.
    """

    id: str
    similarity: FiniteFloat | None
    previous: bool = False
    same: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedLink:
    """A link from the planned note to `target`. `rejected` and `sources` are as for an update.

    `by_order` says that it is to the turn before, and that no model proposed it.
    """

    id: str
    target: str
    relation: Relating
    reason: Reason
    strength: Share
    rejected: str | None = None
    sources: tuple[Wording, ...] = ()
    by_order: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedUpdate:
    """A context entry for `target`. `rejected` says why it becomes a proposal (None: it passed the gate).

    `before` is the rendered context of the target, for a reviewer to compare. `sources` are the wordings that the text
    was made of.
    """

    id: str
    target: str
    context: str
    keywords: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    before: str = ""
    similarity: FiniteFloat | None = None
    rejected: str | None = None
    sources: tuple[Wording, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSupersession:
    """That the planned note takes the place of `target`, or contradicts it. The rest is as for an update."""

    id: str
    target: str
    relation: Relation
    reason: Reason
    rejected: str | None = None
    sources: tuple[Wording, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRelink:
    """That the link from the note `source` to `target`, both shown, becomes stronger or weaker, or goes.

    `before` is its strength when it was shown. `rejected` and `sources` are as for an update.
    """

    id: str
    source: str
    target: str
    change: LinkChange
    reason: Reason
    before: Share
    rejected: str | None = None
    sources: tuple[Wording, ...] = ()


Planned = PlannedLink | PlannedUpdate | PlannedSupersession | PlannedRelink


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedNote:
    """What is proposed for one new note.

    `rev` is the wording that this was proposed for, `attempt` which try it is: a plan for what has been corrected since
    is out of date, and of several plans for one try the first that is committed counts.
    """

    id: Identity
    rev: Count
    attempt: Count
    model: str
    candidates: tuple[Candidate, ...] = ()
    links: tuple[PlannedLink, ...] = ()
    updates: tuple[PlannedUpdate, ...] = ()
    supersessions: tuple[PlannedSupersession, ...] = ()
    relinks: tuple[PlannedRelink, ...] = ()
    dropped: Count = 0

    @property
    def proposed(self) -> tuple[Planned, ...]:
        """All that is proposed for it."""
        return (*self.links, *self.updates, *self.supersessions, *self.relinks)

    def with_each(self, change: Callable[[Any], Any]) -> PlannedNote:
        """Return it with a change made to each thing that is proposed."""
        return replace(
            self,
            links=tuple(map(change, self.links)),
            updates=tuple(map(change, self.updates)),
            supersessions=tuple(map(change, self.supersessions)),
            relinks=tuple(map(change, self.relinks)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """One answered call of a model: for which task, what it cost in tokens, and whether the reply could not be used."""

    task: str
    input_tokens: Count = 0
    output_tokens: Count = 0
    is_rejected: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Links and updates proposed for some notes; nothing of it is written until `commit`.

    `failed` maps the notes that got no usable proposal to the reason. `id` names the call: the same plan committed
    twice is applied once. `since` is the instant (as `seq`) at which the call began. `shown` are the wordings of notes,
    each by id and rev, that the model was shown: what was made of one that is corrected or deleted meanwhile is not
    written. `cost` is what the plan cost; `commit` writes it to the ledger.
    """

    id: Identity
    namespace: Namespace
    since: Count = 0
    notes: tuple[PlannedNote, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    shown: tuple[Wording, ...] = ()
    cost: tuple[ModelCall, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        plan: dict[str, Any] = adapter_of(Plan).dump_python(self, mode="json")
        return plan

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Plan:
        """Return the plan that `to_dict` gave.

        Raises:
            InvalidInputError: The data is no plan.
        """
        try:
            plan: Plan = adapter_of(Plan).validate_python(data)
        except ValidationError as error:
            raise InvalidInputError(f"this is no plan that propose gave: {error}") from error
        return plan


@dataclass(frozen=True, slots=True, kw_only=True)
class _Report:
    """What the reports have in common."""

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        values: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return values


@dataclass(frozen=True, slots=True, kw_only=True)
class EvolutionReport(_Report):
    """What an evolution did.

    Attributes:
        constructed: Ids of the notes that got their attributes.
        done: Ids of the notes that are now linked and finished.
        links: Number of links made.
        relinked: Number of links between earlier notes that were strengthened, weakened or removed.
        evolved: Ids of the earlier notes that were updated.
        superseded: Ids of the earlier notes that a new one replaced or contradicted.
        proposals: Ids of the changes that the gate stopped, or held back for a review; they wait in `proposals()`.
        failed: Ids of notes that could not be finished, and why; a later `evolve` tries them again, up to
            `MemoryConfig.max_attempts` times.
        dropped: Number of links, updates, supersessions and changes of links that named a note which was not
            shown, or a link that is not there.
        interrupted: Why it stopped before the end, if it did: a model that did not answer, or a limit of the
            day that is reached. What is unfinished stays so, and a later `evolve` goes on from there.
        limited: Whether it stopped at a limit of the day (`MemoryConfig.daily_calls`, `daily_tokens`).
    """

    constructed: tuple[str, ...] = ()
    done: tuple[str, ...] = ()
    links: int = 0
    relinked: int = 0
    evolved: tuple[str, ...] = ()
    superseded: tuple[str, ...] = ()
    proposals: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    dropped: int = 0
    interrupted: str | None = None
    limited: bool = False

    def __add__(self, other: EvolutionReport) -> EvolutionReport:
        """Return both reports as one."""
        return EvolutionReport(
            constructed=self.constructed + other.constructed,
            done=self.done + other.done,
            links=self.links + other.links,
            relinked=self.relinked + other.relinked,
            evolved=tuple(dict.fromkeys(self.evolved + other.evolved)),
            superseded=tuple(dict.fromkeys(self.superseded + other.superseded)),
            proposals=self.proposals + other.proposals,
            failed={**self.failed, **other.failed},
            dropped=self.dropped + other.dropped,
            interrupted=self.interrupted or other.interrupted,
            limited=self.limited or other.limited,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkReport(_Report):
    """What a worker did, in numbers, since it may run for months.

    Attributes:
        done: Notes linked and finished.
        links: Links made.
        evolved: Updates of earlier notes.
        superseded: Earlier notes that a new one replaced or contradicted.
        failed: Attempts without a usable answer.
        interrupted: Why the model did not answer the last time, if it did not.
    """

    done: int = 0
    links: int = 0
    evolved: int = 0
    superseded: int = 0
    failed: int = 0
    interrupted: str | None = None

    def __add__(self, report: EvolutionReport) -> WorkReport:
        """Return this with what else was done."""
        return WorkReport(
            done=self.done + len(report.done),
            links=self.links + report.links,
            evolved=self.evolved + len(report.evolved),
            superseded=self.superseded + len(report.superseded),
            failed=self.failed + len(report.failed),
            interrupted=None if report.done else report.interrupted or self.interrupted,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoReport(_Report):
    """What was taken back of several changes, or of all that a model did.

    Attributes:
        undone: Ids of the changes that were taken back, in this order: the last one first.
        changes: Ids of the changes that did so, in the same order; `undo` takes them all back.
        skipped: Ids of the changes that were left, and why: somebody else changed the same since, for example.
        rejected: Ids of the proposals that were taken off the list.
    """

    undone: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)
    rejected: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten(_Report):
    """What went with a note that was deleted.

    Attributes:
        entries: Ids of other notes that lost their keywords, tags and context, which were made of the text too.
        sentences: Ids of the notes that lost a sentence which a later note had added.
        reasons: Ids of the notes that lost a link or a supersession, or the reason of one.
        forms: Ids of the forms that lost their value; the next `fill` makes them anew.
        pending: How many notes the next `evolve` makes anew.
    """

    entries: tuple[str, ...] = ()
    sentences: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    forms: tuple[str, ...] = ()
    pending: int = 0


@cache
def adapter_of(kind: type[T]) -> TypeAdapter[T]:
    """Return what turns values into JSON values; it is made on first use, as that takes a while."""
    return TypeAdapter(kind)
