"""Propose: candidates, links and updates for new notes (Eq. 4-7 of the paper); nothing is written.

Candidates are the last notes of the same thread, then the hybrid nearest on the enriched text. Only notes that
came before (by seq) are candidates, so a batch can be linked in one go.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from .. import ranking, texts
from ..changes.edits import Edit, chain
from ..currency import NOT_MERGED
from ..embedding import embed
from ..errors import ModelReplyError, ModelUnavailableError
from ..filters import Condition
from ..ids import clock, derive, new_operation, now, time_of
from ..notes import Namespace, Note
from ..plans import Candidate, Plan, PlannedLink, PlannedNote, PlannedUpdate
from ..ports import Bring, Query, Ranked, Vector
from ..prompts import (
    EvolveReply,
    LinkReply,
    NoteEvolution,
    ProposedLink,
    ProposedSupersession,
    ProposedUpdate,
    ReviseReply,
    Targeted,
)
from ..runtime import Runtime, resolve
from .ask import Offer, ask, briefs, counting, line, lines, linked
from .commit import Planner
from .construct import Batch
from .gate import hold, judge
from .relink import planned_relinks, with_relinks_judged
from .supersede import planned

MAX_REASON_CHARS = 200
MAX_RELATION_CHARS = 40
SPARE = 4  # notes that a server brings along, where it orders equal scores otherwise
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
        plan = Plan(
            id=op,
            namespace=namespace,
            since=since,
            notes=tuple(await _judged(runtime, op, made, shown)),
            failed={note_id: why for part in made for note_id, why in part.failed.items()},
            cost=asking.usage.cost(),
        )
    error = next((part.error for part in made if part.error is not None), None)
    return Proposal(plan=plan, notes=shown, error=error)


async def _proposed(runtime: Runtime, namespace: Namespace, op: str, batch: Batch) -> _Proposed:
    """Ask for the links and updates of a batch."""
    offer = await _candidates(runtime, namespace, batch)
    try:
        evolutions = await _ask(runtime, offer)
    except ModelReplyError as error:
        return _Proposed(failed={note.id: str(error) for note in batch.notes}, offer=offer)
    except ModelUnavailableError as error:
        return _Proposed(error=error, offer=offer)
    plans = [
        _planned(runtime, op, note, offer, evolutions.get(offer.alias[note.id]))
        for note in batch.notes
    ]
    runtime.usage.count("evolve", dropped=sum(plan.dropped for plan in plans))
    return _Proposed(notes=plans, offer=offer)


async def turns_before(
    runtime: Runtime, namespace: Namespace, note: Note, count: int
) -> list[Note]:
    """Return the last `count` notes of its thread before a note, oldest first."""
    if note.thread is None or not count:
        return []
    where = (Condition("thread", "$eq", note.thread), Condition("seq", "$lt", note.seq))
    turns = await resolve(
        runtime.store.scan(namespace, where=where, limit=count, newest_first=True)
    )
    time = now()
    return [turn for turn in reversed(turns) if not turn.is_expired(time)]


async def _candidates(runtime: Runtime, namespace: Namespace, batch: Batch) -> Offer:
    """Return the candidates of each note of a batch; the turns before it are as many as the settings want."""
    rows = await embed(runtime, [texts.embedding_text(note) for note in batch.notes])  # cached
    own = {note.id: row for note, row in zip(batch.notes, rows, strict=True) if row is not None}
    recent = _recent(batch, runtime.config.recent)
    bring, most = None, runtime.config.candidates + SPARE
    if len(batch.notes) == 1:  # for several notes the same ones would come several times
        before = recent[batch.notes[0].id]
        bring = Bring(limit=most, k=ranking.RRF_K, ids=before, vectors=True)
    queries = [_query(note, own.get(note.id), bring) for note in batch.notes]
    found = await resolve(runtime.store.search(namespace, queries))
    chosen = {
        note.id: _choose(runtime, recent[note.id], ranked)
        for note, ranked in zip(batch.notes, found, strict=True)
    }
    ids = list(dict.fromkeys(target for targets in chosen.values() for target in targets))
    time = now()
    brought = {i: item for ranked in found for i, item in ranked.brought.items()}
    if missing := [i for i in ids if i not in brought]:
        for item in await resolve(runtime.store.get_indexed(namespace, missing)):
            brought[item.note.id] = item
    stored = [
        item
        for item in (brought[i] for i in ids if i in brought)
        if not item.note.is_expired(time) and item.note.merged_into is None
    ]
    notes = {item.note.id: item.note for item in stored}
    vectors = {item.note.id: item.vector for item in stored if item.vector is not None} | own
    candidates = {
        note.id: [
            Candidate(
                id=target,
                similarity=_similarity(vectors, note.id, target),
                previous=target in recent[note.id][:1],
            )
            for target in chosen[note.id]
            if target in notes
        ]
        for note in batch.notes
    }
    return Offer.of(batch.notes, candidates, notes, vectors)


def _similarity(vectors: Mapping[str, Vector], one: str, other: str) -> float | None:
    """Return the cosine of two notes, or None where either has no vector."""
    if one not in vectors or other not in vectors:
        return None
    return float(vectors[one] @ vectors[other])


def _query(note: Note, vector: Vector | None, bring: Bring | None) -> Query:
    return Query(
        vector=vector,
        text=texts.lexical_text(note),
        limit=ranking.FUSION_DEPTH,
        where=(Condition("seq", "$lt", note.seq), NOT_MERGED),
        bring=bring,
    )


def _choose(runtime: Runtime, recent: Sequence[str], ranked: Ranked) -> list[str]:
    nearest = ranking.order(ranking.fuse(ranked))
    return list(dict.fromkeys([*recent, *nearest]))[: runtime.config.candidates]


def _recent(batch: Batch, count: int) -> dict[str, list[str]]:
    """Return for each note the ids of the last notes of its thread before it, newest first."""
    if not count or batch.notes[0].thread is None:
        return {note.id: [] for note in batch.notes}
    turns = [*batch.before, *batch.notes]
    return {
        note.id: [turn.id for turn in reversed(turns) if turn.seq < note.seq][:count]
        for note in batch.notes
    }


async def _ask(runtime: Runtime, offer: Offer) -> dict[str, NoteEvolution]:
    """Return by alias what the model proposes for each note of a batch.

    Raises:
        ModelReplyError: No usable reply.
        ModelUnavailableError: No reply.
    """
    if not runtime.config.link or not any(offer.candidates.values()):
        return {}
    if runtime.config.calls == "paper":
        return await _ask_each(runtime, offer)
    return await _ask_all(runtime, offer)


async def _ask_all(runtime: Runtime, offer: Offer) -> dict[str, NoteEvolution]:
    """Ask for the links and updates of the whole batch in one call."""
    others, links = offer.enriched(offer.others), offer.links(now(), runtime.config.link_half_life)
    reply = await ask(
        runtime,
        "evolve",
        EvolveReply,
        namespace=offer.namespace,
        inputs={
            "notes": [offer.data(note) for note in offer.batch],
            "candidates": others,
            "links": links,
        },
        values={
            "candidates": briefs(others, offer.others),
            "links": lines([linked(link) for link in links]),
            "notes": lines([offer.text(note) for note in offer.batch]),
        },
    )
    known = {offer.alias[note.id] for note in offer.batch}
    answered = {item.id.strip().strip("[]"): item for item in reversed(reply.notes)}
    runtime.usage.count("evolve", dropped=len(set(answered) - known))
    return answered


async def _ask_each(runtime: Runtime, offer: Offer) -> dict[str, NoteEvolution]:
    """Ask as the paper does: a call for the links of a note, then one for each neighbour."""
    evolutions = {}
    for note in offer.batch:
        alias, near = offer.alias[note.id], offer.near(note)
        evolution = NoteEvolution(id=alias, links=await _ask_links(runtime, offer, note, near))
        for neighbour in near if runtime.config.evolve else ():
            await _ask_revision(runtime, offer, note, neighbour, evolution)
        evolutions[alias] = evolution
    return evolutions


async def _ask_links(
    runtime: Runtime, offer: Offer, note: Note, near: Sequence[Note]
) -> list[ProposedLink]:
    if not near:
        return []
    listed = offer.enriched(near)
    reply = await ask(
        runtime,
        "link",
        LinkReply,
        namespace=offer.namespace,
        inputs={"notes": [offer.data(note)], "candidates": listed},
        values={"candidates": briefs(listed, near), "notes": offer.text(note)},
    )
    return reply.links


async def _ask_revision(
    runtime: Runtime, offer: Offer, note: Note, neighbour: Note, evolution: NoteEvolution
) -> None:
    """Ask whether a neighbour is to be read differently, or is no longer so, and add that to the evolution."""
    others = [other for other in offer.near(note) if other.id != neighbour.id]
    target, *listed = offer.enriched([neighbour, *others])
    reply = await ask(
        runtime,
        "revise",
        ReviseReply,
        namespace=offer.namespace,
        inputs={"note": offer.data(note), "neighbour": target, "others": listed},
        values={
            "neighbour": line(target, neighbour),
            "notes": offer.text(note),
            "others": briefs(listed, others),
        },
    )
    alias, words = offer.alias[neighbour.id], {"keywords": reply.keywords, "tags": reply.tags}
    if reply.change:
        evolution.updates.append(ProposedUpdate(to=alias, context=reply.context, **words))
    if reply.supersedes:
        evolution.supersedes.append(ProposedSupersession(to=alias, relation=reply.supersedes))


async def _judged(
    runtime: Runtime, op: str, made: Sequence[_Proposed], shown: Mapping[str, Note]
) -> list[PlannedNote]:
    """Put every update through the gate; with evolution off there is none. For a review all of it is held back.

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
        return _held(runtime, plans)
    rows = await embed(runtime, [*entries, *_texts_to_be(op, plans, shown)])
    vectors: dict[str, Vector | None] = dict(zip(entries, rows, strict=False))
    targets = {i: row for part in made for i, row in part.offer.vectors.items()}
    floor = runtime.config.min_gate_similarity

    def judged(update: PlannedUpdate) -> PlannedUpdate:
        return judge(update, vectors[update.context], targets.get(update.target), floor)

    return _held(
        runtime, [replace(plan, updates=tuple(map(judged, plan.updates))) for plan in plans]
    )


