"""What was deleted is found nowhere; what was corrected, in its own note's history only.

The model of these tests copies all that it is shown into whatever it writes.
"""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from protocol.kills import CopyingModel
from support import models

from amem_integrations import InvalidInputError, NoteNotFoundError
from amem_integrations.testing import ScriptedModel

ANN = ("ann",)
OPENS = "The safe opens with zanzibar4711"
NOW = datetime.now(UTC)


def holders(memory, tmp_path, secret):
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
def memory(open_memory):
    return open_memory(CopyingModel())


@pytest.mark.on_a_server
def test_a_deleted_text_is_in_no_context_keyword_tag_reason_or_history(memory, tmp_path):
    one = memory.add(OPENS, namespace=ANN, thread="t")
    for text in ("Thanks a lot", "See you tomorrow then", "The weather is fine today"):
        memory.add(text, namespace=ANN, thread="t")
    assert len(holders(memory, tmp_path, "zanzibar4711")) > 8
    memory.delete(one.id, namespace=ANN)
    assert holders(memory, tmp_path, "zanzibar4711") == set()
    for change in memory.history(None, namespace=ANN):  # nor does an undo bring it back
        with suppress(ValueError):
            memory.undo(change.id, namespace=ANN)
    assert holders(memory, tmp_path, "zanzibar4711") == set()


@pytest.mark.on_a_server
def test_a_corrected_text_stands_in_its_own_notes_history_only(memory, tmp_path):
    one = memory.add(OPENS, namespace=ANN, thread="t")
    memory.add("Thanks a lot", namespace=ANN, thread="t")
    memory.add("See you", namespace=ANN, thread="u")
    memory.update(one.id, namespace=ANN, content="The safe opens with a key")
    assert holders(memory, tmp_path, "zanzibar4711") == {one.id, "history", "export"}
    assert memory.get(one.id, namespace=ANN).content == "The safe opens with a key"
    assert list(memory.history(one.id, namespace=ANN)[-1].before) == ["content"]
    memory.update(one.id, namespace=ANN, content="The safe opens with a code", thorough=True)
    assert holders(memory, tmp_path, "zanzibar4711") == set()
    assert holders(memory, tmp_path, "opens with a key") == set()


def interrupted(meanwhile):
    """A model that copies, and lets something happen before the first note that has the word "now" is made."""
    copying, left = CopyingModel(), [meanwhile]

    def construct(request):
        if left and any("now" in note["content"] for note in request.inputs["notes"]):
            left.pop()()
        return copying.generate(request)

    return ScriptedModel({"construct": construct, "evolve": copying.generate})


LATE = {
    "deleted": lambda memory, note: memory.delete(note.id, namespace=ANN),
    "corrected": lambda memory, note: memory.update(note.id, namespace=ANN, content="Nothing"),
    "expired": lambda memory, note: memory.update(note.id, namespace=ANN, expires_at=NOW),
    "cleared": lambda memory, _: memory.clear(namespace=ANN),
}


@pytest.mark.on_a_server
def test_a_late_answer_about_what_is_gone_changes_nothing(open_memory, tmp_path):
    for what, happens in LATE.items():
        for late in (True, False):  # the note that is gone is another one, or the one that is made
            memory = open_memory(
                interrupted(lambda: happens(memory, memory.get_all(namespace=ANN)[0]))  # noqa: B023
            )
            if late:
                memory.add("My PIN is zanzibar4711", namespace=ANN, thread="t")
            with suppress(NoteNotFoundError):
                text = "Thanks for now" if late else "My PIN is now zanzibar4711"
                memory.add(text, namespace=ANN, thread="t")
            first = memory.get_all(namespace=ANN)[:1]
            memory.sweep(namespace=ANN)
            memory.evolve()
            allowed = {first[0].id, "history", "export"} if what == "corrected" else set()
            assert holders(memory, tmp_path, "zanzibar4711") == allowed, (what, late)


