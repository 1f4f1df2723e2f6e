"""Pure: derived notes, which a model wrote of other notes: how they are edited by the user, and emptied.

A record of an edit holds the whole of what a derived note says, as the one field `derived`: its text, its own entry and
its sources, `before` and `after`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from ..ids import derive
from ..kinds import DERIVED
from ..notes import USER, Change, ContextEntry, Note
from .edits import DERIVED_FIELD, Edit, change, derived_json, entry_json, field_value
from .quote_matching import texts_in, without_quotes_in

# Between two sentences; a point inside a number, an address or a name ends none.
_BORDER = re.compile(r"(?<=[.!?])(?=\s)|(?<=[\n\u3002\uff01\uff1f\u0964\u06d4])")


def is_derived(note: Note) -> bool:
    """Return whether a note was written by a model of other notes."""
    return note.kind in DERIVED


def is_users(note: Note) -> bool:
    """Return whether the user edited a derived note: then it is the user's, and no model changes it."""
    return bool(note.content) and note.attributes_source == USER


def written_at(note: Note) -> datetime:
    """Return when a derived note was last written, by a model or by the user."""
    return note.own_entry.recorded_at if note.own_entry else note.recorded_at


def expires_with(sources: Iterable[Note]) -> datetime | None:
    """Return when what is derived from these notes expires: with the first of them."""
    return min((note.expires_at for note in sources if note.expires_at), default=None)


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

    A fact goes with the last source that still says so, or if it quotes. Of what the user wrote, the sentences go that
    quote the text.

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
