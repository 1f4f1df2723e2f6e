"""Construct: keywords, tags and a context for new notes (Eq. 2 of the paper)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from ..decisions import Decision, Item
from ..errors import ConfigurationError, ModelReplyError, ModelUnavailableError
from ..ids import end_of, time_of
from ..kinds import Kind
from ..notes import ContextEntry, Note
from ..prompts.replies import ConstructReply, NoteAttributes
from ..texts import MAX_KEYWORDS, MAX_TAGS, clean_words, count_tokens
from .ask import OpenCall, RefusedError, ask, fits
from .gate import MAX_CHARS
from .show import aliases, bare, raw, speakers, turns
from .sources import SourceFinder

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
    error: ModelUnavailableError | ConfigurationError | None = None

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


async def describe(call: OpenCall, batch: Batch) -> Description:
    """Return what the model says of each note; `error` says why it did not answer about all of them."""
    try:
        return await _describe(call, batch)
    except (ModelUnavailableError, ConfigurationError) as error:  # such as a key that was revoked
        return Description(error=error)


async def _describe(call: OpenCall, batch: Batch) -> Description:
    alias = aliases(batch.notes, "n")
    notes = {alias[note.id]: note for note in batch.notes}
    values, tokens = _values(batch, alias), REPLY_TOKENS * (len(batch.notes) + 1)
    if not fits(call.runtime, "construct", values, tokens):
        if len(batch.notes) > 1:
            return await _in_halves(call, batch)
        if batch.before:
            return await _describe(call, replace(batch, before=batch.before[1:]))

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
            shown=[*batch.shown_before, *batch.notes],
            inputs={
                "notes": [raw(note, name) for name, note in notes.items()],
                "before": [raw(note) for note in batch.shown_before],
            },
            values=values,
            problem_with=missing,
        )
    except ModelReplyError as error:
        if isinstance(error, RefusedError) and len(batch.notes) > 1:
            return await _in_halves(call, batch)
        return Description(failed={note.id: str(error) for note in batch.notes})
    found = {note.id: _described(reply, name, note) for name, note in notes.items()}
    made = {note_id: one for note_id, one in found.items() if one is not None}
    call.runtime.usage.count("construct", dropped=_unknown(reply, notes))
    left = [note for note in batch.notes if note.id not in made]
    if reply.is_cut and made and left:
        before = [*batch.before, *(note for note in batch.notes if note.id in made)]
        rest = await describe(call, replace(batch, notes=left, before=before))
        return Description(described=made) + rest
    return Description(described=made, failed={note.id: LEFT_OUT for note in left})


def _values(batch: Batch, alias: Mapping[str, str]) -> dict[str, str]:
    return {
        "speakers": speakers([*batch.shown_before, *batch.notes]),
        "before": turns(batch.shown_before),
        "notes": turns(batch.notes, alias),
    }


async def _in_halves(call: OpenCall, batch: Batch) -> Description:
    """Ask about a batch in two calls: together it is too long for the model."""
    middle = len(batch.notes) // 2
    first, second = batch.notes[:middle], batch.notes[middle:]
    before = [*batch.before, *first]
    made = await _describe(call, replace(batch, notes=first))
    return made + await describe(call, replace(batch, notes=second, before=before))


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


def entries(
    call: OpenCall, batch: Batch, said: Mapping[str, Described]
) -> dict[str, tuple[Decision, Note]]:
    """Return by note id the decision that gives a note its entry, and the note as it is with that."""
    seen = SourceFinder().show([*batch.before, *batch.notes], contexts=False)
    made = {}
    for note in batch.notes:
        if note.id in said:
            item = _item(call, note, said[note.id], seen)
            decision = call.decide(note, "construct", note.next_attempts.construct, [item])
            made[note.id] = decision, _with_entry(note, decision, said[note.id].kind)
    return made


def _item(call: OpenCall, note: Note, described: Described, seen: SourceFinder) -> Item:
    attributes = described.attributes
    text = " ".join(attributes.context.split()[:MAX_CONTEXT_WORDS])[:MAX_CHARS]
    keywords = clean_words(attributes.keywords, MAX_KEYWORDS)
    tags = clean_words(attributes.tags, MAX_TAGS)
    until = end_of(attributes.until, note.when)
    data: dict[str, Any] = {
        "keywords": list(keywords),
        "tags": list(tags),
        "kind": described.kind,
        "until": until and until.isoformat(),
    }
    return Item(
        kind="entry",
        to=note.id,
        by=call.runtime.model_name,
        text=text,
        sources=seen.sources_of([text, *keywords, *tags], [note]),
        data={name: value for name, value in data.items() if value},
    )


def _with_entry(note: Note, decision: Decision, kind: Kind) -> Note:
    """Return a note as it will be with its entry, for a model that is shown the note before that is written."""
    (item,) = decision.items
    entry = ContextEntry(
        text=item.text,
        keywords=tuple(item.data.get("keywords", ())),
        tags=tuple(item.data.get("tags", ())),
        cause=note.id,
        model=item.by,
        change=f"{decision.id}:{item.number}",
        at=note.when,
        recorded_at=time_of(decision.seq),
        sources=tuple(source for source in item.sources if source.id != note.id),
    )
    contexts = (entry, *note.contexts)
    return note.revised(contexts=contexts, kind=kind, state="constructed", failure=None)
