"""A wave: batches of several threads that are evolved together."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from ..decisions import Decision, Switch
from ..errors import ConfigurationError, ModelUnavailableError
from ..journal.history import toggle_all
from ..journal.writer import Writer, as_it_is
from ..notes import Attempts, Note
from ..plans import EvolutionReport
from ..ports import RecordQuery
from ..runtime import RULES, Runtime
from .ask import OpenCall, open_calls
from .candidates import first_vectors, turns_before
from .commit import commit, failures, link_decisions
from .construct import TURNS_BEFORE, Batch, Description, describe, entries
from .propose import Proposal, propose
from .sources import SourceFinder


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What was done with some notes: the notes as they are now, the report, and why it stopped, if it did."""

    notes: Mapping[str, Note] = field(default_factory=dict)
    report: EvolutionReport = field(default_factory=EvolutionReport)
    error: ModelUnavailableError | ConfigurationError | None = None


@dataclass(slots=True, kw_only=True)
class _Job:
    """A batch on its way: what was said of its notes, and the notes with their entries, of which nothing is written."""

    batch: Batch
    call: OpenCall
    said: Description = field(default_factory=Description)
    made: Sequence[Decision] = ()
    ready: Batch = field(default_factory=lambda: Batch(notes=()))
    proposal: Proposal = field(default_factory=Proposal)

    @property
    def error(self) -> ModelUnavailableError | ConfigurationError | None:
        return self.said.error or self.proposal.error


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
        await runtime.map(_construct, jobs, runtime.config.max_concurrency)
        if link:
            fresh = {note.id: note for job in jobs for note in job.ready.notes}
            if len(jobs) > 1:  # all at once, or the batches would each embed the notes of all
                with suppress(ModelUnavailableError, ConfigurationError):  # each batch says so
                    await first_vectors(runtime, fresh.values())

            async def linked(job: _Job) -> None:
                if job.ready.notes and job.error is None:
                    job.proposal = await propose(job.call, writer, job.ready, fresh)

            await runtime.map(linked, jobs, runtime.config.max_concurrency)
        outcome = Outcome(error=next((job.error for job in jobs if job.error), None))
        for job in jobs:
            if upgrade:  # before: whoever is killed between the two leaves notes that are pending
                await _switch_rules_off(writer, {decision.note for decision in job.made})
            done = await commit(job.call, writer, _decisions(job, failed=not upgrade))
            beside = EvolutionReport(dropped=sum(one.dropped for one in job.proposal.notes))
            if upgrade:
                beside = replace(beside, failed={**job.said.failed, **job.proposal.failed})
            outcome = replace(
                outcome,
                notes={**outcome.notes, **done.notes},
                report=outcome.report + done.report + beside,
            )
    return outcome


def _decisions(job: _Job, *, failed: bool) -> list[Decision]:
    """Return all that was decided about a batch."""
    proposal, notes = job.proposal, {note.id: note for note in job.ready.notes}
    made = [*job.made, *link_decisions(job.call, proposal.notes, {**proposal.shown, **notes})]
    reasons = {**job.said.failed, **proposal.failed}
    if failed and reasons:
        seen = SourceFinder().show([*job.batch.before, *job.batch.notes, *proposal.shown.values()])
        now_are = [notes.get(note.id, note) for note in job.batch.notes]
        made += failures(job.call, now_are, reasons, seen)
    return made


async def _construct(job: _Job) -> None:
    """Have the raw notes of a batch described."""
    raw = [note for note in job.batch.notes if note.own_entry is None]
    made: Mapping[str, tuple[Decision, Note]] = {}
    if raw:
        batch = replace(job.batch, notes=raw)
        job.said = await describe(job.call, batch)
        made = entries(job.call, batch, job.said.described)
        job.made = [decision for decision, _ in made.values()]
    notes = [made[note.id][1] if note.id in made else note for note in job.batch.notes]
    job.ready = replace(job.batch, notes=ready_notes(notes))


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
