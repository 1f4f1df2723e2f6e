"""A wave: batches of several threads that are evolved together, and what was decided about a batch is written."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from ..decisions import Decision, Item, Switch
from ..errors import ConfigurationError, ModelUnavailableError
from ..journal.commit import commit as write
from ..journal.history import toggle_all
from ..journal.writer import Writer, as_it_is
from ..notes import Attempts, Note, storable
from ..plans import EvolutionReport, PlannedNote
from ..ports import RecordQuery
from ..runtime import RULES, Runtime
from .ask import OpenCall, open_calls
from .candidates import first_vectors, turns_before
from .construct import TURNS_BEFORE, Batch, construct, with_entry
from .linking import link_decisions, propose

log = logging.getLogger("amem_integrations")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of work on some notes: the notes as they are now, the report, and the reason of a stop."""

    notes: Mapping[str, Note] = field(default_factory=dict)
    report: EvolutionReport = field(default_factory=EvolutionReport)
    error: ModelUnavailableError | ConfigurationError | None = None

    def __add__(self, other: Outcome) -> Outcome:
        """Return the outcome of this work followed by the other's."""
        notes, report = {**self.notes, **other.notes}, self.report + other.report
        return Outcome(notes=notes, report=report, error=self.error or other.error)


@dataclass(slots=True, kw_only=True)
class _Job:
    """A batch on its way, of which nothing is written.

    Attributes:
        batch: The notes, with the entries that were made.
        entries: The decisions that give notes their entries.
        plans: What is proposed for the notes.
        about: The notes that `plans` are about.
    """

    batch: Batch
    call: OpenCall
    entries: Collection[Decision] = ()
    plans: Sequence[PlannedNote] = ()
    about: Mapping[str, Note] = field(default_factory=dict)

    @property
    def ready(self) -> Sequence[Note]:
        """The notes that wait for their links."""
        return ready_notes(self.batch.notes)

    async def construct(self) -> None:
        """Have the notes that are raw described."""
        raw = [note for note in self.batch.notes if note.own_entry is None]
        made = await construct(self.call, replace(self.batch, notes=raw)) if raw else {}
        self.entries = made.values()
        notes = [with_entry(n, made[n.id]) if n.id in made else n for n in self.batch.notes]
        self.batch = replace(self.batch, notes=notes)

    async def link(self, writer: Writer, fresh: Mapping[str, Note]) -> None:
        """Have it said what the notes belong with."""
        with self.call.noting_errors():
            batch = replace(self.batch, notes=self.ready)
            self.plans, self.about = await propose(self.call, writer, batch, fresh)


async def evolve_wave(
    runtime: Runtime,
    writer: Writer,
    wave: Sequence[Batch],
    *,
    link: bool = True,
    upgrade: bool = False,
) -> Outcome:
    """Construct what is raw, then link, and write both in one commit a batch, in order.

    Where the model does not answer about the links, the entries are written alone. The batches of a wave are asked about
    together, so they do not see what each other evolved.

    Args:
        runtime: The ports.
        writer: Writes the decisions.
        wave: The batches.
        link: Whether the notes are linked too.
        upgrade: Whether the answers take the place of what rules decided. A note without a usable answer then stays as it
            is, where it else counts as failed.
    """
    async with open_calls(runtime, writer.namespace, len(wave)) as calls:
        jobs = [_Job(batch=batch, call=call) for batch, call in zip(wave, calls, strict=True)]
        width, outcome = runtime.config.max_concurrency, Outcome()
        await runtime.map(_Job.construct, jobs, width)
        if link:
            await _link(runtime, writer, jobs)
        for job in jobs:
            call, decisions = job.call, list(job.entries)
            decisions += link_decisions(call, job.plans, job.about)
            beside = EvolutionReport(dropped=sum(one.dropped for one in job.plans))
            if upgrade:  # before: whoever is killed between the two leaves notes that are pending
                await _switch_rules_off(writer, {decision.note for decision in job.entries})
                beside = replace(beside, failed=dict(call.failed))
            else:
                decisions += failures(call, job.batch.notes)
            done = await commit(call, writer, decisions)
            outcome += Outcome(notes=done.notes, report=done.report + beside, error=call.error)
    return outcome


