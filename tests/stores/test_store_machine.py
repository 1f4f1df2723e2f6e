"""Any sequence of calls, made to both engines and to a dictionary: all must agree at every step."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from support.stored import ANN, BOB, DIMENSIONS, change, link, note, note_id, unit

from amem_integrations.filters import Condition, Conditions, matches
from amem_integrations.notes import Change, Namespace, Note
from amem_integrations.ports import Indexed, NoteStore, Query, Ranked, Vector
from amem_integrations.stores import EdgeStore, QdrantStore

T = TypeVar("T")

NAMES = ("a", "b", "c", "d", "e")
WORDS = ("pottery", "chess", "cello", "Oslo")
names = st.sampled_from(NAMES)
spaces = st.sampled_from((ANN, BOB))
texts = st.lists(st.sampled_from(WORDS), max_size=3).map(" ".join)
# Small whole numbers: no two cosines are so near to each other that two engines could order them otherwise.
directions = st.tuples(*[st.integers(0, 3)] * 3).filter(any)
vectors = st.none() | directions.map(lambda numbers: unit(*numbers))
speakers = st.none() | st.sampled_from(("Ann", "Bob"))


@dataclass
class Model:
    """What a store should hold: notes by id, and changes, of one namespace."""

    notes: dict[str, Indexed] = field(default_factory=dict)
    changes: dict[str, Change] = field(default_factory=dict)

    def ordered(self, where: Conditions = ()) -> list[Note]:
        """Return the notes that meet the conditions, in order."""
        found = [held.note for held in self.notes.values() if matches(held.note, where)]
        return sorted(found, key=lambda n: (n.seq, n.id))

    def recorded(self) -> list[Change]:
        """Return the changes, oldest first."""
        return sorted(self.changes.values(), key=lambda made: (made.seq, made.id))

    def forget(self, gone: str) -> None:
        """Remove a note and the changes about it."""
        self.notes.pop(gone, None)
        self.changes = {made.id: made for made in self.changes.values() if gone != made.note_id}

    def mentions(self, note_id: str) -> list[Change]:
        """Return the changes about other notes that mention this one, oldest first."""
        others = [made for made in self.recorded() if made.note_id != note_id]
        return [c for c in others if note_id in (c.cause, *c.data.get("shown", ()))]


class StoreMachine(RuleBasedStateMachine):
    """Drives a folder and `":memory:"`, side by side, and compares them with the dictionary and with each other."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory(prefix="amem-")
        self.stores: list[NoteStore] = []
        self.models: dict[Namespace, Model] = {}
        self.number = 0

    @initialize()
    def open(self) -> None:
        """Begin with empty stores."""
        place = Path(self._folder.name) / "m"
        self.stores = [
            EdgeStore(place, dimensions=DIMENSIONS, min_free_bytes=2**20),
            QdrantStore(":memory:", dimensions=DIMENSIONS),
        ]
        self.models = {ANN: Model(), BOB: Model()}

    def teardown(self) -> None:
        """Close the stores."""
        for store in self.stores:
            store.close()
        self._folder.cleanup()

    @rule(
        space=spaces,
        given=st.lists(st.tuples(names, vectors, texts, speakers), max_size=3),
        other=names,
    )
    def insert(self, space: Namespace, given: list[tuple[Any, ...]], other: str) -> None:
        """New notes are stored, others stay; changes of those are not recorded."""
        model, items, recorded, new = self.models[space], [], [], set()
        for name, vector, text, speaker in given:
            links = {_id(space, other): link()} if other != name else {}
            fresh = self._note(space, name, speaker=speaker, links=links)
            items.append(Indexed(note=fresh, vector=vector, text=text))
            recorded.append(self._change(space, fresh.id, "add"))
        for item in items:
            if item.note.id not in model.notes:
                model.notes[item.note.id] = item
                new.add(item.note.id)
        model.changes |= {made.id: made for made in recorded if made.note_id in new}
        assert self._all(lambda store: store.insert(space, items, recorded)) == new

    @rule(
        space=spaces,
        name=names,
        ahead=st.integers(0, 2),
        vector=vectors,
        text=st.none() | texts,
        shown=st.lists(names, max_size=2),
    )
    def replace(
        self,
        space: Namespace,
        name: str,
        ahead: int,
        vector: Vector | None,
        text: str | None,
        shown: list[str],
    ) -> None:
        """The next revision is written, any other is stale; what is not given is kept."""
        model, wanted = self.models[space], _id(space, name)
        held = model.notes.get(wanted)
        revision = (held.note.revision if held else 0) + ahead
        version = self._note(space, name, revision=revision, ops=(f"op {self.number}",))
        if held:
            version = replace(version, seq=held.note.seq)
        recorded = self._change(space, wanted, "update")
        ids = [_id(space, other) for other in shown]
        cause, data = next(iter(ids), None), {"shown": ids[1:], "text": "x"}
        recorded = replace(recorded, cause=cause, data=data)
        stale = {wanted}
        if held and ahead == 1:
            stale = set()
            keep = held.vector if vector is None and text != "" else vector
            model.notes[wanted] = Indexed(
                note=version, vector=keep, text=held.text if text is None else text
            )
            model.changes[recorded.id] = recorded
        item = Indexed(note=version, vector=vector, text=text)
        assert self._all(lambda store: store.replace(space, [item], [recorded])) == stale

    @rule(space=spaces, name=names)
    def delete(self, space: Namespace, name: str) -> None:
        """A note goes with its history; the receipt stays, and what mentions it is rewritten."""
        gone, model = _id(space, name), self.models[space]
        receipt = self._change(space, gone, "delete")
        mentions = self._all(lambda store: store.mentions(space, [gone]))
        assert mentions == model.mentions(gone)
        blank = [replace(made, cause=None, data={}) for made in mentions]
        model.forget(gone)
        model.changes |= {made.id: made for made in (*blank, receipt)}
        self._all(lambda store: store.rewrite_changes(space, blank))
        assert self._all(lambda store: store.delete(space, [gone], [receipt])) == set()

    @rule(space=spaces, name=names)
    def rewrite(self, space: Namespace, name: str) -> None:
        """What is recorded of a note can be blanked; its operations are found all the same."""
        about, model = _id(space, name), self.models[space]
        blank = [replace(made, data={}) for made in model.recorded() if made.note_id == about]
        model.changes |= {made.id: made for made in blank}
        self._all(lambda store: store.rewrite_changes(space, blank))
        ops = [made.op for made in blank]
        assert self._all(lambda store: store.changes_by_op(space, ops)) == blank

    @rule(space=spaces)
    def clear(self, space: Namespace) -> None:
        """A namespace goes, but for receipts and what was spent."""
        receipt = self._change(space, "", "clear")
        recorded = self.models[space].changes.values()
        kept = [made for made in recorded if made.kind in ("delete", "clear", "usage")]
        self.models[space] = Model(changes={made.id: made for made in (*kept, receipt)})
        self._all(lambda store: store.clear(space, [receipt]))

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
        wanted = self.models[space].ordered(where)
        wanted = wanted[::-1] if newest else wanted
        found = self._all(
            lambda store: store.scan(space, where=where, limit=limit, newest_first=newest)
        )
        assert found == wanted[:limit]

    @rule(space=spaces, name=names, limit=st.integers(1, 6))
    def changes(self, space: Namespace, name: str, limit: int) -> None:
        """The history of a note is what was recorded of it, oldest first."""
        about = _id(space, name)
        recorded = [made for made in self.models[space].recorded() if made.note_id == about]
        assert self._all(lambda store: store.changes(space, note_id=about)) == recorded
        latest = self._all(lambda store: store.changes(space, limit=limit))
        assert latest == self.models[space].recorded()[-limit:]

    @invariant()
    def the_stores_hold_what_the_dictionary_holds(self) -> None:
        """Every note and change is as it was written, in each namespace."""
        for space, model in self.models.items():
            self._compare(space, model)
        held = [*self.models[ANN].notes.values(), *self.models[BOB].notes.values()]
        made = [*self.models[ANN].changes.values(), *self.models[BOB].changes.values()]
        seqs = [*(each.note.seq for each in held), *(each.seq for each in made)]
        assert self._all(lambda store: store.last_seq()) == max(seqs, default=0)

    def _compare(self, space: Namespace, model: Model) -> None:
        assert self._all(lambda store: store.scan(space)) == model.ordered()
        assert self._all(lambda store: store.changes(space, after=-1)) == model.recorded()
        assert self._all(lambda store: store.count(space)) == len(model.notes)
        for store in self.stores:
            for found in store.get_indexed(space, list(model.notes)):
                held = model.notes[found.note.id]
                assert (found.note, found.text) == (held.note, None)
                ours, theirs = held.vector, found.vector
                assert (ours is None) == (theirs is None)
                if ours is not None and theirs is not None:
                    assert np.allclose(ours, theirs, atol=1e-5)

    def _all(self, call: Callable[[NoteStore], T]) -> T:
        """Return what all stores answer, which must be the same."""
        first, *others = [call(store) for store in self.stores]
        assert all(other == first for other in others)
        return first

    def _check(self, model: Model, query: Query, ranked: Ranked) -> None:
        held = {i: h for i, h in model.notes.items() if matches(h.note, query.where)}
        cosines = {
            i: float(h.vector @ query.vector)
            for i, h in held.items()
            if h.vector is not None and query.vector is not None
        }
        assert {hit for hit, _ in ranked.dense} == cosines.keys()
        for hit, score in ranked.dense:
            assert np.isclose(score, cosines[hit], atol=1e-5)
        words = set((query.text or "").split())
        sharing = {i for i, h in held.items() if words & set((h.text or "").split())}
        assert {hit for hit, _ in ranked.lexical} == sharing

    def _note(self, space: Namespace, name: str, **fields: Any) -> Note:
        self.number += 1
        content = f"{name}, version {self.number}"
        made = note(name, namespace=space, content=content, number=self.number, **fields)
        return replace(made, id=_id(space, name))

    def _change(self, space: Namespace, about: str, kind: str) -> Change:
        self.number += 1
        made = change(str(self.number), "", kind=kind, number=self.number, namespace=space)
        return replace(made, note_id=about)


def _id(space: Namespace, name: str) -> str:
    return note_id(f"{name} of {space}")


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(
    max_examples=int(os.environ.get("AMEM_EXAMPLES", "25")),
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
