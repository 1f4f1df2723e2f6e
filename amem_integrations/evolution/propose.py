"""Propose: links and updates of new notes (Eq. 6-7 of the paper); nothing is written.

Filler is not linked. Every other turn is linked to the one before it, whether a model says so or not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from .. import texts
from ..changes.edits import Edit, chain
from ..changes.quoted_from import sources_of
from ..config import MemoryConfig
from ..embedding import embed
from ..errors import ModelReplyError, ModelUnavailableError
from ..ids import clock, derive, new_operation, now, time_of
from ..notes import Namespace, Note
from ..plans import (
    FOLLOWS,
    MAX_REASON_CHARS,
    MAX_RELATION_CHARS,
    REPEATS,
    Plan,
    PlannedLink,
    PlannedNote,
    PlannedUpdate,
)
from ..ports import Vector
from ..prompts.replies import (
    EvolveReply,
    NoteEvolution,
    ProposedLink,
    ProposedUpdate,
    Targeted,
)
from ..runtime import Runtime
from ..thresholds import gate
from .ask import RefusedError, ask, counting, fits, room
from .candidates import find_candidates
from .commit import Planner
from .construct import Batch
from .gate import hold, judge
from .paper_calls import ask_each
from .relink import planned_relinks, with_relinks_judged
from .show import Offer, bare, lines, linked
from .supersede import planned

T = TypeVar("T", bound=Targeted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A plan, and the notes that were shown for it as they were then.

    `error` is why there is no answer about some of the notes, which are not in the plan.
    """

    plan: Plan
    notes: Mapping[str, Note]
    error: ModelUnavailableError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Proposed:
    """What a model proposes for a batch, not judged yet, and what it was shown."""

    notes: Sequence[PlannedNote] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    offer: Offer
    error: ModelUnavailableError | None = None


async def propose_all(runtime: Runtime, namespace: Namespace, batches: Sequence[Batch]) -> Proposal:
    """Return what is to be linked and updated for some batches of constructed notes.

    Raises:
        ModelUnavailableError: The embedder failed.
    """
    op, since = new_operation(), clock.tick()
    async with counting(runtime, namespace, op, time_of(since)) as asking:

        async def one(batch: Batch) -> _Proposed:
            return await _proposed(asking, namespace, op, batch)

        made = await runtime.map(one, batches, runtime.config.max_concurrency)
        shown = {note.id: note for batch in batches for note in batch.notes}
        for part in made:
            shown |= part.offer.notes
        planned = await _judged(runtime, op, made, shown)
        planned = list(map(hold, planned)) if runtime.config.review else planned
        words = [text for one in planned for text in one.written]
        sources = await sources_of(runtime, namespace, shown, words)
        plan = Plan(
            id=op,
            namespace=namespace,
            since=since,
            notes=tuple(planned),
            sources=sources.ids,
            stale=sources.stale,
            failed={note_id: why for part in made for note_id, why in part.failed.items()},
            cost=asking.usage.cost(),
        )
    error = next((part.error for part in made if part.error is not None), None)
    return Proposal(plan=plan, notes=shown, error=error)


async def _proposed(runtime: Runtime, namespace: Namespace, op: str, batch: Batch) -> _Proposed:
    """Ask for the links and updates of a batch; filler has none."""
    talk = [note for note in batch.notes if note.kind != "filler"]
    found = await find_candidates(runtime, namespace, replace(batch, notes=talk))
    offer = _trimmed(runtime, found)
    failed, evolutions = dict[str, str](), dict[str, NoteEvolution]()
    try:
        evolutions = await _ask(runtime, offer)
    except ModelReplyError as error:
        failed = {note.id: str(error) for note in talk}
    except ModelUnavailableError as error:
        return _Proposed(error=error, offer=offer)
    plans = [
        _planned(runtime, op, note, offer, evolutions.get(offer.alias.get(note.id, "")))
        for note in batch.notes
        if note.id not in failed
    ]
    runtime.usage.count("evolve", dropped=sum(plan.dropped for plan in plans))
    return _Proposed(notes=plans, failed=failed, offer=offer)


async def _ask(runtime: Runtime, offer: Offer) -> dict[str, NoteEvolution]:
    """Return by alias what the model proposes for each note of a batch.

    Raises:
        ModelReplyError: No usable reply.
        ModelUnavailableError: No reply.
    """
    if not runtime.config.link or not any(offer.candidates.values()):
        return {}
    if runtime.config.calls == "paper":
        return await ask_each(runtime, offer)
    return await _ask_all(runtime, offer)


async def _ask_all(runtime: Runtime, offer: Offer) -> dict[str, NoteEvolution]:
    """Ask for the links and updates of the whole batch in one call, or in several if the model cannot take it."""
    values = _values(offer)
    if len(offer.batch) > 1 and not fits(runtime, "evolve", values, offer.reply_tokens):
        parts = [await _ask_all(runtime, half) for half in offer.halves()]
        return parts[0] | parts[1]
    try:
        reply = await ask(
            runtime,
            "evolve",
            EvolveReply,
            namespace=offer.namespace,
            inputs={
                "notes": [offer.data(note) for note in offer.batch],
                "candidates": offer.enriched(offer.others),
                "links": offer.links(),
            },
            values=values,
        )
    except RefusedError:
        if smaller := _smaller(offer):
            parts = [await _ask_all(runtime, one) for one in smaller]
            return {alias: said for part in parts for alias, said in part.items()}
        raise
    known = {offer.alias[note.id] for note in offer.batch}
    answered = {bare(item.id): item for item in reversed(reply.notes)}
    runtime.usage.count("evolve", dropped=len(set(answered) - known))
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


