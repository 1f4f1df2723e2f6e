"""Pure: derived notes, which a model wrote of other notes: digests and facts. Whose they are, and whether they hold.

A *digest* gathers what is known on one topic from its `sources`. Its content is the text; its own context entry holds
the topic (`text`), the keywords, and who wrote it (`model`): the user, once the user has edited it.

It is *stale* when its text is gone, because a source was deleted or corrected, or when a source does not stand any more
as it did when the text was written. The first is stored; the rest is found out here from the notes as they are read,
so there is nothing that could be forgotten. A stale digest is not shown until it is written anew. Under the conditions of
a search it is judged by its sources: it may be shown only if all of them pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import SimpleNamespace

from .filters import Condition, Conditions, matches
from .ids import now
from .kinds import DERIVED
from .notes import USER, Note

DIGEST = "digest"
IS_DIGEST = Condition("kind", "$eq", DIGEST)
IS_PROFILE = (IS_DIGEST, Condition("metadata.profile", "$eq", True))
OWN = ("kind", "id", "sources")  # what is asked of the digest itself


def is_derived(note: Note) -> bool:
    """Return whether a note was written by a model of other notes."""
    return note.kind in DERIVED


def topic(digest: Note) -> str:
    """Return what a digest is about, in a few words; empty if that is gone."""
    return digest.own_entry.text if digest.own_entry else ""


def written_at(digest: Note) -> datetime:
    """Return when a digest was last written, by a model or by the user."""
    return digest.own_entry.recorded_at if digest.own_entry else digest.recorded_at


def is_users(digest: Note) -> bool:
    """Return whether the user edited a derived note: then it is the user's, and no model changes it."""
    return bool(digest.content) and digest.attributes_source == USER


def is_stale(digest: Note, sources: Mapping[str, Note], time: datetime | None = None) -> bool:
    """Return whether a digest says, or may say, what is not so any more.

    Args:
        digest: The digest.
        sources: Notes by id, its sources among them; one that is missing is gone.
        time: When it is to hold; None: now.
    """
    time = time or now()
    if not digest.content or not (digest.sources or is_users(digest)):
        return True
    held = [sources.get(source) for source in digest.sources]
    return any(note is None or _is_outdated(note, digest, time) for note in held)


def _is_outdated(source: Note, digest: Note, time: datetime) -> bool:
    """Return whether a source does not stand any more as it did when the digest was written."""
    if source.is_expired(time):
        return True
    return any(
        s.replaces and s.since <= time and s.recorded_at > written_at(digest)
        for newer, s in source.supersessions.items()
        if newer not in digest.sources
    )


def expires_with(sources: Iterable[Note]) -> datetime | None:
    """Return when what is derived from these notes expires: with the first of them."""
    return min((note.expires_at for note in sources if note.expires_at), default=None)


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
