"""Pure: what rules made of a note gives way to what a language model makes of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from ..notes import Change, ContextEntry, Note
from ..prompts import NoteAttributes
from . import construct, fields
from .edits import Edit, chain, drop_link
from .history import change

RULES = "rules"  # the name of the model that works by rules
WHY = "it was made without a language model"


def made_by_rules(changes: Sequence[Change]) -> set[str]:
    """Return the notes that rules linked a note to, by its links in the history (oldest first).

    A link tells no model. The last record of its making does: what was undone and redone since is the same.
    """
    models = {made.data["target"]: made.model for made in changes if made.kind == "link"}
    return {target for target, model in models.items() if model == RULES}


def without_rules(
    note: Note, linked: set[str], others: Sequence[Note], op: str, at: datetime
) -> dict[str, Edit]:
    """Return the edits of other notes that remove the rule-made links from `note` and entries because of it."""
    steps: defaultdict[str, list[Edit]] = defaultdict(list)
    for target in sorted(linked):
        if target in note.links and note.links[target].direction == "out":
            steps[target].append(drop_link(note.id, op, at, WHY))
    for other in others:
        if any(_is_by_rules(entry, note.id) for entry in other.contexts):
            steps[other.id].append(_drop_entries(note.id, op, at))
    return {other: chain(parts) for other, parts in steps.items()}


def attributed(
    attributes: NoteAttributes,
    asked: Note,
    seen: tuple[str, ...],
    linked: set[str],
    *,
    model: str,
    op: str,
    at: datetime,
) -> Edit:
    """Return the edit that puts a model's entry in place of the one by rules, and drops links by rules."""

    def edit(note: Note) -> tuple[Note, list[Change]]:
        if note.attributes_source != RULES or fields.said(note) != fields.said(asked):
            return note, []
        bare = note.revised(contexts=tuple(e for e in note.contexts if e.cause != note.id))
        revised, made = construct.apply(attributes, asked, seen, model=model, op=op, at=at)(bare)
        made = [record.with_data(**_step(note, revised, ["own"])) for record in made]
        for target in sorted(linked & set(note.links)):
            if note.links[target].direction == "out":
                revised, dropped = drop_link(target, op, at, WHY)(revised)
                made += dropped
        return revised, made

    return edit


def _is_by_rules(entry: ContextEntry, cause: str) -> bool:
    return entry.cause == cause and entry.model == RULES


def _drop_entries(cause: str, op: str, at: datetime) -> Edit:
    """Return the edit that removes what rules added to a note because of another."""

    def edit(note: Note) -> tuple[Note, list[Change]]:
        gone = [entry for entry in note.contexts if _is_by_rules(entry, cause)]
        if not gone:
            return note, []
        revised = note.revised(contexts=tuple(e for e in note.contexts if e not in gone))
        data = _step(note, revised, [f"{fields.ENTRY}{entry.change}" for entry in gone])
        return revised, [change(op, "upgrade", note, cause=cause, recorded_at=at, data=data)]

    return edit


def _step(old: Note, new: Note, names: Sequence[str]) -> dict[str, Any]:
    done = {
        name: {"before": fields.get(old, name), "after": fields.get(new, name)} for name in names
    }
    return {"fields": done, "state": {"before": old.state, "after": new.state}}
