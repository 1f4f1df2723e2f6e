"""Facts: what is learned from new notes, by the call that constructs them, kept in notes of their own.

A fact names the notes that show it as its `sources`. What is learned again is not stored twice: the fact gains a
source. A fact that is no longer so is superseded by the one that says what is so now.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from .. import ranking, texts
from ..changes.edits import Edit, chain, change
from ..changes.quote_removal import delete_derived
from ..changes.rewrite import rewrite
from ..config import MemoryConfig
from ..conversation import wants_facts
from ..current_facts import is_later
from ..embedding import embed, embed_if_possible
from ..fetch import note_pages
from ..filters import Condition
from ..ids import clock, derive, end_of, now, time_of
from ..notes import Change, Namespace, Note
from ..plans import HELD, PlannedSupersession
from ..ports import Indexed, Query, Vector
from ..prompts.replies import ConstructFactsReply, ConstructReply
from ..repetition import is_equal, text_difference
from ..runtime import Runtime, resolve
from .show import Shown, aliases, bare, flat, lines
from .supersede import NOT_BY_USER, supersede

# A form that was filled from notes (see `flows.fill`) has a key.
IS_FACT = (Condition("kind", "$eq", "fact"), Condition("key", "$eq", None))
NEAREST = 4  # stored facts that are shown for a new note
MOST_SHOWN = 12  # for a batch
ALIKE = 8  # stored facts that a new one is compared with
MAX_WORDS, MAX_CHARS = 60, 600
MOST_OF_A_NOTE = 16  # facts; a model that says more repeats itself
FACT_TOKENS = 60  # of a reply, for a note
SAME = 0.96  # least cosine of two facts that say the same


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """A statement, the new notes that show it, until when it holds, and the facts that are no longer so."""

    text: str
    sources: tuple[Note, ...]
    until: str = ""
    old: tuple[Note, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The notes of a batch whose facts are wanted, and stored facts that these may repeat or change, by alias."""

    notes: Mapping[str, Note]
    known: Mapping[str, Note]

    @classmethod
    def of(cls, notes: Mapping[str, Note], known: Sequence[Note]) -> Wanted | None:
        """Return what is wanted of some notes by alias; None, if none of them is to be learned from."""
        wanted = {alias: note for alias, note in notes.items() if wants_facts(note)}
        names = aliases(known, "f")
        return cls(notes=wanted, known={names[n.id]: n for n in known}) if wanted else None

    @property
    def values(self) -> dict[str, str]:
        """The values of the prompt."""
        rows = [
            f"[{alias}] ({texts.day(fact.when)}) {flat(fact.content)}"
            for alias, fact in self.known.items()
        ]
        return {"wanted": ", ".join(self.notes), "known": lines(rows)}

    @property
    def inputs(self) -> dict[str, Any]:
        """The same as data."""
        known: list[Shown] = [{"alias": a, "content": f.content} for a, f in self.known.items()]
        return {"facts_of": list(self.notes), "known_facts": known}

    def learned(
        self, reply: ConstructReply, described: Collection[str]
    ) -> tuple[list[Learned], int]:
        """Return the facts of a reply that notes show which it describes, and how many others there are."""
        found, facts = [], reply.facts if isinstance(reply, ConstructFactsReply) else []
        for item in facts[: MOST_OF_A_NOTE * len(self.notes)]:
            named = [self.notes[i] for i in dict.fromkeys(map(bare, item.of)) if i in self.notes]
            if not item.of and len(self.notes) == 1:
                named = list(self.notes.values())
            text = " ".join(item.fact.split()[:MAX_WORDS])[:MAX_CHARS]
            old = tuple(
                self.known[i] for i in dict.fromkeys(map(bare, item.old)) if i in self.known
            )
            named = [note for note in named if note.id in described]
            if named and text:
                found.append(Learned(text=text, sources=tuple(named), until=item.until, old=old))
        return found, len(facts) - len(found)


