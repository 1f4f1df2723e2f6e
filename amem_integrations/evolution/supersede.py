"""Supersede: a new note takes the place of an earlier one, or contradicts it. No text of either is changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from ..changes.edits import Edit, change, supersession_json
from ..config import MemoryConfig
from ..current_facts import is_later
from ..ids import derive
from ..notes import RELATIONS, Change, ChangeKind, Note, Relation, Supersession
from ..plans import MAX_REASON_CHARS, PlannedSupersession
from ..prompts.replies import ProposedSupersession

# What models also write for the four relations.
_SAME: Mapping[str, Relation] = {
    "update": "updates",
    "updated": "updates",
    "replaces": "updates",
    "supersedes": "updates",
    "correct": "corrects",
    "corrected": "corrects",
    "correction": "corrects",
    "retract": "retracts",
    "retracted": "retracts",
    "cancels": "retracts",
    "contradict": "contradicts",
    "contradicted": "contradicts",
    **{relation: relation for relation in RELATIONS},
}
NOT_BY_USER = "what the {source} said takes the place of what a user said only if a person agrees"


def planned(
    op: str, newer: Note, older: Note, proposed: ProposedSupersession, config: MemoryConfig
) -> PlannedSupersession | None:
    """Return what is planned for a proposal of a model, None if it makes no sense.

    Only a later note supersedes. Whether what was said by an assistant or a tool may take the place of a user's words
    is for the settings to say; without it, a person has to agree.
    """
    relation = _SAME.get(proposed.relation.strip().strip(".").lower())
    if relation is None or not is_later(newer, older):
        return None
    return PlannedSupersession(
        id=derive("change", op, "supersede", older.id, newer.id),
        target=older.id,
        relation=relation,
        reason=" ".join(proposed.reason.split())[:MAX_REASON_CHARS],
        rejected=objection_to(newer, older, config),
    )


def supersede(
    planned: PlannedSupersession,
    newer: Note,
    *,
    model: str,
    op: str,
    at: datetime,
    since: datetime | None = None,
    proposal: str | None = None,
) -> Edit:
    """Return the edit by which an older note is superseded; a rejected one is only recorded, as a proposal.

    It counts from the event time `since` (None: that of the newer note). `proposal` is what a person agreed to.
    """

    def edit(note: Note) -> tuple[Note, list[Change]]:
        old = note.supersessions.get(newer.id)
        if old is not None and (old.relation, old.reason) == (planned.relation, planned.reason):
            return note, []
        new = Supersession(
            relation=planned.relation,
            reason=planned.reason,
            model=model,
            change=planned.id,
            since=since or newer.when,
            recorded_at=at,
        )
        data: dict[str, Any] = {"supersession": supersession_json(new)}
        if planned.rejected is not None:
            data["rejected"] = planned.rejected
        elif old is not None:
            data["before"] = supersession_json(old)
        if proposal is not None:
            data["proposal"] = proposal
        kind: ChangeKind = "supersede" if planned.rejected is None else "proposal"
        made = change(op, kind, note, cause=newer.id, model=model, recorded_at=at, data=data)
        made = replace(made, id=planned.id)  # an update of the same note may be proposed as well
        if planned.rejected is not None:
            return note, [made]
        return note.revised(supersessions={**note.supersessions, newer.id: new}), [made]

    return edit


def objection_to(newer: Note, older: Note, config: MemoryConfig) -> str | None:
    """Return why a supersession has to wait for a person."""
    if config.assistant_supersedes or newer.source in ("user", "import"):
        return None
    if older.source in ("assistant", "tool"):
        return None
    return NOT_BY_USER.format(source=newer.source)
