"""The view that decisions make of a note: a pure function, so that everybody who makes the view makes the same one.

It also tells what the memory believed at an earlier time: notes in the wording of that time, with the decisions that were on
then. Nothing is written; what was deleted, or redacted with a text that was corrected, does not come back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from ..decisions import VISIBLE, Decision, Item, by_note
from ..ids import first_seq, time_of
from ..kinds import kind_of
from ..notes import (
    USER,
    Attempts,
    ContextEntry,
    Link,
    Namespace,
    Note,
    NoteInput,
    State,
    Supersession,
)
from ..ports import RecordQuery
from ..runtime import resolve
from ..stored_note import StoredNote

if TYPE_CHECKING:
    from ..stores.store import Store

MOST_LINKS = 32  # the weakest are left out of a view; no switch is written for it
MOST_SENTENCES = 8  # of other notes; the newest count

# The fields of a note that a view may change: all others are the user's.
VIEW_FIELDS = frozenset(
    {
        "contexts",
        "links",
        "supersessions",
        "state",
        "failure",
        "attempts",
        "next_attempts",
        "kind",
        "passages",
    }
)


def fold(
    stored: StoredNote, decisions: Iterable[Decision], most_links: int = MOST_LINKS
) -> StoredNote:
    """Return a stored note with the view that the decisions about it make; a tombstone stays as it is."""
    if stored.note is None:
        return stored
    about = sorted(decisions, key=lambda decision: (decision.seq, decision.id))
    own = [one for one in about if one.note == stored.id and one.rev == stored.rev]
    on = [_On(one, item) for one in about if one.shows for item in one.items if item.is_on]
    entry = _entry(stored, on)
    failed = [one for one in own if one.stage == "failure" and one.shows]
    state = _state(stored.note, entry, own, failed)
    links = _links(stored.id, on)
    contexts = [*([entry] if entry else []), *_sentences(stored.id, on)]
    kind = entry.item.data.get("kind") if entry else None
    view: dict[str, Any] = {
        "contexts": tuple(map(_context, contexts)),
        "links": _strongest(links, most_links),
        "supersessions": dict(_supersessions(stored.id, on)),
        "state": state,
        "failure": failed[-1].items[0].text if state == "failed" else None,
        "attempts": 0 if state == "done" else _failures(own),
        "next_attempts": Attempts(*(_next_attempt(own, one, entry) for one in Attempts._fields)),
        "kind": kind or kind_of(stored.note.content),
    }
    return replace(
        stored,
        note=replace(stored.note, **view),
        supersedes=tuple(_superseded(stored.id, on)),
    )


def changed_fields(before: Note, after: Note) -> list[str]:
    """Return the names of the user's fields in which two versions of a note differ."""
    names = [name for name in Note.__dataclass_fields__ if name not in VIEW_FIELDS]
    return [name for name in names if getattr(before, name) != getattr(after, name)]


def shows_same(one: StoredNote, other: StoredNote) -> bool:
    """Return whether two versions of a stored note have the same wording and the same view."""
    beside = ("rev", "supersedes", "is_deleted")
    return all(getattr(one, name) == getattr(other, name) for name in beside) and all(
        getattr(one.note, name, None) == getattr(other.note, name, None) for name in VIEW_FIELDS
    )


class _On(NamedTuple):
    """An item that is switched on, of a decision that shows."""

    decision: Decision
    item: Item


def _entry(stored: StoredNote, on: Iterable[_On]) -> _On | None:
    """Return the entry of the note's wording that was switched on last; a first one was switched on when it was made."""
    wording = (stored.id, stored.rev)
    made = (one for one in on if one.decision.stage == "construct")
    return max(
        (one for one in made if (one.decision.note, one.decision.rev) == wording),
        key=lambda one: (one.item.switched_at, one.decision.attempt, one.decision.id),
        default=None,
    )


def _next_attempt(own: Sequence[Decision], stage: str, entry: _On | None) -> int:
    """Return the attempt of the decision that counts; of one that is spent, the one after it."""
    attempts = [
        one.attempt + _is_spent(one, entry)
        for one in own
        if one.stage == stage and (one.void or one.phase <= VISIBLE)
    ]
    return max(attempts, default=0)


def _is_spent(decision: Decision, entry: _On | None) -> bool:
    """Return whether a decision does not count any more, so that the next attempt is free.

    Links that somebody has switched off are not asked for again, unless the entry that they were made for went too.
    """
    if decision.stage == "failure":
        return True
    if decision.void or decision.stage == "construct":
        return decision.is_off
    return decision.is_off and (entry is None or entry.decision.seq > decision.seq)


def _failures(own: Sequence[Decision]) -> int:
    """Return how often no usable answer came since the last step that went well, also where the reason is gone."""
    last = _last_entry(own)
    return sum(one.stage == "failure" and one.seq > last for one in own)


def _last_entry(own: Sequence[Decision]) -> int:
    """Return the seq of the last decision that gives the note an entry, switched on or not; 0 if there is none."""
    return max((one.seq for one in own if one.stage == "construct" and one.items), default=0)


def first_state(note: Note | NoteInput) -> State:
    """Return the state of a note of which nothing is decided: only what was said in a conversation waits for a model."""
    return "pending" if note.origin == "conversation" else "done"


