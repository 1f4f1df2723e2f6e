"""Propose: links and updates of new notes (Eq. 6-7 of the paper); nothing is written.

Filler is not linked. Every other turn is linked to the one before it, whether a model says so or not: as the answer to
what another speaker asked, else as what follows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TypeVar

from .. import texts
from ..config import MemoryConfig
from ..current_facts import is_later
from ..decisions import slot_id
from ..embedding import embed
from ..errors import ConfigurationError, ModelReplyError, ModelUnavailableError
from ..journal.redaction import PLAIN_RELATION
from ..journal.writer import Writer
from ..notes import Note
from ..plans import (
    ANSWERS,
    FOLLOWS,
    MAX_REASON_CHARS,
    MAX_RELATION_CHARS,
    REPEATS,
    Planned,
    PlannedLink,
    PlannedNote,
    PlannedRelink,
    PlannedUpdate,
)
from ..prompts.replies import (
    EvolveReply,
    NoteEvolution,
    ProposedLink,
    ProposedSupersession,
    ProposedUpdate,
    Targeted,
)
from ..runtime import Runtime
from ..thresholds import gate
from .ask import OpenCall, RefusedError, ask, fits, render, room
from .candidates import find_candidates
from .construct import Batch
from .gate import (
    hold,
    judge,
    objection_to,
    planned_relinks,
    planned_supersession,
    with_relinks_judged,
)
from .paper_calls import ask_each
from .show import Offer, Shown, bare, lines, linked, replies
from .sources import SourceFinder

T = TypeVar("T", bound=Targeted)


PASSAGES_JUDGED = 8  # of a long note whose update goes through the gate
LINKS_SHARE = (
    20  # the list of links between candidates has at most one in so many tokens of a prompt
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What is to be linked and updated for a batch, or why nothing is known of a note.

    `shown` are the notes that were shown for it, by id; `error` is why the model did not answer.
    """

    notes: Sequence[PlannedNote] = ()
    shown: Mapping[str, Note] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    error: ModelUnavailableError | ConfigurationError | None = None


async def propose(
    call: OpenCall, writer: Writer, batch: Batch, fresh: Mapping[str, Note] | None = None
) -> Proposal:
    """Return what is to be linked and updated for a batch of constructed notes.

    Args:
        call: The work on the batch.
        writer: Reads the decisions about links that are to go.
        batch: The notes, with their entries.
        fresh: Notes with entries that are not written yet, by id.
    """
    try:
        return await _propose(call, writer, batch, fresh or {})
    except (ModelUnavailableError, ConfigurationError) as error:  # such as a key that was revoked
        return Proposal(error=error)


async def _propose(
    call: OpenCall, writer: Writer, batch: Batch, fresh: Mapping[str, Note]
) -> Proposal:
    """Ask for the links and updates of a batch, and put them through the gate; filler has none."""
    runtime = call.runtime
    talk = [note for note in batch.notes if note.kind != "filler"]
    found = await find_candidates(runtime, call.namespace, replace(batch, notes=talk), fresh)
    offer = _trimmed(runtime, found)
    failed, evolutions = dict[str, str](), dict[str, NoteEvolution]()
    try:
        evolutions = await _ask(call, offer)
    except ModelReplyError as error:
        failed = {note.id: str(error) for note in talk}
    plans = [
        _planned(runtime, note, offer, evolutions.get(offer.alias.get(note.id, "")))
        for note in batch.notes
        if note.id not in failed
    ]
    runtime.usage.count("evolve", dropped=sum(plan.dropped for plan in plans))
    notes = {**offer.notes, **{note.id: note for note in batch.notes}}
    plans = await _judged(runtime, writer, plans, notes)
    if runtime.config.review:
        plans = list(map(hold, plans))
    seen = SourceFinder().show([*batch.before, *notes.values()])
    plans = [with_sources(one, notes, seen) for one in plans]
    return Proposal(notes=plans, shown=notes, failed=failed)


def with_sources(plan: PlannedNote, notes: Mapping[str, Note], seen: SourceFinder) -> PlannedNote:
    """Return a plan in which everything says of which wordings it was made, besides those that it names already."""

    def found(one: Planned) -> Planned:
        ends = {plan.id, one.target}
        if isinstance(one, PlannedRelink):
            ends.add(one.source)
        if isinstance(one, PlannedUpdate):
            words: Sequence[str] = (one.context, *one.keywords, *one.tags)
        else:
            words = (one.reason,)
        if isinstance(one, PlannedLink) and seen.quotes(one.relation):
            # A reason goes with what it quotes; a relation says nothing that could have to go.
            one = replace(one, relation=PLAIN_RELATION)
        made_of = seen.sources_of(words, [notes[i] for i in ends if i in notes])
        return replace(one, sources=tuple(sorted({*one.sources, *made_of})))

    return plan.with_each(found)


