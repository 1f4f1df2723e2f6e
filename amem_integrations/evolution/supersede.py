"""Supersede: a new note takes the place of an earlier one, or contradicts it. No text of either is changed."""

from __future__ import annotations

from collections.abc import Mapping

from ..config import MemoryConfig
from ..current_facts import is_later
from ..notes import RELATIONS, Note, Relation
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
    newer: Note, older: Note, proposed: ProposedSupersession, config: MemoryConfig
) -> PlannedSupersession | None:
    """Return what is planned for a proposal of a model, None if it makes no sense, or is about a part of the older note.

    Only a later note supersedes. Whether what was said by an assistant or a tool may take the place of a user's words
    is for the settings to say; without it, a person has to agree.
    """
    relation = _SAME.get(proposed.relation.strip().strip(".").lower())
    if relation is None or proposed.still or not is_later(newer, older):
        return None
    return PlannedSupersession(
        id="",
        target=older.id,
        relation=relation,
        reason=" ".join(proposed.reason.split())[:MAX_REASON_CHARS],
        rejected=objection_to(newer, older, config),
    )


def objection_to(newer: Note, older: Note, config: MemoryConfig) -> str | None:
    """Return why a supersession has to wait for a person."""
    if config.assistant_supersedes or newer.source in ("user", "import"):
        return None
    if older.source in ("assistant", "tool"):
        return None
    return NOT_BY_USER.format(source=newer.source)
