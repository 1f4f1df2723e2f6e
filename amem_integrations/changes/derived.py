"""Pure: how derived notes (see `digests`) are written, edited by the user, and emptied, and the records of it.

A record holds the whole of what a derived note says, as the one field `derived`: its text, its own entry (with topic
and keywords) and its sources, `before` and `after`. A record of kind `digest` is of a writing by a model, one of kind
`update` of an edit by the user.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from ..digests import expires_with, is_users
from ..ids import derive
from ..notes import USER, Change, ContextEntry, Note
from .edits import DERIVED_FIELD, Edit, change, derived_json
from .proposals import proposal

NOT_BY_USER = "the user edited it, so it is the user's"


def text_of(
    note: Note,
    *,
    text: str,
    topic: str,
    keywords: Sequence[str],
    sources: Sequence[Note],
    model: str,
    op: str,
    at: datetime,
) -> Note:
    """Return a derived note with what a model wrote; it expires with the first of its sources.

    Args:
        note: As it is stored; or a new one, of kind `digest` or `fact`, source `derived` and state `done`.
        text: What it says.
        topic: What it is about.
        keywords: By which it is found.
        sources: The notes it was written of, oldest first.
        model: Who wrote it.
        op: Names the operation.
        at: When it is recorded.
    """
    entry = ContextEntry(
        text=topic,
        keywords=tuple(keywords),
        cause=note.id,
        model=model,
        change=derive("change", op, "digest", note.id, None),
        at=max((source.when for source in sources), default=at),
        recorded_at=at,
    )
    return note.revised(
        content=text,
        contexts=(entry,),
        sources=tuple(source.id for source in sources),
        expires_at=expires_with(sources),
    )


def written(before: Note | None, after: Note, op: str, at: datetime) -> Change:
    """Return the record that a model wrote a derived note, or (`before`) wrote it anew.

    Its id is that of the `change` of the own entry that `text_of` gives. Undoing the first one removes the note.
    """
    model = after.own_entry.model if after.own_entry else None
    return change(op, "digest", after, model=model, recorded_at=at, data=_step(before, after))


def write(after: Note, op: str, at: datetime) -> Edit:
    """Return the edit that gives a stored derived note what `after` says (see `text_of`).

    What the user has edited by then is left as it is; the text is proposed.
    """

    def edit(note: Note) -> tuple[Note, list[Change]]:
        if note.content == after.content and note.sources == after.sources:
            return note, []
        if is_users(note):
            return note, [proposed(note, after, op, at, NOT_BY_USER)]
        new = note.revised(
            content=after.content,
            contexts=after.contexts,
            sources=after.sources,
            expires_at=after.expires_at,
        )
        return new, [written(note, new, op, at)]

    return edit


def proposed(about: Note, after: Note, op: str, at: datetime, why: str) -> Change:
    """Return the record of a derived note that waits for a person, as a proposal.

    `about` is the stored note with the id of `after`; where there is none yet, the latest of its sources.
    """
    wanted = {"digest": {"id": after.id, "kind": after.kind, **derived_json(after)}}
    model = after.own_entry.model if after.own_entry else ""
    cause = after.sources[-1] if after.sources else about.id
    made = proposal(op, about, cause, model=model, at=at, wanted=wanted, why=why)
    return replace(made, id=derive("change", op, "proposal", "digest", after.id))


def _step(before: Note | None, after: Note) -> dict[str, Any]:
    old: dict[str, Any] = {"text": "", "own": None, "sources": []}
    if before is not None:
        old = derived_json(before)
    new = derived_json(after)
    shown = list(dict.fromkeys([*old["sources"], *new["sources"]]))
    return {"fields": {DERIVED_FIELD: {"before": old, "after": new}}, "shown": shown}


def edited(content: str, op: str, at: datetime) -> Edit:
    """Return the edit by which the user gives a derived note another text: from then on it is the user's."""

    def edit(note: Note) -> tuple[Note, list[Change]]:
        if note.content == content and is_users(note):
            return note, []
        made = derive("change", op, "update", note.id, DERIVED_FIELD)
        old = note.own_entry
        own = ContextEntry(
            text=old.text if old else "",
            keywords=old.keywords if old else (),
            cause=note.id,
            model=USER,
            change=made,
            at=old.at if old else at,
            recorded_at=at,
        )
        others = tuple(entry for entry in note.contexts if entry.cause != note.id)
        new = note.revised(content=content, contexts=(own, *others))
        record = change(op, "update", new, model=USER, recorded_at=at, data=_step(note, new))
        return new, [replace(record, id=made)]  # an update of its metadata may be made with it

    return edit
