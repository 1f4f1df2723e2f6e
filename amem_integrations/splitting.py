"""Pure: where a text that is longer than the embedder reads is cut into passages, each of which has a vector.

The text is cut between paragraphs, lines, sentences or words, in this order of preference. The passages joined are the
text again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate, pairwise

from .texts import BYTES_PER_TOKEN, count_tokens

# Where a part may end. Chinese and Japanese sentences end without a space. The sentence's pattern looks at each
# character once (it starts only where a run of marks does, and gives nothing back), however long the runs are.
_BORDERS = (
    re.compile(r"\n\s*\n"),
    re.compile(r"\n"),
    re.compile(r"(?<![.!?…])[.!?…]++[\"'”’)\]]*+\s++|[。！？]++[」』”’）]*+"),  # noqa: RUF001
    re.compile(r"\s+"),
)


def spans(text: str, size: int) -> tuple[tuple[int, int], ...]:
    """Return the places of the passages of a text, which joined are the text; empty if the text is only one."""
    parts = split(text, size)
    if len(parts) == 1:
        return ()
    return tuple(pairwise(accumulate(map(len, parts), initial=0)))


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
