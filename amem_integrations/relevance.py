"""Pure: which hits are about what is asked, and what of them to show: no filler, and once what was said again.

A search ranks whatever there is; a prompt should hold only what has to do with the question. That is told by the
cosine, against a floor that was measured for the embedder, or by the words.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from .kinds import (
    LEAST_LETTERS,
    function_words,
    is_bare,
    is_question,
    says,
    telling_words,
    words_of,
)
from .notes import Note, ScoredNote
from .plans import ANSWERS, REPEATS
from .repetition import normal, voice

SHARE = 0.5  # of the telling words of a question that a note has, which counts as a strong hit
LEAST_WORDS = 2  # of them, where the cosine says otherwise
SHORT_REPLY = 5  # words of a reply that says little without its question


def relevant(query: str, hits: Sequence[ScoredNote], floor: float | None) -> list[ScoredNote]:
    """Return the hits that are about what is asked, and what these led to; all of them without a floor.

    With the floor 1 cosines tell nothing, and words alone decide.
    """
    if floor is None or all(hit.similarity is None for hit in hits):
        return list(hits)
    names, stems, by_words = _names(query), telling_words(query), floor >= 1
    passing = {
        hit.note.id
        for hit in hits
        if (hit.similarity is not None and hit.similarity >= floor and not by_words)
        or _shares_words(
            hit, names, stems, 1 if by_words or hit.similarity is None else LEAST_WORDS
        )
    }
    return [
        hit
        for hit in hits
        if hit.note.id in passing
        or _led_to(hit, passing)
        or not passing.isdisjoint(repeated(hit.note))
    ]


def telling(query: str, hits: Iterable[ScoredNote]) -> list[ScoredNote]:
    """Return the hits without filler that the query does not name, and without the question itself."""
    asked = words_of(query)
    return [
        hit
        for hit in hits
        if not (hit.note.kind == "filler" and not says(query, hit.note.content))
        and not (hit.note.kind == "question" and words_of(hit.note.content) == asked)
    ]


def repeated(note: Note) -> list[str]:
    """Return the ids of the notes that a note repeats, or that repeat the note."""
    return [other for other, link in note.links.items() if link.relation == REPEATS]


def said_once(hits: Sequence[ScoredNote], others: Iterable[Note] = ()) -> list[ScoredNote]:
    """Return the hits, of those that say the same one, with how often that was said, and when last.

    Hits say the same that links of the relation `repeats` connect, or that one speaker said in the same words. Of these
    the fullest wording is shown, in the best place. One that holds and one by the user is preferred.

    Args:
        hits: What was found, best first.
        others: Notes that are counted beside the hits.
    """
    notes = {note.id: note for note in (*others, *(hit.note for hit in hits))}
    groups = _groups(notes.values())
    members: dict[str, list[ScoredNote]] = {}
    for hit in hits:
        members.setdefault(groups[hit.note.id], []).append(hit)
    said: dict[str, list[datetime]] = {}
    for note in notes.values():
        said.setdefault(groups[note.id], []).append(note.when)
    shown = {group: max(some, key=_fullness) for group, some in members.items()}
    # By the id of each note the one that is shown for it.
    stand = {i: shown[group].note.id for i, group in groups.items() if group in shown}
    once = []
    for hit in hits:
        group = groups[hit.note.id]
        best, times = shown[group], said[group]
        # An outdated note keeps its own place, below the note that took its place.
        if hit is (members[group][0] if _holds(best) else best):
            later = best.superseded_by and stand.get(best.superseded_by, best.superseded_by)
            last = max(times) if len(times) > 1 else None
            told = replace(best, times_said=len(times), last_said=last)
            once.append(replace(told, score=hit.score, superseded_by=later))
    return once


def _groups(notes: Iterable[Note]) -> dict[str, str]:
    """Return by the id of each note an id that those have in common which say the same."""
    of: dict[str, str] = {}

    def root(name: str) -> str:
        while (above := of.setdefault(name, name)) != name:
            name = above
        return name

    spoken: dict[Hashable, str] = {}
    for note in notes:
        said = note.id if _is_bare_reply(note) else normal(note.content)
        same = spoken.setdefault((voice(note), said), note.id)
        for other in (same, *repeated(note)):
            of[root(other)] = root(note.id)
    return {name: root(name) for name in of}


def _is_bare_reply(note: Note) -> bool:
    """Return whether a note says nothing without the question that it answers: "Yes." is many things."""
    answers = any(
        link.relation == ANSWERS and link.direction == "out" for link in note.links.values()
    )
    return answers and is_bare(note.content)


def _fullness(hit: ScoredNote) -> tuple[object, ...]:
    note = hit.note
    is_users = note.source not in ("assistant", "tool")
    length = len(normal(note.content))
    return _holds(hit), note.kind == "statement", is_users, length, note.when, note.seq


def _holds(hit: ScoredNote) -> bool:
    return hit.superseded_by is None and not hit.is_over


def is_short_reply(note: Note) -> bool:
    """Return whether a note is a turn that says little without the turn before it."""
    return note.thread is not None and len(words_of(note.content).split()) <= SHORT_REPLY


def linked_turns(note: Note) -> list[str]:
    """Return the ids of the earlier notes that a note is linked to."""
    return [other for other, link in note.links.items() if link.direction == "out"]


def question_before(note: Note, others: Iterable[Note]) -> Note | None:
    """Return the last turn of the thread before a note among some others, if that turn asks."""
    before = [one for one in others if one.thread == note.thread and one.seq < note.seq]
    last = max(before, key=lambda one: one.seq, default=None)
    return last if last is not None and is_question(last.content) else None


def _led_to(hit: ScoredNote, passing: set[str]) -> bool:
    return hit.via != "match" and any(step.note_id in passing for step in hit.via)


def _names(query: str) -> list[str]:
    """Return the words of a question that have a capital; the first word has one anyway."""
    capitals = [one for one in query.split()[1:] if one.strip("\"'(«“")[:1].isupper()]
    words = [word for word in map(words_of, capitals) if len(word) >= LEAST_LETTERS - 1]
    return [word for word in words if word not in function_words()]


def _shares_words(hit: ScoredNote, names: Iterable[str], stems: frozenset[str], least: int) -> bool:
    """Return whether a note has a name of the question, or enough of its telling words; of a long text its passages."""
    text = " ".join(one.text for one in hit.passages) or hit.note.content
    if any(says(text, name) for name in names):
        return True
    shared = len(stems & telling_words(text))
    return shared >= max(1, min(least, len(stems)), SHARE * len(stems))
