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
from ..decisions import Item, ItemKind, slot_id
from ..journal.commit import PLAIN_RELATION
from ..journal.writer import Writer
from ..notes import Note, Relation
from ..plans import (
    ANSWERS,
    FOLLOWS,
    MAX_REASON_CHARS,
    MAX_RELATION_CHARS,
    REPEATS,
    EvolutionReport,
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
    Reply,
    ReviseReply,
    Targeted,
)
from ..retrieval.current_facts import is_later
from ..runtime import RULES, Runtime
from .ask import Question, ask_in_parts
from .call import OpenCall
from .candidates import find_candidates
from .gate import judge, objection_to
from .show import Offer, candidate, lines, linked, replies, turns

T = TypeVar("T")
M = TypeVar("M", bound=Reply)
Named = TypeVar("Named", bound=Targeted)

REPLY_TOKENS = 120  # for a note
SENTENCE = {"context", "keywords", "tags"}
FOLLOWS_STRENGTH = 0.5
# By each change and relation the beginnings of the words that models write for it.
CHANGES: Mapping[LinkChange, tuple[str, ...]] = {
    "strengthen": ("streng", "strong"),
    "weaken": ("weak",),
    "remove": ("remove", "delete", "drop", "unlink"),
}
VERDICTS: Mapping[Relation, tuple[str, ...]] = {
    "updates": ("update", "replace", "supersede"),
    "corrects": ("correct",),
    "retracts": ("retract", "cancel"),
    "contradicts": ("contradict",),
}
REPETITIONS = {REPEATS: ("repeat", "restate", "duplicate")}


async def propose(call: OpenCall, writer: Writer, fresh: Mapping[str, Note]) -> None:
    """Plan the links and updates of the constructed notes of a call, which knows of which notes the model said nothing usable.

    Args:
        call: The work on the batch.
        writer: Reads the decisions about links that are to go.
        fresh: Notes with entries that are not written yet, by id.
    """
    runtime, ready = call.runtime, ready_notes(call.notes)
    talk = [note for note in ready if note.kind != "filler"]
    offer = await find_candidates(call, talk, fresh)
    evolutions = await _ask(call, offer) if runtime.config.link else {}
    call.about = notes = {note.id: note for note in (*offer.others, *ready)}
    drafts = {
        note.id: list(_proposed(runtime, note, offer, evolutions.get(offer.alias.get(note.id))))
        for note in ready
        if note.id not in call.failed
    }
    plans, judged = [], await judge(runtime, writer, drafts, notes)
    for note_id, items in judged.items():
        note, dropped = notes[note_id], len(drafts[note_id]) - len(items)
        runtime.usage.count("evolve", dropped=dropped)
        every = [*items, *_to_the_turn_before(runtime, note, offer, items)]
        rev, attempt = note.rev, note.next_attempts.link
        slot = slot_id(note_id, "link", rev, attempt)
        planned = {f"{slot}:{n}": replace(item, number=n) for n, item in enumerate(every)}
        plan = PlannedNote(id=note_id, rev=rev, attempt=attempt, items=planned, dropped=dropped)
        plans.append(with_sources(call, plan))
    call.plans = plans


def ready_notes(notes: Iterable[Note]) -> list[Note]:
    """Return the notes that wait for their links."""
    return [note for note in notes if note.own_entry is not None and note.state != "done"]


def with_sources(call: OpenCall, plan: PlannedNote) -> PlannedNote:
    """Return a plan in which each item names all wordings that it was made of."""

    def found(item: Item) -> Item:
        ends = [call.about[i] for i in {plan.id, item.to, item.other} & call.about.keys()]
        words = [item.text, *item.data.get("keywords", ()), *item.data.get("tags", ())]
        if item.kind == "link" and call.seen.quotes(item.data["relation"]):
            # A reason goes with what it quotes; a relation says nothing that could have to go.
            item = replace(item, data={**item.data, "relation": PLAIN_RELATION})
        made_of = call.seen.sources_of(words, ends)
        return replace(item, sources=tuple(sorted({*item.sources, *made_of})))

    return replace(plan, items={key: found(item) for key, item in plan.items.items()})


def decide_links(call: OpenCall) -> None:
    """Decide what is planned, but for items that are empty or about a note that is not there.

    Of several changes of one link the first counts.
    """
    relinked: set[frozenset[str]] = set()
    for plan in call.plans:
        items = dict[int, Item]()
        for item in plan.items.values():
            ends = frozenset((item.to, item.other or plan.id))
            says = item.kind != "sentence" or item.text.strip() or not item.is_on
            is_again = item.kind == "relink" and ends in relinked
            if says and not is_again and len(ends) > 1 and ends <= call.about.keys():
                items[item.number] = item
                relinked |= {ends} if item.kind == "relink" else set()
        call.decisions.append(call.decide(call.about[plan.id], "link", items.values()))
        call.report += EvolutionReport(dropped=plan.dropped)


async def _ask(call: OpenCall, offer: Offer) -> dict[str | None, NoteEvolution]:
    """Return by alias what the model proposes for each new note.

    Raises:
        ModelUnavailableError: No reply.
    """
    if call.runtime.config.calls == "paper" and call.runtime.model_name != RULES:
        return await _ask_apart(call, offer)
    said = dict[str | None, NoteEvolution]()
    async for _, reply in ask_in_parts(
        call, [offer.notes], partial(_question, "evolve", EvolveReply, offer)
    ):
        said |= {item.id: item for item in reversed(reply.notes)}
    return said


