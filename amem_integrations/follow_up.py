"""Follow-ups: a question that only what was said before makes clear is searched together with that.

"And where does she work?" has no word of the note that answers it. The messages before the question have: they are added
to what is looked for, and count less than the question itself. A question that stands alone is searched alone, since
what else is talked about would only push other notes up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from .conversation import from_dict
from .errors import InvalidInputError
from .kinds import kind_of, points_back, words_of
from .notes import Note
from .stored_note import Vector

# Chosen on half of 72 follow-ups written for it: see `docs/evaluation.md`.
WINDOW = 3  # messages before the question
BACKGROUND = 0.3  # what the messages weigh in the vector, where the question weighs 1
TIMES = 3  # how often the words of the question count, where those of the messages count once
MOST_CHARS = 300  # of a message: a long answer would drown the question


def messages_before(query: str, messages: Sequence[str | Mapping[str, object]]) -> tuple[str, ...]:
    """Return the last messages, oldest first, if the query cannot be understood without them; each is cut to `MOST_CHARS`.

    Raises:
        InvalidInputError: The query is no text, or a message is neither text nor a dict with `role` and `content`.
    """
    if not isinstance(query, str) or not query.strip():
        raise InvalidInputError(f"query={query!r} must be text that says what to look for")
    if isinstance(messages, str | Mapping) or not isinstance(messages, Sequence):
        raise InvalidInputError(f"messages={messages!r} must be a list of messages, newest last")
    texts = [_text(message) for message in messages]
    before = [text for text in texts if text and kind_of(text) != "filler"]
    if before and before[-1] == query.strip():  # the question itself
        before.pop()
    return tuple(text[:MOST_CHARS] for text in before[-WINDOW:]) if points_back(query) else ()


def together(query: str, before: Sequence[str]) -> str:
    """Return the text whose words are looked for: a word weighs as often as it stands there."""
    return "\n".join([*[query] * TIMES, *before]) if before else query


def is_said_in(before: Sequence[str], note: Note) -> bool:
    """Return whether a note says just what one of the messages says."""
    return bool(before) and words_of(note.content[:MOST_CHARS]) in map(words_of, before)


def _text(message: object) -> str:
    if isinstance(message, str):
        return message.strip()
    if isinstance(message, Mapping):
        return from_dict(message).text
    raise InvalidInputError(
        f"message {message!r} must be text, or a dict with 'role' and 'content'"
    )


def mixed(query: Vector, background: Vector) -> Vector:
    """Return the unit vector of a query with the vector of what was said before in it."""
    both = query + BACKGROUND * background
    unit: Vector = (both / np.linalg.norm(both)).astype(np.float32)
    return unit
