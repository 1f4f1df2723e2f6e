"""Pure: what a question is about, and which hits have to do with it.

A search ranks whatever there is; a prompt should hold only what has to do with the question. That is told by the
cosine, against a floor that was measured for the embedder, or by the words.

"And where does she work?" has no word of the note that answers it. The messages before the question have: they are added
to what is looked for, and count less than the question itself. A question that stands alone is searched alone, since
what else is talked about would only push other notes up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ..conversation import Message, from_dict
from ..errors import InvalidInputError
from ..kinds import kind_of, names_in, points_back, says, telling_words, words_of
from ..notes import ScoredNote, Via
from ..repetition import repeated
from ..stored_note import Vector
from .ranking import MESSAGE_CHARS

SHARE = 0.5  # of the telling words of a question that a note has, which counts as a strong hit
LEAST_WORDS = 2  # of them, where the cosine says otherwise

# Chosen on half of 72 follow-ups written for it: see `docs/evaluation.md`.
WINDOW = 3  # messages before the question
BACKGROUND = 0.4  # what the messages weigh in the vector, all together, where the question weighs 1
TIMES = 3  # how often the words of the question count, where those of the messages count once


def messages_before(
    query: str, messages: Sequence[str | Mapping[str, object] | Message]
) -> tuple[Message, ...]:
    """Return the last messages, oldest first, if the query cannot be understood without them; a mere text is the user's.

    Raises:
        InvalidInputError: The query is no text, or a message is neither text nor a dict with `role` and `content`.
    """
    if not isinstance(query, str) or not query.strip():
        raise InvalidInputError(f"query={query!r} must be text that says what to look for")
    if isinstance(messages, str | Mapping) or not isinstance(messages, Sequence):
        raise InvalidInputError(f"messages={messages!r} must be a list of messages, newest last")
    said = [
        Message(role="user", text=one) if isinstance(one, str) else from_dict(one)
        for one in messages
    ]
    before = [one for one in said if kind_of(one.text) != "filler" and one.text.strip()]
    if before and before[-1].text.strip() == query.strip():  # the question itself
        before.pop()
    return tuple(before[-WINDOW:]) if points_back(query) else ()


def together(query: str, before: Sequence[Message]) -> str:
    """Return the text whose words are looked for: a word weighs as often as it stands there."""
    return "\n".join([*[query] * TIMES, *map(words_before, before)]) if before else query


def words_before(message: Message) -> str:
    """Return the words of a message before a query that count: a long answer would drown the question."""
    return message.text.strip()[:MESSAGE_CHARS]


def mixed(query: Vector, before: Sequence[Vector]) -> Vector:
    """Return the unit vector of a query mixed with the vectors of the messages before the query."""
    both = query + BACKGROUND * np.mean(before, axis=0)
    unit: Vector = (both / np.linalg.norm(both)).astype(np.float32)
    return unit


def relevant(query: str, hits: Sequence[ScoredNote], floor: float | None) -> list[ScoredNote]:
    """Return the hits that have to do with the query, and the hits that those led to; all hits without a floor.

    With the floor 1 cosines tell nothing, and words alone decide.
    """
    if floor is None or all(hit.similarity is None for hit in hits):
        return list(hits)
    names, stems = names_in(query), telling_words(query)

    def passes(hit: ScoredNote) -> bool:
        if hit.similarity is None or floor >= 1:
            return _shares_words(hit, names, stems, 1)
        return hit.similarity >= floor or _shares_words(hit, names, stems, LEAST_WORDS)

    passing = {hit.note.id for hit in hits if passes(hit)}
    return [
        hit
        for hit in hits
        if hit.note.id in passing
        or any(step.note_id in passing for step in hit.via if isinstance(step, Via))
        or not passing.isdisjoint(repeated(hit.note))
    ]


def telling(query: str, hits: Iterable[ScoredNote]) -> list[ScoredNote]:
    """Return the hits without filler that the query does not name, and without the question itself."""
    asked = words_of(query)
    return [
        hit
        for hit in hits
        if (hit.note.kind != "filler" or says(query, hit.note.content))
        and (hit.note.kind != "question" or words_of(hit.note.content) != asked)
    ]


def _shares_words(hit: ScoredNote, names: Iterable[str], stems: frozenset[str], least: int) -> bool:
    """Return whether a note has a name of the question, or enough of its telling words; of a long text its passages."""
    text = " ".join(one.text for one in hit.passages) or hit.note.content
    if any(says(text, name) for name in names):
        return True
    shared = len(stems & telling_words(text))
    return shared >= max(1, min(least, len(stems)), SHARE * len(stems))