def _question(
    task: str, reply: type[M], whole: Offer, new: Sequence[Note], level: int
) -> Question[M] | None:
    """Return the question of a task about some new notes: `link` asks for links, `evolve` for updates too.

    None: no note has a candidate.
    """
    offer = whole.part(new, level)
    if not any(offer.candidates.values()):
        return None
    links = offer.links()
    return Question(
        task=task,
        reply=reply,
        shown=[*offer.notes, *offer.others],
        inputs={**offer.inputs(), "links": links},
        values={"notes": offer.text(), "links": lines([linked(link) for link in links])},
        alias=offer.alias,
        room=REPLY_TOKENS * (len(offer.notes) + 1),
    )


async def _ask_apart(call: OpenCall, offer: Offer) -> dict[str | None, NoteEvolution]:
    """Ask as the paper does: a call for the links of a note (Eq. 6), then one for each neighbour (Eq. 7)."""
    said = dict[str | None, NoteEvolution]()
    parts = [[note] for note in offer.notes]
    asked = ask_in_parts(call, parts, partial(_question, "link", LinkReply, offer))
    for (note,), reply in [one async for one in asked]:
        name = offer.alias[note.id]
        said[name] = NoteEvolution(id=name, links=reply.links)
        for neighbour in offer.part([note], 0).others if call.runtime.config.evolve else ():
            to, question_of = offer.alias[neighbour.id], partial(_revision, neighbour, offer)
            async for _, revised in ask_in_parts(call, [[note]], question_of):
                if revised.change:
                    sentence = revised.model_dump(include=SENTENCE)
                    said[name].updates.append(ProposedUpdate(**sentence, to=to))
                if revised.supersedes:
                    verdict = ProposedSupersession(to=to, relation=revised.supersedes)
                    said[name].supersedes.append(verdict)
    return said


def _revision(
    neighbour: Note, whole: Offer, new: Sequence[Note], level: int
) -> Question[ReviseReply] | None:
    """Return the paper's question about a neighbour of a new note, at each higher level with half of the others."""
    offer = whole.part(new, 0)
    others = [other for other in offer.others if other.id != neighbour.id]
    if level and not len(others) >> (level - 1):
        return None
    others = others[: len(others) >> level]
    target, *listed = offer.enriched([neighbour, *others])
    return Question(
        task="revise",
        reply=ReviseReply,
        shown=[*new, neighbour, *others],
        inputs={"note": offer.data(new[0]), "neighbour": target, "others": listed},
        values={
            "neighbour": candidate(neighbour, offer.alias[neighbour.id]),
            "notes": turns(new, offer.alias),
            "others": lines([candidate(other, offer.alias[other.id]) for other in others]),
        },
    )


def _proposed(
    runtime: Runtime, note: Note, offer: Offer, said: NoteEvolution | None
) -> Iterator[Item | None]:
    """Yield the items that a model proposes for one note, not judged yet. None stands for a proposal that makes no sense."""
    config, draft = runtime.config, partial(_item, runtime.model_name)
    if said is None:
        return
    shown = {offer.alias[one.id]: one for one in offer.near(note)}
    named = [*said.links, *said.updates, *said.supersedes]
    yield from (None for one in named if one.to not in shown)
    for other, link in _by_target(said.links, shown) if config.link else ():
        relation = _meant(link.relation, REPETITIONS) or link.relation[:MAX_RELATION_CHARS]
        reason, strength = link.reason[:MAX_REASON_CHARS], min(max(link.strength, 0.0), 1.0)
        yield draft(
            "link", other.id, reason, relation=relation or PLAIN_RELATION, strength=strength
        )
    if not config.evolve:
        return
    updates = _by_target(said.updates, shown)
    # The paper asks about each neighbour, so there may be a sentence for each.
    for other, update in updates[: 1 if config.calls == "joint" else None]:
        keywords = list(texts.clean_words(update.keywords, texts.MAX_KEYWORDS))
        tags = list(texts.clean_words(update.tags, texts.MAX_TAGS))
        yield draft("sentence", other.id, update.context, keywords=keywords, tags=tags)
    for older, one in _by_target(said.supersedes, shown):
        if is_later(note, older):
            yield _outdated(draft, older.id, one, objection_to(note, older, config))
    for relink in said.relinks:
        yield _relinked(draft, {**shown, offer.alias[note.id]: note}, relink)


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


def _relinked(draft: Draft, shown: Mapping[str, Note], said: ProposedRelink) -> Item | None:
    """Return another strength of a link; None: the model names no such link that was shown, or no known change."""
    ends = [shown[name] for name in said.between if name in shown]
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
        if one.previous and one.note.id not in known:
            is_answer = one.note.kind == "question" and replies(note, one.note)
            relation = ANSWERS if is_answer else FOLLOWS
            data = {"relation": relation, "strength": FOLLOWS_STRENGTH}
            yield Item(kind="link", to=one.note.id, by=runtime.model_name, data=data)


def _meant(said: str, known: Mapping[T, tuple[str, ...]]) -> T | None:
    """Return the meaning of a model's word, by how the word begins."""
    word = said.strip(" .").lower()
    return next((meant for meant, stems in known.items() if word.startswith(stems)), None)


def _by_target(said: Sequence[Named], shown: Mapping[str, Note]) -> list[tuple[Note, Named]]:
    """Return each note that was shown and that something is proposed about, with the first proposal."""
    first = dict[str, Named]()
    for one in said:
        first.setdefault(one.to, one)
    return [(shown[name], one) for name, one in first.items() if name in shown]
