"""Construct: keywords, tags and a context for new notes (Eq. 2 of the paper)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from ..decisions import VISIBLE, Decision, Item
from ..errors import ModelReplyError
from ..ids import end_of
from ..journal.fold import fold
from ..kinds import Kind
from ..notes import Note
from ..plans import MAX_CHARS
from ..prompts.replies import ConstructReply, NoteAttributes
from ..stored_note import StoredNote
from ..texts import MAX_KEYWORDS, MAX_TAGS, clean_words, count_tokens
from .ask import OpenCall, RefusedError, ask, fits
from .show import aliases, bare, raw, speakers, turns

# Of the thread before the batch as many turns are shown as fit, so that "the other one" and "yes" can be resolved.
TURNS_BEFORE = 24
TOKENS_BEFORE = 250
REPLY_TOKENS = 100  # for a note
FILLER_TOKENS = (
    50  # a longer note is linked, whatever a model holds of it; encouragement has seldom more
)
MAX_CONTEXT_WORDS = 80
LEFT_OUT = "the model left it out"

Part = list[Note]  # some notes of one thread, in order of seq
Said = tuple[NoteAttributes, Kind]  # what a model says of a note: of filler no attributes


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


async def construct(call: OpenCall, batch: Batch) -> tuple[Batch, list[Decision]]:
    """Have the raw notes of a batch described; return the batch with their entries, and these as decisions.

    The call knows of which notes the model said nothing.
    """
    raw_ones = {note.id: note for note in batch.notes if note.own_entry is None}
    said = dict[str, Said]()
    with call.noting_errors():
        asked = replace(batch, notes=[*raw_ones.values()])
        said = await _ask(call, asked) if raw_ones else {}
    made = {i: _decision(call, note, *said[i]) for i, note in raw_ones.items() if i in said}
    notes = [_with_entry(n, made[n.id]) if n.id in made else n for n in batch.notes]
    return replace(batch, notes=notes), [*made.values()]


async def _ask(call: OpenCall, batch: Batch) -> dict[str, Said]:
    alias = aliases(batch.notes, "n")
    notes = {alias[note.id]: note for note in batch.notes}
    before = batch.shown_before
    values = {
        "speakers": speakers([*before, *batch.notes]),
        "before": turns(before),
        "notes": turns(batch.notes, alias),
    }
    if not fits(call.runtime, "construct", values, REPLY_TOKENS * (len(batch.notes) + 1)):
        if len(batch.notes) > 1:
            return await _ask_in_halves(call, batch)
        if batch.before:
            return await _ask(call, replace(batch, before=batch.before[1:]))

    def missing(reply: ConstructReply) -> str | None:
        said = {item.id for item in reply.notes}.union(map(bare, reply.filler))
        left = [name for name in notes if name not in said]
        goes_on = reply.is_cut and len(left) < len(notes)  # the others are asked about next
        return f"there is no entry for {', '.join(left)}" if left and not goes_on else None

    try:
        reply = await ask(
            call,
            "construct",
            ConstructReply,
            shown=[*before, *batch.notes],
            inputs={
                "notes": [raw(note, name) for name, note in notes.items()],
                "before": [raw(note) for note in before],
            },
            values=values,
            problem_with=missing,
            contexts=False,
        )
    except ModelReplyError as error:
        if isinstance(error, RefusedError) and len(batch.notes) > 1:
            return await _ask_in_halves(call, batch)
        call.failed |= dict.fromkeys(alias, str(error))
        return {}
    ids = [*(item.id for item in reply.notes), *set(map(bare, reply.filler))]
    call.runtime.usage.count("construct", dropped=len(ids) - len(set(ids) & set(notes)))
    found = {note.id: _said(reply, name, note) for name, note in notes.items()}
    said = {note_id: one for note_id, one in found.items() if one is not None}
    left = [note for note in batch.notes if note.id not in said]
    if reply.is_cut and said and left:
        done = [note for note in batch.notes if note.id in said]
        return said | await _ask_rest(call, left, [*batch.before, *done])
    call.failed |= {note.id: LEFT_OUT for note in left}
    return said


async def _ask_in_halves(call: OpenCall, batch: Batch) -> dict[str, Said]:
    """Ask about a batch in two calls: together it is too long for the model."""
    middle = len(batch.notes) // 2
    first, second = batch.notes[:middle], batch.notes[middle:]
    said = await _ask(call, replace(batch, notes=first))
    return said | await _ask_rest(call, second, [*batch.before, *first])


async def _ask_rest(
    call: OpenCall, notes: Sequence[Note], before: Sequence[Note]
) -> dict[str, Said]:
    """Ask about the rest of a batch; what was said of the beginning is kept, also if the model does not answer now."""
    with call.noting_errors():
        return await _ask(call, Batch(notes=notes, before=before))
    return {}


def _said(reply: ConstructReply, name: str, note: Note) -> Said | None:
    """Return the part of a reply about the note with an alias; None if the reply leaves the note out."""
    attributes = next((item for item in reply.notes if item.id == name), None)
    if attributes is not None:
        says = attributes.context or attributes.keywords or attributes.tags
        asks = name in map(bare, reply.questions) or note.kind == "question"
        return attributes, "question" if asks else "statement" if says else note.kind
    if name not in map(bare, reply.filler):
        return None
    is_filler = count_tokens(note.content) <= FILLER_TOKENS
    return NoteAttributes(id=name), "filler" if is_filler else "statement"


def _decision(call: OpenCall, note: Note, attributes: NoteAttributes, kind: Kind) -> Decision:
    text = " ".join(attributes.context.split()[:MAX_CONTEXT_WORDS])[:MAX_CHARS]
    keywords = clean_words(attributes.keywords, MAX_KEYWORDS)
    tags = clean_words(attributes.tags, MAX_TAGS)
    until = end_of(attributes.until, note.when)
    data: dict[str, Any] = {
        "keywords": list(keywords),
        "tags": list(tags),
        "kind": kind,
        "until": until and until.isoformat(),
    }
    item = Item(
        kind="entry",
        to=note.id,
        by=call.runtime.model_name,
        text=text,
        sources=call.seen.sources_of([text, *keywords, *tags], [note]),
        data={name: value for name, value in data.items() if value},
    )
    return call.decide(note, "construct", [item])


def _with_entry(note: Note, decision: Decision) -> Note:
    """Return a note as it will be with its entry, for a model that is shown the note before that is written."""
    stored = StoredNote(
        id=note.id, namespace=note.namespace, token=decision.token, rev=note.rev, note=note
    )
    made = fold(stored, [replace(decision, phase=VISIBLE)]).note or note
    contexts = (*made.contexts, *note.contexts)
    return note.revised(contexts=contexts, kind=made.kind, state="constructed", failure=None)
