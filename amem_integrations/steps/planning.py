"""Pure: from a model's reply to a plan. Aliases are resolved against what was shown; the rest is dropped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from .. import texts
from ..ids import derive
from ..notes import Note
from ..plans import PlannedLink, PlannedNote, PlannedUpdate
from ..prompts import NoteEvolution, ProposedLink, ProposedUpdate, Targeted
from .construct import MAX_KEYWORDS, MAX_TAGS, clean
from .prompted import Prompted

MAX_REASON_CHARS = 200
MAX_RELATION_CHARS = 40
P = TypeVar("P", bound=Targeted)


def planned(
    op: str, model: str, note: Note, prompted: Prompted, evolution: NoteEvolution | None
) -> PlannedNote:
    """Return what is proposed for one note; its updates are not judged yet."""
    links = evolution.links if evolution else []
    updates = evolution.updates if evolution else []
    link_by_target = _by_target(links, note, prompted)
    update_by_target = _by_target(updates, note, prompted)
    return PlannedNote(
        id=note.id,
        entry=note.own_entry.change if note.own_entry else "",
        model=model,
        candidates=tuple(prompted.offer.candidates[note.id]),
        links=tuple(_link(item, target) for target, item in link_by_target.items()),
        updates=tuple(
            _update(op, note, item, prompted.offer.notes[target])
            for target, item in update_by_target.items()
        ),
        dropped=sum(prompted.target(note, item.to) is None for item in [*links, *updates]),
    )


def _by_target(items: Sequence[P], note: Note, prompted: Prompted) -> dict[str, P]:
    found: dict[str, P] = {}
    for item in items:
        target = prompted.target(note, item.to)
        if target is not None:
            found.setdefault(target, item)
    return found


def _link(item: ProposedLink, target: str) -> PlannedLink:
    return PlannedLink(
        target=target,
        relation=item.relation[:MAX_RELATION_CHARS] or "related",
        reason=item.reason[:MAX_REASON_CHARS],
        strength=min(max(item.strength, 0.0), 1.0),
    )


def _update(op: str, note: Note, item: ProposedUpdate, target: Note) -> PlannedUpdate:
    return PlannedUpdate(
        id=derive("change", op, "evolve", target.id, note.id),
        target=target.id,
        context=" ".join(item.context.split()),
        keywords=clean(item.keywords, MAX_KEYWORDS),
        tags=clean(item.tags, MAX_TAGS),
        before=texts.context(target) or target.content,
    )
