"""Two statements side by side: whether they speak of one thing, and what they give differently."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from .statement_reading import Reading

# Cosines of all-MiniLM-L6-v2.
CLOSE = 0.5

# So many words in common, values and common words aside, are more than chance.
SEVERAL = 2

# A statement of more words than these speaks of several things.
WORDS_OF_ONE_THING = 7


@dataclass(frozen=True)
class Statement:
    """One statement of a speaker.

    Attributes:
        content: The statement as it was made.
        speaker: Who made it, None if unknown.
        source: `user`, `assistant` or `tool`.
        at: When it was made.
    """

    content: str
    speaker: str | None = None
    source: str = "user"
    at: datetime | None = None


@dataclass(frozen=True)
class Pair:
    """An earlier and a later statement, each with a reading of it or of a part of it."""

    older: Statement
    newer: Statement
    old: Reading
    new: Reading
    similarity: float

    @cached_property
    def shared(self) -> frozenset[str]:
        """Stems of what both speak of."""
        return frozenset(self.old.topic) & frozenset(self.new.topic)

    @property
    def slots(self) -> frozenset[str]:
        """Properties with one value at a time that both give."""
        return self.old.slots & self.new.slots

    @property
    def same_speaker(self) -> bool:
        """Whether one person, or one kind of source, made both."""
        return (self.older.speaker, self.older.source) == (self.newer.speaker, self.newer.source)

    @property
    def same_person(self) -> bool:
        """Whether a property that both give is that of one person."""
        return self.same_speaker and self.old.kin == self.new.kin

    @property
    def gap(self) -> timedelta | None:
        """Time between the two, None if one has no date."""
        if self.older.at is None or self.newer.at is None:
            return None
        return self.newer.at - self.older.at

    @property
    def replaced(self) -> bool:
        """Whether both give a value of one type, and not the same."""
        return any(not values & others for values, others in self._values_of_one_type())

    @property
    def repeated(self) -> bool:
        """Whether both give the same value of a type."""
        return any(values & others for values, others in self._values_of_one_type())

    @property
    def value_missing(self) -> bool:
        """Whether the later one gives values, but none of a type that the earlier one gives."""
        given = any(kind != "name" for kind in self.new.values)
        return given and not (self.replaced or self.repeated)

    @property
    def value_dropped(self) -> bool:
        """Whether the earlier one gives values, and the later one none at all."""
        old, new = ({*one.values} - {"name"} for one in (self.old, self.new))
        return bool(old) and not new

    @property
    def other_name(self) -> bool:
        """Whether each gives a name that the other does not give."""
        only_old = self.old.names - frozenset(self.new.topic)
        return bool(only_old and self.new.names - frozenset(self.old.topic))

    @property
    def denied(self) -> bool:
        """Whether the later one says of a number or a date of the earlier one that it is not so."""
        values = frozenset[str]().union(*self.old.values.values()) - self.old.names
        return bool(self.new.denied & values)

    @property
    def apart(self) -> bool:
        """Whether each speaks of something that the other does not: the gym's fee, the pool's fee."""
        return bool(set(self.old.topic) - self.shared and set(self.new.topic) - self.shared)

    @property
    def anchored(self) -> bool:
        """Whether what the earlier one starts with, mostly its subject, is in the later one too."""
        if self.old.anchor is None:
            return self.new.anchor is None or self.new.anchor in self.old.topic
        return self.old.anchor in self.new.topic

    @property
    def same_subject(self) -> bool:
        """Whether the later one speaks of the earlier one's subject, as far as its first words tell."""
        old, new = self.old, self.new
        if old.anchor is None:
            own = new.anchor is None or new.first_person or new.anchor in old.topic
            return own or len(self.shared) >= SEVERAL or bool(self.shared & old.names)
        return bool(self.shared & {*old.subject, *old.names})

    @property
    def other_entity(self) -> bool:
        """Whether the two speak of different persons or things."""
        old, new = self.old, self.new
        if not self.same_speaker and old.first_person and new.first_person:
            return True
        correcting = "correct" in new.cues
        if old.labels and new.labels and not old.labels & new.labels and not correcting:
            return True
        if old.kin != new.kin and new.topic and not old.names & frozenset(new.topic):
            return (bool(new.kin) and not self.denied) or not self.replaced
        if correcting or (self.slots and self.same_person and old.anchor is None):
            return False
        return any(self._told_apart(stem) for stem in self.shared - old.names)

    @property
    def other_property(self) -> bool:
        """Whether the later one gives a property of a person whom the earlier one only names."""
        if self.slots or self.replaced or not self.shared <= self.old.names | self.new.names:
            return False
        of_the_named = self.new.anchor in self.old.names and not self.new.first_person
        return bool(self.new.slots - self.old.slots) or of_the_named

    @property
    def about_one_thing(self) -> bool:
        """Whether both are statements of one subject, and say little more."""
        if not self.shared - self.old.names - self.new.names:
            return False
        if self.old.anchor is None:
            short = max(len(self.old.topic), len(self.new.topic)) <= WORDS_OF_ONE_THING
            return short and not self.old.many and self.similarity >= CLOSE
        close = len(self.shared) >= SEVERAL or self.similarity >= CLOSE
        return self.old.anchor in self.new.topic and close

    def _told_apart(self, stem: str) -> bool:
        """Return whether a word has different words before it: "design team", "platform team"."""
        old, new = self.old.before.get(stem), self.new.before.get(stem)
        return (
            old is not None
            and new is not None
            and old not in self.new.topic
            and new not in self.old.topic
        )

    def _values_of_one_type(self) -> Iterator[tuple[frozenset[str], frozenset[str]]]:
        for kind, values in self.old.values.items():
            for other, others in self.new.values.items():
                if kind != "name" and _one_type(kind, other):
                    yield values, others


def _one_type(kind: str, other: str) -> bool:
    """Return whether two types of values are one: a number without a unit may have any, or be a time."""
    if "number" in (kind, other):
        return all(one.startswith("number") or one == "time" for one in (kind, other))
    return kind == other