def _held(runtime: Runtime, plans: list[PlannedNote]) -> list[PlannedNote]:
    return list(map(hold, plans)) if runtime.config.review else plans


def _texts_to_be(op: str, plans: Sequence[PlannedNote], shown: Mapping[str, Note]) -> Iterable[str]:
    """Return the embedded texts of the notes that plans update, if the gate lets all of it pass."""
    planner = Planner(op=op, at=now(), max_links=1)
    steps: defaultdict[str, list[Edit]] = defaultdict(list)
    for plan in plans:
        for update in plan.updates:
            steps[update.target].append(planner.append(update, shown[plan.id], plan.model))
    return [texts.embedding_text(chain(parts)(shown[i])[0]) for i, parts in steps.items()]


def _planned(
    runtime: Runtime, op: str, note: Note, offer: Offer, evolution: NoteEvolution | None
) -> PlannedNote:
    """Return what is proposed for one note; its updates are not judged yet."""
    links = evolution.links if evolution else []
    updates = evolution.updates if evolution else []
    replaced = evolution.supersedes if evolution else []
    relinks = evolution.relinks if evolution else []
    relinked = planned_relinks(op, note, offer, relinks) if relinks else []
    return PlannedNote(
        id=note.id,
        entry=note.own_entry.change if note.own_entry else "",
        model=runtime.model_name,
        candidates=tuple(offer.candidates[note.id]),
        links=tuple(_link(op, note, item, i) for i, item in _by_target(links, note, offer).items()),
        updates=tuple(
            _update(op, note, item, offer.notes[i])
            for i, item in _by_target(updates, note, offer).items()
        ),
        supersessions=tuple(
            one
            for i, item in _by_target(replaced, note, offer).items()
            if (one := planned(op, note, offer.notes[i], item, runtime.config)) is not None
        ),
        relinks=tuple(one for one in relinked if one is not None),
        dropped=sum(offer.target(note, item.to) is None for item in [*links, *updates, *replaced])
        + relinked.count(None),
    )


def _by_target(items: Sequence[T], note: Note, offer: Offer) -> dict[str, T]:
    found: dict[str, T] = {}
    for item in items:
        target = offer.target(note, item.to)
        if target is not None:
            found.setdefault(target, item)
    return found


def _link(op: str, note: Note, item: ProposedLink, target: str) -> PlannedLink:
    return PlannedLink(
        id=derive("change", op, "link", note.id, target),
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
        keywords=texts.clean_words(item.keywords, texts.MAX_KEYWORDS),
        tags=texts.clean_words(item.tags, texts.MAX_TAGS),
        before=texts.context(target) or target.content,
    )
