"""Show notes to a chat model: as plain data, and as the text of a prompt.

A prompt never shows an id: notes have short aliases, and a reply is resolved against the closed set shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, islice, permutations
from typing import Any

from .. import texts
from ..kinds import telling_words
from ..notes import Link, Note
from ..plans import ANSWERS, FOLLOWS, MAX_RELATION_CHARS

# Longest parts of one note in a prompt, in characters; a page of text says what it is about long before its end.
CONTENT_CHARS = 2000
SHORT_CHARS = 60  # up to this length a candidate's own words stand beside its context
# Of what later notes added to a candidate; each remark is shown in full or not at all.
REMARKS_TOKENS = 60
MAX_LINKS_SHOWN = 6  # between candidates; a model seldom has anything to say of one
SURE = (FOLLOWS, ANSWERS)
# Share of the telling words of a context that the note has not, from which on both are shown.
MORE = 1 / 3

NONE = "(none)"
APART = "(notes of their own, no conversation)"
STEPS = ((0.65, "strong"), (0.4, "medium"), (0.0, "weak"))  # least strength, in words

SAID = ("key", "content", "speaker", "source", "kind", "thread")  # what is shown as it is

Shown = dict[str, Any]


def aliases(notes: Iterable[Note], letter: str) -> dict[str, str]:
    """Return alias by note id: n1, n2 and so on."""
    return {note.id: f"{letter}{number}" for number, note in enumerate(notes, start=1)}


def raw(note: Note, alias: str | None = None) -> Shown:
    """Return the fields of a note that are known before any model has read the note."""
    shown: Shown = {name: getattr(note, name) for name in SAID}
    shown |= {"at": note.at.isoformat() if note.at else None, "when": note.when.isoformat()}
    return {"alias": alias, **shown} if alias else shown


def enriched(note: Note, alias: str) -> Shown:
    """Return a note with its attributes."""
    return {
        **raw(note, alias),
        "context": texts.context(note),
        "keywords": list(note.keywords),
        "tags": list(note.tags),
        "superseded": note.superseded_by is not None,
    }


def turns(notes: Sequence[Note], alias: Mapping[str, str] | None = None) -> str:
    """Return notes as they were said, with their aliases, if they have any, under the days on which they were."""
    blocks = [*apart(notes)]
    blocks += [
        "\n".join([f"({day})", *(turn(note, (alias or {}).get(note.id)) for note in group)])
        for day, group in groupby(notes, key=day_of)
    ]
    return "\n".join(blocks) or NONE


def apart(notes: Sequence[Note]) -> list[str]:
    """Return a line that says so if several notes do not follow each other."""
    return [APART] if len(notes) > 1 and notes[0].thread is None else []


def turn(note: Note, alias: str | None = None) -> str:
    """Return one line: the alias, the speaker and the words."""
    who = speaker(note)
    said = f"{who}: " if who else ""
    return f"{f'[{alias}] ' if alias else ''}{said}{clipped(note.content, CONTENT_CHARS)}"


def candidate(note: Note, alias: str) -> str:
    """Return one line for an earlier note: its context, its own words where they are short, and later remarks."""
    own = note.own_entry.text if note.own_entry else ""
    facts = (speaker(note), texts.day(note.when))
    who = ", ".join(fact for fact in facts if fact and fact not in own)  # it mostly names them
    parts = [clipped(own, CONTENT_CHARS)] if own else []
    if not own or len(note.content) <= SHORT_CHARS:
        words = clipped(note.content, CONTENT_CHARS)
        parts.append(f'"{words}"' if own else words)
    parts += [f"Later: {text}" for text in remarks(note)]
    parts += ["(outdated)"] if note.superseded_by is not None else []
    return f"[{alias}] {who + ': ' if who else ''}{' '.join(parts)}"


def remarks(note: Note) -> list[str]:
    """Return the newest sentences that later notes added to a note, as many as have room, each in full."""
    later = [e.text for e in note.contexts if e.cause != note.id]
    kept, left = list[str](), REMARKS_TOKENS
    for text in reversed(later):
        left -= texts.count_tokens(text)
        kept += [flat(text)] if left >= 0 else []
    return kept[::-1]


def meaning(note: Note, names: str) -> list[str]:
    """Return the line with the context of a new note; none if the note's own words, and names, say nearly all of that."""
    text = note.own_entry.text if note.own_entry else ""
    told = telling_words(text)
    more = told - telling_words(f"{names} {note.content}")
    return [f"  = {clipped(text, CONTENT_CHARS)}"] if told and len(more) >= MORE * len(told) else []


def replies(note: Note, before: Note) -> bool:
    """Return whether a note is said to the speaker of the turn before it, and is not a further turn of the same one."""
    return speaker(note) != speaker(before)


def speaker(note: Note) -> str:
    """Return the speaker of a note, in one line: the name, else the role; empty for an imported note without a name."""
    role = "" if note.source == "import" else note.source
    return texts.inline(note.speaker or role, texts.SPEAKER_CHARS)


def speakers(notes: Iterable[Note]) -> str:
    """Return the speakers of some notes, each once."""
    names = [name for note in notes if (name := speaker(note))]
    return ", ".join(dict.fromkeys(names)) or "unknown"