async def _link(runtime: Runtime, writer: Writer, jobs: Sequence[_Job]) -> None:
    fresh = {note.id: note for job in jobs for note in job.ready}
    if len(jobs) > 1:  # all at once, or the batches would each embed the notes of all
        with suppress(ModelUnavailableError, ConfigurationError):  # each batch says so
            await first_vectors(runtime, fresh.values())

    async def linked(job: _Job) -> None:
        await job.link(writer, fresh)

    ready = [job for job in jobs if job.ready and job.call.error is None]
    await runtime.map(linked, ready, runtime.config.max_concurrency)


async def commit(call: OpenCall, writer: Writer, decisions: Sequence[Decision]) -> Outcome:
    """Write what a call decided; what was decided before, or was made of a text that is gone, is left out."""
    if not decisions:
        return Outcome()
    call.is_written = True
    made = await write(writer, call.record(), decisions)
    notes = {i: one.note for i, one in made.notes.items() if one.note is not None}
    inserted = sorted(made.decisions.values(), key=lambda one: one.seq)
    standing = [one for one in inserted if not one.void]
    for one in standing:
        if one.stage == "failure":
            log.warning("note %s could not be finished: %s", one.note, one.items[0].text)
            times = notes[one.note].attempts if one.note in notes else 0
            if times >= call.runtime.config.max_attempts:
                log.warning("it failed %d times; only evolve(retry=True) tries it again", times)
    return Outcome(notes=notes, report=_report(standing))


def _report(decisions: Sequence[Decision]) -> EvolutionReport:
    """Return the report of the changes that decisions made."""
    items = [(one, item) for one in decisions for item in one.items]
    on = [item for _, item in items if item.is_on]
    targets = {
        kind: [item.to for item in on if item.kind == kind]
        for kind in ("link", "relink", "sentence", "supersession")
    }
    return EvolutionReport(
        constructed=tuple(one.note for one in decisions if one.stage == "construct"),
        done=tuple(one.note for one in decisions if one.stage == "link"),
        links=len(targets["link"]),
        relinked=len(targets["relink"]),
        evolved=tuple(dict.fromkeys(targets["sentence"])),
        superseded=tuple(dict.fromkeys(targets["supersession"])),
        proposals=tuple(f"{o.id}:{i.number}" for o, i in items if i.switch == "waiting"),
        failed={one.note: item.text for one, item in items if item.kind == "failure"},
    )


def failures(call: OpenCall, notes: Sequence[Note]) -> list[Decision]:
    """Return the decisions that say why notes could not be finished; a reason may quote what was shown."""
    made = []
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
            made.append(call.decide(note, "failure", [item]))
    return made


async def upgrade_wave(runtime: Runtime, writer: Writer, wave: Sequence[Batch]) -> Outcome:
    """Construct and link anew what was made by rules; a note for which the model has no answer keeps what it has."""
    bared = [replace(batch, notes=[_bared(note) for note in batch.notes]) for batch in wave]
    made = await evolve_wave(runtime, writer, bared, upgrade=True)
    return made if made.report.constructed else replace(made, notes={})


def _bared(note: Note) -> Note:
    """Return a note without what rules made of it, as the next attempt is to see it."""
    construct, link, failure = note.next_attempts
    return note.revised(
        contexts=tuple(entry for entry in note.contexts if entry.cause != note.id),
        links={},
        state="pending",
        next_attempts=Attempts(construct + 1, link + 1, failure),
    )


def ready_notes(notes: Sequence[Note]) -> list[Note]:
    """Return the notes that wait for their links."""
    return [note for note in notes if note.own_entry is not None and note.state != "done"]


async def batch_of(runtime: Runtime, writer: Writer, notes: Sequence[Note]) -> Batch:
    """Return some notes of one thread, with the turns before them."""
    count = max(TURNS_BEFORE, runtime.config.recent)
    before = await turns_before(runtime, writer.namespace, notes[0], count)
    return Batch(notes=notes, before=before)


async def _switch_rules_off(writer: Writer, ids: Collection[str]) -> None:
    """Switch off all that rules decided for these notes, what waited for a person too."""
    query = RecordQuery(about=frozenset(ids), newest=1)  # and the notes' own decisions
    own = {key: one for key, one in (await writer.decisions(query)).items() if one.note in ids}
    places: dict[tuple[str, int], Switch] = {
        (key, item.number): "off"
        for key, one in own.items()
        for item in one.items
        if item.by == RULES and item.switch in ("on", "waiting")
    }
    # The answers that are written next give the notes other texts: only these are embedded.
    unembedded = replace(writer, embed=as_it_is)
    await toggle_all(unembedded, places, {key: own[key] for key, _ in places})
