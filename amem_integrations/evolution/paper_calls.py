"""The paper's kinds of call: one for the links of a note (Eq. 6), and one for each of its neighbours (Eq. 7)."""

from __future__ import annotations

from collections.abc import Sequence

from ..notes import Note
from ..prompts.replies import (
    LinkReply,
    NoteEvolution,
    ProposedLink,
    ProposedSupersession,
    ProposedUpdate,
    ReviseReply,
)
from .ask import OpenCall, ask
from .show import Offer, candidate, lines, turns


async def ask_each(call: OpenCall, offer: Offer) -> dict[str, NoteEvolution]:
    """Ask as the paper does: a call for the links of a note, then one for each neighbour."""
    evolutions = {}
    for note in offer.batch:
        alias, near = offer.alias[note.id], offer.near(note)
        evolution = NoteEvolution(id=alias, links=await _ask_links(call, offer, note, near))
        for neighbour in near if call.runtime.config.evolve else ():
            await _ask_revision(call, offer, note, neighbour, evolution)
        evolutions[alias] = evolution
    return evolutions


async def _ask_links(
    call: OpenCall, offer: Offer, note: Note, near: Sequence[Note]
) -> list[ProposedLink]:
    if not near:
        return []
    listed = offer.enriched(near)
    reply = await ask(
        call,
        "link",
        LinkReply,
        shown=[note, *near],
        inputs={"notes": [offer.data(note)], "candidates": listed},
        values={"notes": offer.text([note])},
    )
    return reply.links


async def _ask_revision(
    call: OpenCall, offer: Offer, note: Note, neighbour: Note, evolution: NoteEvolution
) -> None:
    """Ask whether a neighbour is to be read differently, or is no longer so, and add that to the evolution."""
    others = [other for other in offer.near(note) if other.id != neighbour.id]
    target, *listed = offer.enriched([neighbour, *others])
    reply = await ask(
        call,
        "revise",
        ReviseReply,
        shown=[note, neighbour, *others],
        inputs={"note": offer.data(note), "neighbour": target, "others": listed},
        values={
            "neighbour": candidate(neighbour, offer.alias[neighbour.id]),
            "notes": turns([note], offer.alias),
            "others": lines([candidate(other, offer.alias[other.id]) for other in others]),
        },
    )
    alias = offer.alias[neighbour.id]
    if reply.change:
        update = ProposedUpdate(
            to=alias, context=reply.context, keywords=reply.keywords, tags=reply.tags
        )
        evolution.updates.append(update)
    if reply.supersedes:
        evolution.supersedes.append(ProposedSupersession(to=alias, relation=reply.supersedes))
