"""Pure: cut a long text between paragraphs, lines, sentences or words, in this order of preference."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..texts import BYTES_PER_TOKEN, count_tokens

# Each piece ends with what parts it from the next. Chinese and Japanese sentences end without a space.
_BORDERS = (
    re.compile(r".+?(?:\n\s*\n|\Z)", re.DOTALL),
    re.compile(r".+?(?:\n|\Z)", re.DOTALL),
    re.compile(r".+?(?:[.!?…]+[\"'”’)\]]*\s+|[。！？]+[」』”’）]*|\Z)", re.DOTALL),  # noqa: RUF001
    re.compile(r".+?(?:\s+|\Z)", re.DOTALL),
)


def split(text: str, size: int) -> list[str]:
    """Return the text in parts of at most about `size` tokens, of about equal length, none of them empty.

    A text that is short enough is returned as it is; parts have no space around them.
    """
    total = count_tokens(text)
    if total <= size:
        return [text]
    fair = -(-total // -(-total // size))  # so that the last part is no mere scrap
    parts: list[str] = []
    current = ""
    for piece in _pieces(text, size, _BORDERS):
        if current and (
            count_tokens(current) >= fair or count_tokens((current + piece).rstrip()) > size
        ):
            parts.append(current)
            current = ""
        current += piece
    return [part.strip() for part in (*parts, current) if part.strip()]


def _pieces(text: str, size: int, borders: Sequence[re.Pattern[str]]) -> list[str]:
    if count_tokens(text.rstrip()) <= size:
        return [text]
    if not borders:
        width = max(1, size * BYTES_PER_TOKEN // -(-len(text.encode()) // len(text)))
        return [text[start : start + width] for start in range(0, len(text), width)]
    first, *rest = borders
    return [part for found in first.findall(text) for part in _pieces(found, size, rest)]
