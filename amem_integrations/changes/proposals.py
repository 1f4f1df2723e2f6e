"""Pure: what waits for a person's decision, and the decision.

A proposal is a change that was not made: to `note_id`, because of the later note `cause`. Its data holds what would be
written, under `"entry"`, `"link"`, `"supersession"` or `"relink"` (a change of their link), and why it was not, under
`"rejected"`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from ..errors import InvalidInputError
from ..ids import derive
from ..notes import Change, ContextEntry, Note
from ..plans import PlannedLink, PlannedRelink
from ..texts import MAX_KEYWORDS, MAX_TAGS, clean_words
from .edits import Edit, change, entry_data


def proposal(
    op: str,
    note: Note,
    cause: str,
    *,
    model: str,
    at: datetime,
    wanted: Mapping[str, Any],
    why: str,
) -> Change:
    """Return the record of what was not written: `wanted` is `{"entry": …}`, `{"link": …}`, and so on."""
    data = {**wanted, "rejected": why}
    made = change(op, "proposal", note, cause=cause, model=model, recorded_at=at, data=data)
    # One note may propose several things for another.
    return replace(made, id=derive("change", op, "proposal", next(iter(wanted)), note.id, cause))


def proposed_link(proposal: Change) -> PlannedLink:
    """Return the link that a proposal wants, as the later note would plan it."""
    wanted = proposal.data["link"]
    return PlannedLink(
        id=proposal.id,
        target=proposal.note_id,
        relation=wanted["relation"],
        reason=wanted["reason"],
        strength=wanted["strength"],
    )


def proposed_relink(proposal: Change) -> PlannedRelink:
    """Return the change of a link that a proposal wants."""
    wanted = proposal.data["relink"]
    return PlannedRelink(
        id=proposal.id,
        source=proposal.cause or "",
        target=proposal.note_id,
        change=wanted["change"],
        reason=wanted["reason"],
        before=wanted["before"],
    )


def is_settled(proposal: Change, note: Note) -> bool:
    """Return whether the note has the link that is proposed, or not the link that is to be changed, whoever did it."""
    link = note.links.get(proposal.cause or "")
    if "relink" in proposal.data:
        return link is None or link.strength != proposal.data["relink"]["before"]
    return "link" in proposal.data and link is not None


def approved_entry(
    proposal: Change, source: Note, op: str, edited: Mapping[str, Any], at: datetime
) -> ContextEntry:
    """Return the entry that a proposal becomes, with what the reviewer changed.

    Raises:
        InvalidInputError: Its text is empty.
    """
    proposed = {**proposal.data["entry"], **edited}
    text = proposed["text"]
    if not isinstance(text, str) or not text.strip():
        raise InvalidInputError(f"the entry of proposal {proposal.id!r} is empty; give context=")
    return ContextEntry(
        text=" ".join(text.split()),
        keywords=clean_words(proposed["keywords"], MAX_KEYWORDS),
        tags=clean_words(proposed["tags"], MAX_TAGS),
        cause=source.id,
        model=proposal.model or "",
        change=derive("change", op, "evolve", proposal.note_id, source.id),
        at=source.when,
        recorded_at=at,
    )


def approve(proposal: Change, entry: ContextEntry, op: str, edited: Sequence[str]) -> Edit:
    """Return the edit that writes the entry although the gate stopped it."""

    def edit(note: Note) -> tuple[Note, list[Change]]:
        data = {
            "entry": entry_data(entry),
            "similarity": proposal.data.get("similarity"),
            "proposal": proposal.id,
            "edited": list(edited),
        }
        made = change(
            op,
            "evolve",
            note,
            cause=entry.cause,
            model=entry.model,
            recorded_at=entry.recorded_at,
            data=data,
        )
        return note.revised(contexts=(*note.contexts, entry)), [made]

    return edit


def rejection(proposal: Change, note: Note, op: str, at: datetime, why: str) -> Change:
    """Return the record that a proposal is not wanted."""
    data = {"proposal": proposal.id, "why": why}
    made = change(op, "rejection", note, cause=proposal.cause, recorded_at=at, data=data)
    # Several proposals of one cause may be rejected by one operation.
    return replace(made, id=derive("change", op, "rejection", proposal.id))


def possible_answers(changes: Sequence[Change], notes: Sequence[Note]) -> list[str]:
    """Return the changes by which the proposals among `changes` may have been approved.

    Those are the changes that brought entries and supersessions, of the same cause, which the notes have now.
    """
    proposed = {(made.note_id, made.cause) for made in changes if made.kind == "proposal"}
    return [
        change_id
        for note in notes
        for cause, change_id in [
            *((entry.cause, entry.change) for entry in note.contexts),
            *((newer, s.change) for newer, s in note.supersessions.items()),
        ]
        if (note.id, cause) in proposed
    ]


def open_proposals(
    changes: Sequence[Change], approvals: Sequence[Change], notes: Mapping[str, Note]
) -> list[Change]:
    """Return the proposals among `changes` that nobody has rejected or, by `approvals`, approved.

    A link that one of the `notes` has by now, or that was removed since, is no proposal any more. One whose cause was
    deleted or corrected has no text any more and is not open.
    """
    rejections = [made for made in changes if made.kind == "rejection"]
    answered = {made.data.get("proposal") for made in (*rejections, *approvals)}
    removed = {
        (made.note_id, made.cause): made.seq
        for made in changes
        if made.kind == "relink" and made.data["change"] == "remove"
    }
    return [
        made
        for made in changes
        if made.kind == "proposal"
        and made.id not in answered
        and not made.data.get("blanked")
        and not (made.note_id in notes and is_settled(made, notes[made.note_id]))
        and not ("link" in made.data and removed.get((made.note_id, made.cause), -1) > made.seq)
    ]
