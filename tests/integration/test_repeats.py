"""What was said several times is shown once: links of the relation `repeats`, and what obeys them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from support import models

from amem_integrations import AgenticMemory, NoteInput

ANN, BOB = ("ann",), ("bob",)
START = datetime(2024, 5, 10, 9, tzinfo=UTC)
LATER = START + timedelta(days=3)
ASKED = "Where is the spare key of the garden shed?"
LONG = "I keep the spare key of the blue garden shed under the third flower pot by the door."
SHORT = "The shed's spare key is under the third pot."
AGAIN = "As I told you, the spare key for the shed: under the third flower pot."
OTHER = "The tram to the harbour leaves every ten minutes."


@pytest.fixture
def memory():
    """A memory whose model says of each note about a key that it repeats the earlier ones."""
    with models.open_repeating(models.construct) as opened:
        yield opened


def say(memory, *texts, **fields):
    """Add a text a day, each in a session of its own, and return the notes."""
    notes = []
    for day, text in enumerate(texts):
        said = {"thread": f"session {day}", "at": START + timedelta(days=day), **fields}
        notes.append(memory.add(text, **{"namespace": ANN, "speaker": "Ann", **said}))
    return notes


def shown(memory, question=ASKED, **options):
    """Return the lines about a key that a prompt gets."""
    lines = memory.context(question, namespace=ANN, **options).splitlines()
    return [line for line in lines if line.startswith("- ") and "key" in line]


def told(text, times, day):
    return f"- Ann: {text} (said {times} times, last on {day} May 2024)"


def test_what_three_sessions_say_stands_once_in_its_fullest_wording(memory):
    notes = say(memory, SHORT, LONG, AGAIN, OTHER)
    assert shown(memory) == [told(LONG, 3, 12)]
    (hit,) = [hit for hit in memory.recall(ASKED, namespace=ANN) if "key" in hit.note.content]
    assert (hit.note.id, hit.times_said, hit.last_said) == (notes[1].id, 3, notes[2].at)
    told_of = {"times_said": 3, "last_said": "2024-05-12T09:00:00+00:00"}
    assert hit.to_dict().items() >= told_of.items()
    assert {note.state for note in memory.get_all(namespace=ANN)} == {"done"}


def test_taking_one_away_brings_the_others_back(memory):
    short, full, again, _ = say(memory, SHORT, LONG, AGAIN, OTHER)
    memory.delete(full.id, namespace=ANN)
    assert shown(memory) == [told(AGAIN, 2, 12)]
    memory.delete(again.id, namespace=ANN)
    assert shown(memory) == [f"- Ann: {SHORT}"]
    assert memory.get(short.id, namespace=ANN).links == {}


def test_a_search_returns_all_of_them_unless_it_is_told_otherwise(memory):
    notes = say(memory, SHORT, LONG, AGAIN, OTHER)
    hits = memory.search(ASKED, namespace=ANN)
    assert {hit.note.id for hit in hits} == {note.id for note in notes}
    assert {(hit.times_said, hit.last_said) for hit in hits} == {(1, None)}
    once = memory.search(ASKED, namespace=ANN, k=2, repeats=False)
    assert [hit.note.content for hit in once] == [LONG, OTHER]
    assert [hit.times_said for hit in once] == [3, 1]
    assert once[0].score == hits[0].score
    assert memory.search_turn(ASKED, namespace=ANN, k=2).hits == once


def test_a_search_goes_on_only_until_there_are_as_many_as_are_wanted(memory, monkeypatch):
    texts = [SHORT, SHORT, *(f"{SHORT} On day {n}." for n in range(300))]
    items = [NoteInput(content=text, thread=str(n)) for n, text in enumerate(texts)]
    memory.add_many(items, namespace=ANN, evolve=False)
    store, limits = memory._runtime.store, []
    find = store.search

    def counted(namespace, queries):
        limits.extend(query.bring.limit for query in queries)
        return find(namespace, queries)

    monkeypatch.setattr(store, "search", counted)
    assert len(memory.search(SHORT, namespace=ANN, k=3, repeats=False)) == 3
    assert len(limits) == 2


def test_of_what_the_hits_do_not_have_the_count_and_the_last_day_are_known(memory):
    say(memory, LONG, AGAIN, SHORT)
    (hit,) = memory.recall(ASKED, namespace=ANN, k=1)
    assert (hit.times_said, hit.last_said) == (3, START + timedelta(days=2))
    other = ("b",)
    say(memory, LONG, "A zebra has no key", namespace=other)
    memory.add_many([f"{LONG} {n}" for n in range(60)], namespace=other, evolve=False)
    (hit,) = memory.search(LONG, namespace=other, k=1, repeats=False)
    assert (hit.note.content, hit.times_said) == (LONG, 2)


def test_a_repetition_that_does_not_meet_the_conditions_is_neither_shown_nor_counted(memory):
    say(memory, SHORT, LONG, AGAIN)
    assert shown(memory, where={"thread": "session 0"}) == [f"- Ann: {SHORT}"]
    assert shown(memory, where={"thread": {"$ne": "session 1"}}) == [told(AGAIN, 2, 12)]
    assert shown(memory, as_of=START + timedelta(days=1, hours=1)) == [told(LONG, 2, 11)]
    (hit,) = memory.recall(ASKED, namespace=ANN, k=1, where={"thread": "session 0"})
    assert (hit.times_said, hit.last_said) == (1, None)


def test_what_the_memory_did_not_know_yet_is_not_counted(memory):
    first, _ = say(memory, SHORT, LONG, evolve=False)
    raw = datetime.now(UTC)
    memory.evolve(namespace=ANN)
    assert shown(memory) == [told(LONG, 2, 11)]
    linked = datetime.now(UTC)
    say(memory, AGAIN, at=START + timedelta(days=9))
    say(memory, LONG, AGAIN, namespace=BOB)  # which counts for nobody else
    assert shown(memory) == [told(LONG, 3, 19)]
    assert shown(memory, known_at=linked) == [told(LONG, 2, 11)]
    (hit,) = memory.recall(ASKED, namespace=ANN, k=1, known_at=linked)
    assert hit.times_said == 2
    assert len(shown(memory, known_at=raw)) == 2
    for change in memory.history(first.id, namespace=ANN):
        if change.kind == "link":
            memory.undo(change.id, namespace=ANN)
    assert len(shown(memory)) == 2


def test_an_expired_repetition_is_not_counted(memory, clock):
    say(memory, LONG, AGAIN)
    soon = datetime.now(UTC) + timedelta(hours=1)
    say(memory, SHORT, at=START + timedelta(days=5), expires_at=soon)
    assert shown(memory) == [told(LONG, 3, 15)]
    clock(soon + timedelta(seconds=1))
    assert shown(memory) == [told(LONG, 2, 11)]


def test_of_an_outdated_and_a_current_wording_the_current_one_is_shown(memory):
    full, _ = say(memory, LONG, SHORT)
    (moved,) = say(memory, "I threw that lock away.", at=LATER, supersedes=[full.id])
    assert shown(memory) == [told(SHORT, 2, 11)]
    assert moved.id in {hit.note.id for hit in memory.recall(ASKED, namespace=ANN)}


def test_wordings_that_are_all_outdated_are_told_once_where_something_took_their_place(memory):
    notes = say(memory, LONG, SHORT)
    given = {"supersedes": [note.id for note in notes], "evolve": False, "at": LATER}
    moved = memory.add("That key hangs in the kitchen now.", namespace=ANN, **given)
    hits = memory.recall(ASKED, namespace=ANN)
    assert [hit.note.id for hit in hits] == [moved.id, notes[0].id]
    assert (hits[1].superseded_by, hits[1].times_said) == (moved.id, 2)
    (line,) = shown(memory)
    assert line.startswith("- That key hangs in the kitchen now. (until 13 May 2024: I keep the")
    assert SHORT not in line


def test_what_took_a_place_is_known_by_the_wording_that_is_shown(memory):
    old, new, fuller = say(memory, OTHER, SHORT, LONG)
    memory.supersede(old.id, new.id, namespace=ANN)
    hits = {hit.note.id: hit for hit in memory.recall("tram or spare key?", namespace=ANN)}
    assert hits.keys() == {old.id, fuller.id}
    assert hits[old.id].superseded_by == fuller.id


def test_a_statement_is_shown_before_a_longer_question_that_says_the_same(memory):
    say(memory, SHORT, "Where is the key, did I say that it is under the third flower pot?")
    best, *_ = memory.search(ASKED, namespace=ANN, repeats=False)
    assert (best.note.content, best.times_said) == (SHORT, 2)


def test_a_users_words_are_shown_before_an_assistants_echo(memory):
    user = memory.add(SHORT, namespace=ANN, at=START)
    memory.add(LONG, namespace=ANN, at=START + timedelta(days=1), source="assistant")
    (hit,) = memory.recall(ASKED, namespace=ANN)
    assert (hit.note.id, hit.times_said) == (user.id, 2)


def test_equal_statements_are_one_of_each_speaker_and_of_each_place_of_an_import(memory):
    places = [{"source": "import", "metadata": {"file": name}} for name in "ab"]
    for hour, who in enumerate(({}, {"speaker": "Bo"}, *places)):
        for day in range(2):
            say(memory, OTHER, at=START + timedelta(days=day, hours=hour), **who)
    hits = memory.recall("When does the tram leave?", namespace=ANN)
    assert [hit.times_said for hit in hits] == [2] * 4


# Rules, with an embedder of which it was measured how near repetitions are


@pytest.fixture
def ruled(minilm):
    with AgenticMemory.open(":memory:", embedder=minilm) as opened:
        yield opened


KEY = "I keep the spare key of the shed under the third flower pot."
KEYS = (KEY, "Under the third flower pot I keep the spare key of the shed.", f"I really {KEY[2:]}")


def test_by_rules_three_wordings_in_three_sessions_stand_once(ruled):
    notes = say(ruled, *KEYS, OTHER)
    assert {link.relation for link in notes[2].links.values()} == {"repeats"}
    assert notes[0].id in notes[2].links
    assert shown(ruled) == [told(KEYS[2], 3, 12)]
    assert [len(ruled.get(note.id, namespace=ANN).contexts) for note in notes] == [1, 1, 1, 1]
    ruled.delete(notes[2].id, namespace=ANN)
    assert shown(ruled) == [told(KEYS[1], 2, 11)]


def test_by_rules_nobody_repeats_what_differs_in_a_fact_a_speaker_or_a_day(ruled):
    (first,) = say(ruled, KEY)
    (bob,) = say(ruled, KEYS[1], speaker="Bob", at=START + timedelta(days=1))
    swam, again = say(ruled, "Today I swam two kilometres.", "I swam two kilometres today.")
    (fourth,) = say(ruled, KEY.replace("third", "fourth"))
    ruled.supersede(first.id, fourth.id, namespace=ANN)  # what is outdated is said anew
    (anew,) = say(ruled, KEYS[1], at=START + timedelta(days=2))
    for one, other in ((first, bob), (swam, again), (first, fourth), (first, anew)):
        link = other.links.get(one.id)
        assert link is None or link.relation != "repeats"


def test_by_rules_a_bare_reply_to_another_question_is_no_repetition(ruled):
    for reply, said in (("Yes, I do.", [1, 1]), ("Yes, both of them.", [2])):
        for day, question in enumerate(("Do you like the sea?", "Do you like my sister?")):
            when = {"thread": f"{reply} {day}", "at": START + timedelta(days=day)}
            talk = (("Bob", question), ("Ann", reply))
            items = [NoteInput(content=text, speaker=who, **when) for who, text in talk]
            notes = ruled.add_many(items, namespace=ANN)
            assert {link.relation for link in notes[1].links.values()} >= {"answers"}
        found = ruled.recall("What do you like, do you?", namespace=ANN)
        assert [hit.times_said for hit in found if hit.note.content == reply] == said