def test_deleting_a_note_leaves_what_does_not_quote_it(open_memory):
    memory = open_memory(models.model())
    texts = [f"Number {n} is about {word}" for n, word in enumerate(["tea", "ink", "sea", "oak"])]
    notes = memory.add_many(texts, namespace=ANN)
    memory.delete(notes[0].id, namespace=ANN)
    assert memory.stats(namespace=ANN)["states"] == {"done": 3}


def test_what_other_notes_say_as_well_is_made_anew_of_them(open_memory):
    """Where two notes that were shown have a word of a text, both are sources of the text."""

    memory = open_memory(models.model(construct=models.each({"context": "It is blue"})))
    memory.add("The ink is blue", namespace=ANN, thread="t")
    one = memory.add("Some tea is blue", namespace=ANN, thread="t")
    last = memory.add("Thanks", namespace=ANN, thread="t")
    assert memory.delete(one.id, namespace=ANN).pending == 1
    assert memory.get(last.id, namespace=ANN).state == "pending"
    memory.evolve()
    left = memory.get(last.id, namespace=ANN)
    assert ([entry.text for entry in left.contexts], left.state) == (["It is blue"], "done")


def parrot(place):
    """A model that says the secret again, in one place, whenever it is shown it, and nothing else."""

    def again(request):
        return "zanzibar4711" if "zanzibar4711" in json.dumps(request.inputs) else "nothing"

    def construct(request):
        said = {"context": "It is said", "keywords": [], "tags": []}
        if place == "keyword":
            said["keywords"] = [again(request)]
        return {"notes": [{"id": note["alias"], **said} for note in request.inputs["notes"]]}

    def evolve(request):
        said = again(request)
        (note,) = request.inputs["notes"]
        to = note["candidates"][0]["alias"]
        if place == "keyword":
            return {"notes": []}
        if place == "relation":
            return {"notes": [{"id": "n1", "links": [{"to": to, "relation": said, "reason": ""}]}]}
        return {"notes": [{"id": "n1", "updates": [{"to": to, "context": said}]}]}

    return models.model(evolve, construct)


# By the place of the quote: whether it is reviewed, and which notes in the middle go before the first.
HANDED_ON = [("relation", False, []), ("relation", True, []), ("update", True, [])]
HANDED_ON += [("update", False, gone) for gone in ([], [1], [2, 1])]
HANDED_ON.append(("keyword", False, []))


def test_what_was_handed_on_from_note_to_note_goes_with_the_first(open_memory, tmp_path):
    """Five notes, each of which is shown the two before it; some in the middle may have gone before."""
    for place, review, gone in HANDED_ON:
        memory = open_memory(parrot(place), candidates=2, recent=2, review=review)
        notes = []
        for text in ("zanzibar4711", "one tea", "two inks", "three seas", "four oaks"):
            notes.append(memory.add(text, namespace=ANN, thread="t").id)
            for proposal in memory.proposals(namespace=ANN):
                memory.approve(proposal.id, namespace=ANN)
        # A relation that quotes is not written in the first place.
        is_handed_on = "zanzibar4711" in repr(memory.get(notes[3], namespace=ANN))
        assert is_handed_on is (place != "relation")
        for number in (*gone, 0):
            memory.delete(notes[number], namespace=ANN)
        assert holders(memory, tmp_path, "zanzibar4711") == set(), (place, review, gone)


def test_what_a_sentence_has_of_a_third_note_goes_with_that(open_memory, tmp_path):
    """The third note is no turn before the new one, so only the question about links shows the third note."""

    def evolve(request):
        to = [c["alias"] for c in request.inputs["candidates"] if "green" in c["content"]]
        return models.each({"updates": [{"to": one, "c": "zanzibar4711"} for one in to]})(request)

    memory = open_memory(models.model(evolve))
    texts = ("The tea is zanzibar4711", "The tea is green", "The tea is hot")
    secret, green, _ = (memory.add(text, namespace=ANN, thread=text) for text in texts)
    assert memory.get(green.id, namespace=ANN).contexts[-1].text == "zanzibar4711"
    memory.delete(secret.id, namespace=ANN)
    assert holders(memory, tmp_path, "zanzibar4711") == set()


