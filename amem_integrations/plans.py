"""Values that the write path hands from step to step, and that travel as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime
from functools import cache
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, Field, FiniteFloat, TypeAdapter, ValidationError

from .decisions import Count, Item, ModelCall
from .errors import InvalidInputError
from .ids import SPELLING
from .kinds import Kind
from .notes import RELATIONS, Namespace, Wording

T = TypeVar("T")

# A plan may come back from a client: these values are checked when the plan is read.
MAX_RELATION_CHARS = 40
MAX_REASON_CHARS = 200
MAX_CHARS = 1000  # of a sentence
Share = Annotated[float, Field(ge=0, le=1)]
Identity = Annotated[str, Field(pattern=f"^{SPELLING}$")]

LinkChange = Literal["strengthen", "weaken", "remove"]
FOLLOWS = "follows"  # the relation of a turn to the one before it, where nothing more is known
ANSWERS = "answers"  # the relation of a reply to the question
REPEATS = "repeats"  # the relation of a note to an earlier one that says the same: recall shows one of them
HELD = "it waits for a review"  # why what passed the gate is not written, with `MemoryConfig(review=True)`


# An ISO 8601 text, or an empty one.
Time = Annotated[str, AfterValidator(lambda at: at and datetime.fromisoformat(at).isoformat())]


class ItemData(BaseModel, extra="forbid"):
    """The values of an item beside its text: some of these by its kind, and the reason why the item waits, if it does."""

    relation: str = Field("", max_length=MAX_RELATION_CHARS)
    strength: Share = 0.0
    before: Share = 0.0
    keywords: list[str] = []
    tags: list[str] = []
    similarity: FiniteFloat = 0.0
    change: LinkChange = "strengthen"
    kind: Kind = "statement"
    until: Time = ""
    form: str = ""
    read_to: int = 0
    expires_at: Time = ""
    stage: Literal["construct", "link"] = "construct"  # of a failure
    why: str = ""


def check_item(item: Item, *, strict: bool = False) -> dict[str, Any]:
    """Return the values of an item of which a view can be made.

    Raises:
        ValueError: There can be none.
    """
    data = ItemData.model_validate(item.data, strict=strict).model_dump(exclude_unset=True)
    if item.kind == "supersession" and data.get("relation") not in RELATIONS:
        raise ValueError(f"the relation of a supersession is one of {', '.join(RELATIONS)}")
    if item.kind == "relink" and "strength" not in data:
        raise ValueError("another strength of a link has a strength")
    return data


def _as_proposed(item: Item) -> Item:
    """Return an item of a plan that somebody may have edited, as `propose` could have made the item.

    Raises:
        ValueError: No plan has such an item.
    """
    data = check_item(item)
    if item.kind not in ("link", "sentence", "supersession", "relink"):
        raise ValueError(f"a plan has no item of kind {item.kind!r}")
    most = MAX_CHARS if item.kind == "sentence" else MAX_REASON_CHARS
    if len(item.text) > most:
        raise ValueError(f"the text or reason of a {item.kind} has more than {most} characters")
    return replace(item, data=data, log=()).judged(data.get("why"))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedNote:
    """The proposals for one new note.

    `items` are the links, sentences for earlier notes, supersessions and changes of links that `commit` writes as one
    decision, each by the id of the change that it will be. What the gate or a review holds back says `why` in its data.
    `rev` is the wording that this was proposed for, `attempt` which try it is: a plan for what has been corrected since
    is out of date, and of several plans for one try the first that is committed counts.
    """

    id: Identity
    rev: Count
    attempt: Count
    items: Mapping[str, Annotated[Item, AfterValidator(_as_proposed)]] = field(default_factory=dict)
    dropped: Count = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Links and sentences proposed for some notes; nothing of it is written until `commit`.

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

    @property
    def items(self) -> dict[str, Item]:
        """All proposals, by the ids that `answers` of `commit` takes."""
        return {key: item for note in self.notes for key, item in note.items.items()}

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
    """The base class of the reports."""

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        values: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return values


@dataclass(frozen=True, slots=True, kw_only=True)
class EvolutionReport(_Report):
    """The result of an evolution.

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
        names = [one.name for one in fields(self)]
        return EvolutionReport(
            **{name: _both(getattr(self, name), getattr(other, name)) for name in names}
        )


def _both(one: Any, other: Any) -> Any:  # noqa: ANN401 - a value of any field of a report
    """Return the value of a report on two pieces of work: ids once each, numbers as their sum, else what is known first."""
    match one:
        case tuple():
            return tuple(dict.fromkeys(one + other))
        case Mapping():
            return {**one, **other}
        case bool() | str() | None:
            return one or other
        case _:
            return one + other


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkReport(_Report):
    """The result of a worker, in numbers, since a worker may run for months.

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
        """Return the report of this work and of some more."""
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
    """The result of undoing several changes, or all changes of a model.

    Attributes:
        undone: Ids of the changes that were taken back, in this order: what was decided, then what was edited, each the last
            one first.
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
    """The traces that went with a deleted note.

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
    """Return the adapter that checks values of a kind and turns them into JSON and back; its first use takes a while."""
    return TypeAdapter(kind)