async def _ask(call: OpenCall, offer: Offer) -> dict[str, NoteEvolution]:
    """Return by alias what the model proposes for each note of a batch.

    Raises:
        ModelReplyError: No usable reply.
        ModelUnavailableError: No reply.
    """
    config = call.runtime.config
    if not config.link or not any(offer.candidates.values()):
        return {}
    return await (ask_each if config.calls == "paper" else _ask_all)(call, offer)


async def _ask_all(call: OpenCall, offer: Offer) -> dict[str, NoteEvolution]:
    """Ask for the links and updates of the whole batch in one call, or in several if the model cannot take it."""
    values, links = _values(call.runtime, offer)
    if len(offer.batch) > 1 and not fits(call.runtime, "evolve", values, offer.reply_tokens):
        parts = [await _ask_all(call, half) for half in offer.halves()]
        return parts[0] | parts[1]
    try:
        reply = await ask(
            call,
            "evolve",
            EvolveReply,
            shown=offer.shown,
            inputs={
                "notes": [offer.data(note) for note in offer.batch],
                "candidates": offer.enriched(offer.others),
                "links": links,
            },
            values=values,
        )
    except RefusedError:
        if smaller := _smaller(offer):
            parts = [await _ask_all(call, one) for one in smaller]
            return {alias: said for part in parts for alias, said in part.items()}
        raise
    known = {offer.alias[note.id] for note in offer.batch}
    answered = {bare(item.id): item for item in reversed(reply.notes)}
    call.runtime.usage.count("evolve", dropped=len(set(answered) - known))
    last = max(
        (n for n, note in enumerate(offer.batch) if offer.alias[note.id] in answered), default=-1
    )
    rest = offer.batch[last + 1 :]
    if reply.is_cut and 0 < len(rest) < len(offer.batch):
        return answered | await _ask_all(call, offer.only(rest))
    return answered


def _smaller(offer: Offer) -> Sequence[Offer]:
    """Return what to ask instead of a request that was refused: halves, or a note with half of its candidates."""
    if len(offer.batch) > 1:
        return offer.halves()
    (note,) = offer.batch
    drop = len(offer.candidates[note.id]) // 2
    if not drop:
        return ()
    for _ in range(drop):
        offer = offer.without_last(note)
    return (offer,)


