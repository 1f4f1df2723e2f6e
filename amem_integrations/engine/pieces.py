"""Content that is longer than the embedder reads: several notes, one after the other in their thread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import count

from .._sync import resolve
from ..ids import note_id
from ..notes import Namespace, NoteInput
from ..runtime import Runtime
from ..steps.splitting import split as split_text

# Sessions of two LoCoMo conversations added whole and cut to 50, 100, 150, 200 tokens: the evidence is in the
# first 1000 tokens found for .59, .84, .86, .80 of the questions; uncut, where MiniLM reads 256, for .37.
SPLIT_TOKENS = 150
FOR_TEXT = 0.6  # of what an embedder reads; the rest is left for context, keywords and tags
PROBED = 16  # pieces looked for at once

Piece = tuple[str, NoteInput]


def split(
    runtime: Runtime, namespace: Namespace, item: NoteInput, known: str | None = None
) -> list[Piece]:
    """Return the notes that an item becomes, each with its id; the first has the id of the whole (`known`).

    The others have a key made of that id and their number, so that adding the same again finds them all.
    """
    whole = known or note_id(namespace, item)
    size = _size(runtime) if item.split else None
    parts = split_text(item.content, size) if size else [item.content]
    if len(parts) == 1:
        return [(whole, item)]
    thread = item.thread or whole
    first = replace(item, content=parts[0], thread=thread)
    others = [
        replace(item, content=part, thread=thread, key=_key(whole, number))
        for number, part in enumerate(parts[1:], start=1)
    ]
    return [(whole, first), *((note_id(namespace, other), other) for other in others)]


async def surplus(runtime: Runtime, namespace: Namespace, kept: Mapping[str, int]) -> list[str]:
    """Return the ids of stored pieces beyond the first `kept` of each long text, last one first.

    A text is named by the id of its first note; a note that is all of its text has no other pieces.
    """
    found: list[str] = []
    for whole, number in kept.items():
        for start in count(number, PROBED):
            keys = [_key(whole, n) for n in range(start, start + PROBED)]
            ids = [note_id(namespace, NoteInput(content="", key=key)) for key in keys]
            stored = await resolve(runtime.store.get(namespace, ids))
            found += [note.id for note in stored]
            if len(stored) < PROBED:
                break
    return found[::-1]


def _key(whole: str, number: int) -> str:
    return f"{whole}#{number + 1}"


def _size(runtime: Runtime) -> int | None:
    config = runtime.config
    if not config.split or config.split_tokens:
        return config.split_tokens if config.split else None
    window = getattr(runtime.embedder, "max_tokens", None)
    return min(SPLIT_TOKENS, int(window * FOR_TEXT)) if window else SPLIT_TOKENS
