"""Pure: a change as what it did to single fields of a note, so that any change can be turned round.

A field is `content`, `rest` (the texts of the chunks after the first), `speaker`, `at`, `metadata`, `expires_at`, `own`
(the entry of construction), `entry:<change>` (an entry that evolution added) or `link:<note>`. A step is
`{"before": …, "after": …}` in JSON values; None: not there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter

from ..notes import Change, ContextEntry, Link, Note

Fields = Mapping[str, Mapping[str, Any]]

ENTRY, LINK = "entry:", "link:"
STATED = ("content", "speaker", "at")  # who stated what, and when: attributes are made of it
TIMES = ("at", "expires_at")
GIVEN = (*STATED, "metadata", "expires_at")  # what the user can change
_ENTRIES = TypeAdapter(ContextEntry)
_LINKS = TypeAdapter(Link)


def stated(note: Note) -> tuple[Any, ...]:
    """Return what attributes are made of."""
    return tuple(getattr(note, name) for name in STATED)


def entry_json(entry: ContextEntry | None) -> Any:  # noqa: ANN401 - JSON values
    """Return a context entry as JSON values that `put` takes back."""
    return None if entry is None else _ENTRIES.dump_python(entry, mode="json")


def link_json(link: Link | None) -> Any:  # noqa: ANN401 - JSON values
    """Return a link as JSON values that `put` takes back."""
    return None if link is None else _LINKS.dump_python(link, mode="json")


def fields_of(change: Change) -> Fields:
    """Return what a change did, by field; nothing for a change that left the note as it was."""
    if "fields" in change.data:
        fields: Fields = change.data["fields"]
        return fields
    if change.kind == "construct":
        return {"own": {"before": None, "after": {"change": change.id}}}
    if change.kind == "evolve":
        return {f"{ENTRY}{change.id}": {"before": None, "after": {"change": change.id}}}
    if change.kind == "link":
        return {f"{LINK}{change.data['target']}": {"before": None, "after": _link_of(change)}}
    if change.kind == "unlink":
        return {f"{LINK}{change.data['target']}": {"before": _link_of(change), "after": None}}
    return _updated(change.data) if change.kind == "update" else {}


def _updated(data: Mapping[str, Any]) -> Fields:
    fields = {name: data[name] for name in (*GIVEN, "rest") if name in data}
    if not fields.keys().isdisjoint(STATED):
        # The entry that described the old statement is gone.
        fields["own"] = {"before": data.get("own"), "after": None}
    return fields


def _link_of(change: Change) -> dict[str, Any]:
    """Return the link a change is about; one recorded without its times was made at that moment."""
    moment = change.recorded_at.isoformat()
    made = {"direction": "out", "created": moment, "reinforced": moment}
    known = {name: value for name, value in change.data.items() if name in Link.__slots__}
    return {**made, **known}


def get(note: Note, field: str) -> Any:  # noqa: ANN401 - JSON values
    """Return a field of a note, as JSON values."""
    if field == "own":
        return entry_json(note.own_entry)
    if field.startswith(ENTRY):
        made = field.removeprefix(ENTRY)
        return entry_json(next((entry for entry in note.contexts if entry.change == made), None))
    if field.startswith(LINK):
        return link_json(note.links.get(field.removeprefix(LINK)))
    if field in TIMES:
        time: datetime | None = getattr(note, field)
        return None if time is None else time.isoformat()
    return dict(note.metadata) if field == "metadata" else getattr(note, field)


def put(note: Note, field: str, value: Any) -> Note:  # noqa: ANN401 - JSON values
    """Return the note with a field as `get` gave it; putting it again changes nothing."""
    if field == "own":
        others = tuple(entry for entry in note.contexts if entry.cause != note.id)
        own = () if value is None else (_ENTRIES.validate_python(value),)
        return note.revised(contexts=(*own, *others))
    if field.startswith(ENTRY):
        return _put_entry(note, field.removeprefix(ENTRY), value)
    if field.startswith(LINK):
        target = field.removeprefix(LINK)
        links = {other: link for other, link in note.links.items() if other != target}
        if value is not None:
            links[target] = _LINKS.validate_python(value)
        return note.revised(links=links)
    if field == "rest":
        return note.revised(chunk=1 if value else 0)
    if field in TIMES and value is not None:
        value = datetime.fromisoformat(value)
    return note.revised(**{field: value})


def _put_entry(note: Note, change: str, value: Any) -> Note:  # noqa: ANN401 - JSON values
    entries = [entry for entry in note.contexts if entry.change != change]
    if value is not None:
        entry = _ENTRIES.validate_python(value)
        # The entry of construction stays first; the others are in the order in which they came.
        late = [
            place
            for place, other in enumerate(entries)
            if other.cause != note.id and other.recorded_at > entry.recorded_at
        ]
        entries.insert(late[0] if late else len(entries), entry)
    return note.revised(contexts=tuple(entries))


def mirrored(value: Any) -> Any:  # noqa: ANN401 - JSON values
    """Return a link as the note at its other end holds it."""
    if value is None:
        return None
    link = _LINKS.validate_python(value)
    return link_json(replace(link, direction="in" if link.direction == "out" else "out"))
