"""Link and evolve: ask which earlier notes a batch belongs with and which of them change (Eq. 6, 7); nothing is written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from .. import texts
from ..changes.edits import Edit, chain
from ..embedding import embed
from ..errors import ModelReplyError
from ..ids import clock, derive, new_operation, now
from ..notes import Namespace, Note
from ..plans import Plan, PlannedLink, PlannedNote, PlannedUpdate
from ..ports import Vector
from ..prompts import (
    EvolveReply,
    LinkReply,
    NoteEvolution,
    ProposedLink,
    ProposedUpdate,
    ReviseReply,
    Targeted,
)
from ..runtime import Runtime
from . import candidates, gate, show
from .ask import ask
from .commit import Planner
from .construct import Batch
from .show import ShownBatch


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


MAX_REASON_CHARS = 200
MAX_RELATION_CHARS = 40
T = TypeVar("T", bound=Targeted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A plan, and the notes that were shown for it as they were then."""

    plan: Plan
    notes: Mapping[str, Note]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Proposed:
    """What a model proposes for a batch, not judged yet, and what it was shown."""

    notes: Sequence[PlannedNote] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    offer: candidates.Offer


async def propose_all(runtime: Runtime, namespace: Namespace, batches: Sequence[Batch]) -> Proposal:
    """Return what is to be linked and updated for some batches of constructed notes.

    Raises:
        ModelUnavailableError: The model did not answer.
    """
    op, since = new_operation(), clock.tick()

    async def one(batch: Batch) -> _Proposed:
        return await _proposed(runtime, namespace, op, batch)

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
    )
    return Proposal(plan=plan, notes=shown)


async def _proposed(runtime: Runtime, namespace: Namespace, op: str, batch: Batch) -> _Proposed:
    """Ask for the links and updates of a batch."""
    offer = await candidates.find(runtime, namespace, batch.notes, batch.before)
    shown = ShownBatch.of(batch.notes, offer)
    try:
        evolutions = await ask_evolution(runtime, shown)
    except ModelReplyError as error:
        return _Proposed(failed={note.id: str(error) for note in batch.notes}, offer=offer)
    plans = [
        _planned(op, runtime.model_name, note, shown, evolutions.get(shown.alias[note.id]))
        for note in batch.notes
    ]
    runtime.usage.count("evolve", dropped=sum(plan.dropped for plan in plans))
    return _Proposed(notes=plans, offer=offer)


async def _judged(
    runtime: Runtime, op: str, made: Sequence[_Proposed], shown: Mapping[str, Note]
) -> list[PlannedNote]:
    """Put every update through the gate; with evolution off there is none. For a review all of it is held back.

    What the updated notes will read like is embedded by the same call as the new entries, for the commit.
    """
    plans = [plan for part in made for plan in part.notes]
    if not runtime.config.evolve:
        plans = [replace(plan, updates=()) for plan in plans]
    entries = [update.context for plan in plans for update in plan.updates]
    if not entries:
        return _held(runtime, plans)
    rows = await embed(runtime, [*entries, *_texts_to_be(op, plans, shown)])
    vectors: dict[str, Vector | None] = dict(zip(entries, rows, strict=False))
    targets = {i: row for part in made for i, row in part.offer.vectors.items()}
    floor = runtime.config.min_gate_similarity

    def judged(update: PlannedUpdate) -> PlannedUpdate:
        return gate.judge(update, vectors[update.context], targets.get(update.target), floor)

    return _held(
        runtime, [replace(plan, updates=tuple(map(judged, plan.updates))) for plan in plans]
    )


def _held(runtime: Runtime, plans: list[PlannedNote]) -> list[PlannedNote]:
    return list(map(gate.hold, plans)) if runtime.config.review else plans


def _texts_to_be(op: str, plans: Sequence[PlannedNote], shown: Mapping[str, Note]) -> Iterable[str]:
    """Return the embedded texts of the notes that plans update, if the gate lets all of it pass."""
    planner = Planner(op=op, at=now(), max_links=1)
    steps: defaultdict[str, list[Edit]] = defaultdict(list)
    for plan in plans:
        for update in plan.updates:
            steps[update.target].append(planner.append(update, shown[plan.id], plan.model))
    return [texts.embedding_text(chain(parts)(shown[i])[0]) for i, parts in steps.items()]


def _planned(
    op: str, model: str, note: Note, shown: ShownBatch, evolution: NoteEvolution | None
) -> PlannedNote:
    """Return what is proposed for one note; its updates are not judged yet."""
    links = evolution.links if evolution else []
    updates = evolution.updates if evolution else []
    return PlannedNote(
        id=note.id,
        entry=note.own_entry.change if note.own_entry else "",
        model=model,
        candidates=tuple(shown.offer.candidates[note.id]),
        links=tuple(_link(op, note, item, i) for i, item in _by_target(links, note, shown).items()),
        updates=tuple(
            _update(op, note, item, shown.offer.notes[i])
            for i, item in _by_target(updates, note, shown).items()
        ),
        dropped=sum(shown.target(note, item.to) is None for item in [*links, *updates]),
    )


def _by_target(items: Sequence[T], note: Note, shown: ShownBatch) -> dict[str, T]:
    found: dict[str, T] = {}
    for item in items:
        target = shown.target(note, item.to)
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