def _values(runtime: Runtime, offer: Offer) -> tuple[dict[str, str], list[Shown]]:
    """Return the values of the prompt, and the links that are shown in it."""
    values = {"notes": offer.text(offer.batch), "links": ""}
    tokens = sum(map(texts.count_tokens, render(runtime.config, "evolve", **values)))
    links = offer.links(tokens // LINKS_SHARE)
    return {**values, "links": lines([linked(link) for link in links])}, links


def _trimmed(runtime: Runtime, offer: Offer) -> Offer:
    """Return the offer without the last candidates of a note that alone would be too long for the model."""
    for note in offer.batch if room(runtime) else ():
        while len(offer.candidates[note.id]) > 1:
            alone = offer.only([note])
            if fits(runtime, "evolve", _values(runtime, alone)[0], alone.reply_tokens):
                break
            offer = offer.without_last(note)
    return offer


async def _judged(
    runtime: Runtime, writer: Writer, plans: Sequence[PlannedNote], notes: Mapping[str, Note]
) -> list[PlannedNote]:
    """Put every update through the gate, by one call of the embedder; with evolution off there is none."""
    if not runtime.config.evolve:
        return [replace(plan, updates=(), supersessions=(), relinks=()) for plan in plans]
    plans = [await with_relinks_judged(writer, plan) for plan in plans]
    updates = [update for plan in plans for update in plan.updates]
    if not updates:
        return plans
    targets = {
        update.target: texts.embedding_texts(notes[update.target])[:PASSAGES_JUDGED]
        for update in updates
    }
    entries = [update.context for update in updates]
    wanted = [*entries, *(text for each in targets.values() for text in each)]
    vectors = dict(zip(wanted, await embed(runtime, wanted), strict=True))
    floor = await gate(runtime)

    def judged(update: PlannedUpdate) -> PlannedUpdate:
        rows = [row for text in targets[update.target] if (row := vectors[text]) is not None]
        return judge(update, vectors[update.context], rows, floor)

    return [replace(plan, updates=tuple(map(judged, plan.updates))) for plan in plans]


def _planned(
    runtime: Runtime, note: Note, offer: Offer, evolution: NoteEvolution | None
) -> PlannedNote:
    """Return what is proposed for one note; its updates are not judged yet."""
    said, config = evolution or NoteEvolution(id=""), runtime.config
    named = [*said.links, *said.updates, *said.supersedes]
    replaced = _by_target(said.supersedes, note, offer)
    outdated = (
        planned_supersession(note, offer.notes[i], item, config) for i, item in replaced.items()
    )
    relinked = planned_relinks(note, offer, said.relinks)
    plan = PlannedNote(
        id=note.id,
        rev=note.rev,
        attempt=note.next_attempts.link,
        model=runtime.model_name,
        candidates=tuple(offer.candidates.get(note.id, ())),
        links=tuple(_links(note, offer, said.links)) if config.link else (),
        updates=(
            *_updates(note, offer, said.updates, config),
            *_partly_outdated(note, offer, replaced, config),
        ),
        supersessions=tuple(one for one in outdated if one is not None),
        relinks=tuple(one for one in relinked if one is not None),
        dropped=sum(offer.target(note, item.to) is None for item in named) + relinked.count(None),
    )
    # Each has the id of the change that it will be.
    slot, numbers = slot_id(plan.id, "link", plan.rev, plan.attempt), count()
    return plan.with_each(lambda one: replace(one, id=f"{slot}:{next(numbers)}"))


def _links(note: Note, offer: Offer, proposed: Sequence[ProposedLink]) -> Iterator[PlannedLink]:
    """Yield the links of a note: as proposed, and to the turn before it if that is not among them."""
    wanted = _by_target(proposed, note, offer)
    for target, item in wanted.items():
        yield _link(item, target)
    for one in offer.candidates.get(note.id, ()):
        if one.previous and one.id not in wanted:
            before = offer.notes[one.id]
            asked = before.kind == "question" and replies(note, before)
            item = ProposedLink(to=offer.alias[one.id], relation=ANSWERS if asked else FOLLOWS)
            yield replace(_link(item, one.id), by_order=True)


def _updates(
    note: Note, offer: Offer, proposed: Sequence[ProposedUpdate], config: MemoryConfig
) -> Iterator[PlannedUpdate]:
    """Yield the first update of an earlier note; the paper asks about each neighbour, so there may be one for each."""
    most = 1 if config.calls == "joint" else None
    for target, item in list(_by_target(proposed, note, offer).items())[:most]:
        yield _update(offer.notes[target], item)


def _partly_outdated(
    note: Note, offer: Offer, proposed: Mapping[str, ProposedSupersession], config: MemoryConfig
) -> Iterator[PlannedUpdate]:
    """Yield for each earlier note of which a part is outdated the sentence that says what still holds.

    What would have to wait for a person if it replaced the whole note waits here too.
    """
    for target, item in proposed.items():
        older = offer.notes[target]
        if item.still and is_later(note, older):
            update = _update(older, ProposedUpdate(to=item.to, context=item.still))
            yield replace(update, rejected=objection_to(note, older, config))


def _by_target(items: Sequence[T], note: Note, offer: Offer) -> dict[str, T]:
    found: dict[str, T] = {}
    for item in items:
        target = offer.target(note, item.to)
        if target is not None:
            found.setdefault(target, item)
    return found


def _relation(said: str) -> str:
    """Return a relation as a model wrote it; one that means `repeats` in any form is that."""
    if said.strip(" .").lower().startswith(("repeat", "restate", "duplicate")):
        return REPEATS
    return said[:MAX_RELATION_CHARS] or PLAIN_RELATION


def _link(item: ProposedLink, target: str) -> PlannedLink:
    return PlannedLink(
        id="",
        target=target,
        relation=_relation(item.relation),
        reason=item.reason[:MAX_REASON_CHARS],
        strength=min(max(item.strength, 0.0), 1.0),
    )


def _update(target: Note, item: ProposedUpdate) -> PlannedUpdate:
    return PlannedUpdate(
        id="",
        target=target.id,
        context=" ".join(item.context.split()),
        keywords=texts.clean_words(item.keywords, texts.MAX_KEYWORDS),
        tags=texts.clean_words(item.tags, texts.MAX_TAGS),
        before=texts.context(target) or target.content,
    )
