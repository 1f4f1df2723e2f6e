"""Pure: how derived notes (see `digests`) are written, edited by the user, and emptied, and the records of it.

A record holds the whole of what a derived note says, as the one field `derived`: its text, its own entry (with topic
and keywords) and its sources, `before` and `after`. A record of kind `digest` is of a writing by a model, one of kind
`update` of an edit by the user.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from ..digests import expires_with, is_derived, is_users
from ..ids import clock, derive, time_of
from ..kinds import Kind
from ..notes import USER, Change, ContextEntry, Namespace, Note
from .edits import DERIVED_FIELD, Edit, change, derived_json, entry_json, field_value
from .proposals import proposal
from .quote_matching import texts_in, without_quotes_in

# Between two sentences; a point inside a number, an address or a name ends none.
_BORDER = re.compile(r"(?<=[.!?])(?=\s)|(?<=[\n\u3002\uff01\uff1f\u0964\u06d4])")
NOT_BY_USER = "the user edited it, so it is the user's"


def derived_note(note_id: str, namespace: Namespace, kind: Kind, op: str) -> Note:
    """Return a new derived note that says nothing yet; `op` names the operation that adds it."""
    seq = clock.tick()
    return Note(
        id=note_id,
        seq=seq,
        namespace=namespace,
        content="",
        recorded_at=time_of(seq),
        source="derived",
        kind=kind,
        state="done",
        ops=(op,),
    )


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
        note: As it is stored, or a new one (see `derived_note`).
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
        new = _with_text_of(note, after)
        return new, [written(note, new, op, at)]

    return edit


def approve_text(after: Note, made: Change) -> Edit:
    """Return the edit that gives a stored derived note what a person has approved; `made` is the record of it."""
    return lambda note: (_with_text_of(note, after), [made])


def _with_text_of(note: Note, after: Note) -> Note:
    """Return a stored derived note with what another version of it says."""
    said = ("content", "contexts", "sources", "expires_at")
    return note.revised(**{name: getattr(after, name) for name in said})


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
    new, fields = derived_json(after), dict[str, Any]()
    if before is not None:
        old = derived_json(before)
        if before.expires_at != after.expires_at:
            ends = [field_value(note, "expires_at") for note in (before, after)]
            fields["expires_at"] = dict(zip(("before", "after"), ends, strict=True))
    shown = list(dict.fromkeys([*old["sources"], *new["sources"]]))
    return {"fields": {DERIVED_FIELD: {"before": old, "after": new}, **fields}, "shown": shown}


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


def after_loss(
    note: Note,
    lost: Collection[str],
    deleted: Collection[str],
    is_quoted: Callable[[str], bool],
    made: str,
) -> Note:
    """Return a derived note after a text is gone; nothing of that text stands in it.

    A digest mixes the words of its sources, so all that a model wrote goes with any of them. Of what the user
    wrote, the sentences go that quote the text. A fact goes with the last source that still says so, or if it quotes.

    Args:
        note: The derived note.
        lost: Those of its sources whose text is gone.
        deleted: The notes that are not there any more, or about to go.
        is_quoted: Whether a text quotes what is gone.
        made: The change by which this happens.
    """
    said = (note.content, *(text for entry in note.contexts for text in texts_in(entry)))
    quotes = any(map(is_quoted, said))
    if not (lost or quotes):
        return note
    sources = tuple(source for source in note.sources if source not in deleted)
    if is_users(note):
        content = "".join(s for s in _BORDER.split(note.content) if not is_quoted(s)).strip()
    elif note.kind == "fact" and not quotes and (left := [i for i in sources if i not in lost]):
        return note.revised(sources=tuple(left))
    else:
        content = ""
    return _with_nothing_but(note.revised(sources=sources), content, made)


def _with_nothing_but(note: Note, content: str, made: str) -> Note:
    """Return a derived note that says this, without the topic and the keywords that a model gave it."""
    own = note.own_entry
    if own is not None and (content != note.content or any(texts_in(own))):
        own = replace(own, text="", keywords=(), tags=(), change=made)
    return note.revised(content=content, contexts=() if own is None else (own,))


def emptied(note: Note, made: str) -> Note:
    """Return a derived note without all that a model wrote; a text of the user stays."""
    return _with_nothing_but(note, note.content if is_users(note) else "", made)


def is_emptied(note: Note) -> bool:
    """Return whether nothing is left of a derived note from which it could be written anew."""
    return is_derived(note) and not note.content and (note.kind == "fact" or not note.sources)


def loss(before: Note, after: Note) -> dict[str, Any]:
    """Return how a derived note changed by a loss; what was lost is in no record."""
    new = derived_json(after)
    own = before.own_entry and replace(before.own_entry, text="", keywords=(), tags=())
    old = {**new, "own": entry_json(own), "sources": list(before.sources)}
    return {DERIVED_FIELD: {"before": old, "after": new}}


def without_contents(data: Mapping[str, Any], goes: Callable[[str], bool]) -> Mapping[str, Any]:
    """Return the data of a record of a filled form without the contents that have to go: a model wrote them."""
    fields = data.get("fields", data)
    if "content" not in fields:
        return data
    sides = {side: "" if goes(text) else text for side, text in fields["content"].items()}
    kept = {**fields, "content": sides}
    return {**data, "fields": kept} if "fields" in data else kept


def blanked_sides(
    data: Any,  # noqa: ANN401 - JSON values
    is_lost: Callable[[str, datetime], bool],
    is_quoted: Callable[[str], bool],
) -> Any:  # noqa: ANN401 - JSON values
    """Return the data of a record without what derived notes said while they had a source that is lost.

    `is_lost` says whether a source is, for what was written at a time.
    """
    if isinstance(data, Mapping):
        own = data.get("own")
        if "text" in data and "sources" in data and own:
            written = datetime.fromisoformat(own["recorded_at"])
            if any(is_lost(source, written) for source in data["sources"]):
                text = data["text"] if own["model"] == USER and not is_quoted(data["text"]) else ""
                return {**without_quotes_in(data, bool), "text": text}
        return {key: blanked_sides(inner, is_lost, is_quoted) for key, inner in data.items()}
    if isinstance(data, list):
        return [blanked_sides(inner, is_lost, is_quoted) for inner in data]
    return data