SECRETS = ("blue horse", "21-12-24-13", "ann.lee@mail.example", "\N{ZEBRA FACE}\N{KEY}")


def test_a_secret_of_words_that_others_have_one_by_one_is_gone(open_memory, tmp_path):
    sky, row, mail = "The blue sky at 12:24", "A horse in row 21, seat 13", "ann lee and mail"
    for text in SECRETS:
        memory = open_memory(CopyingModel())
        for other in (sky, row, mail, "example", "\N{KEY}"):
            memory.add(other, namespace=ANN, thread="t")
        one = memory.add(f"The word is {text}", namespace=ANN, thread="t")
        memory.add("Thanks", namespace=ANN, thread="t")
        assert len(holders(memory, tmp_path, text)) > 1
        memory.delete(one.id, namespace=ANN)
        assert holders(memory, tmp_path, text) == set()


# What a delete returns, takes and leaves


@pytest.fixture
def inferred(open_memory):
    """A memory whose second and third note are understood in the light of the first, without its words."""

    def construct(request):
        notes = request.inputs["notes"]
        alone = not request.inputs["before"] and len(notes) == 1
        about = "Something was said." if alone else "Somebody is worried about money."
        said = {"context": about, "keywords": ["talk"], "tags": ["talk"]}
        if "Wait" in notes[-1]["content"]:
            memory.delete(ids[0], namespace=ANN, thorough=True)
        return {"notes": [{"id": note["alias"], **said} for note in notes]}

    memory = open_memory(models.model(models.link_to_first, construct))
    texts = ("The rent of zanzibar4711 is due", "I see", "See you tomorrow")
    ids = [memory.add(text, namespace=ANN, thread="t").id for text in texts]
    return memory, ids


@pytest.mark.on_a_server
def test_what_is_inferred_in_other_words_stays_unless_the_delete_is_thorough(inferred):
    memory, (first, second, third) = inferred
    linked = tuple(sorted(memory.get(first, namespace=ANN).links))
    gone = memory.delete(first, namespace=ANN)
    assert (gone.entries, gone.reasons, gone.pending) == ((), linked, 0)
    assert "money" in memory.get(second, namespace=ANN).own_entry.text
    with pytest.raises(NoteNotFoundError):
        memory.delete(first, namespace=ANN)
    gone = memory.delete(first, namespace=ANN, thorough=True)  # the second one, of a tombstone
    assert (gone.entries, gone.pending) == (tuple(sorted([second, third])), 2)
    notes = memory.get_all(namespace=ANN)
    found = [(note.id, note.state, note.contexts) for note in notes]
    assert found == [(second, "pending", ()), (third, "pending", ())]
    # Both were in the words of a call that was shown the text.
    left = {(link.relation, link.reason) for note in notes for link in note.links.values()}
    assert left == {("related", "")}
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


def test_what_an_import_brings_back_stays_without_what_is_not_there_and_goes_with_a_thorough_delete(
    inferred, tmp_path
):
    memory, (first, second, _) = inferred
    whole, cut = tmp_path / "whole.jsonl", tmp_path / "cut.jsonl"
    memory.export(whole, namespace=ANN)
    lines = whole.read_text().splitlines()
    assert "null" not in whole.read_text()  # what is not there takes no room
    cut.write_text("\n".join(line for line in lines if '{"note"' not in line or first not in line))
    with models.opened() as other:
        assert other.import_(cut, namespace=ANN) == 2
        assert "money" in other.get(second, namespace=ANN).own_entry.text
    memory.clear(namespace=ANN)  # calls forget what they were shown
    memory._runtime.store.remove_tombstones(ANN, datetime.now(UTC) + timedelta(days=2))
    memory.import_(whole, namespace=ANN)
    assert "money" in memory.get(second, namespace=ANN).own_entry.text
    memory.delete(first, namespace=ANN, thorough=True)
    assert memory.get(second, namespace=ANN).contexts == ()


