"""The work on one batch while it goes on: what a model was shown, what its answers cost, what was decided, and the writing of that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from ..decisions import Call, Decision, Item, ItemKind, ModelCall, Stage, slot_id
from ..errors import ConfigurationError, ModelUnavailableError, StoreError
from ..ids import new_operation, new_token
from ..journal.commit import commit
from ..journal.writer import Writer
from ..notes import Namespace, Note, Wording, storable
from ..plans import EvolutionReport, PlannedNote
from ..runtime import Runtime, log, resolve
from .sources import SourceFinder


@dataclass(slots=True)
class OpenCall:
    """The work on one batch while it goes on: what the model was shown, what its answers cost, and what went wrong.

    Attributes:
        notes: The new notes that are worked on, of one thread, in order of seq, with their entries as soon as they have
            some; none for a form.
        before: The turns before them, oldest first.
        shown: The wordings that the model was shown.
        seen: Finds among what the model was shown the texts that an answer was made of.
        cost: The calls of the model that were answered.
        failed: By note id, why the model gave nothing usable about a note.
        error: Why the model or the embedder did not answer about all notes, if it did not.
        plans: The links and updates that are proposed for the notes.
        about: By id, the notes that the plans are about.
        decisions: What was decided so far, and is to be written.
        report: What of that was written.
        written: By id, the notes as they are then.
    """

    runtime: Runtime
    namespace: Namespace
    notes: Sequence[Note] = ()
    before: Sequence[Note] = ()
    id: str = field(default_factory=new_operation)
    seq: int = 0
    shown: set[Wording] = field(default_factory=set)
    seen: SourceFinder = field(default_factory=SourceFinder)
    cost: list[ModelCall] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    error: ModelUnavailableError | ConfigurationError | None = None
    plans: Sequence[PlannedNote] = ()
    about: Mapping[str, Note] = field(default_factory=dict)
    decisions: list[Decision] = field(default_factory=list)
    report: EvolutionReport = field(default_factory=EvolutionReport)
    written: Mapping[str, Note] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Begin at the present of the memory, if no other instant is given."""
        self.seq = self.seq or self.runtime.clock.tick()

    def record(self) -> Call:
        """Return the call as it is written with its decisions."""
        return Call(
            id=self.id,
            token=new_token(),
            namespace=self.namespace,
            by=self.runtime.model_name,
            seq=self.seq,
            shown=tuple(sorted(self.shown)),
            cost=tuple(self.cost),
        )

    def decide(
        self, note: Note | Wording, stage: Stage, items: Iterable[Item], attempt: int = 0
    ) -> Decision:
        """Return one decision: the items that the call gives a wording of a note, or a form.

        `attempt` is that of a form; a note knows its own.
        """
        if isinstance(note, Note):
            attempt = getattr(note.next_attempts, stage)
        return Decision(
            id=slot_id(note.id, stage, note.rev, attempt),
            token=new_token(),
            namespace=self.namespace,
            call=self.id,
            note=note.id,
            rev=note.rev,
            stage=stage,
            attempt=attempt,
            seq=self.runtime.clock.tick(),
            at=note.when if isinstance(note, Note) else self.runtime.clock.now(),
            items=tuple(items),
        )

    async def take(self, step: Callable[..., Awaitable[object]], *given: object) -> None:
        """Take a step; if the model does not answer, such as with a key that was revoked, take no further ones."""
        if self.error is None:
            try:
                await step(self, *given)
            except (ModelUnavailableError, ConfigurationError) as error:
                self.error = error


@asynccontextmanager
async def charged(calls: Sequence[OpenCall]) -> AsyncIterator[None]:
    """After an error, write each call with its cost, if it is not there.

    Of a write that was made in part the decisions may be there; without their call they would lose their texts.
    """
    try:
        yield
    except (Exception, asyncio.CancelledError, KeyboardInterrupt):
        with suppress(StoreError):  # the caller is told what failed first
            await _write_costs(calls)
        raise


async def _write_costs(calls: Sequence[OpenCall]) -> None:
    """Write calls of a namespace with their costs, those that are not there, and without decisions, by one request."""
    if left := [call for call in calls if call.cost]:
        store, records = left[0].runtime.store, [call.record() for call in left]
        await resolve(store.insert_records(left[0].namespace, records))


async def write_call(call: OpenCall, writer: Writer) -> None:
    """Write the decisions of a call, but those that were made before or that rest on a text that is gone."""
    if not call.decisions:
        await _write_costs([call])
        return
    made = await commit(writer, call.record(), call.decisions)
    call.written = {i: one.note for i, one in made.notes.items() if one.note is not None}
    inserted = sorted(made.decisions.values(), key=lambda one: one.seq)
    report = _report([one for one in inserted if not one.void])
    call.report += report
    for note_id, why in report.failed.items():
        log.warning("note %s could not be finished: %s", note_id, why)
        times = call.written[note_id].attempts if note_id in call.written else 0
        if times >= call.runtime.config.max_attempts:
            log.warning("it failed %d times; only evolve(retry=True) tries it again", times)


def _report(decisions: Sequence[Decision]) -> EvolutionReport:
    """Return the report of the changes that decisions made."""
    items = [(one, item) for one in decisions for item in one.items]

    def ends(kind: ItemKind) -> list[str]:
        return [item.to for _, item in items if item.is_on and item.kind == kind]

    return EvolutionReport(
        constructed=tuple(one.note for one in decisions if one.stage == "construct"),
        done=tuple(one.note for one in decisions if one.stage == "link"),
        links=len(ends("link")),
        relinked=len(ends("relink")),
        evolved=tuple(dict.fromkeys(ends("sentence"))),
        superseded=tuple(dict.fromkeys(ends("supersession"))),
        proposals=tuple(f"{o.id}:{i.number}" for o, i in items if i.switch == "waiting"),
        failed={one.note: item.text for one, item in items if item.kind == "failure"},
    )


def decide_failures(call: OpenCall, notes: Iterable[Note]) -> None:
    """Decide that notes could not be finished, and why; a reason may quote what was shown."""
    for note in notes:
        if note.id in call.failed:
            text = storable(call.failed[note.id])
            item = Item(
                kind="failure",
                to=note.id,
                by=call.runtime.model_name,
                text=text,
                sources=call.seen.sources_of([text], [note]),
                data={"stage": "construct" if note.own_entry is None else "link"},
            )
            call.decisions.append(call.decide(note, "failure", [item]))
