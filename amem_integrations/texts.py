"""Pure: what a note looks like to the embedder, to BM25 and to a reader, and where a long text is cut into passages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from itertools import accumulate, pairwise

from .kinds import MONTHS, WEEKDAYS
from .notes import ContextEntry, Note

# Name of the texts below; a collection remembers it, since other texts need other vectors.
TEMPLATE = "note-3"

MAX_WORDS = 16  # of keywords, and of tags: a note that evolves often must not drown in them
MAX_KEYWORDS = 8  # that one context entry may bring
MAX_TAGS = 6
MAX_WORD_CHARS = 200  # of a keyword or tag, which each passage of a text is stored with
SPEAKER_CHARS = 80
_BRACKETS = str.maketrans("[]", "()")  # a note's header stands in brackets
BYTES_PER_TOKEN = 4  # English text; scripts of three bytes a character are about .75 token each

# Where a passage may end. Chinese and Japanese sentences end without a space. The sentence's pattern looks at each
# character once (it starts only where a run of marks does, and gives nothing back), however long the runs are.
_BORDERS = (
    re.compile(r"\n\s*\n"),
    re.compile(r"\n"),
    re.compile(r"(?<![.!?…])[.!?…]++[\"'”’)\]]*+\s++|[。！？]++[」』”’）]*+"),  # noqa: RUF001
    re.compile(r"\s+"),
)


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
        for start, end in _passages(note)
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
    return [_lexical(note, note.content[start:end].strip()) for start, end in _passages(note)]


def lexical_text(note: Note) -> str:
    """Return the words of a note as one text."""
    return _lexical(note, note.content)


def _lexical(note: Note, content: str) -> str:
    text = _with_attributes(note, content, note.contexts)
    return f"{day(note.at)}\n{text}" if note.at else text


def _passages(note: Note) -> Sequence[tuple[int, int]]:
    return note.passages or ((0, len(note.content)),)


def clean_words(words: Sequence[str], limit: int) -> tuple[str, ...]:
    """Return keywords or tags without blanks, repeats and endless ones, at most `limit` of them."""
    stripped = (" ".join(word.split()) for word in words)
    return tuple(dict.fromkeys(w for w in stripped if 0 < len(w) <= MAX_WORD_CHARS))[:limit]


def spans(text: str, size: int) -> tuple[tuple[int, int], ...]:
    """Return the places of the passages, each with a vector, of a text that is longer than the embedder reads.

    Joined they are the text; there are none if the text is short enough.
    """
    parts = split(text, size)
    if len(parts) == 1:
        return ()
    return tuple(pairwise(accumulate(map(len, parts), initial=0)))


def split(text: str, size: int) -> list[str]:
    """Return the text in parts of at most about `size` tokens, of about equal length, none of them blank.

    The text is cut between paragraphs, lines, sentences or words, in this order of preference. Joined the parts are the
    text; one that is short enough is its only part.
    """
    total = count_tokens(text)
    if total <= size:
        return [text]
    fair = -(-total // -(-total // size))  # so that the last part is no mere scrap
    parts: list[str] = []
    current = ""
    for piece in _pieces(text, size, _BORDERS):
        full = count_tokens(current) >= fair or count_tokens((current + piece).rstrip()) > size
        if full and current.strip():
            parts.append(current)
            current = ""
        current += piece
    if not current.strip():
        parts[-1] += current
        return parts
    return [*parts, current]


def _pieces(text: str, size: int, borders: Sequence[re.Pattern[str]]) -> list[str]:
    """Return the text in pieces of at most `size` tokens, cut at the first kind of border that does."""
    if count_tokens(text.rstrip()) <= size:
        return [text]
    if not borders:
        width = max(1, size * BYTES_PER_TOKEN // -(-len(text.encode()) // len(text)))
        return [text[start : start + width] for start in range(0, len(text), width)]
    first, *rest = borders
    ends = [found.end() for found in first.finditer(text)]
    parts = [text[start:end] for start, end in pairwise([0, *ends, len(text)]) if end > start]
    return [piece for part in parts for piece in _pieces(part, size, rest)]
