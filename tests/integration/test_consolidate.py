"""A memory keeps itself in order: duplicates merged, outdated proposals dropped; all of it undoable."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta

import pytest

from amem_integrations import (
    AgenticMemory,
    EdgeStore,
    MemoryConfig,
    NoteInput,
    NoteNotFoundError,
    RevisionConflictError,
    StoreUnavailableError,
)
from amem_integrations.testing import HashEmbedder, ScriptedModel

ANN = ("ann",)
DAY = datetime(2024, 5, 8, 9, tzinfo=UTC)
LONG = "I keep the spare key of the blue garden shed under the third flower pot."
SHORT = "I keep the spare key of the blue garden shed under the third flower pot"
FRONTED = "Under the third flower pot I keep the spare key of the blue garden shed."
OTHER = "The tram to the harbour leaves every ten minutes."


def add(memory, content, minute=0, **fields):
    fields = {"at": DAY + timedelta(minutes=minute), "speaker": "Ann", **fields}
    return memory.add(content, namespace=ANN, **fields)


def found(memory, query="Where is the spare key of the garden shed?", **fields):
    return {hit.note.id for hit in memory.search(query, namespace=ANN, **fields)}


@pytest.fixture
def merged(memory):
    """A memory with three wordings of one fact, merged; the notes, the one that stands for the others first."""
    notes = [add(memory, text, n) for n, text in enumerate((LONG, SHORT, FRONTED))]
    add(memory, OTHER, 9)
    report = memory.consolidate(namespace=ANN)
    assert report.merged == {notes[0].id: tuple(sorted(note.id for note in notes[1:]))}
    return memory, notes


def lenient():
    """A memory that takes wordings for one fact that are further apart."""
    config = MemoryConfig(min_duplicate_similarity=0.85)
    return AgenticMemory.open(":memory:", embedder=HashEmbedder(), config=config)


def history(memory, note, kind):
    return [made for made in memory.history(note.id, namespace=ANN) if made.kind == kind]


def test_wordings_of_one_fact_are_found_as_one_and_all_stay_stored(merged):
    memory, (first, *others) = merged
    assert found(memory) & {first.id, *(note.id for note in others)} == {first.id}
    assert "pot I keep" not in memory.context("spare key", namespace=ANN)
    stored = {note.id: note for note in memory.get_all(namespace=ANN)}
    assert [stored[note.id].merged_into for note in others] == [first.id, first.id]
    assert memory.get(others[0].id, namespace=ANN).content == SHORT
    assert [n.id for n in memory.evidence(first.id, namespace=ANN)] == [n.id for n in others]
    assert [made.cause for made in history(memory, others[0], "merge")] == [first.id]


def test_a_second_run_does_nothing_and_says_so(merged):
    memory, notes = merged
    before = memory.history(None, namespace=ANN)
    report = memory.consolidate(namespace=ANN)
    assert not any(report.counts.values())
    assert str(report) == "Nothing to do: the memory is in order."
    assert memory.history(None, namespace=ANN) == before
    assert memory.get(notes[1].id, namespace=ANN).merged_into == notes[0].id


def test_a_dry_run_reports_the_same_and_writes_nothing(memory):
    for n, text in enumerate((LONG, SHORT, FRONTED)):
        add(memory, text, n)
    notes, before = memory.get_all(namespace=ANN), memory.history(None, namespace=ANN)
    dry = memory.consolidate(namespace=ANN, dry_run=True)
    assert memory.get_all(namespace=ANN) == notes
    assert memory.history(None, namespace=ANN) == before
    done = memory.consolidate(namespace=ANN)
    assert {**dry.to_dict(), "dry_run": False} == done.to_dict()
    assert str(dry) == f"Would be done: {str(done)[0].lower()}{str(done)[1:]}"
    assert json.loads(json.dumps(done.to_dict())) == done.to_dict()


def test_a_merge_can_be_undone_and_redone(merged):
    memory, (first, other, _) = merged
    (made,) = history(memory, other, "merge")
    undone = memory.undo(made.id, namespace=ANN)
    assert {first.id, other.id} <= found(memory)
    memory.undo(undone.id, namespace=ANN)
    assert other.id not in found(memory)
    assert memory.get(other.id, namespace=ANN).merged_into == first.id


def test_deleting_what_stands_for_others_shows_them_again_at_once(merged):
    memory, (first, *others) = merged
    memory.delete(first.id, namespace=ANN)
    assert {note.id for note in others} <= found(memory)
    assert {memory.get(note.id, namespace=ANN).merged_into for note in others} == {None}
    memory.consolidate(namespace=ANN)
    assert len(found(memory) & {note.id for note in others}) == 1


def test_a_merge_into_a_note_that_was_deleted_cannot_be_redone(merged):
    memory, (first, other, _) = merged
    undone = memory.undo(history(memory, other, "merge")[0].id, namespace=ANN)
    memory.delete(first.id, namespace=ANN)
    with pytest.raises(RevisionConflictError, match="deleted"):
        memory.undo(undone.id, namespace=ANN)


def test_a_deleted_wording_is_no_evidence_any_more_and_nowhere_else(tmp_path):
    memory = lenient()
    first = add(memory, "For the garden I bought a small green bench with a round back.")
    other = add(memory, "For the garden I purchased a small green bench with a round back.", 1)
    assert memory.consolidate(namespace=ANN).merged == {first.id: (other.id,)}
    memory.delete(other.id, namespace=ANN)
    assert memory.evidence(first.id, namespace=ANN) == []
    memory.export(tmp_path / "all.jsonl", namespace=ANN)
    assert "purchased" not in (tmp_path / "all.jsonl").read_text(encoding="utf-8")


@pytest.mark.parametrize("which", [0, 1])
def test_a_wording_that_is_corrected_is_merged_no_longer(merged, which):
    memory, notes = merged
    memory.update(notes[which].id, namespace=ANN, content="The key hangs in the hall now.")
    shown = found(memory, "spare key of the garden shed in the hall")
    assert {notes[which].id, notes[1].id} <= shown
    assert (notes[2].id in shown) == (which == 0)


@pytest.mark.parametrize("change", [{"metadata": {"room": 1}}, {"until": DAY}])
def test_a_wording_with_other_values_is_merged_no_longer(merged, change):
    memory, (first, *others) = merged
    memory.update(first.id, namespace=ANN, **change)
    assert {note.id for note in others} <= found(memory)


def test_what_a_user_says_is_superseded_by_a_merged_note_shows_that_note(merged):
    memory, (_, other, _) = merged
    older = add(memory, "The spare key is in the kitchen.", -60)
    memory.supersede(older.id, other.id, namespace=ANN)
    assert other.id in found(memory)


def test_the_most_complete_wording_stands_for_the_others():
    memory = lenient()
    bare = add(memory, "I adopted the dog Biscuit from the shelter near the big river bridge.")
    full = add(
        memory, "I adopted the dog Biscuit from the shelter near the big river bridge, pure joy.", 1
    )
    assert memory.consolidate(namespace=ANN).merged == {full.id: (bare.id,)}


DIFFERENT = [
    ({"speaker": "Bo"}, SHORT),
    ({"source": "assistant"}, SHORT),
    ({"until": DAY + timedelta(days=900)}, SHORT),
    ({"metadata": {"room": 1}}, SHORT),
    ({"at": DAY + timedelta(days=1)}, SHORT),
    ({}, SHORT.replace("third", "second")),
    ({}, SHORT.replace("I keep", "I don't keep")),
    ({}, SHORT.replace("the blue", "Tom's blue")),
    ({}, SHORT + "?"),
]


@pytest.mark.parametrize(("fields", "text"), DIFFERENT)
def test_what_is_not_the_same_is_not_merged(memory, fields, text):
    add(memory, LONG)
    add(memory, text, 1, **fields)
    assert memory.consolidate(namespace=ANN).merged == {}


def test_a_superseded_note_is_not_merged(memory):
    first, again = add(memory, LONG), add(memory, SHORT, 1)
    later = add(memory, "The key hangs in the hall now.", 2)
    memory.supersede(first.id, later.id, namespace=ANN)
    assert memory.consolidate(namespace=ANN).merged == {}
    assert memory.get(again.id, namespace=ANN).merged_into is None


def test_what_is_true_again_after_it_was_not_is_not_merged(memory):
    for minute, place in enumerate(("third", "second", "third")):
        add(memory, SHORT.replace("third", place) + "." * minute, minute)
    assert memory.consolidate(namespace=ANN).merged == {}


def test_what_lasts_is_merged_across_days(memory):
    first = add(memory, "I am allergic to peanuts.")
    again = add(memory, "I am allergic to peanuts", 60 * 24 * 90)
    add(memory, "I had a headache.")
    add(memory, "I had a headache!", 60 * 24 * 90)
    assert memory.consolidate(namespace=ANN).merged == {first.id: (again.id,)}


def test_a_filter_that_only_a_merged_note_meets_finds_it(memory):
    first = add(memory, LONG, thread="one")
    other = add(memory, SHORT, 1, thread="two")
    memory.consolidate(namespace=ANN)
    assert memory.get(other.id, namespace=ANN).merged_into == first.id
    assert found(memory, where={"thread": "two"}) == {other.id}
    assert found(memory, where={"speaker": "Ann"}) == {first.id}
    assert found(memory, where={"thread": {"$in": ["one", "two"]}}) == {first.id}
    assert found(memory, where={"merged_into": first.id}) == {other.id}


def test_what_was_believed_before_a_merge_had_all_wordings(memory):
    notes = [add(memory, text, n) for n, text in enumerate((LONG, SHORT))]
    before = memory.history(None, namespace=ANN)[-1].recorded_at
    memory.consolidate(namespace=ANN)
    assert {note.id for note in notes} <= found(memory, known_at=before)
    assert found(memory, as_of=DAY + timedelta(days=1)) == {notes[0].id}


def test_a_merged_note_is_no_candidate_for_a_later_one(merged):
    memory, (first, *others) = merged
    later = memory.add("I moved the spare key of the garden shed", namespace=ANN, evolve=False)
    memory.construct([later.id], namespace=ANN)
    plan = memory.propose([later.id], namespace=ANN)
    shown = {candidate.id for candidate in plan.notes[0].candidates}
    assert first.id in shown
    assert shown.isdisjoint({note.id for note in others})


def test_many_wordings_leave_room_for_other_notes():
    memory = AgenticMemory.open(":memory:", embedder=HashEmbedder())
    repeats = [
        NoteInput(content=LONG, key=str(n), at=DAY, metadata={"shed": True}) for n in range(105)
    ]
    first, *others = memory.add_many(repeats, namespace=ANN)
    other = memory.add("The garden has a pond.", namespace=ANN, at=DAY)
    assert memory.consolidate(namespace=ANN).merged == {
        first.id: tuple(sorted(note.id for note in others))
    }
    assert found(memory, k=2) == {first.id, other.id}
    assert found(memory, k=9, where={"metadata.shed": True}) == {first.id}


def test_a_namespace_is_consolidated_alone(memory):
    add(memory, LONG)
    add(memory, SHORT, 1)
    memory.consolidate(namespace=("bo",))
    assert {n.merged_into for n in memory.get_all(namespace=ANN)} == {None}


def test_an_export_keeps_merges_in_any_namespace(merged, tmp_path):
    memory, notes = merged
    memory.export(tmp_path / "ann.jsonl", namespace=ANN)
    memory.import_(tmp_path / "ann.jsonl", namespace=("bo",))
    moved = {n.content: n for n in memory.get_all(namespace=("bo",))}
    assert moved[SHORT].merged_into == moved[LONG].id != notes[0].id
    hits = memory.search("spare key", namespace=("bo",))
    assert moved[SHORT].id not in {hit.note.id for hit in hits}


def test_merges_survive_a_new_start(tmp_path):
    with AgenticMemory.open(tmp_path / "m", embedder=HashEmbedder()) as memory:
        first, other = add(memory, LONG), add(memory, SHORT, 1)
        memory.consolidate(namespace=ANN)
    with AgenticMemory.open(tmp_path / "m", embedder=HashEmbedder()) as memory:
        assert memory.get(other.id, namespace=ANN).merged_into == first.id
        assert found(memory) == {first.id}
        assert not any(memory.consolidate(namespace=ANN).counts.values())


def test_the_asynchronous_form_does_the_same():
    async def work():
        memory = AgenticMemory.open(":memory:", embedder=HashEmbedder())
        notes = [
            await memory.aadd(text, namespace=ANN, at=DAY, thread=text) for text in (LONG, SHORT)
        ]
        report = await memory.aconsolidate(namespace=ANN)
        assert report.merged == {notes[0].id: (notes[1].id,)}
        assert await memory.aevidence(notes[0].id, namespace=ANN) == [
            await memory.aget(notes[1].id, namespace=ANN)
        ]

    asyncio.run(work())


def test_evidence_of_a_note_that_is_not_there_is_an_error(memory):
    with pytest.raises(NoteNotFoundError):
        memory.evidence("5b0c7a62-7c1d-5a0e-9b1f-6d1f6f6c2f10", namespace=ANN)


def test_expired_notes_are_swept(memory):
    gone = add(memory, OTHER, expires_at=datetime.now(UTC) + timedelta(milliseconds=1))
    memory.search("wait", namespace=ANN)
    assert memory.consolidate(namespace=ANN, dry_run=True).swept == (gone.id,)
    assert memory.consolidate(namespace=ANN).swept == (gone.id,)
    assert memory.get_all(namespace=ANN) == []


class FaultyStore:
    """A store of which one `replace` fails, before or after it has written."""

    def __init__(self, store, at, *, written):
        self._store, self._at, self._written, self._writes = store, at, written, 0

    def __getattr__(self, name):
        return getattr(self._store, name)

    def replace(self, *args):
        self._writes += 1
        if self._writes != self._at:
            return self._store.replace(*args)
        if self._written:
            self._store.replace(*args)
        raise StoreUnavailableError("gone")


@pytest.mark.parametrize("written", [True, False])
def test_what_was_interrupted_is_finished_by_the_next_run(written, tmp_path):
    memory = AgenticMemory.open(tmp_path / "m", embedder=HashEmbedder())
    texts = [LONG, SHORT, FRONTED]
    notes = [memory.add(text, namespace=ANN, at=DAY, thread=text) for text in texts]
    memory.close()
    store = EdgeStore(tmp_path / "m", dimensions=64, embedder="hash")
    faulty = AgenticMemory(FaultyStore(store, 1, written=written), HashEmbedder())
    with pytest.raises(StoreUnavailableError):
        faulty.consolidate(namespace=ANN)
    faulty.close()
    with AgenticMemory.open(tmp_path / "m", embedder=HashEmbedder()) as memory:
        memory.consolidate(namespace=ANN)
        wordings = {note.id for note in memory.evidence(notes[0].id, namespace=ANN)}
        assert wordings == {note.id for note in notes[1:]}
        assert not any(memory.consolidate(namespace=ANN).counts.values())


def constructed(request):
    return {"notes": [{"id": n["alias"], "context": n["content"]} for n in request.inputs["notes"]]}


def evolving():
    """Links every note to the first one shown, and adds a remark to it."""

    def answer(request):
        shown = request.inputs["candidates"]
        first = min(shown, key=lambda note: note["when"])["alias"] if shown else None
        notes = []
        for note in request.inputs["notes"]:
            links = [{"to": first, "relation": "about", "reason": "same"}]
            remark = f"{note['content']} " * 4
            update = {"to": first, "context": remark, "keywords": [note["content"].split()[-1]]}
            notes.append(
                {
                    "id": note["alias"],
                    "links": links if first else [],
                    "updates": [update] if first else [],
                }
            )
        return {"notes": notes}

    return answer


REMARKS = [
    f"The garden shed gets a new part number {word}"
    for word in (
        [
            "alpha",
            "bravo",
            "charlie",
            "delta",
            "echo",
            "foxtrot",
            "golf",
            "hotel",
            "india",
            "juliet",
            "kilo",
            "lima",
        ]
    )
]


def test_proposals_about_outdated_notes_are_dropped():
    model = ScriptedModel({"construct": constructed, "evolve": evolving()})
    settings = MemoryConfig(min_gate_similarity=1, candidates=30, recent=0)
    memory = AgenticMemory.open(":memory:", embedder=HashEmbedder(), model=model, config=settings)
    first = memory.add("The garden shed is red", namespace=ANN, at=DAY)
    second, third = (
        memory.add(text, namespace=ANN, at=DAY + timedelta(hours=n + 1))
        for n, text in enumerate(REMARKS[:2])
    )
    one, other = memory.proposals(namespace=ANN)
    assert (one.cause, other.cause) == (second.id, third.id)
    memory.supersede(second.id, third.id, namespace=ANN)
    assert memory.consolidate(namespace=ANN, dry_run=True).dropped == (one.id,)
    assert memory.consolidate(namespace=ANN).dropped == (one.id,)
    assert [made.id for made in memory.proposals(namespace=ANN)] == [other.id]
    assert not any(memory.consolidate(namespace=ANN).counts.values())
    assert memory.approve(one.id, namespace=ANN).note_id == first.id