def _state(
    note: Note, entry: _On | None, own: Sequence[Decision], failed: Sequence[Decision]
) -> State:
    if note.origin != "conversation":
        return first_state(note)
    if entry is not None and any(
        one.stage == "link" and one.shows and not _is_spent(one, entry) for one in own
    ):
        return "done"
    if failed and failed[-1].seq > _last_entry(own):
        return "failed"
    return "pending" if entry is None else "constructed"


def _sentences(note_id: str, on: Iterable[_On]) -> list[_On]:
    """Return the newest sentences that other notes added, oldest first."""
    added = [one for one in on if one.item.kind == "sentence" and one.item.to == note_id]
    return added[-MOST_SENTENCES:]


def _context(one: _On) -> ContextEntry:
    """Return an entry of a note, or a sentence that a later note added, as it stands among the contexts."""
    decision, item = one
    return ContextEntry(
        text=item.text,
        keywords=tuple(item.data.get("keywords", ())),
        tags=tuple(item.data.get("tags", ())),
        cause=decision.note,
        model=item.by,
        change=f"{decision.id}:{item.number}",
        at=decision.at,
        recorded_at=time_of(decision.seq),
        until=_time(item.data.get("until")),
        sources=tuple(source for source in item.sources if source.id != item.to),
    )


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _links(note_id: str, on: Sequence[_On]) -> dict[str, Link]:
    """Return the links of a note by the note at their other end, with the strength that was decided last."""
    links: dict[str, Link] = {}
    for decision, item in on:
        if item.kind == "link" and note_id in (decision.note, item.to):
            outward = decision.note == note_id
            links[item.to if outward else decision.note] = Link(
                relation=item.data.get("relation", ""),
                reason=item.text,
                strength=item.data.get("strength", 1.0),
                direction="out" if outward else "in",
                created=time_of(decision.seq),
            )
    for _, item in on:
        if item.kind == "relink" and note_id in (item.other, item.to):
            other = item.to if item.other == note_id else item.other
            if other in links:
                links[other] = replace(links[other], strength=item.data["strength"])
    return {other: link for other, link in links.items() if link.strength > 0}


def _strongest(links: Mapping[str, Link], most: int) -> dict[str, Link]:
    kept = sorted(links, key=lambda other: (-links[other].strength, other))[:most]
    return {other: links[other] for other in sorted(kept)}


def _supersessions(note_id: str, on: Iterable[_On]) -> Iterator[tuple[str, Supersession]]:
    """Yield by the newer note why a note is outdated, the latest last; what the user said stands above what a model said."""
    verdicts = [one for one in on if one.item.kind == "supersession" and one.item.to == note_id]
    for decision, item in sorted(verdicts, key=lambda one: one.item.by == USER):
        yield (
            decision.note,
            Supersession(
                relation=item.data.get("relation", "updates"),
                reason=item.text,
                model=item.by,
                change=f"{decision.id}:{item.number}",
                since=decision.at,
                recorded_at=time_of(decision.seq),
            ),
        )


def _superseded(note_id: str, on: Iterable[_On]) -> list[str]:
    """Return the ids of the notes whose place a note takes, sorted."""
    own = (item for decision, item in on if decision.note == note_id)
    return sorted({item.to for item in own if item.kind == "supersession"})


async def notes_as_known(
    store: Store,
    namespace: Namespace,
    stored: Sequence[StoredNote],
    time: datetime,
    most_links: int,
) -> list[StoredNote]:
    """Return the stored notes that the memory knew at a time, as the memory knew them; one request.

    The vectors, if the notes have any, are those of today.
    """
    wanted = RecordQuery(about=frozenset(one.id for one in stored))
    records = await resolve(store.find_records(namespace, wanted)) if stored else {}
    about = by_note(one for one in records.values() if isinstance(one, Decision))
    notes = (_as_known(one, about[one.id], time, most_links) for one in stored)
    return [note for note in notes if note is not None]


def _as_known(
    stored: StoredNote, about: Iterable[Decision], time: datetime, most_links: int
) -> StoredNote | None:
    """Return a stored note as the memory knew the note at a time, by the decisions about the note.

    None: the note was deleted, or was not there yet.
    """
    if stored.note is None or stored.note.recorded_at > time:
        return None
    last = first_seq(time) + 999  # nanoseconds: the last instant of this microsecond
    known = [
        one.with_items(lambda item: _switched_as_of(item, last)) for one in about if one.seq <= last
    ]
    return fold(_worded_as_of(stored, last), known, most_links)


def _worded_as_of(stored: StoredNote, last: int) -> StoredNote:
    """Return a stored note with the values of its fields at an instant."""
    note, rev = stored.note, stored.rev
    for earlier in reversed(stored.earlier):
        if earlier.seq > last and note is not None:
            note, rev = replace(note, **earlier.values), earlier.rev
    if note is not None and stored.note is not None and note.content != stored.note.content:
        note = replace(note, passages=(), kind=kind_of(note.content))
    return replace(stored, note=note, rev=rev)


def _switched_as_of(item: Item, last: int) -> Item:
    """Return an item with its switch as the switch was set at an instant."""
    return item.as_logged(tuple(flip for flip in item.log if flip.seq <= last))
