"""Linking: what new notes belong with, and what they change of earlier ones (Eq. 6-7 of the paper); nothing is written.

Filler is not linked. Every other turn is linked to the one before it, whether a model says so or not: as the answer to
what another speaker asked, else as what follows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from .. import texts
from ..decisions import Decision, Item, ItemKind, slot_id
from ..errors import ModelReplyError
from ..journal.commit import PLAIN_RELATION
from ..journal.writer import Writer
from ..notes import Note, Relation
from ..plans import (
    ANSWERS,
    FOLLOWS,
    MAX_REASON_CHARS,
    MAX_RELATION_CHARS,
    REPEATS,
    LinkChange,
    PlannedNote,
)
from ..prompts.replies import (
    EvolveReply,
    LinkReply,
    NoteEvolution,
    ProposedRelink,
    ProposedSupersession,
    ProposedUpdate,
    ReviseReply,
    Targeted,
)
from ..retrieval.current_facts import is_later
from ..runtime import RULES, Runtime
from .ask import OpenCall, RefusedError, ask, fits, render
from .candidates import find_candidates
from .construct import Batch
from .gate import judge, objection_to
from .show import Offer, Shown, bare, candidate, lines, linked, replies, turns

T = TypeVar("T")
Named = TypeVar("Named", bound=Targeted)

LINKS_SHARE = (
    20  # the list of links between candidates has at most one in so many tokens of a prompt
)
FOLLOWS_STRENGTH = 0.5
# Other words that models write for the changes and relations, by the beginning of the word.
CHANGES: Mapping[str, LinkChange] = {
    "streng": "strengthen",
    "strong": "strengthen",
    "weak": "weaken",
    "remove": "remove",
    "delete": "remove",
    "drop": "remove",
    "unlink": "remove",
}
VERDICTS: Mapping[str, Relation] = {
    "update": "updates",
    "replace": "updates",
    "supersede": "updates",
    "correct": "corrects",
    "retract": "retracts",
    "cancel": "retracts",
    "contradict": "contradicts",
}
REPETITIONS = {"repeat": REPEATS, "restate": REPEATS, "duplicate": REPEATS}


async def propose(
    call: OpenCall, batch: Batch, writer: Writer, fresh: Mapping[str, Note]
) -> tuple[list[PlannedNote], dict[str, Note]]:
    """Return the planned links and updates of a batch of constructed notes, and by id the notes that these are about.

    Args:
        call: The work on the batch; it knows of which notes the model said nothing usable.
        batch: The notes, with their entries.
        writer: Reads the decisions about links that are to go.
        fresh: Notes with entries that are not written yet, by id.
    """
    runtime = call.runtime
    talk = [note for note in batch.notes if note.kind != "filler"]
    offer = await find_candidates(runtime, call.namespace, replace(batch, notes=talk), fresh)
    evolutions = dict[str, NoteEvolution]()
    try:
        evolutions = await _ask(call, offer)
    except ModelReplyError as error:
        call.failed |= {note.id: str(error) for note in talk}
    notes = {**offer.notes, **{note.id: note for note in batch.notes}}
    proposed, dropped = dict[str, list[Item]](), dict[str, int]()
    for note in batch.notes:
        if note.id not in call.failed:
            said = evolutions.get(offer.alias.get(note.id, ""), NoteEvolution(id=""))
            found = list(_proposed(runtime, note, offer, said))
            dropped[note.id] = found.count(None)
            proposed[note.id] = [item for item in found if item is not None]
    runtime.usage.count("evolve", dropped=sum(dropped.values()))
    every = [item for items in proposed.values() for item in items]
    judged = iter(await judge(runtime, writer, every, notes))
    plans = []
    for note_id, items in proposed.items():
        note, decided = notes[note_id], [next(judged) for _ in items]
        decided += _to_the_turn_before(runtime, note, offer, decided)
        slot = slot_id(note.id, "link", note.rev, note.next_attempts.link)
        numbered = (replace(item, number=number) for number, item in enumerate(decided))
        plan = PlannedNote(
            id=note.id,
            rev=note.rev,
            attempt=note.next_attempts.link,
            items={f"{slot}:{item.number}": item for item in numbered},
            dropped=dropped[note_id],
        )
        plans.append(with_sources(call, plan, notes))
    return plans, notes


def with_sources(call: OpenCall, plan: PlannedNote, notes: Mapping[str, Note]) -> PlannedNote:
    """Return a plan in which everything says of which wordings it was made, besides those that it names already."""

    def found(item: Item) -> Item:
        ends = [notes[i] for i in {plan.id, item.to, item.other} if i in notes]
        words = [item.text, *item.data.get("keywords", ()), *item.data.get("tags", ())]
        if item.kind == "link" and call.seen.quotes(item.data["relation"]):
            # A reason goes with what it quotes; a relation says nothing that could have to go.
            item = replace(item, data={**item.data, "relation": PLAIN_RELATION})
        made_of = call.seen.sources_of(words, ends)
        return replace(item, sources=tuple(sorted({*item.sources, *made_of})))

    return replace(plan, items={key: found(item) for key, item in plan.items.items()})


def link_decisions(
    call: OpenCall, plans: Sequence[PlannedNote], notes: Mapping[str, Note]
) -> list[Decision]:
    """Return the decisions of plans, without what is about a note that is not among these, or says nothing.

    Of several changes of one link the first counts.
    """
    relinked: set[frozenset[str]] = set()
    made = []
    for plan in plans:
        items = dict[int, Item]()
        for item in plan.items.values():
            ends = frozenset((item.to, item.other or plan.id))
            says = item.kind != "sentence" or item.text.strip() or not item.is_on
            is_again = item.kind == "relink" and ends in relinked
            if says and not is_again and len(ends) > 1 and ends <= notes.keys():
                items[item.number] = item
                relinked |= {ends} if item.kind == "relink" else set()
        made.append(call.decide(notes[plan.id], "link", items.values()))
    return made


async def _ask(call: OpenCall, offer: Offer) -> dict[str, NoteEvolution]:
    """Return by alias what the model proposes for each note of a batch.

    Raises:
        ModelReplyError: No usable reply.
        ModelUnavailableError: No reply.
    """
    config = call.runtime.config
    if not config.link or not any(offer.candidates.values()):
        return {}
    if config.calls == "paper" and call.runtime.model_name != RULES:
        return {offer.alias[note.id]: await _ask_apart(call, offer, note) for note in offer.batch}
    return await _ask_together(call, offer)


async def _ask_together(call: OpenCall, offer: Offer) -> dict[str, NoteEvolution]:
    """Ask for the links and updates of the whole batch in one call, or in several if the model cannot take it."""
    values, links = _values(call.runtime, offer)
    smaller = _smaller(offer)
    if smaller and not fits(call.runtime, "evolve", values, offer.reply_tokens):
        return await _ask_each(call, smaller)
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
        if smaller:
            return await _ask_each(call, smaller)
        raise
    answered = {bare(item.id): item for item in reversed(reply.notes)}
    known = [offer.alias[note.id] for note in offer.batch]
    call.runtime.usage.count("evolve", dropped=len(answered.keys() - set(known)))
    last = max((n for n, alias in enumerate(known) if alias in answered), default=-1)
    rest = offer.batch[last + 1 :]
    if reply.is_cut and 0 < len(rest) < len(offer.batch):
        return answered | await _ask_together(call, offer.only(rest))
    return answered


async def _ask_each(call: OpenCall, offers: Iterable[Offer]) -> dict[str, NoteEvolution]:
    said = dict[str, NoteEvolution]()
    for offer in offers:
        said |= await _ask_together(call, offer)
    return said


def _smaller(offer: Offer) -> Sequence[Offer]:
    """Return smaller requests in place of one that is too long: halves, or a note with half of its candidates."""
    if len(offer.batch) > 1:
        return offer.halves()
    (note,) = offer.batch
    drop = len(offer.candidates[note.id]) // 2
    return [offer.without_last(note, drop)] if drop else ()


async def _ask_apart(call: OpenCall, offer: Offer, note: Note) -> NoteEvolution:
    """Ask as the paper does: a call for the links of a note (Eq. 6), then one for each neighbour (Eq. 7)."""
    while len(offer.candidates[note.id]) > 1:
        alone = offer.only([note])
        if fits(call.runtime, "evolve", _values(call.runtime, alone)[0], alone.reply_tokens):
            break
        offer = offer.without_last(note)
    near, said = offer.near(note), NoteEvolution(id=offer.alias[note.id])
    if near:
        reply = await ask(
            call,
            "link",
            LinkReply,
            shown=[note, *near],
            inputs={"notes": [offer.data(note)], "candidates": offer.enriched(near)},
            values={"notes": offer.text([note])},
        )
        said.links = reply.links
    for neighbour in near if call.runtime.config.evolve else ():
        others = [other for other in near if other.id != neighbour.id]
        target, *listed = offer.enriched([neighbour, *others])
        revised = await ask(
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
        to = offer.alias[neighbour.id]
        if revised.change:
            said.updates.append(ProposedUpdate(**revised.model_dump(include=SENTENCE), to=to))
        if revised.supersedes:
            said.supersedes.append(ProposedSupersession(to=to, relation=revised.supersedes))
    return said


SENTENCE = {"context", "keywords", "tags"}


def _values(runtime: Runtime, offer: Offer) -> tuple[dict[str, str], list[Shown]]:
    """Return the values of the prompt, and the links that are shown in it."""
    values = {"notes": offer.text(offer.batch), "links": ""}
    tokens = sum(map(texts.count_tokens, render(runtime.config, "evolve", **values)))
    links = offer.links(tokens // LINKS_SHARE)
    return {**values, "links": lines([linked(link) for link in links])}, links


def _proposed(
    runtime: Runtime, note: Note, offer: Offer, said: NoteEvolution
) -> Iterator[Item | None]:
    """Yield what a model proposes for one note; nothing is judged yet. None stands for what makes no sense."""
    config, draft = runtime.config, partial(_item, runtime.model_name)
    named = [*said.links, *said.updates, *said.supersedes]
    yield from (None for one in named if offer.target(note, one.to) is None)
    for to, link in _by_target(said.links, note, offer).items() if config.link else ():
        relation = _meant(link.relation, REPETITIONS) or link.relation[:MAX_RELATION_CHARS]
        reason, strength = link.reason[:MAX_REASON_CHARS], min(max(link.strength, 0.0), 1.0)
        yield draft("link", to, reason, relation=relation or PLAIN_RELATION, strength=strength)
    if not config.evolve:
        return
    updates = list(_by_target(said.updates, note, offer).items())
    # The paper asks about each neighbour, so there may be a sentence for each.
    for to, update in updates[: 1 if config.calls == "joint" else None]:
        keywords = list(texts.clean_words(update.keywords, texts.MAX_KEYWORDS))
        tags = list(texts.clean_words(update.tags, texts.MAX_TAGS))
        yield draft("sentence", to, update.context, keywords=keywords, tags=tags)
    for to, one in _by_target(said.supersedes, note, offer).items():
        if is_later(note, older := offer.notes[to]):
            yield _outdated(draft, to, one, objection_to(note, older, config))
    for relink in said.relinks:
        yield _relinked(draft, note, offer, relink)


Draft = Callable[..., Item]


def _item(model: str, kind: ItemKind, to: str, text: str, other: str = "", **data: object) -> Item:
    kept = {name: value for name, value in data.items() if value not in (None, [])}
    return Item(kind=kind, to=to, other=other, by=model, text=" ".join(text.split()), data=kept)


def _outdated(draft: Draft, to: str, said: ProposedSupersession, why: str | None) -> Item | None:
    """Return a supersession, or the sentence of what still holds if only a part of the older note is outdated."""
    if said.still:
        return draft("sentence", to, said.still, why=why)
    verdict = _meant(said.relation, VERDICTS)
    reason = said.reason[:MAX_REASON_CHARS]
    return draft("supersession", to, reason, relation=verdict, why=why) if verdict else None


def _relinked(draft: Draft, note: Note, offer: Offer, said: ProposedRelink) -> Item | None:
    """Return another strength of a link; None: the model names no such link that was shown, or no known change."""
    ends = [end for alias in said.between if (end := offer.end(note, alias)) is not None]
    change = _meant(said.change, CHANGES)
    if change is None or not len(ends) == len(said.between) == 2:  # noqa: PLR2004 - a link has two ends
        return None
    one, other = ends
    if (link := one.links.get(other.id)) is None:
        return None
    source, target = (one, other) if link.direction == "out" else (other, one)
    before, reason = link.strength, said.reason[:MAX_REASON_CHARS]
    after = {"strengthen": (1 + before) / 2, "weaken": before / 2, "remove": 0.0}[change]
    return draft(
        "relink", target.id, reason, source.id, change=change, strength=after, before=before
    )


def _to_the_turn_before(
    runtime: Runtime, note: Note, offer: Offer, said: Iterable[Item]
) -> Iterator[Item]:
    """Yield the link of a note to the turn before it, if there is one and no model has proposed it."""
    known = {item.to for item in said if item.kind == "link"}
    for one in offer.candidates.get(note.id, ()) if runtime.config.link else ():
        if one.previous and one.id not in known:
            before = offer.notes[one.id]
            is_answer = before.kind == "question" and replies(note, before)
            relation = ANSWERS if is_answer else FOLLOWS
            data = {"relation": relation, "strength": FOLLOWS_STRENGTH}
            yield Item(kind="link", to=one.id, by=runtime.model_name, data=data)


def _meant(said: str, known: Mapping[str, T]) -> T | None:
    """Return the meaning of a model's word, by how the word begins."""
    word = said.strip(" .").lower()
    return next((meant for stem, meant in known.items() if word.startswith(stem)), None)


def _by_target(items: Sequence[Named], note: Note, offer: Offer) -> dict[str, Named]:
    found: dict[str, Named] = {}
    for item in items:
        target = offer.target(note, item.to)
        if target is not None:
            found.setdefault(target, item)
    return found
