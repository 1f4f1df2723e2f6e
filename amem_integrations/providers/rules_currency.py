"""Which earlier statement a later one takes the place of, decided by rules, without a language model.

Precision comes first: a rule fires where words tell of a change, a correction or an end *and* both
statements are about the same thing, or where both give one property of one subject a different value.
What adds to an earlier statement, and what is wished, joked, asked, planned or quoted, replaces nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from .rules_until import read_until
from .statement_reading import Reading, read

Relation = Literal["updates", "corrects", "retracts", "contradicts"]

# Cosines of all-MiniLM-L6-v2. Unrelated turns of one person are below .2 in most cases.
FLOOR = 0.2
RELATED = 0.35
CLOSE = 0.5
SAME = 0.6
NEARLY_EQUAL = 0.75

_ANY_DAY = datetime(2000, 1, 1)  # noqa: DTZ001 - only whether an end is named counts

# A statement of more stems speaks of several things.
TOPICS_OF_ONE_THING = 7

# "Sorry, I meant the 19th" speaks of what was said just before.
JUST_BEFORE = timedelta(hours=1)


@dataclass(frozen=True)
class Statement:
    """One statement of a speaker.

    Attributes:
        content: What was said.
        speaker: Who said it, None if unknown.
        source: `user`, `assistant` or `tool`.
        at: When it was said.
    """

    content: str
    speaker: str | None = None
    source: str = "user"
    at: datetime | None = None


@dataclass(frozen=True)
class Verdict:
    """How a statement takes the place of an earlier one, and which rule says so."""

    relation: Relation
    reason: str


@dataclass(frozen=True)
class _Pair:
    """Two statements side by side."""

    older: Statement
    newer: Statement
    old: Reading
    new: Reading
    similarity: float

    @property
    def shared(self) -> frozenset[str]:
        return frozenset(self.old.topic) & frozenset(self.new.topic)

    @property
    def same_speaker(self) -> bool:
        return self.older.speaker == self.newer.speaker or "user" not in (
            self.older.source,
            self.newer.source,
        )

    @property
    def slots(self) -> frozenset[str]:
        return self.old.slots & self.new.slots

    @property
    def replaced(self) -> bool:
        """Whether both give a value of one type, and not the same."""
        return any(not values & others for values, others in self._values_of_one_type())

    @property
    def repeated(self) -> bool:
        """Whether both give the same value of a type."""
        return any(values & others for values, others in self._values_of_one_type())

    def _values_of_one_type(self) -> Iterator[tuple[frozenset[str], frozenset[str]]]:
        for kind, values in self.old.values.items():
            for other, others in self.new.values.items():
                if kind != "name" and _comparable(kind, other):
                    yield values, others

    @property
    def gap(self) -> timedelta | None:
        if self.older.at is None or self.newer.at is None:
            return None
        return self.newer.at - self.older.at


def _comparable(kind: str, other: str) -> bool:
    """Return whether two types of values are one: a number without a unit may have any, or be a time."""
    if "number" in (kind, other):
        return all(one.startswith("number") or one == "time" for one in (kind, other))
    return kind == other


def supersession(older: Statement, newer: Statement, similarity: float) -> Verdict | None:
    """Return how `newer` takes the place of `older`, or None if it does not.

    Args:
        older: The earlier statement.
        newer: The later one.
        similarity: Cosine of the two contents, by all-MiniLM-L6-v2.
    """
    for new in read(newer.content):
        for old in read(older.content, tentative=True):
            verdict = _decide(_Pair(older, newer, old, new, similarity))
            if verdict is not None:
                return verdict
    return None


def _decide(pair: _Pair) -> Verdict | None:
    if _other_entity(pair):
        return None
    for rule in (_corrected, _ended, _changed, _renewed, _temporary, _now, _restated, _disagreed):
        verdict = rule(pair)
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
    fitting = [
        number
        for number, verdict in enumerate(verdicts)
        if verdict is not None and verdict.reason == _JUST_BEFORE_REASON
    ]
    last = max(fitting, key=lambda number: (_time(candidates[number][0]), number), default=None)
    return [
        None if number in fitting and number != last else verdict
        for number, verdict in enumerate(verdicts)
    ]


def _time(statement: Statement) -> float:
    return statement.at.timestamp() if statement.at else 0.0


_JUST_BEFORE_REASON = "corrects what was said just before"


def _other_entity(pair: _Pair) -> bool:
    """Return whether the two speak of different persons or things."""
    old, new = pair.old, pair.new
    if not pair.same_speaker and old.first_person and new.first_person:
        return True
    if old.labels and new.labels and not old.labels & new.labels and "correct" not in new.cues:
        return True
    if old.kin != new.kin and new.topic and not old.names & frozenset(new.topic):
        return (bool(new.kin) and not _denied(pair)) or not pair.replaced
    if "correct" in new.cues:
        return False
    return any(
        stem in old.before and stem in new.before and _differ(old, new, stem)
        for stem in pair.shared - old.names
    )


def _other_property(pair: _Pair) -> bool:
    """Return whether the later one gives a property of a person whom the earlier one only names."""
    if pair.slots or pair.replaced or not pair.shared <= pair.old.names | pair.new.names:
        return False
    of_the_named = pair.new.anchor in pair.old.names and not pair.new.first_person
    return bool(pair.new.slots - pair.old.slots) or of_the_named


def _differ(old: Reading, new: Reading, stem: str) -> bool:
    """Return whether a word has different words before it: "design team", "platform team"."""
    before_old, before_new = old.before[stem], new.before[stem]
    return before_old not in new.topic and before_new not in old.topic


def _corrected(pair: _Pair) -> Verdict | None:
    if "correct" not in pair.new.cues and not _denied(pair):
        return None
    just_before = pair.gap is not None and pair.gap <= JUST_BEFORE
    if just_before and pair.same_speaker and pair.replaced and not pair.shared:
        return Verdict("corrects", _JUST_BEFORE_REASON) if "correct" in pair.new.cues else None
    if not pair.shared or (_added(pair) and not pair.replaced):
        return None
    if pair.replaced and pair.similarity >= RELATED:
        return _verdict("corrects", pair, "words of a correction")
    if pair.same_speaker and len(pair.shared) >= 2 and pair.similarity >= SAME:
        return _verdict("corrects", pair, "words of a correction")
    return None


def _denied(pair: _Pair) -> bool:
    """Return whether the later one says of a number of the earlier one that it is not so."""
    numbers = frozenset[str]().union(*pair.old.values.values()) - pair.old.names
    return bool(pair.new.denied & numbers)


def _ended(pair: _Pair) -> Verdict | None:
    if "ended" not in pair.new.cues or not pair.same_speaker:
        return None
    if (pair.old.event and not pair.slots) or not _same_subject(pair):
        return None
    near = pair.shared & pair.new.cues["ended"]
    if (near and pair.similarity >= RELATED) or (
        pair.slots and pair.shared and pair.similarity >= RELATED
    ):
        return _verdict("updates" if pair.replaced else "retracts", pair, "words of an end")
    return None


def _changed(pair: _Pair) -> Verdict | None:
    if "changed" not in pair.new.cues or _added(pair):
        return None
    if pair.slots and _same_person(pair) and pair.similarity >= FLOOR:
        return _verdict("updates", pair, "words of a change")
    if pair.replaced and pair.similarity >= SAME and _same_subject(pair):
        return _verdict("updates", pair, "words of a change")
    if pair.shared & pair.new.denied and pair.similarity >= FLOOR:
        return _verdict("updates", pair, "words of a change")
    if "replanned" in pair.new.cues and pair.shared and pair.similarity >= CLOSE:
        return _verdict("updates", pair, "a change of plans")
    if not pair.shared or _value_missing(pair) or not _same_subject(pair):
        return None
    if _other_property(pair):
        return None
    if (pair.replaced or _other_name(pair)) and pair.similarity >= RELATED:
        return _verdict("updates", pair, "words of a change")
    near = pair.shared & pair.new.cues["changed"]
    enough = len(pair.shared) >= 2 or pair.similarity >= SAME
    if near and enough and pair.similarity >= CLOSE and not pair.old.event:
        return _verdict("updates", pair, "words of a change")
    return None


def _renewed(pair: _Pair) -> Verdict | None:
    """The later one gives a new value for what the earlier one names: "my new combination is …"."""
    if _added(pair) or not pair.same_speaker or not pair.new.renewed & frozenset(pair.old.topic):
        return None
    if (pair.replaced or _other_name(pair)) and pair.similarity >= RELATED:
        return _verdict("updates", pair, "gives a new value")
    return None


def _temporary(pair: _Pair) -> Verdict | None:
    """The later one says until when it holds, and so does not hold beside the earlier one."""
    if not pair.same_speaker or _added(pair) or pair.repeated or pair.old.event:
        return None
    if read_until(pair.newer.content, pair.newer.at or _ANY_DAY) is None:
        return None
    same = pair.shared and (pair.replaced or _about_one_thing(pair)) and pair.similarity >= RELATED
    if same or (pair.slots and _same_person(pair) and pair.similarity >= FLOOR):
        return _verdict("updates", pair, "holds for a time")
    return None


def _about_one_thing(pair: _Pair) -> bool:
    """Return whether both are statements of one subject, and say little more."""
    if not pair.shared - pair.old.names - pair.new.names:
        return False
    if pair.old.anchor is None:
        short = max(len(pair.old.topic), len(pair.new.topic)) <= TOPICS_OF_ONE_THING
        return short and not pair.old.many and pair.similarity >= CLOSE
    close = len(pair.shared) >= 2 or pair.similarity >= CLOSE
    return pair.old.anchor in pair.new.topic and close


def _now(pair: _Pair) -> Verdict | None:
    if "now" not in pair.new.cues or _added(pair) or pair.new.many:
        return None
    if pair.slots and _same_person(pair) and pair.similarity >= RELATED and not pair.repeated:
        return _verdict("updates", pair, "says what is so now")
    same = _anchored(pair) or len(pair.shared) >= 2
    if pair.old.event and pair.new.event:
        return None
    named = pair.shared & pair.old.names
    if named and pair.shared - named and _other_name(pair) and pair.similarity >= CLOSE:
        return _verdict("updates", pair, "says what is so now")
    if same and _same_subject(pair) and pair.shared and pair.replaced and pair.similarity >= CLOSE:
        return _verdict("updates", pair, "says what is so now")
    return None


def _restated(pair: _Pair) -> Verdict | None:
    """A later statement of the same form gives another value."""
    if not pair.same_speaker or _added(pair) or pair.repeated:
        return None
    if pair.old.event or pair.new.event or pair.new.many or not _anchored(pair):
        return None
    apart = frozenset(pair.old.topic) - pair.shared and frozenset(pair.new.topic) - pair.shared
    if apart and pair.similarity < NEARLY_EQUAL:
        return None  # the gym's fee, the pool's fee
    if pair.replaced and len(pair.shared) >= 2 and pair.similarity >= SAME:
        return _verdict("updates", pair, "gives another value")
    return None


def _disagreed(pair: _Pair) -> Verdict | None:
    if pair.same_speaker or _added(pair) or pair.old.first_person:
        return None
    if len(pair.shared) < 2 or pair.similarity < SAME or not _anchored(pair):
        return None
    if pair.replaced or "disagree" in pair.new.cues:
        return _verdict("contradicts", pair, "another speaker gives another value")
    return None


def _added(pair: _Pair) -> bool:
    return "added" in pair.new.cues


def _same_person(pair: _Pair) -> bool:
    """Return whether a property of a person is that of the same person."""
    return pair.same_speaker and pair.old.kin == pair.new.kin


def _other_name(pair: _Pair) -> bool:
    """Return whether each gives a name that the other does not give."""
    old, new = pair.old.names, pair.new.names
    return bool(old - frozenset(pair.new.topic)) and bool(new - frozenset(pair.old.topic))


def _value_missing(pair: _Pair) -> bool:
    """Return whether the later one gives a value of a type that the earlier one has none of."""
    given = {kind for kind in pair.new.values if kind != "name"}
    return bool(given) and not (pair.replaced or pair.repeated)


def _same_subject(pair: _Pair) -> bool:
    """Return whether the later one speaks of the earlier one's subject, as far as its first words tell."""
    old, new = pair.old, pair.new
    if old.anchor is None:
        own = new.anchor is None or new.first_person or new.anchor in old.topic
        return own or len(pair.shared) >= 2 or bool(pair.shared & old.names)
    return bool(pair.shared & {*pair.old.topic[:2], *pair.old.names})


def _anchored(pair: _Pair) -> bool:
    """Return whether what the earlier one starts with, mostly its subject, is in the later one too."""
    if pair.old.anchor is None:
        return pair.new.anchor is None or pair.new.anchor in pair.old.topic
    return pair.old.anchor in pair.new.topic


def _verdict(relation: Relation, pair: _Pair, cue: str) -> Verdict:
    about = ", ".join(stem for stem in pair.new.topic if stem in pair.shared)
    return Verdict(relation, f"{cue}, both about {about}" if about else cue)