async def known_facts(
    runtime: Runtime, namespace: Namespace, notes: Sequence[Note]
) -> tuple[Note, ...]:
    """Return the stored facts that are nearest to those of some raw notes that are to be learned from."""
    asked = [note for note in notes if wants_facts(note) and note.own_entry is None]
    if not asked:
        return ()
    rows = await embed_if_possible(runtime, [texts.embedding_text(note) for note in asked])
    queries = [
        Query(vector=row, text=texts.lexical_text(note), limit=NEAREST, where=IS_FACT)
        for note, row in zip(asked, rows, strict=True)
    ]
    best: dict[str, float] = {}
    for ranked in await resolve(runtime.store.search(namespace, queries)):
        fused = ranking.fuse(ranked)
        for note_id in ranking.order(fused)[:NEAREST]:
            best[note_id] = max(best.get(note_id, 0.0), fused[note_id].fusion)
    ids = sorted(best, key=lambda i: (-best[i], i))
    own, time = {note.id for note in asked}, now()
    found = await resolve(runtime.store.get(namespace, ids))
    current = [f for f in found if _is_current(f, time) and not own.issuperset(f.sources)]
    return tuple(current[:MOST_SHOWN])


def _is_current(fact: Note, time: datetime) -> bool:
    return fact.superseded_by is None and not fact.is_expired(time)


@dataclass(slots=True, kw_only=True)
class FactWriting:
    """Stores what was learned in an operation, before the notes that show it count as constructed.

    So whoever is interrupted finds these notes as they were; facts that are there already then give way.
    """

    runtime: Runtime
    namespace: Namespace
    op: str
    at: datetime
    new: dict[str, Indexed] = field(default_factory=dict)
    steps: dict[str, list[Edit]] = field(default_factory=lambda: defaultdict(list))
    kept: set[str] = field(default_factory=set)

    async def store(self, learned: Sequence[Learned], records: Sequence[Change]) -> dict[str, Edit]:
        """Insert what is new, with `records`; return the edits of facts that gain a source or are superseded.

        Raises:
            ModelUnavailableError: The embedder failed; nothing was stored.
        """
        if not learned:
            return {}
        rows = await embed(self.runtime, [one.text for one in learned])
        near = await self._near(learned, rows)
        for one, row, alike in zip(learned, rows, near, strict=True):
            self._learn(one, row, alike)
        added = [self._added(item.note) for item in self.new.values()]
        items = list(self.new.values())
        await resolve(self.runtime.store.insert(self.namespace, items, [*records, *added]))
        return {note_id: chain(parts) for note_id, parts in self.steps.items()}

    async def forget_others(self, notes: Sequence[Note]) -> None:
        """Take these notes from the facts that were learned from them before and are not among the new ones."""
        ids = [note.id for note in notes if wants_facts(note)]
        if not ids:
            return
        where = (*IS_FACT, Condition("sources", "$in", tuple(ids)))
        found = [
            f async for page in note_pages(self.runtime.store, self.namespace, where) for f in page
        ]
        others = [fact for fact in found if fact.id not in {*self.kept, *self.new}]
        op = f"{self.op}:before"
        if alone := [fact for fact in others if set(fact.sources) <= set(ids)]:
            await delete_derived(self.runtime, self.namespace, alone)
        steps = {fact.id: _without_sources(ids) for fact in others}
        await rewrite(self.runtime, self.namespace, op, steps)

    async def _near(
        self, learned: Sequence[Learned], rows: Sequence[Vector | None]
    ) -> list[list[Indexed]]:
        """Return for each fact the stored ones that may say the same."""
        queries = [
            Query(vector=row, text=one.text, limit=ALIKE, where=IS_FACT)
            for one, row in zip(learned, rows, strict=True)
        ]
        found = await resolve(self.runtime.store.search(self.namespace, queries))
        ids = [[*dict(r.dense), *dict(r.lexical)] for r in found]
        wanted = list(dict.fromkeys(note_id for some in ids for note_id in some))
        stored = await resolve(self.runtime.store.get_indexed(self.namespace, wanted))
        items = {item.note.id: item for item in stored if _is_current(item.note, self.at)}
        return [[items[i] for i in dict.fromkeys(some) if i in items] for some in ids]

    def _learn(self, one: Learned, row: Vector | None, alike: Sequence[Indexed]) -> None:
        """Note one fact down: as a further source of one that says the same, or as a new one."""
        fact = self._fact(one)
        floor = SAME
        others = [*self.new.values(), *alike]
        same = next((o.note for o in others if _says_same(fact, row, o, floor)), None)
        if same is None:
            self.new[fact.id] = Indexed(note=fact, vector=row, text=texts.lexical_text(fact))
        elif same.id in self.new:
            merged = _with_sources(self.new[same.id].note, fact)
            self.new[same.id] = replace(self.new[same.id], note=merged)
        else:
            self.kept.add(same.id)
            self.steps[same.id].append(self._gain(fact))
        newer = same or fact
        for older in one.old:
            if older.id != newer.id and is_later(newer, older):
                self.steps[older.id].append(self._superseded(older, newer, one.sources))

    def _fact(self, one: Learned) -> Note:
        seq = clock.tick()
        when = max(note.when for note in one.sources)
        ends = [note.expires_at for note in one.sources]
        return Note(
            id=derive("fact", self.op, len(self.new), one.text),
            seq=seq,
            namespace=self.namespace,
            content=one.text,
            recorded_at=time_of(seq),
            at=when,
            source="derived",
            kind="fact",
            sources=tuple(note.id for note in one.sources),
            state="done",
            until=end_of(one.until, when),
            expires_at=None if None in ends else max(end for end in ends if end),
            ops=(self.op,),
        )

    def _added(self, fact: Note) -> Change:
        """Return the record of a new fact."""
        return change(
            self.op,
            "add",
            fact,
            cause=fact.sources[0],
            model=self.runtime.model_name,
            recorded_at=self.at,
            data={"text": fact.content, "sources": list(fact.sources)},
        )

    def _gain(self, again: Note) -> Edit:
        """Return the edit by which a stored fact gains the sources of the same fact, learned again."""

        def edit(note: Note) -> tuple[Note, list[Change]]:
            revised = _with_sources(note, again)
            more = [i for i in revised.sources if i not in note.sources]
            if not more:
                return note, []
            name, data = self.runtime.model_name, {"sources": more}
            made = change(
                self.op, "add", note, cause=more[0], model=name, recorded_at=self.at, data=data
            )
            return revised, [made]

        return edit

    def _superseded(self, older: Note, newer: Note, sources: Sequence[Note]) -> Edit:
        planned = PlannedSupersession(
            id=derive("change", self.op, "supersede", older.id, newer.id),
            target=older.id,
            relation="updates",
            reason="",
            rejected=_objection(sources, self.runtime.config),
        )
        return supersede(planned, newer, model=self.runtime.model_name, op=self.op, at=self.at)


