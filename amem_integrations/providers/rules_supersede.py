"""Which earlier statement a later one takes the place of, decided by rules, without a language model.

Precision comes first: a rule fires where words tell of a change, a correction or an end *and* both
statements are about one thing, or where both give one property of one subject a different value.
What adds to an earlier statement, and what is wished, joked, asked, planned or quoted, replaces nothing.

How long a statement holds, if it says so, is read by `rules_until.read_until`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from .rules_until import read_until
from .statement_pair import CLOSE, SEVERAL, Pair, Statement
from .statement_reading import read

__all__ = ["Relation", "Statement", "Verdict", "supersession", "supersessions"]

Relation = Literal["updates", "corrects", "retracts", "contradicts"]

# Cosines of all-MiniLM-L6-v2. Unrelated statements of one person are mostly below the first.
FLOOR = 0.2
RELATED = 0.35
SAME = 0.6
NEARLY_EQUAL = 0.75

# "Sorry, I meant the 19th" speaks of what was said just before.
JUST_BEFORE = timedelta(hours=1)

_ANY_DAY = datetime(2000, 1, 1)  # noqa: DTZ001 - only whether an end is named counts


@dataclass(frozen=True)
class Verdict:
    """How a statement takes the place of an earlier one.

    Attributes:
        relation: `updates` (the world changed), `corrects` (it was never so), `retracts` (it no longer
            holds, nothing takes its place) or `contradicts` (no winner).
        reason: Which rule says so, and what both are about.
        bare: Whether the later one names no subject, and so means what was said last.
    """

    relation: Relation
    reason: str
    bare: bool = False


def supersession(older: Statement, newer: Statement, similarity: float) -> Verdict | None:
    """Return how `newer` takes the place of `older`, or None if it does not.

    The caller says which is the earlier one; the dates tell only whether one follows the other at once. `similarity`
    is the cosine of the two contents, by all-MiniLM-L6-v2.
    """
    for new in read(newer.content):
        for old in read(older.content, tentative=True):
            verdict = _decide(Pair(older, newer, old, new, similarity))
            if verdict is not None:
                return verdict
    return None


def supersessions(
    newer: Statement, candidates: Sequence[tuple[Statement, float]]
) -> list[Verdict | None]:
    """Return the verdict for each candidate: an earlier statement and its similarity to `newer`.

    More than one may be replaced. A correction that names no subject ("Sorry, I meant the 19th") replaces
    the last fitting statement only.
    """
    verdicts = [supersession(older, newer, similarity) for older, similarity in candidates]
    bare = [number for number, verdict in enumerate(verdicts) if verdict and verdict.bare]
    last = max(bare, key=lambda number: (_time(candidates[number][0]), number), default=None)
    return [
        None if number in bare and number != last else verdict
        for number, verdict in enumerate(verdicts)
    ]


def _time(statement: Statement) -> float:
    return statement.at.timestamp() if statement.at else 0.0


def _decide(pair: Pair) -> Verdict | None:
    if pair.other_entity:
        return None
    if _bare_correction(pair):
        return Verdict("corrects", "corrects what was said just before", bare=True)
    for relation, rule in _RULES:
        reason = rule(pair)
        if reason is not None:
            about = ", ".join(stem for stem in pair.new.topic if stem in pair.shared)
            ended_with_value = relation == "retracts" and pair.replaced
            return Verdict(
                "updates" if ended_with_value else relation,
                f"{reason}, both about {about}" if about else reason,
            )
    return None


def _bare_correction(pair: Pair) -> bool:
    just_before = pair.gap is not None and pair.gap <= JUST_BEFORE
    bare = "correct" in pair.new.cues and not pair.shared
    return bare and just_before and pair.same_speaker and pair.replaced


def _corrected(pair: Pair) -> str | None:
    if not ("correct" in pair.new.cues or pair.denied) or not pair.shared:
        return None
    other_value = pair.replaced and pair.similarity >= RELATED
    same = pair.same_speaker and len(pair.shared) >= SEVERAL and pair.similarity >= SAME
    other_words = not pair.replaced and same and not pair.new.adds
    return "words of a correction" if other_value or other_words else None


def _ended(pair: Pair) -> str | None:
    if "ended" not in pair.new.cues or not pair.same_speaker or not pair.same_subject:
        return None
    if pair.old.event and not pair.slots:
        return None
    near = pair.shared & pair.new.cues["ended"] or (pair.slots and pair.shared)
    return "words of an end" if near and pair.similarity >= RELATED else None


def _changed(pair: Pair) -> str | None:
    if "changed" not in pair.new.cues or pair.new.adds or pair.similarity < FLOOR:
        return None
    property_of_one = pair.slots and pair.same_person
    other_value = pair.replaced and pair.same_subject and pair.similarity >= SAME
    left = pair.shared & pair.new.denied
    replanned = pair.shared and "replanned" in pair.new.cues and pair.similarity >= CLOSE
    if property_of_one or other_value or left or replanned or _changed_subject(pair):
        return "words of a change"
    return None


def _changed_subject(pair: Pair) -> bool:
    """Return whether what both speak of gets another value, or is what the words of a change are about."""
    if not pair.shared or not pair.same_subject or pair.value_missing or pair.other_property:
        return False
    if (pair.replaced or pair.other_name) and pair.similarity >= RELATED:
        return True
    several = len(pair.shared) >= SEVERAL and pair.similarity >= CLOSE
    near = pair.shared & pair.new.cues["changed"] and not pair.old.event
    return bool(near) and (several or (pair.similarity >= SAME and not pair.value_dropped))


def _renewed(pair: Pair) -> str | None:
    """The later one gives a new value for what the earlier one names: "my new combination is …"."""
    if pair.new.adds or not pair.same_speaker or not pair.new.renewed & frozenset(pair.old.topic):
        return None
    given = (pair.replaced or pair.other_name) and pair.similarity >= RELATED
    return "gives a new value" if given else None


def _temporary(pair: Pair) -> str | None:
    """The later one says until when it holds, and so does not hold beside the earlier one."""
    if not pair.same_speaker or pair.new.adds or pair.repeated or pair.old.event:
        return None
    if read_until(pair.newer.content, pair.newer.at or _ANY_DAY) is None:
        return None
    same = pair.shared and (pair.replaced or pair.about_one_thing) and pair.similarity >= RELATED
    property_of_one = pair.slots and pair.same_person and pair.similarity >= FLOOR
    return "holds for a time" if same or property_of_one else None


def _now(pair: Pair) -> str | None:
    if "now" not in pair.new.cues or pair.new.adds or pair.new.many:
        return None
    if pair.slots and pair.same_person and pair.similarity >= RELATED and not pair.repeated:
        return "says what is so now"
    if pair.similarity < CLOSE or (pair.old.event and pair.new.event):
        return None
    named = pair.shared & pair.old.names
    other_name = named and pair.shared - named and pair.other_name
    several = (pair.shared and pair.anchored) or len(pair.shared) >= SEVERAL
    other_value = several and pair.same_subject and pair.replaced
    return "says what is so now" if other_name or other_value else None


def _restated(pair: Pair) -> str | None:
    """A later statement of the same form gives another value."""
    if not pair.same_speaker or pair.new.adds or pair.repeated or not pair.anchored:
        return None
    if pair.old.event or pair.new.event or pair.new.many:
        return None
    close = pair.similarity >= (NEARLY_EQUAL if pair.apart else SAME)
    same = pair.replaced and len(pair.shared) >= SEVERAL and close
    return "gives another value" if same else None


def _disagreed(pair: Pair) -> str | None:
    if pair.same_speaker or pair.new.adds or pair.old.first_person or not pair.anchored:
        return None
    if len(pair.shared) < SEVERAL or pair.similarity < SAME:
        return None
    differs = pair.replaced or "disagree" in pair.new.cues
    return "another speaker gives another value" if differs else None


_RULES: tuple[tuple[Relation, Callable[[Pair], str | None]], ...] = (
    ("corrects", _corrected),
    ("retracts", _ended),
    ("updates", _changed),
    ("updates", _renewed),
    ("updates", _temporary),
    ("updates", _now),
    ("updates", _restated),
    ("contradicts", _disagreed),
)
