"""Pure: which notes say the same, so that one of them is shown for all.

Notes belong together by links of the relation `repeats`, and where one speaker says the same words. Rules draw such a
link where two texts differ in nothing but their wording, as far as words can tell; in doubt they do not.

Vectors of texts that differ in one number, name or negation are nearly the same, so a cosine would take for a repetition
what says something else. Texts say the same here if they have the same phrases, in any order: the words that tell
nothing by themselves are left out, and a few synonyms are one word. The word lists are English; texts in other
languages say the same in the same words.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from .kinds import is_bare
from .notes import Note, ScoredNote
from .plans import ANSWERS, REPEATS

_WORD = re.compile(r"[+-]?\d+(?:[.,:/-]\d+)*|[^\W\d_]+(?:'[^\W\d_]+)*")
_PART = re.compile(r"[,;:.!]\s")
_APOSTROPHES = dict.fromkeys(
    map(ord, "\N{RIGHT SINGLE QUOTATION MARK}\N{LEFT SINGLE QUOTATION MARK}`"), "'"
)

_FILE = Path(__file__).with_name("repetition_words.json")
_LISTS: dict[str, Any] = json.loads(_FILE.read_text(encoding="utf-8"))
WORDS = {name: frozenset(text.split()) for name, text in _LISTS.items() if isinstance(text, str)}
_COUNTED = "zero one two three four five six seven eight nine ten eleven twelve"
PERSONS = {word: person for person, text in _LISTS["persons"].items() for word in text.split()}
BORDERS = PERSONS.keys() | WORDS["prepositions"] | WORDS["joins"] | WORDS["articles"]  # of phrases
# By a word the one that stands for the word.
SAME = {word: str(number) for number, word in enumerate(_COUNTED.split())} | PERSONS
SAME |= {word: group.split()[0] for group in _LISTS["synonyms"] for word in group.split()}


def says_same(one: Note, other: Note) -> bool:
    """Return whether nothing in the words of two notes tells what they say apart.

    One speaker says them, and on another day without a word such as "yesterday".
    """
    if voice(one) != voice(other) or one.passages or other.passages:
        return False
    is_relative = not WORDS["relative"].isdisjoint(_words(one.content))
    if is_relative and one.when.date() != other.when.date():
        return False
    return is_reworded(one.content, other.content)


def voice(note: Note) -> Hashable:
    """Return the voice of a note: speaker and source, and of an imported note also its metadata."""
    place = repr(sorted(note.metadata.items())) if note.source == "import" else None
    return note.speaker, note.source, place


def is_reworded(one: str, other: str) -> bool:
    """Return whether two texts differ in nothing but their wording."""
    if normal(one) == normal(other):
        return True
    # A word of another script may be told apart by marks that are no letters.
    is_latin = all(char < "\u0250" or not char.isalpha() for char in one + other)
    return is_latin and _signs(one) == _signs(other) and _phrases(one) == _phrases(other)


def normal(text: str) -> str:
    """Return a text without what makes no difference: case, marks of quotation, spaces and a full stop."""
    return " ".join(_plain(text).split()).rstrip(".! ")


@lru_cache(maxsize=4096)
def _words(text: str) -> tuple[str, ...]:
    found: list[str] = []
    for word in _WORD.findall(_plain(text)):
        if word.endswith("n't") or word == "cannot":
            found.append("not")
        else:
            found += [word] if word in PERSONS else word.replace("'", " '").split()
    return tuple(found)


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text).translate(_APOSTROPHES).casefold()


def _signs(text: str) -> list[str]:
    return sorted(c for c in text if unicodedata.category(c)[0] == "S" or c in "%#@&/?")


def _phrases(text: str) -> list[tuple[str, ...]]:
    """Return the phrases of a text, sorted: parts between commas, prepositions, persons and articles.

    "On Fridays I swim" and "I swim on Fridays" have the same; "Ann called Bob" and "Bob called Ann" have not.
    """
    phrases: list[list[str]] = []
    for part in _PART.split(text):
        phrases.append([])
        for word in _words(part):
            if word in BORDERS:
                phrases.append([])
            if word not in WORDS["function"] or word in PERSONS or word in WORDS["prepositions"]:
                phrases[-1].append(SAME.get(word, word))
    return sorted(tuple(phrase) for phrase in phrases if phrase)


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
    if len(set(groups.values())) == len(groups) == len(hits):
        return list(hits)
    members, said = defaultdict[str, list[ScoredNote]](list), defaultdict[str, list[datetime]](list)
    for hit in hits:
        members[groups[hit.note.id]].append(hit)
    for note in notes.values():
        said[groups[note.id]].append(note.when)
    shown = {group: max(some, key=_fullness) for group, some in members.items()}
    # By the id of each note the one that is shown for it.
    stand = {i: shown[group].note.id for i, group in groups.items() if group in shown}
    once = []
    for hit in hits:
        group = groups[hit.note.id]
        best = shown[group]
        # An outdated note keeps its own place, below the note that took its place.
        if hit is (members[group][0] if _holds(best) else best):
            told = replace(
                best,
                score=hit.score,
                times_said=len(said[group]),
                last_said=max(said[group]) if len(said[group]) > 1 else None,
                superseded_by=stand.get(best.superseded_by or "", best.superseded_by),
            )
            once.append(told)
    return once


def _groups(notes: Iterable[Note]) -> dict[str, str]:
    """Return by the id of each note an id that those have in common which say the same."""
    groups: dict[str, list[str]] = {}
    spoken: dict[Hashable, str] = {}
    for note in notes:
        said = note.id if _is_bare_reply(note) else normal(note.content)
        same = spoken.setdefault((voice(note), said), note.id)
        for other in (same, *repeated(note)):
            both = [groups.setdefault(one, [one]) for one in (note.id, other)]
            fewer, more = sorted(both, key=len)
            if fewer is not more:  # the fewer go to the more: none is moved often
                more += fewer
                groups |= dict.fromkeys(fewer, more)
    return {name: group[0] for name, group in groups.items()}


def _is_bare_reply(note: Note) -> bool:
    """Return whether a note says nothing without the question that it answers: "Yes." is many things."""
    ways = [(link.relation, link.direction) for link in note.links.values()]
    return (ANSWERS, "out") in ways and is_bare(note.content)


def _fullness(hit: ScoredNote) -> tuple[object, ...]:
    note = hit.note
    is_users = note.source not in ("assistant", "tool")
    length = len(normal(note.content))
    return _holds(hit), note.kind == "statement", is_users, length, note.when, note.seq


def _holds(hit: ScoredNote) -> bool:
    return hit.superseded_by is None and not hit.is_over
