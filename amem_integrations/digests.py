"""Pure: derived notes, which a model wrote of other notes: digests and facts. Whose they are, and whether they hold.

A *digest* gathers what is known on one topic from its `sources`. Its content is the text; its own context entry holds
the topic (`text`), the keywords, and who wrote it (`model`): the user, once the user has edited it.

It is *stale* when its text is gone, because a source was deleted or corrected, or when a source does not stand any more
as it did when the text was written. The first is stored; the rest is found out here from the notes as they are read,
so there is nothing that could be forgotten. A stale digest is not shown until it is written anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from .ids import now
from .kinds import DERIVED
from .notes import USER, Note


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
    if source.merged_into is not None and source.merged_into not in digest.sources:
        return True
    return any(
        s.replaces and s.since <= time and s.recorded_at > written_at(digest)
        for newer, s in source.supersessions.items()
        if newer not in digest.sources
    )


def expires_with(sources: Iterable[Note]) -> datetime | None:
    """Return when what is derived from these notes expires: with the first of them."""
    return min((note.expires_at for note in sources if note.expires_at), default=None)
