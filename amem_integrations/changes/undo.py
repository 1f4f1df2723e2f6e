"""Pure: take a change back, unless something later built on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from ..errors import InvalidInputError, RevisionConflictError
from ..ids import derive
from ..notes import Change, Link, Note
from .edits import (
    ENTRIES,
    ENTRY,
    GIVEN,
    LINK,
    LINKS,
    STATED,
    SUPERSEDED,
    SUPERSESSIONS,
    TIMES,
    Edit,
    change,
    field_value,
    link_json,
)

# By field: `before` and `after`, in JSON values; see `edits`.
Fields = Mapping[str, Mapping[str, Any]]

USER = "user"  # who decided, where a change names the user as its model
FOLLOWING = ("unlink", "upgrade")  # kinds of changes that follow from what a model wrote
INSTEAD = {
    "add": "a note is taken back by delete()",
    "delete": "what was deleted is gone for good; add it again",
    "clear": "what was cleared is gone for good; import an export, if there is one",
    "forget": "the note that it came from was deleted for good",
    "failure": "nothing was changed; evolve() tries the note again",
    "proposal": "nothing was written; approve() or reject() it",
    "retract": "the text that it was taken from was corrected; evolve() works with what it says now",
    "prompt": "it only says what a model was shown",
    "usage": "it only says what calls of a model cost, which cannot be taken back",
    "rejection": "nothing was written; approve() the proposal to have it after all",
}


def check_undoable(made: Change) -> None:
    """Do nothing if a change of this kind can be undone.

    Raises:
        InvalidInputError: It cannot; the message says what to do instead.
    """
    if made.kind in INSTEAD:
        raise InvalidInputError(
            f"change {made.id!r} is of kind {made.kind!r}: {INSTEAD[made.kind]}"
        )
    if made.data.get("blanked"):
        raise InvalidInputError(
            f"change {made.id!r} cannot be undone: it quoted a text that was deleted or corrected since"
        )


def check_free(made: Change, later: Sequence[Change]) -> None:
    """Do nothing if no change after `made` touched what taking it back would touch.

    `later` are the changes of the same note after it, oldest first. One that was itself undone does not
    count.

    Raises:
        RevisionConflictError: One did; the message names the last of them.
    """
    if (obstacle := obstacle_to(made, later)) is None:
        return
    other, touched = obstacle
    if not touched:
        raise RevisionConflictError(
            f"change {made.id!r} was undone already, by change {other.id!r}"
        )
    raise RevisionConflictError(
        f"change {made.id!r} cannot be undone: change {other.id!r} ({other.kind!r}) touched "
        f"{', '.join(touched)} after it; undo that one first"
    )


def obstacle_to(made: Change, later: Sequence[Change]) -> tuple[Change, list[str]] | None:
    """Return the last change that stands in the way of taking `made` back, with the fields that it touched.

    No fields: it has undone `made` already. `later` is as for `check_free`.
    """
    # An update brings back the entry of its time, whatever was made of the new content meanwhile.
    needed = set(fields_of(made)) - ({"own"} if made.kind == "update" else set())
    for other in _in_force(later):
        if other.kind == "undo" and other.data["undone"] == made.id:
            return other, []
        if touched := needed & set(fields_of(other)):
            return other, sorted(touched)
    return None


def _in_force(changes: Sequence[Change]) -> Iterator[Change]:
    """Yield the changes that were not undone by one of the others, and no such undoing; the last one first."""
    gone: set[str] = set()
    ids = {made.id for made in changes}
    for made in reversed(changes):
        if made.id in gone:
            continue
        undone = made.data["undone"] if made.kind == "undo" else None
        if undone in ids:
            gone.add(undone)
        else:
            yield made


def made_by(changes: Sequence[Change], model: str | None) -> list[Change]:
    """Return what a model (None: any) changed, the last change first.

    That includes what followed from it in the same operation: links that a note had no room for, and what gave
    way when a note was made anew.
    """

    def is_by(made: Change) -> bool:
        return made.model == model if model else made.model not in (None, USER)

    ops = {made.op for made in changes if is_by(made)}
    return [
        made
        for made in reversed(changes)
        if made.kind not in INSTEAD
        and (is_by(made) or (made.kind in FOLLOWING and made.op in ops and made.model is None))
    ]


def is_of_text(made: Change) -> bool:
    """Return whether a change is about what the user gave, and not about what was made of it."""
    return not {*GIVEN, "rest"}.isdisjoint(fields_of(made))


def undo(made: Change, op: str, at: datetime) -> Edit:
    """Return the edit that gives the fields which a change touched back what they held before."""
    return _give_back(made, {name: step["before"] for name, step in _steps(made)}, made, op, at)


def undo_other_ends(made: Change, op: str, at: datetime) -> dict[str, Edit]:
    """Return by note id the edits that do the same at the other end of each link."""
    ends = {}
    for name, step in _steps(made):
        if name.startswith(LINK):
            values = {f"{LINK}{made.note_id}": mirrored(step["before"])}
            ends[name.removeprefix(LINK)] = _give_back(made, values, None, op, at)
    return ends


def _steps(made: Change) -> list[tuple[str, Mapping[str, Any]]]:
    return list(fields_of(made).items())


def _give_back(
    made: Change, values: Mapping[str, Any], own: Change | None, op: str, at: datetime
) -> Edit:
    """Return the edit that sets fields; `own` is the change where it is undone on its own note."""

    def edit(note: Note) -> tuple[Note, list[Change]]:
        steps = dict(_steps(made))
        done = {
            # The chunks after the first are other notes; what they held is known from the change alone.
            name: {
                "before": steps[name]["after"] if name == "rest" else field_value(note, name),
                "after": v,
            }
            for name, v in values.items()
        }
        cause = made.cause if own else made.note_id
        undone = made.id if own else _id_at_other_end(made, note.id)
        ends = ids_at_other_ends(made) if own else {made.note_id: made.id}
        data = {"undone": undone, "kind": made.kind, "fields": done, "ends": ends}
        if own is not None:
            _check_unchanged(made, note)
        revised = note
        for name, value in values.items():
            revised = with_field(revised, name, value)
        if "own" in values:
            state = _state(made, revised)
            data["state"] = {"before": note.state, "after": state}
            revised = revised.revised(state=state, failure=None, attempts=0)
        if revised == note and "rest" not in values:
            return note, []
        record = change(op, "undo", note, cause=cause, recorded_at=at, data=data)
        # One operation may undo several changes of a note that have one cause.
        return revised, [replace(record, id=derive("change", op, "undo", undone))]

    return edit


def ids_at_other_ends(made: Change) -> dict[str, str]:
    """Return by note the ids of the records that the other ends of links have of the same change."""
    others = [name.removeprefix(LINK) for name in fields_of(made) if name.startswith(LINK)]
    return {other: _id_at_other_end(made, other) for other in others}


def _id_at_other_end(made: Change, other: str) -> str:
    """Return the id of the record of the same change at the other end of a link; it is derived likewise."""
    if made.kind == "undo":
        return derive("change", made.op, "undo", made.data["ends"][other])
    return derive("change", made.op, made.kind, other, made.note_id)


def _state(made: Change, note: Note) -> Any:  # noqa: ANN401 - a state
    """Return the state that goes with the note's own entry: without one it waits for another."""
    if note.own_entry is None:
        return "pending"
    before = made.data.get("state", {}).get("before")
    return "done" if before == "done" else "constructed"