def _values(offer: Offer) -> dict[str, str]:
    links = offer.links()
    return {
        "notes": offer.text(offer.batch),
        "links": lines([linked(link) for link in links]),
    }


def _trimmed(runtime: Runtime, offer: Offer) -> Offer:
    """Return the offer without the last candidates of a note that alone would be too long for the model."""
    for note in offer.batch if room(runtime) else ():
        while len(offer.candidates[note.id]) > 1:
            alone = offer.only([note])
            if fits(runtime, "evolve", _values(alone), alone.reply_tokens):
                break
            offer = offer.without_last(note)
    return offer


async def _judged(
    runtime: Runtime, op: str, made: Sequence[_Proposed], shown: Mapping[str, Note]
) -> list[PlannedNote]:
    """Put every update through the gate; with evolution off there is none.

    What the updated notes will read like is embedded by the same call as the new entries, for the commit.
    """
    plans = [plan for part in made for plan in part.notes]
    if not runtime.config.evolve:
        plans = [replace(plan, updates=(), supersessions=(), relinks=()) for plan in plans]
    plans = [
        await with_relinks_judged(runtime.store, p, shown[p.id].namespace) if p.relinks else p
        for p in plans
    ]
    entries = [update.context for plan in plans for update in plan.updates]
    if not entries:
        return plans
    rows = await embed(runtime, [*entries, *_texts_to_be(op, plans, shown)])
    vectors: dict[str, Vector | None] = dict(zip(entries, rows, strict=False))
    targets = {i: row for part in made for i, row in part.offer.vectors.items()}
    floor = await gate(runtime)

    def judged(update: PlannedUpdate) -> PlannedUpdate:
        return judge(update, vectors[update.context], targets.get(update.target), floor)

    return [replace(plan, updates=tuple(map(judged, plan.updates))) for plan in plans]


def _texts_to_be(op: str, plans: Sequence[PlannedNote], shown: Mapping[str, Note]) -> Iterable[str]:
    """Return the embedded texts of the notes that plans update, if the gate lets all of it pass."""
    planner = Planner(op=op, at=now(), max_links=1)
    steps: defaultdict[str, list[Edit]] = defaultdict(list)
    for plan in plans:
        for update in plan.updates:
            source = shown[update.source or plan.id]
            steps[update.target].append(planner.append(update, source, plan.model))
    return [texts.embedding_text(chain(parts)(shown[i])[0]) for i, parts in steps.items()]


def _planned(
    runtime: Runtime, op: str, note: Note, offer: Offer, evolution: NoteEvolution | None
) -> PlannedNote:
    """Return what is proposed for one note; its updates are not judged yet."""
    said = evolution or NoteEvolution(id="")
    relinked = planned_relinks(op, note, offer, said.relinks) if said.relinks else []
    others = [item for item in said.updates if offer.end(note, item.to) is not note]
    named = [*said.links, *others, *said.supersedes]
    return PlannedNote(
        id=note.id,
        entry=note.own_entry.change if note.own_entry else "",
        model=runtime.model_name,
        candidates=tuple(offer.candidates.get(note.id, ())),
        links=tuple(_links(op, note, offer, said.links)) if runtime.config.link else (),
        updates=tuple(_updates(op, note, offer, said.updates, runtime.config)),
        supersessions=tuple(
            one
            for i, item in _by_target(said.supersedes, note, offer).items()
            if (one := planned(op, note, offer.notes[i], item, runtime.config)) is not None
        ),
        relinks=tuple(one for one in relinked if one is not None),
        dropped=sum(offer.target(note, item.to) is None for item in named) + relinked.count(None),
    )


def _links(
    op: str, note: Note, offer: Offer, proposed: Sequence[ProposedLink]
) -> Iterator[PlannedLink]:
    """Yield the links of a note: as proposed, and to the turn before it if that is not among them."""
    wanted = _by_target(proposed, note, offer)
    for target, item in wanted.items():
        yield _link(op, note, item, target)
    for one in offer.candidates.get(note.id, ()):
        if one.previous and one.id not in wanted:
            item = ProposedLink(to=offer.alias[one.id], relation=FOLLOWS)
            yield replace(_link(op, note, item, one.id), by_order=True)


def _updates(
    op: str, note: Note, offer: Offer, proposed: Sequence[ProposedUpdate], config: MemoryConfig
) -> Iterator[PlannedUpdate]:
    """Yield the first update of an earlier note, and the first of the new note itself by an earlier one.

    The paper asks about each neighbour by itself, so there may be one for each.
    """
    most = 1 if config.calls == "joint" else None
    for target, item in list(_by_target(proposed, note, offer).items())[:most]:
        yield _update(op, offer.notes[target], item, cause=note.id)
    for item in proposed:
        source = offer.target(note, item.source)
        if offer.end(note, item.to) is note and source is not None:
            yield replace(_update(op, note, item, cause=source), source=source)
            return


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
    return said[:MAX_RELATION_CHARS] or "related"


def _link(op: str, note: Note, item: ProposedLink, target: str) -> PlannedLink:
    return PlannedLink(
        id=derive("change", op, "link", note.id, target),
        target=target,
        relation=_relation(item.relation),
        reason=item.reason[:MAX_REASON_CHARS],
        strength=min(max(item.strength, 0.0), 1.0),
    )


def _update(op: str, target: Note, item: ProposedUpdate, *, cause: str) -> PlannedUpdate:
    return PlannedUpdate(
        id=derive("change", op, "evolve", target.id, cause),
        target=target.id,
        context=" ".join(item.context.split()),
        keywords=texts.clean_words(item.keywords, texts.MAX_KEYWORDS),
        tags=texts.clean_words(item.tags, texts.MAX_TAGS),
        before=texts.context(target) or target.content,
    )
