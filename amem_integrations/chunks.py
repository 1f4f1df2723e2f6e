"""Content that is longer than the embedder reads: several notes, one after the other in their thread.

The text is cut between paragraphs, lines, sentences or words, in this order of preference. The chunks joined
are the text again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from .ids import derive
from .notes import NoteInput
from .runtime import Runtime
from .texts import BYTES_PER_TOKEN, count_tokens

# Sessions of two LoCoMo conversations added whole and cut to 50, 100, 150, 200 tokens: the evidence is in the
# first 1000 tokens found for .59, .84, .86, .80 of the questions; uncut, where MiniLM reads 256, for .37.
CHUNK_TOKENS = 150
FOR_TEXT = 0.6  # of what an embedder reads; the rest is left for context, keywords and tags

# Where a part may end. Chinese and Japanese sentences end without a space. The sentence's pattern looks at each
# character once (it starts only where a run of marks does, and gives nothing back), however long the runs are.
_BORDERS = (
    re.compile(r"\n\s*\n"),
    re.compile(r"\n"),
    re.compile(r"(?<![.!?…])[.!?…]++[\"'”’)\]]*+\s++|[。！？]++[」』”’）]*+"),  # noqa: RUF001
    re.compile(r"\s+"),
)


@dataclass(frozen=True, slots=True)
class Chunk:
    """One note of a text: its id, its number (0 if it is all of the text), the first note's id if it is another."""

    id: str
    item: NoteInput
    number: int = 0
    whole: str | None = None


def chunk_id(whole: str, number: int) -> str:
    """Return the id of a chunk of the text whose first note is `whole`, which is chunk 1."""
    return whole if number <= 1 else derive("chunk", whole, number)


def chunks(runtime: Runtime, item: NoteInput, identity: str) -> list[Chunk]:
    """Return the notes that an item becomes; the first has the id of the whole (`identity`)."""
    size = _size(runtime) if item.split else None
    parts = split(item.content, size) if size else [item.content]
    if len(parts) == 1:
        return [Chunk(identity, item)]
    thread = item.thread or identity
    first = Chunk(identity, replace(item, content=parts[0], thread=thread), 1)
    return [first] + [
        Chunk(
            chunk_id(identity, number),
            replace(item, content=part, thread=thread, key=None),
            number,
            identity,
        )
        for number, part in enumerate(parts[1:], start=2)
    ]


def sections(item: NoteInput, max_chars: int) -> list[NoteInput]:
    """Return the item, or if it has more than `max_chars` characters several that follow each other.

    The first keeps the key; the others have keys made of it, so that the same item gives the same notes.
    """
    if len(item.content) <= max_chars:
        return [item]
    found = split(item.content, max(1, max_chars // BYTES_PER_TOKEN // 2))
    parts = [p[i : i + max_chars] for p in found for i in range(0, len(p), max_chars)]
    return [
        replace(item, content=part, key=item.key if n == 0 or not item.key else f"{item.key}#{n}")
        for n, part in enumerate(part for part in parts if part.strip())
    ]


def split(text: str, size: int) -> list[str]:
    """Return the text in parts of at most about `size` tokens, of about equal length, none of them blank.

    Joined they are the text; one that is short enough is its only part.
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
    if not current.strip() and parts:
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
    return [part for found in _cut(text, first) for part in _pieces(found, size, rest)]


def _cut(text: str, border: re.Pattern[str]) -> Iterator[str]:
    """Yield the text cut after each border."""
    start = 0
    for found in border.finditer(text):
        if found.end() > start:
            yield text[start : found.end()]
            start = found.end()
    if start < len(text):
        yield text[start:]


def _size(runtime: Runtime) -> int | None:
    config = runtime.config
    if not config.split or config.split_tokens:
        return config.split_tokens if config.split else None
    window = getattr(runtime.embedder, "max_tokens", None)
    return min(CHUNK_TOKENS, int(window * FOR_TEXT)) if window else CHUNK_TOKENS
