"""What was deleted is found nowhere; what was corrected, in its own note's history only.

The model of these tests copies all that it is shown into whatever it writes.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from support import models

from amem_integrations import (
    AgenticMemory,
    InvalidInputError,
    MemoryConfig,
    NoteNotFoundError,
)
from amem_integrations.testing import HashEmbedder, ScriptedModel, as_completion
from benchmarks.kills import CopyingModel

ANN, BOB = ("ann",), ("bob",)


def opened(location, **settings):
    return AgenticMemory.open(
        location, model=CopyingModel(), embedder=HashEmbedder(), config=MemoryConfig(**settings)
    )


def holders(memory, tmp_path, secret: str) -> set[str]:
    """Return where a text stands: ids of points of both collections, and the names of the doors that tell the text."""
    store, found = memory._runtime.store, set()
    for point in [*store._notes.scroll(None), *store._records.scroll(None)]:
        if secret in json.dumps(point.payload, ensure_ascii=False).casefold():
            found.add(point.id)
    memory.export(tmp_path / "export.jsonl")
    told = {
        "export": (tmp_path / "export.jsonl").read_text(encoding="utf-8"),
        "get_all": memory.get_all(namespace=ANN, limit=999),
        "search": [hit for hit in memory.search(secret, namespace=ANN, k=99) if hit.note.links],
        "context": memory.context("What do you know of it?", namespace=ANN, max_tokens=9999),
        "history": memory.history(None, namespace=ANN),
        "proposals": memory.proposals(namespace=ANN),
    }
    return found | {door for door, text in told.items() if secret in str(text).casefold()}


@pytest.fixture
def memory(tmp_path):
    with opened(tmp_path / "memory", min_gate_similarity=-1) as made:
        yield made


@pytest.mark.on_a_server
def test_a_deleted_text_is_in_no_context_keyword_tag_reason_or_history(memory, tmp_path):
    one = memory.add("The safe opens with zanzibar4711", namespace=ANN, thread="t")
    for text in ("Thanks a lot", "See you tomorrow then", "The weather is fine today"):
        memory.add(text, namespace=ANN, thread="t")
    assert len(holders(memory, tmp_path, "zanzibar4711")) > 8
    memory.delete(one.id, namespace=ANN)
    assert holders(memory, tmp_path, "zanzibar4711") == set()


@pytest.mark.on_a_server
def test_a_corrected_text_stands_in_its_own_notes_history_only(memory, tmp_path):
    one = memory.add("The safe opens with zanzibar4711", namespace=ANN, thread="t")
    memory.add("Thanks a lot", namespace=ANN, thread="t")
    memory.add("See you", namespace=ANN, thread="u")
    memory.update(one.id, namespace=ANN, content="The safe opens with a key")
    assert holders(memory, tmp_path, "zanzibar4711") == {one.id, "history", "export"}
    assert memory.get(one.id, namespace=ANN).content == "The safe opens with a key"
    before, after = memory.history(one.id, namespace=ANN)[-1].before, ("content",)
    assert tuple(before) == after
    memory.update(one.id, namespace=ANN, content="The safe opens with a code", thorough=True)
    assert holders(memory, tmp_path, "zanzibar4711") == set()
    assert holders(memory, tmp_path, "opens with a key") == set()


@pytest.mark.on_a_server
def test_undo_does_not_bring_back_a_quote_of_what_was_deleted(memory, tmp_path):
    one = memory.add("My bank PIN is zq4x", namespace=ANN, thread="t")
    two = memory.add("Thank you", namespace=ANN, thread="t")
    memory.update(two.id, namespace=ANN, content="Thank you very much")
    memory.delete(one.id, namespace=ANN)
    for change in memory.history(two.id, namespace=ANN):
        try:
            memory.undo(change.id, namespace=ANN)
        except ValueError:
            continue
    assert holders(memory, tmp_path, "zq4x") == set()


@pytest.mark.on_a_server
def test_a_note_deleted_or_corrected_while_a_later_one_is_made_is_not_quoted(tmp_path):
    copying = CopyingModel()
    for number, gone in enumerate(("delete", "update")):
        state: dict = {}

        def answer(request, state=state, gone=gone):
            reply = copying.generate(request)
            if state.get("first"):
                memory, first = state.pop("first")
                if gone == "delete":
                    memory.delete(first, namespace=ANN)
                else:
                    memory.update(first, namespace=ANN, content="Nothing of note")
            return reply

        model = ScriptedModel({"construct": answer, "evolve": copying.generate})
        path = tmp_path / str(number)
        with AgenticMemory.open(path, model=model, embedder=HashEmbedder()) as memory:
            first = memory.add("My PIN is zanzibar4711", namespace=ANN, thread="t")
            state["first"] = (memory, first.id)
            memory.add("Thanks", namespace=ANN, thread="t")
            allowed = set() if gone == "delete" else {first.id, "history", "export"}
            assert holders(memory, tmp_path, "zanzibar4711") == allowed


def test_deleting_a_note_leaves_what_does_not_quote_it():
    memory = AgenticMemory.open(":memory:", model=models.model(), embedder=HashEmbedder())
    notes = memory.add_many(
        [f"Number {n} is about {word}" for n, word in enumerate(["tea", "ink", "sea", "oak"])],
        namespace=ANN,
    )
    memory.delete(notes[0].id, namespace=ANN)
    assert memory.stats(namespace=ANN)["states"] == {"done": 3}


def blue(request):
    """Says of each note that it is blue."""
    notes = request.inputs["notes"]
    return {"notes": [{"id": note["alias"], "context": "It is blue"} for note in notes]}


def test_what_other_notes_say_as_well_is_made_anew_of_them():
    """Where two notes that were shown have a word of a text, both are sources of the text."""
    model = models.model(construct=blue)
    memory = AgenticMemory.open(":memory:", model=model, embedder=HashEmbedder())
    memory.add("The ink is blue", namespace=ANN, thread="t")
    one = memory.add("Some tea is blue", namespace=ANN, thread="t")
    last = memory.add("Thanks", namespace=ANN, thread="t")
    assert memory.delete(one.id, namespace=ANN).pending == 1
    assert memory.get(last.id, namespace=ANN).state == "pending"
    memory.evolve()
    left = memory.get(last.id, namespace=ANN)
    assert ([entry.text for entry in left.contexts], left.state) == (["It is blue"], "done")


class Parrot:
    """A model that says the secret again, in one place, whenever it is shown it, and nothing else."""

    name = "parrot"

    def __init__(self, place):
        self.place = place

    def generate(self, request):
        if request.task == "construct":
            return as_completion(request, {"notes": [plain(n) for n in request.inputs["notes"]]})
        said = "zanzibar4711" if "zanzibar4711" in json.dumps(request.inputs) else "nothing"
        answers = []
        for note in request.inputs["notes"]:
            answer = {"id": note["alias"], "links": [], "updates": []}
            targets = [candidate["alias"] for candidate in note["candidates"]][:1]
            if self.place == "relation":
                answer["links"] = [{"to": t, "relation": said, "reason": ""} for t in targets]
            else:
                answer["updates"] = [{"to": t, "context": said} for t in targets]
            answers.append(answer)
        return as_completion(request, {"notes": answers})


def plain(note):
    return {"id": note["alias"], "context": "It is said", "keywords": [], "tags": []}


def in_a_row(tmp_path, place, **settings):
    """Five notes, each of which is shown the two before it: the secret of the first is handed on to the last."""
    config = MemoryConfig(min_gate_similarity=-1, candidates=2, recent=2, **settings)
    memory = AgenticMemory.open(
        tmp_path / "row", model=Parrot(place), embedder=HashEmbedder(), config=config
    )
    notes = []
    for text in ("zanzibar4711", "one tea", "two inks", "three seas", "four oaks"):
        notes.append(memory.add(text, namespace=ANN, thread="t"))
        for proposal in memory.proposals(namespace=ANN):
            memory.approve(proposal.id, namespace=ANN)
    return memory, [note.id for note in notes]


@pytest.mark.parametrize(
    ("place", "settings"),
    [
        ("update", {}),
        ("relation", {}),
        ("update", {"review": True}),
        ("relation", {"review": True}),
    ],
)
def test_what_was_handed_on_from_note_to_note_goes_with_the_first(tmp_path, place, settings):
    memory, notes = in_a_row(tmp_path, place, **settings)
    with memory:
        # A relation that quotes is not written in the first place.
        is_handed_on = "zanzibar4711" in repr(memory.get(notes[3], namespace=ANN))
        assert is_handed_on is (place == "update")
        memory.delete(notes[0], namespace=ANN)
        assert holders(memory, tmp_path, "zanzibar4711") == set()


@pytest.mark.parametrize("gone", [[1], [2, 1]])
def test_it_goes_although_notes_in_the_middle_went_before(tmp_path, gone):
    memory, notes = in_a_row(tmp_path, "update")
    with memory:
        for place in gone:
            memory.delete(notes[place], namespace=ANN)
        memory.delete(notes[0], namespace=ANN)
        assert holders(memory, tmp_path, "zanzibar4711") == set()


@pytest.mark.parametrize(
    "text", ["blue horse", "21-12-24-13", "ann.lee@mail.example", "\N{ZEBRA FACE}\N{KEY}"]
)
def test_a_secret_of_words_that_others_have_one_by_one_is_gone(memory, tmp_path, text):
    others = (
        "The blue sky at 12:24",
        "A horse in row 21, seat 13",
        "ann lee and mail",
        "example",
        "\N{KEY}",
    )
    for other in others:
        memory.add(other, namespace=ANN, thread="t")
    one = memory.add(f"The word is {text}", namespace=ANN, thread="t")
    memory.add("Thanks", namespace=ANN, thread="t")
    assert len(holders(memory, tmp_path, text)) > 1
    memory.delete(one.id, namespace=ANN)
    assert holders(memory, tmp_path, text) == set()


# What a delete returns, takes and leaves


def inferring():
    """A model that says of every note after the first, in words of its own, what the first one is about."""

    def construct(request):
        notes = request.inputs["notes"]
        shown = [*request.inputs["before"], *notes]
        about = "Somebody is worried about money." if len(shown) > 1 else "Something was said."
        return {
            "notes": [
                {"id": n["alias"], "context": about, "keywords": ["talk"], "tags": ["talk"]}
                for n in notes
            ]
        }

    return models.model(models.link_to_first, construct=construct)


@pytest.fixture(params=["edge", "memory"])
def inferred(request, tmp_path):
    """A memory whose second and third note are understood in the light of the first, without its words."""
    location = ":memory:" if request.param == "memory" else tmp_path / "inferred"
    config = MemoryConfig(min_gate_similarity=-1)
    with AgenticMemory.open(
        location, model=inferring(), embedder=HashEmbedder(), config=config
    ) as memory:
        texts = ("The rent of zanzibar4711 is due", "I see", "See you tomorrow")
        notes = [memory.add(text, namespace=ANN, thread="t") for text in texts]
        yield memory, [note.id for note in notes]


@pytest.mark.on_a_server
def test_what_is_inferred_in_other_words_stays_unless_the_delete_is_thorough(inferred):
    memory, (first, second, third) = inferred
    gone = memory.delete(first, namespace=ANN)
    assert (gone.entries, gone.pending) == ((), 0)
    assert "money" in memory.get(second, namespace=ANN).own_entry.text
    with pytest.raises(NoteNotFoundError):
        memory.delete(first, namespace=ANN)
    gone = memory.delete(first, namespace=ANN, thorough=True)  # the second one, of a tombstone
    assert (gone.entries, gone.pending) == (tuple(sorted([second, third])), 2)
    notes = memory.get_all(namespace=ANN)
    assert [(note.id, note.state, note.contexts) for note in notes] == [
        (second, "pending", ()),
        (third, "pending", ()),
    ]
    assert "money" not in repr(memory.history(None, namespace=ANN))
    memory.evolve()
    assert {note.state for note in memory.get_all(namespace=ANN)} == {"done"}
    with pytest.raises(NoteNotFoundError):
        memory.delete("no note", namespace=ANN, thorough=True)


@pytest.mark.on_a_server
def test_a_thorough_correction_takes_what_was_inferred_too(inferred):
    memory, (first, second, _) = inferred
    memory.update(first, namespace=ANN, content="The rent is paid")
    assert "money" in memory.get(second, namespace=ANN).own_entry.text
    note = memory.update(first, namespace=ANN, content="The rent is paid", thorough=True)
    assert (note.content, note.state) == ("The rent is paid", "pending")
    assert memory.get(second, namespace=ANN).contexts == ()
    history = repr(memory.history(None, namespace=ANN))
    assert "money" not in history
    assert "zanzibar4711" not in history
    with pytest.raises(InvalidInputError, match="thorough"):
        memory.update(first, namespace=ANN, metadata={"a": 1}, thorough=True)


@pytest.mark.parametrize("thorough", [False, True])
def test_what_a_call_under_way_infers_from_it_is_not_believed_after_a_thorough_delete(
    tmp_path, thorough
):
    model, answered = inferring(), []

    def construct(request):
        reply = model._always["construct"](request)
        if len(request.inputs["before"]) and not answered:
            answered.append(memory.delete(first.id, namespace=ANN, thorough=thorough))
        return reply

    slow = models.model(models.link_to_first, construct=construct)
    with AgenticMemory.open(tmp_path, model=slow, embedder=HashEmbedder()) as memory:
        first = memory.add("The rent of zanzibar4711 is due", namespace=ANN, thread="t")
        note = memory.add("I see", namespace=ANN, thread="t")
        assert answered
        assert (note.state == "pending") == thorough
        assert ("money" in repr(memory.get(note.id, namespace=ANN))) == (not thorough)


def test_a_delete_returns_what_went(memory):
    one = memory.add("The safe opens with zanzibar4711", namespace=ANN, thread="t")
    two = memory.add("Thanks a lot", namespace=ANN, thread="t")
    three = memory.add("The weather is fine", namespace=ANN, thread="other")
    gone = memory.delete(one.id, namespace=ANN)
    lost = [n.id for n in memory.get_all(namespace=ANN) if n.state == "pending"]
    assert set(gone.entries) == set(lost) >= {two.id}
    assert gone.pending == len(lost)
    assert set(gone.reasons) >= {two.id}
    assert one.id not in {*gone.entries, *gone.sentences, *gone.reasons}
    assert set(gone.to_dict()) == {"entries", "sentences", "reasons", "forms", "pending"}
    assert set(memory.evolve().constructed) == set(lost)
    assert {n.id for n in memory.get_all(namespace=ANN)} == {two.id, three.id}


def test_the_same_key_said_again_after_a_delete_is_a_new_note(memory, tmp_path):
    one = memory.add("The safe opens with zanzibar4711", namespace=ANN, key="k", thread="t")
    memory.delete(one.id, namespace=ANN)
    again = memory.add("The safe is empty", namespace=ANN, key="k", thread="t")
    assert (again.id, again.content, again.state) == (one.id, "The safe is empty", "done")
    assert again.seq > one.seq
    assert memory.history(one.id, namespace=ANN)[0].kind == "add"
    assert holders(memory, tmp_path, "zanzibar4711") == set()


def test_a_late_answer_for_the_deleted_note_says_nothing_of_the_new_one(tmp_path):
    said = []

    def construct(request):
        if not said:  # meanwhile the note is deleted, and its key is said again
            said.append("once")
            (note,) = memory.get_all(namespace=ANN)
            memory.delete(note.id, namespace=ANN)
            memory.add("I live in Rome", namespace=ANN, key="k", evolve=False)
        return CopyingModel().generate(request)

    model = ScriptedModel({"construct": construct, "evolve": models.nothing})
    with AgenticMemory.open(tmp_path, model=model, embedder=HashEmbedder()) as memory:
        note = memory.add("I live in zanzibar4711", namespace=ANN, key="k")
        assert (note.content, note.state, note.contexts) == ("I live in Rome", "pending", ())
        memory.evolve()
        assert "Rome" in memory.get(note.id, namespace=ANN).own_entry.text
        assert "zanzibar4711" not in repr(memory.get_all(namespace=ANN))


@pytest.mark.parametrize("gone", ["expired", "cleared"])
def test_a_late_answer_for_what_expired_or_was_cleared_away_changes_nothing(tmp_path, gone):
    said = []

    def construct(request):
        if not said:
            said.append("once")
            (note,) = memory.get_all(namespace=ANN)
            if gone == "cleared":
                memory.clear(namespace=ANN)
            else:
                memory.update(note.id, namespace=ANN, expires_at=datetime.now(UTC))
        return CopyingModel().generate(request)

    model = ScriptedModel({"construct": construct, "evolve": models.nothing})
    with AgenticMemory.open(tmp_path / "memory", model=model, embedder=HashEmbedder()) as memory:
        with suppress(NoteNotFoundError):
            memory.add("I live in zanzibar4711", namespace=ANN)
        assert said
        memory.sweep(namespace=ANN)
        memory.evolve()
        assert holders(memory, tmp_path, "zanzibar4711") == set()


@pytest.mark.parametrize("field", ["speaker", "thread", "key"])
def test_a_secret_that_stands_in_a_name_only_is_gone(memory, tmp_path, field):
    one = memory.add(
        "Hello, how are you today?", namespace=ANN, **{"thread": "t", field: "zanzibar4711"}
    )
    memory.add("Very well indeed", namespace=ANN, thread=one.thread)
    memory.add("That is good to hear", namespace=ANN, thread="u")
    if field == "speaker":
        assert (
            len(holders(memory, tmp_path, "zanzibar4711")) > 2
        )  # a context of another note has the name
    if field == "thread":  # the second note is of this thread, as its user has said
        (second,) = (
            note for note in memory.get_all(namespace=ANN) if note.content.startswith("Very")
        )
        memory.delete(second.id, namespace=ANN)
    memory.delete(one.id, namespace=ANN)
    assert holders(memory, tmp_path, "zanzibar4711") == set()


@pytest.mark.parametrize("namespace", [None, ANN])
def test_the_history_tells_of_a_deleted_note_for_a_day(memory, monkeypatch, namespace):
    note = memory.add("I live in Berlin", namespace=ANN)
    memory.delete(note.id, namespace=ANN)
    assert memory.sweep(namespace=namespace) == 0
    assert [made.kind for made in memory.history(note.id, namespace=ANN)] == ["delete"]
    later = time.time_ns() + 25 * 3600 * 10**9
    monkeypatch.setattr("amem_integrations.ids.time.time_ns", lambda: later)
    assert memory.sweep(namespace=namespace) == 0
    with pytest.raises(NoteNotFoundError):
        memory.history(note.id, namespace=ANN)
    again = memory.add("I live in Berlin", namespace=ANN)
    assert (again.id, again.state) == (note.id, "done")
