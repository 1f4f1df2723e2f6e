"""Link and evolve: ask which earlier notes a batch belongs with, and which of them change (Eq. 6, 7)."""

from __future__ import annotations

from collections.abc import Sequence

from ..notes import Note
from ..prompts import (
    EvolveReply,
    LinkReply,
    NoteEvolution,
    ProposedLink,
    ProposedUpdate,
    ReviseReply,
)
from ..runtime import Runtime
from . import show
from .ask import ask
from .prompted import Prompted


async def ask_evolution(runtime: Runtime, prompted: Prompted) -> dict[str, NoteEvolution]:
    """Return by alias what the model proposes for each note of a batch.

    Raises:
        ModelReplyError: No usable reply.
        ModelUnavailableError: No reply.
    """
    if not runtime.config.link or not any(prompted.offer.candidates.values()):
        return {}
    if runtime.config.calls == "paper":
        return await _ask_each(runtime, prompted)
    return await _ask_all(runtime, prompted)


async def _ask_all(runtime: Runtime, prompted: Prompted) -> dict[str, NoteEvolution]:
    """Ask for the links and updates of the whole batch in one call."""
    others = [show.enriched(note, prompted.alias[note.id]) for note in prompted.others]
    reply = await ask(
        runtime,
        "evolve",
        EvolveReply,
        inputs={"notes": [prompted.shown(note) for note in prompted.batch], "candidates": others},
        texts={
            "candidates": _briefs(others, prompted.others),
            "notes": show.lines([prompted.text(note) for note in prompted.batch]),
        },
    )
    known = {prompted.alias[note.id] for note in prompted.batch}
    answered = {item.id.strip().strip("[]"): item for item in reversed(reply.notes)}
    runtime.usage.count("evolve", dropped=len(set(answered) - known))
    return answered


async def _ask_each(runtime: Runtime, prompted: Prompted) -> dict[str, NoteEvolution]:
    """Ask as the paper does: a call for the links of a note, then one for each neighbour."""
    evolutions = {}
    for note in prompted.batch:
        alias = prompted.alias[note.id]
        links = await _ask_links(runtime, prompted, note)
        updates = []
        if runtime.config.evolve:
            for candidate in prompted.offer.candidates[note.id]:
                neighbour = prompted.offer.notes[candidate.id]
                updates += await _ask_revision(runtime, prompted, note, neighbour)
        evolutions[alias] = NoteEvolution(id=alias, links=links, updates=updates)
    return evolutions


async def _ask_links(runtime: Runtime, prompted: Prompted, note: Note) -> list[ProposedLink]:
    near = [prompted.offer.notes[c.id] for c in prompted.offer.candidates[note.id]]
    shown = [show.enriched(other, prompted.alias[other.id]) for other in near]
    if not shown:
        return []
    reply = await ask(
        runtime,
        "link",
        LinkReply,
        inputs={"notes": [prompted.shown(note)], "candidates": shown},
        texts={"candidates": _briefs(shown, near), "notes": prompted.text(note)},
    )
    return reply.links


async def _ask_revision(
    runtime: Runtime, prompted: Prompted, note: Note, neighbour: Note
) -> list[ProposedUpdate]:
    alias = prompted.alias[neighbour.id]
    others = [
        other
        for candidate in prompted.offer.candidates[note.id]
        if (other := prompted.offer.notes[candidate.id]).id != neighbour.id
    ]
    shown = [show.enriched(other, prompted.alias[other.id]) for other in others]
    target = show.enriched(neighbour, alias)
    reply = await ask(
        runtime,
        "revise",
        ReviseReply,
        inputs={"note": prompted.shown(note), "neighbour": target, "others": shown},
        texts={
            "neighbour": show.line(target, neighbour),
            "notes": prompted.text(note),
            "others": _briefs(shown, others),
        },
    )
    if not reply.change:
        return []
    return [
        ProposedUpdate(to=alias, context=reply.context, keywords=reply.keywords, tags=reply.tags)
    ]


def _briefs(shown: Sequence[show.Shown], notes: Sequence[Note]) -> str:
    return show.lines([show.brief(s, n) for s, n in zip(shown, notes, strict=True)])
