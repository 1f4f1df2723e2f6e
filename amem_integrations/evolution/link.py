"""Link and evolve: ask which earlier notes a batch belongs with, and which of them change (Eq. 6, 7)."""

from __future__ import annotations

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


async def ask_evolution(runtime: Runtime, shown: show.ShownBatch) -> dict[str, NoteEvolution]:
    """Return by alias what the model proposes for each note of a batch.

    Raises:
        ModelReplyError: No usable reply.
        ModelUnavailableError: No reply.
    """
    if not runtime.config.link or not any(shown.offer.candidates.values()):
        return {}
    if runtime.config.calls == "paper":
        return await _ask_each(runtime, shown)
    return await _ask_all(runtime, shown)


async def _ask_all(runtime: Runtime, shown: show.ShownBatch) -> dict[str, NoteEvolution]:
    """Ask for the links and updates of the whole batch in one call."""
    others = [show.enriched(note, shown.alias[note.id]) for note in shown.others]
    reply = await ask(
        runtime,
        "evolve",
        EvolveReply,
        inputs={"notes": [shown.data(note) for note in shown.batch], "candidates": others},
        texts={
            "candidates": show.briefs(others, shown.others),
            "notes": show.lines([shown.text(note) for note in shown.batch]),
        },
    )
    known = {shown.alias[note.id] for note in shown.batch}
    answered = {item.id.strip().strip("[]"): item for item in reversed(reply.notes)}
    runtime.usage.count("evolve", dropped=len(set(answered) - known))
    return answered


async def _ask_each(runtime: Runtime, shown: show.ShownBatch) -> dict[str, NoteEvolution]:
    """Ask as the paper does: a call for the links of a note, then one for each neighbour."""
    evolutions = {}
    for note in shown.batch:
        alias = shown.alias[note.id]
        links = await _ask_links(runtime, shown, note)
        updates = []
        if runtime.config.evolve:
            for candidate in shown.offer.candidates[note.id]:
                neighbour = shown.offer.notes[candidate.id]
                updates += await _ask_revision(runtime, shown, note, neighbour)
        evolutions[alias] = NoteEvolution(id=alias, links=links, updates=updates)
    return evolutions


async def _ask_links(runtime: Runtime, shown: show.ShownBatch, note: Note) -> list[ProposedLink]:
    near = [shown.offer.notes[c.id] for c in shown.offer.candidates[note.id]]
    if not near:
        return []
    listed = [show.enriched(other, shown.alias[other.id]) for other in near]
    reply = await ask(
        runtime,
        "link",
        LinkReply,
        inputs={"notes": [shown.data(note)], "candidates": listed},
        texts={"candidates": show.briefs(listed, near), "notes": shown.text(note)},
    )
    return reply.links


async def _ask_revision(
    runtime: Runtime, shown: show.ShownBatch, note: Note, neighbour: Note
) -> list[ProposedUpdate]:
    alias = shown.alias[neighbour.id]
    others = [
        other
        for candidate in shown.offer.candidates[note.id]
        if (other := shown.offer.notes[candidate.id]).id != neighbour.id
    ]
    listed = [show.enriched(other, shown.alias[other.id]) for other in others]
    target = show.enriched(neighbour, alias)
    reply = await ask(
        runtime,
        "revise",
        ReviseReply,
        inputs={"note": shown.data(note), "neighbour": target, "others": listed},
        texts={
            "neighbour": show.line(target, neighbour),
            "notes": shown.text(note),
            "others": show.briefs(listed, others),
        },
    )
    if not reply.change:
        return []
    return [
        ProposedUpdate(to=alias, context=reply.context, keywords=reply.keywords, tags=reply.tags)
    ]