def day_of(note: Note) -> str:
    """Return the day of a note with its weekday, which "last Friday" is counted from."""
    return f"{texts.weekday(note.when)} {texts.day(note.when)}"


def flat(text: str) -> str:
    """Return text in one line, without the brackets that an alias stands in."""
    return texts.inline(text, len(text))


def clipped(text: str, limit: int) -> str:
    """Return text in one line, cut between words if it is longer than `limit` characters."""
    whole = flat(text)
    if len(whole) <= limit:
        return whole
    head, space, _ = whole[: limit - 1].rpartition(" ")
    return f"{head if space else whole[: limit - 2]} …"


def lines(rows: Sequence[str]) -> str:
    """Return the rows as a block of text; an empty one says so."""
    return "\n".join(rows) or NONE


def linked(link: Mapping[str, Any]) -> str:
    """Return one line for a link between two notes, with its strength as a word."""
    strength = next(word for least, word in STEPS if link["strength"] >= least)
    relation = texts.inline(link["relation"], MAX_RELATION_CHARS)
    return f"{'-'.join(link['between'])} {relation}, {strength}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An earlier note shown for a new one, with the cosine of the two.

    `previous` says that it is the turn before; `same` that by their words both say the same, which is
    looked for where rules decide.
    """

    note: Note
    similarity: float | None
    previous: bool = False
    same: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """New notes, and the earlier ones that a prompt shows for each of them.

    Attributes:
        notes: The new notes, in order of seq.
        candidates: The earlier notes shown for each, best first, by its id.
        alias: What each is called, by id: n1… for the new ones, c1… for the others.
    """

    notes: Sequence[Note]
    candidates: Mapping[str, Sequence[Candidate]]
    alias: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, notes: Sequence[Note], candidates: Mapping[str, Sequence[Candidate]]) -> Offer:
        """Return the offer, in which every note has an alias."""
        unnamed = cls(notes=notes, candidates=candidates)
        return replace(unnamed, alias=aliases(unnamed.others, "c") | aliases(notes, "n"))

    @property
    def others(self) -> list[Note]:
        """The candidates that are no new notes themselves."""
        near = {other.id: other for note in self.notes for other in self.near(note)}
        for note in self.notes:
            near.pop(note.id, None)
        return [*near.values()]

    def part(self, notes: Sequence[Note], level: int) -> Offer:
        """Return the offer for some of the notes, at each higher level with half of the candidates, the nearest ones."""
        near = {n.id: self.candidates[n.id] for n in notes}
        fewer = {i: some[: len(some) >> level] for i, some in near.items()}
        return replace(self, notes=notes, candidates=fewer)

    def near(self, note: Note) -> list[Note]:
        """Return the candidates of a new note, best first."""
        return [candidate.note for candidate in self.candidates[note.id]]

    def enriched(self, notes: Iterable[Note]) -> list[Shown]:
        """Return notes as plain data with their attributes."""
        return [enriched(note, self.alias[note.id]) for note in notes]

    def data(self, note: Note) -> Shown:
        """Return a new note as plain data, with its candidates in order of rank."""
        candidates = [
            {
                "alias": self.alias[candidate.note.id],
                "similarity": candidate.similarity,
                "rank": rank,
                "previous": candidate.previous,
                "same": candidate.same,
                "same_thread": candidate.note.thread == note.thread is not None,
            }
            for rank, candidate in enumerate(self.candidates[note.id], start=1)
        ]
        return {**enriched(note, self.alias[note.id]), "candidates": candidates}

    def inputs(self) -> Shown:
        """Return the new notes and their candidates as plain data."""
        notes = [self.data(note) for note in self.notes]
        return {"notes": notes, "candidates": self.enriched(self.others)}

    def text(self) -> str:
        """Return the new notes as text, each with the ids it may refer to and the earlier notes not listed before."""
        listed, names = {note.id for note in self.notes}, speakers(self.notes)
        rows = apart(self.notes)
        for day, group in groupby(self.notes, key=day_of):
            rows.append(f"({day})")
            for note in group:
                rows += [
                    turn(note, self.alias[note.id]),
                    *meaning(note, names),
                    f"  ids: {self._ids(note)}",
                ]
                for other in self.near(note):
                    if other.id not in listed:
                        listed.add(other.id)
                        rows.append(f"  {candidate(other, self.alias[other.id])}")
        return "\n".join(rows)

    def _ids(self, note: Note) -> str:
        """Return the aliases of the candidates of a new note; the turn that the note replies to has a star."""
        ids = [
            f"{self.alias[one.note.id]}{'*' if one.previous and replies(note, one.note) else ''}"
            for one in self.candidates[note.id]
        ]
        return ", ".join(ids) or NONE

    def links(self) -> list[Shown]:
        """Return the first links between notes that are shown for one new note, each once, as plain data.

        Those from turn to turn, and from an answer to its question, are not for a model to judge.
        """
        found: dict[tuple[str, str], Link] = {}
        for note in self.notes:
            for one, other in permutations((note, *self.near(note)), 2):
                link = one.links.get(other.id)
                if link is not None and link.direction == "out" and link.relation not in SURE:
                    found[self.alias[one.id], self.alias[other.id]] = link
        return [
            {"between": [*ends], "relation": link.relation, "strength": round(link.strength, 2)}
            for ends, link in islice(found.items(), MAX_LINKS_SHOWN)
        ]
