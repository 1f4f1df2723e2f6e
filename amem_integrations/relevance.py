"""Pure: which hits are about what is asked, and what of them to show: no filler, nothing twice.

A search ranks whatever there is; a prompt should hold only what has to do with the question. That is told by the
cosine, against a floor that was measured for the embedder, or by the words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .kinds import function_words, is_question, says, words_of
from .notes import Note, ScoredNote

# The least cosine of a question and a note that has to do with it, by embedder.
FLOORS: Mapping[str, float] = {"sentence-transformers/all-MiniLM-L6-v2": 0.21}

SHARE = 0.5  # of the telling words of a question that a note has, which counts as a strong hit
LEAST_WORDS = 2  # of them, where the cosine says otherwise
LEAST_LETTERS = 3  # of a telling word
STEM = 5  # letters that inflections of a word share, about
SHORT_REPLY = 5  # words of a reply that says nothing without its question


def relevant(query: str, hits: Sequence[ScoredNote], floor: float | None) -> list[ScoredNote]:
    """Return the hits that are about what is asked, and what these led to; all of them without a floor."""
    if floor is None or all(hit.similarity is None for hit in hits):
        return list(hits)
    words = _Words.of(query)
    passing = {
        hit.note.id
        for hit in hits
        if (hit.similarity is not None and hit.similarity >= floor) or words.are_in(hit)
    }
    return [hit for hit in hits if hit.note.id in passing or _led_to(hit, passing)]


def telling(query: str, hits: Iterable[ScoredNote]) -> list[ScoredNote]:
    """Return the hits without filler that the query does not name, and without the question itself."""
    asked = words_of(query)
    return [
        hit
        for hit in hits
        if not (hit.note.kind == "filler" and not says(query, hit.note.content))
        and not (hit.note.kind == "question" and words_of(hit.note.content) == asked)
    ]


def distinct(hits: Iterable[ScoredNote]) -> list[ScoredNote]:
    """Return the hits without repeats: of equal statements of one speaker the last that is current, in the best place."""
    places: dict[tuple[str | None, str], ScoredNote] = {}
    for hit in hits:
        key = (hit.note.speaker, words_of(hit.note.content) or hit.note.content)
        other = places.setdefault(key, hit)
        if _currency(hit) > _currency(other):
            places[key] = hit
    return list(places.values())


def asked_before(note: Note, others: Iterable[Note]) -> Note | None:
    """Return the turn before a short reply, if it asks; `others` are notes that the reply is linked to."""
    if note.thread is None or len(words_of(note.content).split()) > SHORT_REPLY:
        return None
    before = [one for one in others if one.thread == note.thread and one.seq < note.seq]
    last = max(before, key=lambda one: one.seq, default=None)
    return last if last is not None and is_question(last.content) else None


def _currency(hit: ScoredNote) -> tuple[bool, bool, object, int]:
    return hit.superseded_by is None, not hit.is_over, hit.note.when, hit.note.seq


def _led_to(hit: ScoredNote, passing: set[str]) -> bool:
    return hit.via != "match" and any(step.note_id in passing for step in hit.via)


@dataclass(frozen=True, slots=True)
class _Words:
    """The telling words of a question, and the names in it."""

    stems: frozenset[str]
    names: tuple[str, ...]

    @classmethod
    def of(cls, query: str) -> _Words:
        tokens = query.split()[1:]  # the first word has a capital anyway
        small = function_words()
        names = [
            word
            for word in map(words_of, (t for t in tokens if t.strip("\"'(«“")[:1].isupper()))
            if len(word) >= LEAST_LETTERS - 1 and word not in small
        ]
        return cls(_stems(query), tuple(names))

    def are_in(self, hit: ScoredNote) -> bool:
        """Return whether a note has a name of the question, or enough of its telling words."""
        if any(says(hit.note.content, name) for name in self.names):
            return True
        shared = len(self.stems & _stems(hit.note.content))
        least = min(LEAST_WORDS if hit.similarity is not None else 1, len(self.stems))
        return bool(shared) and shared >= least and shared >= SHARE * len(self.stems)


def _stems(text: str) -> frozenset[str]:
    small = function_words()
    words = [word.removesuffix("'s") for word in words_of(text).split() if word not in small]
    return frozenset(
        piece for word in words if word not in small for piece in _pieces(word) if piece
    )


def _pieces(word: str) -> list[str]:
    """Return the beginning of a word; of a script without spaces, every two characters."""
    if ord(word[0]) >= 0x3040:  # noqa: PLR2004 - kana, Han and Hangul begin here
        return [word[n : n + 2] for n in range(max(len(word) - 1, 1))]
    return [word[:STEM].removesuffix("s")] if len(word) >= LEAST_LETTERS else []
