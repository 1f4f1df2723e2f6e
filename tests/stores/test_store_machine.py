"""Any sequence of calls, made to several engines and to dictionaries: all must agree at every step."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from support.local_server import local_store
from support.stored import ANN, BOB, DIMENSIONS, SEQ, call, decision, item, note, note_id, unit

from amem_integrations.decisions import Decision, Record, Source
from amem_integrations.filters import Condition, matches
from amem_integrations.ids import time_of
from amem_integrations.notes import Namespace
from amem_integrations.ports import NoteQuery, Query, Ranked, RecordQuery, Store
from amem_integrations.stored_note import Purge, StoredNote
from amem_integrations.stores import FolderStore

T = TypeVar("T")

NAMES = ("a", "b", "c", "d", "e")
WORDS = ("pottery", "chess", "cello", "Oslo")
names = st.sampled_from(NAMES)
some_names = st.lists(names, max_size=2, unique=True)
spaces = st.sampled_from((ANN, BOB))
texts = st.lists(st.sampled_from(WORDS), max_size=3).map(" ".join)
# Small whole numbers: no two cosines are so near to each other that two engines could order them otherwise.
directions = st.tuples(*[st.integers(0, 3)] * 3).filter(any)
passages = st.lists(directions.map(lambda numbers: unit(*numbers)), max_size=2)
speakers = st.none() | st.sampled_from(("Ann", "Bob"))


@dataclass
class Model:
    """What a store should hold of one namespace: notes and records by id."""

    notes: dict[str, StoredNote] = field(default_factory=dict)
    records: dict[str, Record] = field(default_factory=dict)

    @property
    def alive(self) -> list[StoredNote]:
        """Return the notes that are alive, in order."""
        found = [held for held in self.notes.values() if held.note is not None]
        return sorted(found, key=lambda held: (held.note.seq, held.id))  # type: ignore[union-attr]


class StoreMachine(RuleBasedStateMachine):
    """Drives a folder and a client side by side, and compares them with dictionaries and with each other."""

    def __init__(self) -> None:
        super().__init__()
        self.stores: list[Store] = []
        self.models: dict[Namespace, Model] = {}
        self.number = 0

    @initialize()
    def open(self) -> None:
        """Begin with empty stores."""
        self.stores = [
            FolderStore(":memory:", dimensions=DIMENSIONS),
            local_store(dimensions=DIMENSIONS),
        ]
        self.models = {ANN: Model(), BOB: Model()}

    def teardown(self) -> None:
        """Close the stores."""
        for store in self.stores:
            store.close()

    @rule(space=spaces, given=st.lists(st.tuples(names, passages, texts, speakers), max_size=3))
    def insert(self, space: Namespace, given: list[tuple[Any, ...]]) -> None:
        """New notes are stored, others stay."""
        fresh = [self._note(space, name, *rest) for name, *rest in given]
        self._all(lambda store: store.insert_notes(space, fresh))
        for one in fresh:
            self.models[space].notes.setdefault(one.id, one)

    @rule(
        space=spaces, name=names, stale=st.booleans(), rows=passages, text=texts, speaker=speakers
    )
    def swap(
        self, space: Namespace, name: str, *, stale: bool, rows: Any, text: str, speaker: Any
    ) -> None:
        """A note is replaced whole by who knows its token."""
        self._swap(space, self._note(space, name, rows, text, speaker), stale=stale)

    @rule(space=spaces, name=names, owes=st.booleans(), stale=st.booleans())
    def bury(self, space: Namespace, name: str, *, owes: bool, stale: bool) -> None:
        """A note becomes a tombstone."""
        self.number += 1
        made = StoredNote(
            id=_id(space, name),
            namespace=space,
            token=f"token {self.number}",
            rev=SEQ,
            deleted_at=SEQ + self.number,
            purge=Purge(SEQ, deleted=True) if owes else None,
        )
        self._swap(space, made, stale=stale)

    @rule(space=spaces)
    def collect(self, space: Namespace) -> None:
        """Old tombstones that owe nothing go."""
        before = (SEQ + self.number // 2 * 1000) // 1000
        self._all(lambda store: store.remove_tombstones(space, time_of(before * 1000)))
        model = self.models[space]
        model.notes = {
            key: held
            for key, held in model.notes.items()
            if held.note or held.purge or held.deleted_at // 1000 >= before
        }

    @rule(space=spaces, of=names, about=some_names, sources=some_names, phase=st.integers(0, 2))
    def decide(
        self, space: Namespace, of: str, about: list[str], sources: list[str], phase: int
    ) -> None:
        """A call and its decision are inserted in one request."""
        made = self._decision(space, of, about, sources, phase=phase)
        shown = tuple(Source(_id(space, name), SEQ) for name in sources)
        asked = replace(call("", number=self.number), id=made.call, namespace=space, shown=shown)
        self._all(lambda store: store.insert_records(space, [asked, made]))
        self.models[space].records |= {made.id: made, asked.id: asked}

    @rule(space=spaces, place=st.integers(0, 9), void=st.booleans(), stale=st.booleans())
    def settle(self, space: Namespace, place: int, *, void: bool, stale: bool) -> None:
        """A decision is replaced by who knows its token."""
        records = self.models[space].records
        decided = [one for one in records.values() if isinstance(one, Decision)]
        if not decided:
            return
        old = decided[place % len(decided)]
        self.number += 1
        new = replace(old.voided() if void else old, phase=0, token=f"token {self.number}")
        token = "stale" if stale else old.token
        self._all(lambda store: store.swap_records(space, [(token, new)]))
        if not stale:
            records[old.id] = new

    @rule(space=spaces, places=st.sets(st.integers(0, 9)))
    def clear(self, space: Namespace, places: set[int]) -> None:
        """Some decisions go; to name calls and what is not there does nothing."""
        records = self.models[space].records
        ids = [key for place, key in enumerate(records) if place in places]
        self._all(lambda store: store.remove_decisions(space, ids))
        for key in ids:
            if isinstance(records[key], Decision):
                del records[key]

    @rule(space=spaces, direction=directions, text=texts, speaker=speakers)
    def search(
        self, space: Namespace, direction: tuple[int, ...], text: str, speaker: str | None
    ) -> None:
        """The dense list is by cosine, the lexical one holds what shares a word; both only what matches."""
        where = (Condition("speaker", "$eq", speaker),) if speaker else ()
        query = Query(vector=unit(*direction), text=text, limit=10, where=where)
        answers = [store.search(space, [query])[0] for store in self.stores]
        for ranked in answers:
            self._check(self.models[space], query, ranked)
            assert [hit for hit, _ in ranked.lexical] == [hit for hit, _ in answers[0].lexical]

    @rule(space=spaces, limit=st.integers(1, 6), newest=st.booleans(), speaker=speakers)
    def scan(self, space: Namespace, limit: int, *, newest: bool, speaker: str | None) -> None:
        """Notes come in order, and only those that match."""
        where = (Condition("speaker", "$ne", speaker),) if speaker else ()
        wanted = [
            held.note
            for held in self.models[space].alive
            if held.note is not None and matches(held.note, where)
        ]
        wanted = wanted[::-1] if newest else wanted
        found = self._all(
            lambda store: store.scan(space, where=where, limit=limit, newest_first=newest)
        )
        assert found == wanted[:limit]

    @rule(
        space=spaces, about=some_names, newest=st.none() | st.integers(0, 2), of=st.none() | names
    )
    def find(self, space: Namespace, about: list[str], newest: int | None, of: str | None) -> None:
        """Records are found by what they are about and made of."""
        ids = frozenset(_id(space, name) for name in about) if about else None
        source = {_id(space, of): SEQ} if of else None
        for query in (
            RecordQuery(about=ids, newest=newest, made_from=source),
            RecordQuery(shown=source),
            RecordQuery(unsettled=True, about=ids),
        ):
            wanted = query.of(self.models[space].records.values())
            found = self._all(lambda store, query=query: store.find_records(space, query))
            assert found == {one.id: one for one in wanted}

    @invariant()
    def the_stores_hold_what_the_dictionaries_hold(self) -> None:
        """Every note and record is as it was written, in each namespace."""
        for space, model in self.models.items():
            self._compare(space, model)
        open_ones = {
            space
            for space, model in self.models.items()
            if any(held.purge for held in model.notes.values())
            or any(held.vectors is None for held in model.alive)
            or any(isinstance(one, Decision) and one.phase for one in model.records.values())
        }
        assert self._all(lambda store: store.unfinished()) == sorted(open_ones)
        alive = [space for space, model in self.models.items() if model.alive]
        assert self._all(lambda store: store.namespaces()) == sorted(alive)

    def _compare(self, space: Namespace, model: Model) -> None:
        assert self._all(lambda store: store.find_notes(space, NoteQuery())) == model.notes
        assert self._all(lambda store: store.find_records(space, RecordQuery())) == model.records
        assert self._all(lambda store: store.count(space)) == len(model.alive)
        for store in self.stores:
            for key, found in store.notes(space, list(model.notes), vectors=True).items():
                ours, theirs = model.notes[key].vectors, found.vectors
                assert (ours is None) == (theirs is None)
                if ours is not None and theirs is not None:
                    assert np.allclose(ours, theirs, atol=1e-5)

    def _all(self, call: Callable[[Store], T]) -> T:
        """Return what all stores answer, which must be the same."""
        first, *others = [call(store) for store in self.stores]
        assert all(other == first for other in others)
        return first

    def _check(self, model: Model, query: Query, ranked: Ranked) -> None:
        held = {h.id: h for h in model.alive if h.note and matches(h.note, query.where)}
        cosines: Mapping[str, float] = {
            key: float((one.vectors @ query.vector).max())
            for key, one in held.items()
            if one.vectors is not None and query.vector is not None
        }
        assert {hit for hit, _ in ranked.dense} == cosines.keys()
        for hit, score in ranked.dense:
            assert np.isclose(score, cosines[hit], atol=1e-5)
        words = set((query.text or "").split())
        sharing = {
            k for k, one in held.items() if one.note and words & set(one.note.content.split())
        }
        assert {hit for hit, _ in ranked.lexical} == sharing

    def _swap(self, space: Namespace, made: StoredNote, *, stale: bool) -> None:
        notes = self.models[space].notes
        old = notes.get(made.id)
        token = old.token if old and not stale else "stale"
        self._all(lambda store: store.swap_notes(space, [(token, made)]))
        if old and not stale:
            notes[made.id] = made

    def _note(
        self, space: Namespace, name: str, rows: Any, text: str, speaker: str | None
    ) -> StoredNote:
        self.number += 1
        made = note(
            name,
            namespace=space,
            content=f"{text} v{self.number}",
            speaker=speaker,
            number=self.number,
        )
        return StoredNote(
            id=_id(space, name),
            namespace=space,
            token=f"token {self.number}",
            rev=SEQ + self.number,
            note=replace(made, id=_id(space, name)),
            vectors=np.stack(rows) if rows else None,
            embedded="hash" if rows else "",
        )

    def _decision(
        self, space: Namespace, of: str, about: list[str], sources: list[str], *, phase: int
    ) -> Decision:
        self.number += 1
        made_of = tuple(Source(_id(space, name), SEQ) for name in sources)
        kinds = ("link", "supersession")
        items = [item("", kind=kinds[self.number % 2], sources=made_of) for _ in about]
        items = [replace(one, to=_id(space, name)) for one, name in zip(items, about, strict=True)]
        key = str(self.number)
        made = decision(
            key,
            "",
            *items,
            namespace=space,
            phase=phase,
            number=self.number,
            call=note_id(f"c{key}"),
        )
        return replace(made, note=_id(space, of), about=())


def _id(space: Namespace, name: str) -> str:
    return note_id(f"{name} of {space}")


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(
    max_examples=int(os.environ.get("AMEM_EXAMPLES", "25")),
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
