"""Construct: keywords, tags and a context for new notes (Eq. 2 of the paper)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby

from ..changes.edits import (
    Edit,
    change,
    entry_data,
    fail,
    prompt_records,
    stated,
    usage_records,
)
from ..changes.rewrite import rewrite
from ..errors import ModelReplyError, ModelUnavailableError
from ..ids import clock, end_of, new_operation, now
from ..kinds import Kind
from ..notes import Change, ContextEntry, Namespace, Note, storable
from ..plans import EvolutionReport
from ..prompts.replies import ConstructReply, NoteAttributes
from ..runtime import Runtime
from ..texts import MAX_KEYWORDS, MAX_TAGS, clean_words, count_tokens
from .ask import RefusedError, ask, counting, fits
from .gate import MAX_CHARS
from .show import aliases, bare, raw, speakers, turns

log = logging.getLogger("amem_integrations")


async def mark_failed(
    runtime: Runtime,
    namespace: Namespace,
    reasons: Mapping[str, str],
    op: str,
    base: Mapping[str, Note] | None = None,
    records: Sequence[Change] = (),
) -> None:
    """Record why notes could not be finished, together with `records`; what is known of them stays."""
    if not (reasons or records):
        return
    at = now()
    reasons = {note_id: storable(reason) for note_id, reason in reasons.items()}
    failures = {note_id: fail(reason, op, at) for note_id, reason in reasons.items()}
    done = await rewrite(runtime, namespace, f"{op}:failed", failures, base=base, records=records)
    for note_id, reason in reasons.items():
        log.warning("note %s could not be finished: %s", note_id, reason)
        note = done.notes.get(note_id)
        if note is not None and note.attempts >= runtime.config.max_attempts:
            log.warning("it failed %d times; only evolve(retry=True) tries it again", note.attempts)


# Of the thread before the batch as many turns are shown as fit, so that "the other one" and "yes" can be resolved.
TURNS_BEFORE = 24
TOKENS_BEFORE = 250
REPLY_TOKENS = 100  # for a note
FILLER_TOKENS = 30  # a longer note is linked, whatever a model holds of it
MAX_CONTEXT_WORDS = 80
LEFT_OUT = "the model left it out"

Part = list[Note]  # some notes of one thread, in order of seq


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """New notes of one thread in order of seq, and the turns before them, oldest first."""

    notes: Sequence[Note]
    before: Sequence[Note] = ()

    @property
    def shown_before(self) -> Sequence[Note]:
        """The turns that are shown to the model: the last ones that fit, and one in any case."""
        left = TOKENS_BEFORE
        for count, turn in enumerate(reversed(self.before)):
            left -= count_tokens(turn.content)
            if left < 0:
                return self.before[-max(count, 1) :]
        return self.before


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """What a model says of a note: of filler no attributes."""

    attributes: NoteAttributes
    kind: Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What a model says of a batch: by note id of each note, or why nothing is known of it.

    `error` is why it did not answer.
    """

    described: Mapping[str, Described] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    error: ModelUnavailableError | None = None

    def __add__(self, other: Description) -> Description:
        """Return what is said of both of two batches."""
        return Description(
            described={**self.described, **other.described},
            failed={**self.failed, **other.failed},
            error=self.error or other.error,
        )


def in_parts(notes: Sequence[Note], size: int) -> list[Part]:
    """Return the notes in batches of one thread, in order of seq: as few as possible, and of about the same size.

    A note that failed before goes alone, so that it cannot fail others again.
    """
    ordered = sorted(notes, key=lambda note: (note.thread or "", note.attempts > 0, note.seq))
    made: list[Part] = []
    for (_, retried), group in groupby(ordered, key=lambda n: (n.thread or "", n.attempts > 0)):
        alike = list(group)
        step = 1 if retried else _even(len(alike), size)
        made += [alike[i : i + step] for i in range(0, len(alike), step)]
    return sorted(made, key=lambda batch: batch[0].seq)


