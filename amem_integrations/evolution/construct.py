"""Construct: keywords, tags and a context for new notes (Eq. 2 of the paper)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from ..decisions import VISIBLE, Decision, Item
from ..ids import end_of
from ..journal.fold import fold
from ..kinds import Kind
from ..notes import Note
from ..plans import MAX_CHARS
from ..prompts.replies import ConstructReply, NoteAttributes
from ..stored_note import StoredNote
from ..texts import MAX_KEYWORDS, MAX_TAGS, clean_words, count_tokens
from .ask import Batch, OpenCall, Question, ask_in_parts
from .show import aliases, bare, raw, speakers, turns

REPLY_TOKENS = 100  # for a note
# A longer note is linked, whatever a model holds of it; encouragement has seldom more.
FILLER_TOKENS = 50
MAX_CONTEXT_WORDS = 80
LEFT_OUT = "the model left it out"

Said = tuple[NoteAttributes, Kind]  # what a model says of a note: of filler no attributes


def in_parts(notes: Sequence[Note], size: int) -> list[list[Note]]:
    """Return the notes in batches of one thread, in order of seq: as few as possible, and of about the same size.

    A note that failed before goes alone, so that it cannot fail others again.
    """

    def kind(note: Note) -> tuple[str, bool]:
        return note.thread or "", note.attempts > 0

    made: list[list[Note]] = []
    for (_, has_failed), group in groupby(sorted(notes, key=lambda n: (*kind(n), n.seq)), key=kind):
        alike = list(group)
        parts = -(-len(alike) // size)
        step = 1 if has_failed else -(-len(alike) // parts)  # the last is not much smaller
        made += [alike[i : i + step] for i in range(0, len(alike), step)]
    return sorted(made, key=lambda batch: batch[0].seq)


async def construct(call: OpenCall) -> list[Decision]:
    """Have the raw notes of a batch described; return their entries as decisions, and give them to the notes of the batch.

    The call knows of which notes the model said nothing.
    """
    batch, made = call.batch, dict[str, Decision]()
    raw_ones = [note for note in batch.notes if note.own_entry is None]
    waiting = [replace(batch, notes=raw_ones)] if raw_ones else []
    with call.noting_errors():
        async for part, reply in ask_in_parts(call, waiting, _question, _smaller, _rest):
            names = [*(item.id for item in reply.notes), *set(map(bare, reply.filler))]
            strange = len(names) - len(set(names) & set(aliases(part.notes, "n").values()))
            call.runtime.usage.count("construct", dropped=strange)
            said = _said(reply, part.notes)
            made |= {n.id: _decision(call, n, *said[n.id]) for n in part.notes if n.id in said}
        left = [note.id for note in raw_ones if note.id not in {*made, *call.failed}]
        call.failed |= dict.fromkeys(left, LEFT_OUT)
    notes = [_with_entry(n, made[n.id]) if n.id in made else n for n in batch.notes]
    call.batch = replace(batch, notes=notes)
    return [*made.values()]


def _question(batch: Batch) -> Question[ConstructReply]:
    alias, before = aliases(batch.notes, "n"), batch.shown_before

    def missing(reply: ConstructReply) -> str | None:
        said = _said(reply, batch.notes)
        left = [name for note_id, name in alias.items() if note_id not in said]
        goes_on = reply.is_cut and said  # the others are asked about next
        return f"there is no entry for {', '.join(left)}" if left and not goes_on else None

    return Question(
        task="construct",
        reply=ConstructReply,
        shown=[*before, *batch.notes],
        inputs={
            "notes": [raw(note, alias[note.id]) for note in batch.notes],
            "before": [raw(note) for note in before],
        },
        values={
            "speakers": speakers([*before, *batch.notes]),
            "before": turns(before),
            "notes": turns(batch.notes, alias),
        },
        problem_with=missing,
        contexts=False,
        room=REPLY_TOKENS * (len(batch.notes) + 1),
    )


def _smaller(batch: Batch) -> list[Batch]:
    """Return the halves of a batch, or a single note without the turns before it; nothing for a note alone."""
    if middle := len(batch.notes) // 2:
        first, second = batch.notes[:middle], batch.notes[middle:]
        return [replace(batch, notes=first), Batch(notes=second, before=[*batch.before, *first])]
    return [replace(batch, before=[])] if batch.shown_before else []


def _rest(batch: Batch, reply: ConstructReply) -> list[Batch]:
    """Return the notes that an answer which broke off did not come to."""
    said = _said(reply, batch.notes)
    left = [note for note in batch.notes if note.id not in said]
    done = [note for note in batch.notes if note.id in said]
    goes_on = reply.is_cut and left and done
    return [Batch(notes=left, before=[*batch.before, *done])] if goes_on else []


def _said(reply: ConstructReply, notes: Sequence[Note]) -> dict[str, Said]:
    """Return by note id the attributes and the kind that a reply gives; a note that the reply leaves out is missing."""
    given = {item.id: item for item in reversed(reply.notes)}  # the first of two counts
    questions, filler = set(map(bare, reply.questions)), set(map(bare, reply.filler))
    found = dict[str, Said]()
    for note, name in zip(notes, aliases(notes, "n").values(), strict=True):
        if name in given:
            one = given[name]
            asks = name in questions or note.kind == "question"
            says = one.context or one.keywords or one.tags
            found[note.id] = one, "question" if asks else "statement" if says else note.kind
        elif name in filler:
            is_filler = count_tokens(note.content) <= FILLER_TOKENS
            found[note.id] = NoteAttributes(id=name), "filler" if is_filler else "statement"
    return found


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
    """Return a note with an entry that is not written yet, for the question about links."""
    stored = StoredNote(
        id=note.id, namespace=note.namespace, token=decision.token, rev=note.rev, note=note
    )
    made = fold(stored, [replace(decision, phase=VISIBLE)]).note or note
    contexts = (*made.contexts, *note.contexts)
    return note.revised(contexts=contexts, kind=made.kind, state="constructed", failure=None)
