"""Decisions about notes: calls, decisions and their items, as frozen values.

A *decision* is what one call decided about one note. A *call* is the record of the work on one batch, by a model, by
the rules or by the user. Both are written once, beside the notes; what a note shows is the fold of its decisions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from .ids import derive
from .notes import Namespace, Wording

Stage = Literal["construct", "link", "form", "user", "failure"]
Switch = Literal["on", "off", "waiting", "rejected"]
Count = Annotated[int, Field(ge=0, lt=2**63)]
ItemKind = Literal["entry", "sentence", "link", "relink", "supersession", "form", "failure"]

# Phases of a decision. A decision is shown from the moment on at which its sources have been looked at.
WRITTEN, VISIBLE, SETTLED = 2, 1, 0


class Flip(NamedTuple):
    """One line of the log of a switch: who set the switch to what, by which write."""

    switch: Switch
    by: str
    seq: int
    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One thing that was decided, which can be switched off and on by itself.

    Attributes:
        kind: `entry` (keywords, tags and context of the note), `sentence` (an addition to the note `to`, Eq. 7), `link`
            (between the note and `to`), `relink` (another strength of the link between `other` and `to`),
            `supersession` (the note takes the place of `to`), `form` or `failure`.
        to: The id of the note that the item is for.
        text: A context, a sentence, the reason of a link, a supersession or a failure, or the JSON of a form.
        sources: The wordings that the text was made of.
        by: The model that decided, `"rules"` or `"user"`.
        number: The number of the item among those of its decision, which stays when others go.
        data: What else the kind has; `plans.ItemData` checks the values. Of an entry: keywords, tags, kind, until; of a
            sentence: keywords, tags, similarity; of a link: relation, strength; of a relink: strength, before, change;
            of a supersession: relation; of a form: form, read_to, expires_at; of a failure: stage; of any: why it waits.
        log: How the switch was set since, oldest first.
    """

    kind: ItemKind
    to: str
    by: str
    number: int = 0
    text: str = ""
    other: str = ""
    sources: tuple[Wording, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    switch: Switch = "on"
    log: tuple[Flip, ...] = ()

    @property
    def is_on(self) -> bool:
        """Whether the item counts."""
        return self.switch == "on"

    @property
    def switched_at(self) -> int:
        """The seq of the last flip; 0 if the switch stands as it was made."""
        return self.log[-1].seq if self.log else 0

    @property
    def first_switch(self) -> Switch:
        """How the switch was set when the item was made: what the gate or a review held back says why."""
        return "waiting" if "why" in self.data else "on"

    def judged(self, why: str | None, switch: Switch = "waiting") -> Item:
        """Return the item as it is when it is made: on, or because of `why` as `switch` says."""
        data = {name: value for name, value in self.data.items() if name != "why"}
        if why:
            return replace(self, data={**data, "why": why}, switch=switch)
        return replace(self, data=data, switch="on")

    def as_logged(self, log: tuple[Flip, ...]) -> Item:
        """Return the item with another log, and its switch as the log says."""
        return replace(self, switch=log[-1].switch if log else self.first_switch, log=log)

    def flipped(self, flip: Flip, **edits: Any) -> Item:  # noqa: ANN401 - any field
        """Return the item with its switch set anew, and with what a reviewer has edited."""
        return replace(self, switch=flip.switch, log=(*self.log, flip), **edits)


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One answered call of a model: for which task, and what it cost in tokens."""

    task: str
    input_tokens: Count = 0
    output_tokens: Count = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The record of the work on one batch: who was asked, what it cost, and which wordings were shown.

    Attributes:
        shown: Every wording that was in front of whoever decided.
        cost: The calls of the model that were answered.
    """

    id: str
    token: str
    namespace: Namespace
    by: str
    seq: int
    shown: tuple[Wording, ...] = ()
    cost: tuple[ModelCall, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The decision of one call about one note.

    Attributes:
        id: A slot (see `slot_id`) for a model and the rules, an id of its own for the user.
        token: New with every write of the decision.
        call: The id of the call; without a stored call the decision is void.
        note: The id of the note; of a form, the id of the form.
        rev: The revision of the note's wording.
        stage: What was decided: attributes, links (with sentences and supersessions), a form, the user's, a failure.
        attempt: Which try of this stage for this wording it is.
        at: The event time of the note.
        seq: The order among all decisions.
        about: The ids of the notes on which the decision shows or has shown, sorted; a form shows on none.
        sources: The wordings that the texts of the items are or were made of, sorted. Both stay when items go, so that
            whoever finds a redaction half done can finish it.
        void: Whether nothing of the decision holds any more, since its text is gone.
        phase: `WRITTEN`, `VISIBLE` or `SETTLED`.
    """

    id: str
    token: str
    namespace: Namespace
    call: str
    note: str
    rev: int
    stage: Stage
    seq: int
    at: datetime
    attempt: int = 0
    items: tuple[Item, ...] = ()
    about: tuple[str, ...] = ()
    sources: tuple[Wording, ...] = ()
    void: bool = False
    phase: int = WRITTEN

    def __post_init__(self) -> None:
        """Name every note on which an item shows, and every wording of which a text was made."""
        ends = {end for item in self.items for end in (item.to, item.other) if end}
        shows_on = set() if self.stage == "form" else {self.note, *ends}
        made_of = {source for item in self.items for source in item.sources}
        object.__setattr__(self, "about", tuple(sorted(shows_on.union(self.about))))
        object.__setattr__(self, "sources", tuple(sorted(made_of.union(self.sources))))

    @property
    def shows(self) -> bool:
        """Whether the decision counts in a view: its sources were looked at, and it is not void."""
        return not self.void and self.phase != WRITTEN

    @property
    def supersedes(self) -> bool:
        """Whether a note takes the place of another by the decision, whether that is switched on or not."""
        return any(item.kind == "supersession" for item in self.items)

    @property
    def is_off(self) -> bool:
        """Whether everything in the decision was switched off, or its text is gone."""
        return all(item.switch == "off" for item in self.items)

    @property
    def waits(self) -> bool:
        """Whether an item waits for a review."""
        return any(item.switch == "waiting" for item in self.items)

    def item(self, number: int) -> Item | None:
        """Return the item with a number; None: the item is gone."""
        return next((item for item in self.items if item.number == number), None)

    def has_flip(self, token: str) -> bool:
        """Return whether a switch of the decision was set by the write with this token."""
        return any(flip.token == token for item in self.items for flip in item.log)

    def voided(self) -> Decision:
        """Return the decision without anything that it said."""
        return replace(self, items=(), void=True)

    def with_items(self, change: Callable[[Item], Item | None]) -> Decision:
        """Return the decision with each item changed; None leaves an item out."""
        changed = (change(item) for item in self.items)
        return replace(self, items=tuple(item for item in changed if item is not None))


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A lease: the worker of a thread and the end of its time, by the clock of the holder.

    Attributes:
        id: See `lease_id`.
        token: New with every write.
        thread: The thread; None stands for all notes without one.
        holder: Who works; empty: nobody.
        until: When the lease ends, unless it is prolonged.
    """

    id: str
    token: str
    namespace: Namespace
    thread: str | None
    holder: str
    until: datetime


Record = Call | Decision | Lease


def slot_id(note: str, stage: Stage, rev: int, attempt: int) -> str:
    """Return the id of a decision by a model or the rules: the first writer takes the slot."""
    return derive("slot", note, stage, rev, attempt)


def lease_id(namespace: Namespace, thread: str | None) -> str:
    """Return the id of the lease of a thread."""
    return derive("lease", namespace, thread)


def form_id(namespace: Namespace, name: str) -> str:
    """Return the id by which a form is read; a form has no note."""
    return derive("form", namespace, name)


def by_note(decisions: Iterable[Decision]) -> Mapping[str, list[Decision]]:
    """Return the decisions about each note that some are about; none about another note."""
    about = defaultdict[str, list[Decision]](list)
    for decision in decisions:
        for note_id in decision.about:
            about[note_id].append(decision)
    return about


def sources_of(decisions: Iterable[Decision]) -> set[Wording]:
    """Return all wordings that some decisions were made of."""
    return {source for decision in decisions for source in decision.sources}