def _objection(sources: Sequence[Note], config: MemoryConfig) -> str | None:
    """Return why a fact that these notes show may take the place of another only if a person agrees."""
    if config.review:
        return HELD
    said = {note.source for note in sources}
    if config.assistant_supersedes or not said.isdisjoint({"user", "import"}):
        return None
    return NOT_BY_USER.format(source=min(said))


def _with_sources(fact: Note, again: Note) -> Note:
    """Return a fact with the sources of the same fact, learned again; it lasts as long as one of them."""
    ends = (fact.expires_at, again.expires_at)
    return fact.revised(
        sources=tuple(dict.fromkeys((*fact.sources, *again.sources))),
        expires_at=None if None in ends else max(end for end in ends if end),
    )


def _without_sources(ids: Sequence[str]) -> Edit:
    return lambda fact: (
        fact.revised(sources=tuple(i for i in fact.sources if i not in ids)),
        [],
    )


def _says_same(fact: Note, row: Vector | None, other: Indexed, floor: float) -> bool:
    """Return whether another fact says the same, as far as words can tell."""
    if fact.until != other.note.until and fact.until is not None:
        return False
    if is_equal(fact.content, other.note.content):
        return True
    if row is None or other.vector is None or float(row @ other.vector) < floor:
        return False
    return text_difference(fact.content, other.note.content) is None
