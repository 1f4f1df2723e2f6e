"""Construct: keywords, tags and a context for new notes (Eq. 2 of the paper)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
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
from .ask import Question, ask_in_parts
from .call import OpenCall
from .show import aliases, raw, speakers, turns

REPLY_TOKENS = 100  # for a note
# Of the thread before the batch as many turns are shown as fit, so that "the other one" and "yes" can be resolved.
TURNS_BEFORE = 24
TOKENS_BEFORE = 250
# A longer note is linked, whatever a model holds of it; encouragement has seldom more.
FILLER_TOKENS = 50
MAX_CONTEXT_WORDS = 80
LEFT_OUT = "the model left it out"

Said = tuple[NoteAttributes, Kind]  # what a model says of a note: of filler no attributes


def in_parts(notes: Sequence[Note], size: int) -> list[list[Note]]:
    """Return the notes in batches of one thread, in order of seq: as few as possible, and of about the same size.

    A note that failed before goes alone, so that it cannot fail others again.
    """

    def kind(note: Note) -> tuple[bool, str, bool]:
        return note.thread is None, note.thread or "", note.attempts > 0

    made: list[list[Note]] = []
    ordered = sorted(notes, key=lambda note: (*kind(note), note.seq))
    for (*_, has_failed), group in groupby(ordered, key=kind):
        alike = list(group)
        parts = -(-len(alike) // size)
        step = 1 if has_failed else -(-len(alike) // parts)  # the last is not much smaller
        made += [alike[i : i + step] for i in range(0, len(alike), step)]
    return sorted(made, key=lambda batch: batch[0].seq)


async def construct(call: OpenCall) -> None:
    """Have the raw notes of a batch described: their entries are decided, and given to the notes of the call.

    The call knows of which notes the model said nothing.
    """
    raw_ones = [note for note in call.notes if note.own_entry is None]
    parts = [raw_ones] if raw_ones else []
    async for part, reply in ask_in_parts(call, parts, partial(_question, call)):
        for note, said in _said(reply, part):
            decision = _decision(call, note, *said)
            call.decisions.append(decision)
            entered = _with_entry(note, decision)
            call.notes = [entered if one is note else one for one in call.notes]
    left = [note.id for note in call.notes if note.own_entry is None and note.id not in call.failed]
    call.failed |= dict.fromkeys(left, LEFT_OUT)


def _question(call: OpenCall, notes: Sequence[Note], level: int) -> Question[ConstructReply] | None:
    """Return the question about some raw notes, at level 1 without the turns before them."""
    alias, earlier = aliases(notes, "n"), [n for n in call.notes if n.seq < notes[0].seq]
    before = turns_that_fit([*call.before, *earlier])
    if level > bool(before):
        return None
    before = [] if level else before

    def missing(reply: ConstructReply) -> str | None:
        left = sorted({*alias.values()}.difference(reply.named), key=[*alias.values()].index)
        goes_on = reply.is_cut and len(left) < len(notes)  # the others are asked about next
        return f"there is no entry for {', '.join(left)}" if left and not goes_on else None

    return Question(
        task="construct",
        reply=ConstructReply,
        shown=[*before, *notes],
        inputs={
            "notes": [raw(note, alias[note.id]) for note in notes],
            "before": [raw(note) for note in before],
        },
        values={
            "speakers": speakers([*before, *notes]),
            "before": turns(before),
            "notes": turns(notes, alias),
        },
        alias=alias,
        problem_with=missing,
        contexts=False,
        room=REPLY_TOKENS * (len(notes) + 1),
    )


def turns_that_fit(turns: Sequence[Note]) -> Sequence[Note]:
    """Return the last turns that fit into the prompt, and one in any case."""
    left = TOKENS_BEFORE
    for count, turn in enumerate(reversed(turns)):
        left -= count_tokens(turn.content)
        if left < 0:
            return turns[-max(count, 1) :]
    return turns


def _said(reply: ConstructReply, notes: Sequence[Note]) -> list[tuple[Note, Said]]:
    """Return the attributes and the kind of each note; a note that the reply leaves out is missing."""
    given = {item.id: item for item in reversed(reply.notes)}  # the first of two counts
    found = list[tuple[Note, Said]]()
    for note, name in zip(notes, aliases(notes, "n").values(), strict=True):
        if name in given:
            one = given[name]
            asks = name in reply.questions or note.kind == "question"
            says = one.context or one.keywords or one.tags
            kind: Kind = "question" if asks else "statement" if says else note.kind
            found.append((note, (one, kind)))
        elif name in reply.filler:
            is_filler = count_tokens(note.content) <= FILLER_TOKENS
            kind = "filler" if is_filler else "statement"
            found.append((note, (NoteAttributes(id=name), kind)))
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
