"""Pure: which notes are current at an instant, and which others have to stand above a note in a list.

A later note may replace an earlier one (see `Supersession`). Whether it does at some time follows from the notes
alone, so nothing has to be written when a time passes or when the later note goes: a supersession counts from its
`since` until the later note is over, has expired or is retracted itself. Then the earlier note is current again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from ..notes import Note


class CurrentFacts:
    """The current notes at one time, among some notes and those that supersede them."""

    def __init__(self, notes: Mapping[str, Note], time: datetime, *, now: datetime) -> None:
        """Take the notes by id; one that is not among them supersedes nothing. Expiry is judged `now`."""
        self._notes, self._time, self._now = notes, time, now
        self._successors: dict[str, list[str]] = {}
        self._replaced = defaultdict[str, list[str]](list)  # by the newer note, newest first
        # A note that may replace another is later, and is judged first: a chain of any length takes one look at each note.
        replaced = [note for note in notes.values() if note.supersessions]
        for note in sorted(replaced, key=lambda note: (note.when, note.seq, note.id), reverse=True):
            for newer, supersession in note.supersessions.items():
                if supersession.replaces and not note.is_expired(now):
                    self._replaced[newer].append(note.id)
            self._successors[note.id] = [
                i for i in self._known(note, replacing=True) if self._is_current(notes[i], note)
            ]

    def successors(self, note: Note) -> list[str]:
        """Return the notes that replace a note, as ids, newest first."""
        return self._successors.get(note.id, [])

    def successor(self, note: Note) -> str | None:
        """Return the current note at the end of the chain that replaces a note, None for a current one."""
        last = note
        while successors := self.successors(last):
            last = self._notes[successors[0]]
        return None if last is note else last.id

    def contradictions(self, note: Note) -> list[str]:
        """Return the notes that contradict a note without replacing it, newest first."""
        return self._known(note, replacing=False)

    def is_over(self, note: Note) -> bool:
        """Return whether a note no longer holds, by its own `until`."""
        end = note.holds_until
        return end is not None and end <= self._time

    def above(self, note: Note) -> list[str]:
        """Return the notes that a list must not show below a note, those that replace it first.

        A note that is brought back, because what replaced it is over or was retracted, stands above that, and below
        the retraction.
        """
        lifting = [
            retraction
            for i in self._known(note, replacing=True)
            if i not in self.successors(note)
            for retraction in self._retractions(self._notes[i])
        ]
        past = self.is_over(note) or self._retractions(note)
        brought_back = self._replaced.get(note.id, []) if past else []
        return list(dict.fromkeys([*self.successors(note), *lifting, *brought_back]))

    def in_order(self, ranked: Iterable[Note]) -> Iterator[tuple[Note, Note]]:
        """Yield each note, best first, with the ranked note whose place it takes: what is above comes first."""
        seen: set[str] = set()
        for note in ranked:
            for placed in self._placed(note, seen):
                yield placed, note

    def view(self, note: Note, as_of: datetime | None = None) -> Note:
        """Return the note as it stands at that time: only with the supersessions that count.

        `as_of` leaves out the contexts that came after a time.
        """
        if as_of is not None:
            contexts = tuple(entry for entry in note.contexts if entry.at <= as_of)
            note = note.revised(contexts=contexts)
        if not note.supersessions:
            return note
        counting = {*self.successors(note), *self.contradictions(note)}
        held = {i: s for i, s in note.supersessions.items() if i in counting}
        return note.revised(supersessions=held)

    def _placed(self, note: Note, seen: set[str]) -> Iterator[Note]:
        """Yield the notes above a note, the note, and the notes that contradict it; each of these in the same way."""
        todo = [(note, False)]
        while todo:
            one, has_above = todo.pop()
            if has_above:
                yield one
            elif one.id in seen:
                continue
            else:
                seen.add(one.id)
                todo.append((one, True))
            others = self.contradictions(one) if has_above else self.above(one)
            todo += [(self._notes[i], False) for i in reversed(others) if i in self._notes]

    def _known(self, note: Note, *, replacing: bool) -> list[str]:
        """Return the notes that are there and, as was said by then, replace or contradict a note, newest first."""
        found = [
            (s.since, i)
            for i, s in note.supersessions.items()
            if s.replaces is replacing and s.since <= self._time and i in self._notes
            if not self._notes[i].is_expired(self._now)
        ]
        return [note_id for _, note_id in sorted(found, reverse=True)]

    def _is_current(self, newer: Note, older: Note) -> bool:
        """Return whether a note is in force that replaces another."""
        return is_later(newer, older) and not self.is_over(newer) and not self._retractions(newer)

    def _retractions(self, note: Note) -> list[str]:
        """Return the notes that retract a note, without another one in its place."""
        return [i for i in self.successors(note) if note.supersessions[i].relation == "retracts"]


def is_later(newer: Note, older: Note) -> bool:
    """Return whether one note can supersede another: by event time, then in the order of adding."""
    return (newer.when, newer.seq) > (older.when, older.seq)


def named(notes: Iterable[Note]) -> set[str]:
    """Return the ids of the notes that supersede or contradict some of these."""
    return {note_id for note in notes for note_id in note.supersessions}
