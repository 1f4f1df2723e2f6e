"""Pure: which digests may be shown under the conditions and times of a search.

A digest tells what its sources say, so it is judged by these: under a filter it may be shown only if all of them pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from types import SimpleNamespace

from .digests import is_stale
from .filters import Condition, Conditions, matches
from .ids import now
from .notes import Note

DIGEST = "digest"
IS_DIGEST = Condition("kind", "$eq", DIGEST)
IS_PROFILE = (IS_DIGEST, Condition("metadata.profile", "$eq", True))
OWN = ("kind", "id", "sources")  # what is asked of the digest itself


@dataclass(frozen=True, slots=True)
class DigestFilter:
    """The conditions of a search, with those that follow from its times, and these."""

    where: Conditions = ()
    as_of: datetime | None = None
    known_at: datetime | None = None

    def alone(self) -> Conditions | None:
        """Return the conditions of a query for digests; None if the conditions themselves find all that may be shown."""
        kinds = tuple(c for c in self.where if c.field == "kind")
        own = tuple(filter(_is_own, self.where))
        if own == self.where or not matches(SimpleNamespace(kind=DIGEST), kinds):
            return None
        return (*own, IS_DIGEST)

    def admits(self, digest: Note, notes: Mapping[str, Note]) -> bool:
        """Return whether a digest may be shown; `notes` are its sources, and perhaps others, as of `known_at`."""
        if is_stale(digest, notes, self.as_of):
            return False
        own = tuple(filter(_is_own, self.where))
        others = tuple(c for c in self.where if c not in own)
        if others and not digest.sources:
            return False
        if self.known_at is not None and digest.recorded_at > self.known_at:
            return False
        sources = [notes[source] for source in digest.sources]
        held = all(matches(source, others) and self._held(source, digest) for source in sources)
        return held and matches(digest, own)

    def _held(self, source: Note, digest: Note) -> bool:
        """Return whether, by `as_of`, nothing had taken the place of a source that is no source itself."""
        return self.as_of is None or not (
            source.is_expired(now())
            or any(
                s.replaces and s.since <= self.as_of and newer not in digest.sources
                for newer, s in source.supersessions.items()
            )
        )


def _is_own(condition: Condition) -> bool:
    """Return whether a condition is about a digest itself; only of what is derived is `derived` the source."""
    asked = condition.value if isinstance(condition.value, tuple) else (condition.value,)
    return condition.field in OWN or (condition.field == "source" and "derived" in asked)
