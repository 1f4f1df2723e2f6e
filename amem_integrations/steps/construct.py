"""Construct: keywords, tags and a context for a batch of new notes (Eq. 2 of the paper)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from ..notes import Change, ContextEntry, Note
from ..prompts import ConstructReply, NoteAttributes
from ..runtime import Runtime
from . import show
from .ask import ask
from .edits import Edit
from .fields import said
from .history import change, entry_data

# Turns of the thread shown before the batch, so that pronouns and "yes, that one" can be resolved.
TURNS_BEFORE = 4
MAX_KEYWORDS = 8
MAX_TAGS = 6
MAX_CONTEXT_WORDS = 80


async def ask_attributes(
    runtime: Runtime, notes: Sequence[Note], before: Sequence[Note]
) -> dict[str, NoteAttributes]:
    """Return by note id what the model says of each; a note it left out is missing.

    Raises:
        ModelReplyError: No usable reply.
        ModelUnavailableError: No reply.
    """
    alias = show.aliases(notes, "n")
    shown = [show.raw(note, alias[note.id]) for note in notes]
    earlier = [show.raw(note) for note in before]
    wanted = set(alias.values())

    def missing(reply: ConstructReply) -> str | None:
        left = sorted(wanted - {item.id for item in reply.notes})
        return f"there is no entry for {', '.join(left)}" if left else None

    reply = await ask(
        runtime,
        "construct",
        ConstructReply,
        inputs={"notes": shown, "before": earlier},
        texts={
            "notes": show.lines([show.line(s, n) for s, n in zip(shown, notes, strict=True)]),
            "before": show.lines([show.line(s, n) for s, n in zip(earlier, before, strict=True)]),
        },
        problem_with=missing,
    )
    by_alias = {item.id: item for item in reversed(reply.notes)}
    runtime.usage.count("construct", dropped=len(reply.notes) - len(wanted & set(by_alias)))
    return {note.id: by_alias[alias[note.id]] for note in notes if alias[note.id] in by_alias}


def seen_by(batch: Sequence[Note], before: Sequence[Note]) -> dict[str, tuple[str, ...]]:
    """Return for each note of a batch the other notes that stood before it in the prompt."""
    shown = [note.id for note in (*before, *batch)]
    return {note.id: tuple(shown[: shown.index(note.id)]) for note in batch}


def apply(
    attributes: NoteAttributes,
    asked: Note,
    seen: tuple[str, ...],
    *,
    model: str,
    op: str,
    at: datetime,
) -> Edit:
    """Return the edit that gives a note its attributes, if it still says what was asked about."""

    def edit(note: Note) -> tuple[Note, list[Change]]:
        if note.own_entry is not None or said(note) != said(asked):
            return note, []
        made = change(op, "construct", note, model=model, recorded_at=at)
        entry = ContextEntry(
            text=" ".join(attributes.context.split()[:MAX_CONTEXT_WORDS]),
            keywords=clean(attributes.keywords, MAX_KEYWORDS),
            tags=clean(attributes.tags, MAX_TAGS),
            cause=note.id,
            model=model,
            change=made.id,
            at=note.when,
            recorded_at=at,
            seen=seen,
        )
        contexts = (entry, *note.contexts)
        revised = note.revised(contexts=contexts, state="constructed", failure=None, attempts=0)
        return revised, [made.with_data(entry=entry_data(entry))]

    return edit


def clean(words: Sequence[str], limit: int) -> tuple[str, ...]:
    """Return the words without blanks and repeats, at most `limit` of them."""
    stripped = (" ".join(word.split()) for word in words)
    return tuple(dict.fromkeys(word for word in stripped if word))[:limit]
