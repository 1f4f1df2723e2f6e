"""Pure: take a change back, unless something later built on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from ..errors import InvalidInputError, RevisionConflictError
from ..ids import derive
from ..notes import Change, Note
from . import fields
from .edits import Edit
from .record import change

INSTEAD = {
    "add": "a note is taken back by delete()",
    "delete": "what was deleted is gone for good; add it again",
    "clear": "what was cleared is gone for good; import an export, if there is one",
    "forget": "the note that it came from was deleted for good",
    "failure": "nothing was changed; evolve() tries the note again",
    "proposal": "nothing was written; approve() or reject() it",
    "retract": "the text that it was taken from was corrected; evolve() works with what it says now",
    "prompt": "it only says what a model was shown",
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
    # An update brings back the entry of its time, whatever was made of the new content meanwhile.
    needed = set(fields.fields_of(made)) - ({"own"} if made.kind == "update" else set())
    gone: set[str] = set()
    ids = {other.id for other in later}
    for other in reversed(later):
        if other.id in gone:
            continue
        undone = other.data.get("undone") if other.kind == "undo" else None
        if undone in ids:
            gone.add(undone)
        elif undone == made.id:
            raise RevisionConflictError(
                f"change {made.id!r} was undone already, by change {other.id!r}"
            )
        elif touched := needed & set(fields.fields_of(other)):
            raise RevisionConflictError(
                f"change {made.id!r} cannot be undone: change {other.id!r} ({other.kind!r}) touched "
                f"{', '.join(sorted(touched))} after it; undo that one first"
            )


def undo(made: Change, op: str, at: datetime) -> Edit:
    """Return the edit that gives the fields which a change touched back what they held before."""
    return _give_back(made, {name: step["before"] for name, step in _steps(made)}, made, op, at)


def undo_other_ends(made: Change, op: str, at: datetime) -> dict[str, Edit]:
    """Return by note id the edits that do the same at the other end of each link."""
    ends = {}
    for name, step in _steps(made):
        if name.startswith(fields.LINK):
            values = {f"{fields.LINK}{made.note_id}": fields.mirrored(step["before"])}
            ends[name.removeprefix(fields.LINK)] = _give_back(made, values, None, op, at)
    return ends


def _steps(made: Change) -> list[tuple[str, Mapping[str, Any]]]:
    return list(fields.fields_of(made).items())


def _give_back(
    made: Change, values: Mapping[str, Any], own: Change | None, op: str, at: datetime
) -> Edit:
    """Return the edit that sets fields; `own` is the change where it is undone on its own note."""

    def edit(note: Note) -> tuple[Note, list[Change]]:
        steps = dict(_steps(made))
        done = {
            # The chunks after the first are other notes; what they held is known from the change alone.
            name: {
                "before": steps[name]["after"] if name == "rest" else fields.get(note, name),
                "after": v,
            }
            for name, v in values.items()
        }
        cause = made.cause if own else made.note_id
        # The other end has its own record of the same, under an id made likewise.
        undone = made.id if own else derive("change", made.op, made.kind, note.id, made.note_id)
        data = {"undone": undone, "kind": made.kind, "fields": done}
        if own is not None:
            _check_unchanged(made, note)
        revised = note
        for name, value in values.items():
            revised = fields.put(revised, name, value)
        if "own" in values:
            state = _state(made, revised)
            data["state"] = {"before": note.state, "after": state}
            revised = revised.revised(state=state, failure=None, attempts=0)
        if revised == note and "rest" not in values:
            return note, []
        record = change(op, "undo", note, cause=cause, recorded_at=at, data=data)
        return revised, [record]

    return edit


def _state(made: Change, note: Note) -> Any:  # noqa: ANN401 - a state
    """Return the state that goes with the note's own entry: without one it waits for another."""
    if note.own_entry is None:
        return "pending"
    before = made.data.get("state", {}).get("before")
    return "done" if before == "done" else "constructed"


def _check_unchanged(made: Change, note: Note) -> None:
    """Texts are set, not added to, so what another writer has just put there must not be lost."""
    for name, step in _steps(made):
        if name in fields.GIVEN and fields.get(note, name) != step["after"]:
            raise RevisionConflictError(
                f"change {made.id!r} cannot be undone: {name} was changed after it; see history()"
            )