def test_what_a_call_under_way_infers_from_it_is_not_believed_after_a_thorough_delete(inferred):
    memory, _ = inferred
    note = memory.add("Wait for me", namespace=ANN, thread="t")  # and the first one is deleted
    assert (note.state, note.contexts) == ("pending", ())
    assert "money" not in repr(memory.get_all(namespace=ANN))


def test_a_delete_returns_what_went(memory, open_memory):
    one = memory.add(OPENS, namespace=ANN, thread="t")
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
    ruled = open_memory()
    said = (("t", OPENS), ("other", "The weather is fine"), ("other", f"{OPENS} now"))
    one, turn, last = (ruled.add(text, namespace=ANN, thread=thread) for thread, text in said)
    assert last.links.keys() == {one.id, turn.id}
    assert ruled.delete(one.id, namespace=ANN).reasons == (last.id,)  # it still follows the turn
    assert ruled._runtime.store.unfinished() == []  # what is gone needs no vector


def test_the_same_key_said_again_after_a_delete_is_a_new_note(memory, tmp_path):
    one = memory.add(OPENS, namespace=ANN, key="k", thread="t")
    memory.delete(one.id, namespace=ANN)
    again = memory.add("The safe is empty", namespace=ANN, key="k", thread="t")
    assert (again.id, again.content, again.state) == (one.id, "The safe is empty", "done")
    assert again.seq > one.seq
    assert memory.history(one.id, namespace=ANN)[0].kind == "add"
    assert holders(memory, tmp_path, "zanzibar4711") == set()


def test_a_late_answer_for_the_deleted_note_says_nothing_of_the_new_one(open_memory):
    def meanwhile():  # the note is deleted, and its key is said again
        memory.delete(memory.get_all(namespace=ANN)[0].id, namespace=ANN)
        memory.add("I live in Rome", namespace=ANN, key="k", evolve=False)

    memory = open_memory(interrupted(meanwhile))
    note = memory.add("I live in zanzibar4711 now", namespace=ANN, key="k")
    assert (note.content, note.state, note.contexts) == ("I live in Rome", "pending", ())
    memory.evolve()
    assert "Rome" in memory.get(note.id, namespace=ANN).own_entry.text
    assert "zanzibar4711" not in repr(memory.get_all(namespace=ANN))


def test_a_secret_that_stands_in_a_name_only_is_gone(open_memory, tmp_path):
    for field in ("speaker", "thread", "key"):
        memory = open_memory(CopyingModel())
        named = {"thread": "t", field: "zanzibar4711"}
        one = memory.add("Hello, how are you today?", namespace=ANN, **named)
        two = memory.add("Very well indeed", namespace=ANN, thread=one.thread)
        memory.add("That is good to hear", namespace=ANN, thread="u")
        if field == "speaker":  # a context of another note has the name
            assert len(holders(memory, tmp_path, "zanzibar4711")) > 2
        if field == "thread":  # the second note is of this thread, as its user has said
            memory.delete(two.id, namespace=ANN)
        memory.delete(one.id, namespace=ANN)
        assert holders(memory, tmp_path, "zanzibar4711") == set(), field


def test_the_history_tells_of_a_deleted_note_for_a_day(memory, clock):
    for namespace in (None, ANN):
        note = memory.add("I live in Berlin", namespace=ANN)
        memory.delete(note.id, namespace=ANN)
        clock(note.recorded_at + timedelta(hours=23))
        assert memory.sweep(namespace=namespace) == 0
        assert [made.kind for made in memory.history(note.id, namespace=ANN)] == ["delete"]
        clock(note.recorded_at + timedelta(hours=25))
        assert memory.sweep(namespace=namespace) == 0
        with pytest.raises(NoteNotFoundError):
            memory.history(note.id, namespace=ANN)
        again = memory.add("I live in Berlin", namespace=ANN)
        assert (again.id, again.state) == (note.id, "done")
        memory.clear(namespace=ANN)
