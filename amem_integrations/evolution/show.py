"""Show notes to a chat model: as plain data, and as the text of a prompt.

A prompt never shows an id: notes have short aliases, and a reply is resolved against the closed set shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from .. import texts
from ..notes import Note

# Longest parts of one note in a prompt, in characters; a page of text says what it is about long before its end.
CONTENT_CHARS = 2000
CANDIDATE_CHARS = 240  # of a candidate without a context
SHORT_CHARS = 60  # up to this length a candidate's own words stand beside its context
REMARKS_TOKENS = (
    60  # of what later notes added to a candidate; each remark is shown in full or not at all
)
RELATION_CHARS = 40

NONE = "(none)"
APART = "(notes of their own, no conversation)"
STEPS = ((0.65, "strong"), (0.4, "medium"), (0.0, "weak"))  # least strength, in words

Shown = dict[str, Any]


def aliases(notes: Iterable[Note], letter: str) -> dict[str, str]:
    """Return alias by note id: n1, n2 and so on."""
    return {note.id: f"{letter}{number}" for number, note in enumerate(notes, start=1)}


def raw(note: Note, alias: str | None = None) -> Shown:
    """Return what is known of a note before any model has read it."""
    shown: Shown = {
        "key": note.key,
        "content": note.content,
        "speaker": note.speaker,
        "source": note.source,
        "kind": note.kind,
        "at": note.at.isoformat() if note.at else None,
        "when": note.when.isoformat(),
        "thread": note.thread,
    }
    return {"alias": alias, **shown} if alias else shown


def enriched(note: Note, alias: str) -> Shown:
    """Return a note with its attributes."""
    return {
        **raw(note, alias),
        "context": texts.context(note),
        "keywords": list(note.keywords),
        "tags": list(note.tags),
        "superseded": note.superseded_by is not None,
    }


def turns(notes: Sequence[Note], alias: Mapping[str, str] | None = None) -> str:
    """Return notes as they were said, with their aliases, if they have any, under the days on which they were."""
    blocks = [*apart(notes)]
    blocks += [
        "\n".join([f"({day})", *(turn(note, (alias or {}).get(note.id)) for note in group)])
        for day, group in groupby(notes, key=day_of)
    ]
    return "\n".join(blocks) or NONE


def apart(notes: Sequence[Note]) -> list[str]:
    """Return a line that says so if several notes do not follow each other."""
    return [APART] if len(notes) > 1 and notes[0].thread is None else []


def turn(note: Note, alias: str | None = None) -> str:
    """Return one line: who said what, and whether it goes on with a text that was cut."""
    who = " ".join(part for part in (speaker(note), "(continued)" * (note.chunk > 1)) if part)
    said = f"{who}: " if who else ""
    return f"{f'[{alias}] ' if alias else ''}{said}{clipped(note.content, CONTENT_CHARS)}"


def candidate(note: Note, alias: str) -> str:
    """Return one line for an earlier note: its context, its own words where they are short, what was added later."""
    own = note.own_entry.text if note.own_entry else ""
    facts = (speaker(note), texts.day(note.when))
    who = ", ".join(
        fact for fact in facts if fact and fact not in own
    )  # a context mostly names them
    parts = [clipped(own, CONTENT_CHARS)] if own else []
    if not own or len(note.content) <= SHORT_CHARS:
        words = clipped(note.content, CANDIDATE_CHARS)
        parts.append(f'"{words}"' if own else words)
    parts += [f"Later: {text}" for text in remarks(note)]
    parts += ["(outdated)"] if note.superseded_by is not None else []
    return f"[{alias}] {who + ': ' if who else ''}{' '.join(parts)}"


def remarks(note: Note) -> list[str]:
    """Return what later notes added to a note, the newest of it that has room, each in full."""
    later = [entry.text for entry in note.contexts if entry.cause != note.id and entry.text]
    kept: list[str] = []
    left = REMARKS_TOKENS
    for text in reversed(later):
        left -= texts.count_tokens(text)
        if left < 0:
            break
        kept.append(texts.inline(text, len(text)))
    return kept[::-1]


def speaker(note: Note) -> str:
    """Return who said a note, in one line: by name, else the role; empty for what was imported without a name."""
    role = "" if note.source == "import" else note.source
    return texts.inline(note.speaker or role, texts.SPEAKER_CHARS)


def speakers(notes: Iterable[Note]) -> str:
    """Return who speaks in some notes, each once."""
    names = [name for note in notes if (name := speaker(note))]
    return ", ".join(dict.fromkeys(names)) or "unknown"


def day_of(note: Note) -> str:
    """Return the day of a note with its weekday, which "last Friday" is counted from."""
    return f"{note.when:%A} {texts.day(note.when)}"


def clipped(text: str, limit: int) -> str:
    """Return text in one line, cut between words if it is longer than `limit` characters."""
    flat = texts.inline(text, len(text))
    if len(flat) <= limit:
        return flat
    head, space, _ = flat[: limit - 1].rpartition(" ")
    return f"{head if space else flat[: limit - 2]} …"


def lines(rows: Sequence[str]) -> str:
    """Return the rows as a block of text; an empty one says so."""
    return "\n".join(rows) or NONE


def linked(link: Mapping[str, Any]) -> str:
    """Return one line for a link between two notes."""
    relation = texts.inline(link["relation"], RELATION_CHARS)
    return f"{'-'.join(link['between'])} {relation}, {step(link['strength'])}"


def step(strength: float) -> str:
    """Return a strength as a word."""
    return next(word for least, word in STEPS if strength >= least)
