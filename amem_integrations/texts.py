"""Pure: what a note looks like to the embedder, to BM25 and to a reader."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from .kinds import MONTHS, WEEKDAYS
from .notes import ContextEntry, Note

# Name of the texts below; a collection remembers it, since other texts need other vectors.
TEMPLATE = "note-3"

MAX_WORDS = 16  # of keywords, and of tags: a note that evolves often must not drown in them
MAX_KEYWORDS = 8  # that one context entry may bring
MAX_TAGS = 6
SPEAKER_CHARS = 80
_BRACKETS = str.maketrans("[]", "()")  # a note's header stands in brackets
BYTES_PER_TOKEN = 4  # English text; scripts of three bytes a character are about .75 token each


def count_tokens(text: str) -> int:
    """Return an estimate of the number of tokens in a text, from its length in UTF-8."""
    return -(-len(text.encode()) // BYTES_PER_TOKEN)


def day(time: datetime) -> str:
    """Return a date as people write it, such as `8 May 2023`, in English whatever the locale."""
    return f"{time.day} {MONTHS[time.month - 1]} {time.year}"


def weekday(time: datetime) -> str:
    """Return the weekday of a date, in English whatever the locale."""
    return WEEKDAYS[time.weekday()]


def context(note: Note) -> str:
    """Return the rendered context of a note: what it means, in the light of later notes."""
    return " ".join(entry.text for entry in note.contexts if entry.text)


def inline(text: str, limit: int) -> str:
    """Return text in one line of at most `limit` characters, in which no bracket ends a note's header."""
    flat = " ".join(text.split()).translate(_BRACKETS)
    return flat if len(flat) <= limit else f"{flat[: limit - 1]}…"


def embedding_texts(note: Note) -> list[str]:
    """Return the texts that are encoded, one for each passage: content, keywords, tags and context (Eq. 3 of the paper).

    What later notes added is found by its words.
    """
    own = note.own_entry
    entries = [own] if own else []
    return [
        _with_attributes(note, note.content[start:end].strip(), entries)
        for start, end in _spans(note)
    ]


def _with_attributes(note: Note, content: str, shown: Sequence[ContextEntry]) -> str:
    keywords = dict.fromkeys(word for entry in shown for word in entry.keywords)
    tags = dict.fromkeys(tag for entry in shown for tag in entry.tags)
    parts = [
        spoken(note.speaker, content),
        ", ".join(list(keywords)[:MAX_WORDS]),
        ", ".join(list(tags)[:MAX_WORDS]),
        " ".join(entry.text for entry in shown if entry.text),
    ]
    return "\n".join(part for part in parts if part)


def spoken(speaker: str | None, text: str) -> str:
    """Return what somebody said, after the name of who said it."""
    return f"{speaker}: {text}" if speaker else text


def lexical_texts(note: Note) -> list[str]:
    """Return the texts that BM25 indexes, one for each passage: all of the note, with the date for questions of when."""
    return [_lexical(note, note.content[start:end].strip()) for start, end in _spans(note)]


def lexical_text(note: Note) -> str:
    """Return the words of a note as one text."""
    return _lexical(note, note.content)


def _lexical(note: Note, content: str) -> str:
    text = _with_attributes(note, content, note.contexts)
    return f"{day(note.at)}\n{text}" if note.at else text


def _spans(note: Note) -> Sequence[tuple[int, int]]:
    return note.passages or ((0, len(note.content)),)


def clean_words(words: Sequence[str], limit: int) -> tuple[str, ...]:
    """Return keywords or tags without blanks and repeats, at most `limit` of them."""
    stripped = (" ".join(word.split()) for word in words)
    return tuple(dict.fromkeys(word for word in stripped if word))[:limit]
