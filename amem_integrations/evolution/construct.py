"""Construct: keywords, tags and a context for new notes (Eq. 2 of the paper)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
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
from ..ids import new_operation, now
from ..notes import Change, ContextEntry, Namespace, Note
from ..plans import EvolutionReport
from ..prompts import ConstructReply, NoteAttributes
from ..runtime import Runtime
from ..texts import MAX_KEYWORDS, MAX_TAGS, clean_words
from .ask import aliases, ask, counting, line, lines, raw

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
    failures = {note_id: fail(reason, op, at) for note_id, reason in reasons.items()}
    done = await rewrite(runtime, namespace, f"{op}:failed", failures, base=base, records=records)
    for note_id, reason in reasons.items():
        log.warning("note %s could not be finished: %s", note_id, reason)
        note = done.notes.get(note_id)
        if note is not None and note.attempts >= runtime.config.max_attempts:
            log.warning("it failed %d times; only evolve(retry=True) tries it again", note.attempts)


# Turns of the thread shown before the batch, so that pronouns and "yes, that one" can be resolved.
TURNS_BEFORE = 4
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
        """The turns that are shown to the model."""
        return self.before[-TURNS_BEFORE:]


def in_parts(notes: Sequence[Note], size: int) -> list[Part]:
    """Return the notes in batches of one thread, in order of seq.

    A note that failed before goes alone, so that it cannot fail others again.
    """
    ordered = sorted(notes, key=lambda note: (note.thread or "", note.attempts > 0, note.seq))
    made: list[Part] = []
    for (_, retried), group in groupby(ordered, key=lambda n: (n.thread or "", n.attempts > 0)):
        alike = list(group)
        step = 1 if retried else size
        made += [alike[i : i + step] for i in range(0, len(alike), step)]
    return sorted(made, key=lambda batch: batch[0].seq)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What was done with some notes: the notes as they are now, the report, and why it stopped, if it did."""

    notes: dict[str, Note] = field(default_factory=dict)
    report: EvolutionReport = field(default_factory=EvolutionReport)
    error: ModelUnavailableError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """What a model said of a batch: an edit or a reason by note id; or that it did not answer."""

    edits: Mapping[str, Edit] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    error: ModelUnavailableError | None = None


async def construct_all(
    runtime: Runtime, namespace: Namespace, batches: Sequence[Batch]
) -> Outcome:
    """Give notes their attributes; what was answered is written, also if a batch got no answer.

    A note without a usable answer is marked failed.

    Raises:
        ModelUnavailableError: The embedder failed.
    """
    op, at = new_operation(), now()
    async with counting(runtime, namespace, op, at) as asking:

        async def one(batch: Batch) -> _Answer:
            return await _answer(asking, op, at, batch)

        answers = await runtime.map(one, batches, runtime.config.max_concurrency)
        await runtime.confirm_hold()
        steps = {note_id: edit for answer in answers for note_id, edit in answer.edits.items()}
        given = {note.id: note for batch in batches for note in batch.notes}
        shown = [note for batch in batches for note in (*batch.shown_before, *batch.notes)]
        cost = usage_records(op, namespace, asking.usage.cost(), at)
        records = [*prompt_records(op, namespace, shown, at), *cost] if steps else []
        done = await rewrite(runtime, namespace, op, steps, base=given, records=records)
        reasons = {note_id: why for answer in answers for note_id, why in answer.failed.items()}
        left = [] if steps else cost
        await mark_failed(runtime, namespace, reasons, op, base=given, records=left)
    unusable = {
        made.note_id: made.data["reason"] for made in done.changes if made.kind == "failure"
    }
    made = tuple(c.note_id for c in done.changes if c.kind == "construct")
    return Outcome(
        notes=done.notes,
        report=EvolutionReport(constructed=made, failed={**reasons, **unusable}),
        error=next((answer.error for answer in answers if answer.error is not None), None),
    )


async def ask_attributes(
    runtime: Runtime, batch: Batch
) -> tuple[dict[str, NoteAttributes], dict[str, str]]:
    """Return by note id what the model says of each note, and why a note has no attributes.

    Raises:
        ModelUnavailableError: No reply.
    """
    alias = aliases(batch.notes, "n")
    shown = [raw(note, alias[note.id]) for note in batch.notes]
    earlier = [raw(note) for note in batch.shown_before]
    wanted = set(alias.values())

    def missing(reply: ConstructReply) -> str | None:
        left = sorted(wanted - {item.id for item in reply.notes})
        return f"there is no entry for {', '.join(left)}" if left else None

    try:
        reply = await ask(
            runtime,
            "construct",
            ConstructReply,
            namespace=batch.notes[0].namespace,
            inputs={"notes": shown, "before": earlier},
            values={
                "notes": lines(list(map(line, shown, batch.notes))),
                "before": lines(list(map(line, earlier, batch.shown_before))),
            },
            problem_with=missing,
        )
    except ModelReplyError as error:
        return {}, {note.id: str(error) for note in batch.notes}
    by_alias = {item.id: item for item in reversed(reply.notes)}
    runtime.usage.count("construct", dropped=len(reply.notes) - len(wanted & set(by_alias)))
    made = {n.id: by_alias[alias[n.id]] for n in batch.notes if alias[n.id] in by_alias}
    return made, {note.id: LEFT_OUT for note in batch.notes if note.id not in made}


def apply(attributes: NoteAttributes, asked: Note, *, model: str, op: str, at: datetime) -> Edit:
    """Return the edit that gives a note its attributes, if it still says what was asked about."""

    def edit(note: Note) -> tuple[Note, list[Change]]:
        if note.own_entry is not None or stated(note) != stated(asked):
            return note, []
        made = change(op, "construct", note, model=model, recorded_at=at)
        entry = ContextEntry(
            text=" ".join(attributes.context.split()[:MAX_CONTEXT_WORDS]),
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
        revised = note.revised(contexts=contexts, state="constructed", failure=None, attempts=0)
        return revised, [made.with_data(entry=entry_data(entry))]

    return edit


def end_of(text: str, when: datetime) -> datetime | None:
    """Return the end of the day, or the moment, until which a note holds, as a model named it.

    None where it named none, nothing that can be read, or one before the note itself.
    """
    try:
        end = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    if len(text.strip()) <= len("2024-05-31"):
        end += timedelta(days=1)
    end = end if end.tzinfo else end.replace(tzinfo=when.tzinfo)
    return end if end > when else None


async def _answer(runtime: Runtime, op: str, at: datetime, batch: Batch) -> _Answer:
    try:
        attributes, failed = await ask_attributes(runtime, batch)
    except ModelUnavailableError as error:
        return _Answer(error=error)
    model = runtime.model_name
    edits = {
        note.id: apply(attributes[note.id], note, model=model, op=op, at=at)
        for note in batch.notes
        if note.id in attributes
    }
    return _Answer(edits=edits, failed=failed)