def _even(count: int, size: int) -> int:
    """Return how many go into a batch, so that the last one is not much smaller than the others."""
    parts = -(-count // size)
    return -(-count // parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What was done with some notes: the notes as they are now, the report, and why it stopped, if it did.

    `ops` are the operations by which it was written.
    """

    notes: dict[str, Note] = field(default_factory=dict)
    report: EvolutionReport = field(default_factory=EvolutionReport)
    error: ModelUnavailableError | None = None
    ops: tuple[str, ...] = ()


async def construct_all(
    runtime: Runtime, namespace: Namespace, batches: Sequence[Batch]
) -> Outcome:
    """Give notes their attributes; what was answered is written, also if a batch got no answer.

    A note without a usable answer is marked failed.

    Raises:
        ModelUnavailableError: The embedder failed.
    """
    op, since, at = new_operation(), clock.tick(), now()
    async with counting(runtime, namespace, op, at) as asking:

        async def one(batch: Batch) -> Description:
            try:
                return await describe(asking, batch)
            except ModelUnavailableError as error:
                return Description(error=error)

        answers = await runtime.map(one, batches, runtime.config.max_concurrency)
        await runtime.confirm_hold()
        said, model = sum(answers, Description()), runtime.model_name
        given = {note.id: note for batch in batches for note in batch.notes}
        steps = {
            note_id: apply(one, given[note_id], model=model, op=op, at=at)
            for note_id, one in said.described.items()
        }
        cost = usage_records(op, namespace, asking.usage.cost(), at)
        shown = shown_ids(batches)
        prompts = prompt_records(op, namespace, shown, at, since=since)
        records = [*prompts, *cost] if steps else []
        done = await rewrite(runtime, namespace, op, steps, base=given, records=records)
        left = [] if steps else cost
        await mark_failed(runtime, namespace, said.failed, op, base=given, records=left)
    unusable = {
        made.note_id: made.data["reason"] for made in done.changes if made.kind == "failure"
    }
    made = tuple(c.note_id for c in done.changes if c.kind == "construct")
    return Outcome(
        notes=done.notes,
        report=EvolutionReport(constructed=made, failed={**said.failed, **unusable}),
        error=said.error,
        ops=(op,),
    )


def shown_ids(batches: Sequence[Batch]) -> list[str]:
    """Return the notes that a model is shown with batches."""
    return [note.id for batch in batches for note in (*batch.shown_before, *batch.notes)]


async def describe(runtime: Runtime, batch: Batch) -> Description:
    """Return what the model says of each note.

    Raises:
        ModelUnavailableError: No reply.
    """
    alias = aliases(batch.notes, "n")
    notes = {alias[note.id]: note for note in batch.notes}
    values, tokens = _values(batch, alias), REPLY_TOKENS * (len(batch.notes) + 1)
    if not fits(runtime, "construct", values, tokens):
        if len(batch.notes) > 1:
            return await _in_halves(runtime, batch)
        if batch.before:
            return await describe(runtime, replace(batch, before=batch.before[1:]))

    def missing(reply: ConstructReply) -> str | None:
        said = {item.id for item in reply.notes}
        left = [name for name in notes if name not in said.union(map(bare, reply.filler))]
        return f"there is no entry for {', '.join(left)}" if left else None

    try:
        reply = await ask(
            runtime,
            "construct",
            ConstructReply,
            namespace=batch.notes[0].namespace,
            inputs={
                "notes": [raw(note, name) for name, note in notes.items()],
                "before": [raw(note) for note in batch.shown_before],
            },
            values=values,
            problem_with=missing,
        )
    except ModelReplyError as error:
        if isinstance(error, RefusedError) and len(batch.notes) > 1:
            return await _in_halves(runtime, batch)
        return Description(failed={note.id: str(error) for note in batch.notes})
    found = {note.id: _described(reply, name, note) for name, note in notes.items()}
    made = {note_id: one for note_id, one in found.items() if one is not None}
    runtime.usage.count("construct", dropped=_unknown(reply, notes))
    left = {note.id: LEFT_OUT for note in batch.notes if note.id not in made}
    return Description(described=made, failed=left)


def _values(batch: Batch, alias: Mapping[str, str]) -> dict[str, str]:
    return {
        "speakers": speakers([*batch.shown_before, *batch.notes]),
        "before": turns(batch.shown_before),
        "notes": turns(batch.notes, alias),
    }


async def _in_halves(runtime: Runtime, batch: Batch) -> Description:
    """Ask about a batch in two calls: together it is too long for the model."""
    middle = len(batch.notes) // 2
    first, second = batch.notes[:middle], batch.notes[middle:]
    before = [*batch.before, *first]
    made = await describe(runtime, replace(batch, notes=first))
    return made + await describe(runtime, replace(batch, notes=second, before=before))


def _described(reply: ConstructReply, name: str, note: Note) -> Described | None:
    """Return what a reply says of the note with an alias."""
    attributes = next((item for item in reply.notes if item.id == name), None)
    if attributes is not None:
        says = attributes.context or attributes.keywords or attributes.tags
        asks = name in map(bare, reply.questions) or note.kind == "question"
        kind: Kind = "question" if asks else "statement" if says else note.kind
        return Described(attributes=attributes, kind=kind)
    if name not in map(bare, reply.filler):
        return None
    kind = "filler" if count_tokens(note.content) <= FILLER_TOKENS else "statement"
    return Described(attributes=NoteAttributes(id=name), kind=kind)


def _unknown(reply: ConstructReply, notes: Mapping[str, Note]) -> int:
    """Return how many entries of a reply are of no note, or of one that has another."""
    ids = [*(item.id for item in reply.notes), *set(map(bare, reply.filler))]
    return len(ids) - len(set(ids) & set(notes))


def apply(described: Described, asked: Note, *, model: str, op: str, at: datetime) -> Edit:
    """Return the edit that gives a note its attributes and kind, if it still says what was asked about."""
    attributes = described.attributes

    def edit(note: Note) -> tuple[Note, list[Change]]:
        if note.own_entry is not None or stated(note) != stated(asked):
            return note, []
        made = change(op, "construct", note, model=model, recorded_at=at)
        entry = ContextEntry(
            text=" ".join(attributes.context.split()[:MAX_CONTEXT_WORDS])[:MAX_CHARS],
            keywords=clean_words(attributes.keywords, MAX_KEYWORDS),
            tags=clean_words(attributes.tags, MAX_TAGS),
            cause=note.id,
            model=model,
            change=made.id,
            at=note.when,
            recorded_at=at,
            until=end_of(attributes.until, note.when),
        )
        contexts = (entry, *note.contexts)
        revised = note.revised(
            contexts=contexts, kind=described.kind, state="constructed", failure=None, attempts=0
        )
        return revised, [made.with_data(entry=entry_data(entry))]

    return edit