def _check_unchanged(made: Change, note: Note) -> None:
    """Texts are set, not added to, so what another writer has just put there must not be lost."""
    for name, step in _steps(made):
        if name in GIVEN and field_value(note, name) != step["after"]:
            raise RevisionConflictError(
                f"change {made.id!r} cannot be undone: {name} was changed after it; see history()"
            )


def fields_of(made: Change) -> Fields:
    """Return what a change did, by field; nothing for a change that left the note as it was."""
    if "fields" in made.data:
        fields: Fields = made.data["fields"]
        return fields
    if made.kind == "update":
        return _updated(made.data)
    entry = {"before": None, "after": {"change": made.id}}
    match made.kind:
        case "construct":
            name, step = "own", entry
        case "evolve":
            name, step = f"{ENTRY}{made.id}", entry
        case "link":
            name, step = f"{LINK}{made.data['target']}", {"before": None, "after": _link_of(made)}
        case "unlink":
            name, step = f"{LINK}{made.data['target']}", {"before": _link_of(made), "after": None}
        case "supersede":
            name = f"{SUPERSEDED}{made.cause}"
            step = {"before": made.data.get("before"), "after": made.data["supersession"]}
        case _:
            return {}
    return {name: step}


def _updated(data: Mapping[str, Any]) -> Fields:
    fields = {name: data[name] for name in (*GIVEN, "rest") if name in data}
    if not fields.keys().isdisjoint(STATED) and not {"own", "state"}.isdisjoint(data):
        # The entry that described the old statement is gone.
        fields["own"] = {"before": data.get("own"), "after": None}
    return fields


def _link_of(made: Change) -> dict[str, Any]:
    """Return the link a change is about; one recorded without its times was made at that moment."""
    moment = made.recorded_at.isoformat()
    known = {name: value for name, value in made.data.items() if name in Link.__slots__}
    return {"direction": "out", "created": moment, **known}


def with_field(note: Note, field: str, value: Any) -> Note:  # noqa: ANN401 - JSON values
    """Return the note with a field as `field_value` gave it; setting it again changes nothing."""
    if field == "own":
        return _with_own(note, value)
    if field.startswith(ENTRY):
        return _with_entry(note, field.removeprefix(ENTRY), value)
    if field.startswith(LINK):
        target = field.removeprefix(LINK)
        links = {other: link for other, link in note.links.items() if other != target}
        if value is not None:
            links[target] = LINKS.validate_python(value)
        return note.revised(links=links)
    if field.startswith(SUPERSEDED):
        newer = field.removeprefix(SUPERSEDED)
        kept = {other: s for other, s in note.supersessions.items() if other != newer}
        if value is not None:
            kept[newer] = SUPERSESSIONS.validate_python(value)
        return note.revised(supersessions=kept)
    if field == "rest":
        return note.revised(chunk=1 if value else 0)
    if field in TIMES and value is not None:
        value = datetime.fromisoformat(value)
    return note.revised(**{field: value})


def _with_own(note: Note, value: Any) -> Note:  # noqa: ANN401 - JSON values
    others = tuple(entry for entry in note.contexts if entry.cause != note.id)
    if value is None:
        return note.revised(contexts=others, content=note.content)  # and the kind of that
    kind = value.get("kind", note.kind)
    return note.revised(contexts=(ENTRIES.validate_python(value), *others), kind=kind)


def _with_entry(note: Note, change: str, value: Any) -> Note:  # noqa: ANN401 - JSON values
    entries = [entry for entry in note.contexts if entry.change != change]
    if value is not None:
        entry = ENTRIES.validate_python(value)
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
    link = LINKS.validate_python(value)
    return link_json(replace(link, direction="in" if link.direction == "out" else "out"))
