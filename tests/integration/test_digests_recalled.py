"""Digests are found and shown beside notes, and only where all that they were gathered from may be shown."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from time import sleep

import pytest
from support.digests import digest as write
from support.digests import put_digest

from amem_integrations import AgenticMemory, Note, NoteInput

ANN = ("ann",)
START = datetime(2024, 3, 1, 9, tzinfo=UTC)
CARS = "Ann drives a red Volvo since March 2024; until then she had a blue Fiat."


@pytest.fixture
def notes(memory: AgenticMemory) -> list[Note]:
    """Return what two people said of cars in three threads on three days."""
    said = [
        ("My blue Fiat broke down", "Ann", "a"),
        ("I sold the blue Fiat", "Ann", "b"),
        ("Ann has a red Volvo now", "Bob", "c"),
    ]
    items = [
        NoteInput(content=text, speaker=speaker, thread=thread, at=START + timedelta(days=day))
        for day, (text, speaker, thread) in enumerate(said)
    ]
    return memory.add_many(items, namespace=ANN)


def found(memory: AgenticMemory, **options) -> list[str]:
    """Return the kinds of what is found, which has to be the same at all doors for hits."""
    hits = memory.search("Ann's red Volvo and blue Fiat", namespace=ANN, **options)
    recalled = memory.recall("Ann's red Volvo and blue Fiat", namespace=ANN, **options)
    assert {hit.note.id for hit in recalled} == {hit.note.id for hit in hits}
    return sorted(hit.note.kind for hit in hits)


def test_a_digest_is_found_like_a_note(memory, notes):
    digest = put_digest(memory, CARS, notes, topic="Ann's cars")
    (hit,) = memory.search("Which cars has Ann?", namespace=ANN, k=1, explain=True)
    assert (hit.note, hit.via) == (digest, "match")
    assert hit.why.lexical_rank == 1
    assert memory.get(digest.id, namespace=ANN) == digest
    assert digest in memory.get_all(namespace=ANN)
    assert memory.get_all(namespace=ANN, where={"kind": "digest"}) == [digest]


def test_a_digest_is_found_by_its_topic_and_keywords(memory, notes):
    put_digest(memory, CARS, notes, topic="Vehicles", keywords=("garage",))
    for query in ("vehicles", "garage"):
        hits = memory.search(query, namespace=ANN, explain=True)
        assert [hit.note.kind for hit in hits if hit.why.lexical_rank] == ["digest"]


@pytest.mark.parametrize(
    ("kind", "kinds"),
    [
        ("note", {"statement", "question", "filler"}),
        ({"$ne": "note"}, {"digest"}),
        ("digest", {"digest"}),
        ({"$ne": "digest"}, {"statement", "question", "filler"}),
        ({"$in": ["note"]}, {"statement", "question", "filler"}),
        ({"$in": ["note", "digest"]}, {"statement", "question", "filler", "digest"}),
        ({"$in": ["digest", "filler"]}, {"digest", "filler"}),
        ("statement", {"statement"}),
    ],
)
def test_the_kind_note_is_every_kind_but_derived_ones(memory, notes, kind, kinds):
    memory.add_many(["Which car has Ann?", "Hello!"], namespace=ANN)
    put_digest(memory, CARS, notes)
    where = {"kind": kind}
    hits = memory.search("Which car has Ann? Hello!", namespace=ANN, where=where)
    assert {hit.note.kind for hit in hits} == kinds
    assert {note.kind for note in memory.get_all(namespace=ANN, where=where)} == kinds


def test_where_notes_are_asked_for_filler_is_still_not_recalled(memory, notes):
    memory.add("Hello!", namespace=ANN)
    hits = memory.recall("Ann's red Volvo", namespace=ANN, where={"kind": "note"})
    assert {hit.note.kind for hit in hits} == {"statement"}


@pytest.mark.parametrize(
    ("where", "shown"),
    [
        ({"speaker": "Ann"}, ["both Ann"]),
        ({"speaker": {"$ne": "Bob"}}, ["both Ann"]),
        ({"speaker": {"$in": ["Ann", "Bob"]}}, ["all", "both Ann"]),
        ({"thread": "a"}, []),
        ({"thread": {"$in": ["a", "b"]}}, ["both Ann"]),
        ({"at": {"$lt": START + timedelta(days=1, hours=1)}}, ["both Ann"]),
        ({"when": {"$gte": START}}, ["all", "both Ann"]),
        ({"metadata.secret": {"$ne": True}}, ["both Ann"]),
        ({"source": "user"}, ["all", "both Ann"]),
        ({"source": "derived"}, ["all", "both Ann"]),
        ({"source": {"$ne": "derived"}}, []),
        ({"kind": "digest", "speaker": "Ann"}, ["both Ann"]),
        ({"kind": "note", "speaker": "Ann"}, []),
        ({"recorded_at": {"$gte": START}, "thread": None}, []),
    ],
)
def test_under_a_filter_a_digest_is_shown_if_all_its_sources_pass(memory, notes, where, shown):
    memory.update(notes[2].id, namespace=ANN, metadata={"secret": True})
    put_digest(memory, "both Ann: the blue Fiat", notes[:2], topic="b")
    put_digest(memory, "all: the red Volvo and the blue Fiat", notes, topic="a")
    for find in (memory.search, memory.recall):
        hits = find("red Volvo and blue Fiat", namespace=ANN, where=where)
        digests = [hit.note.content.split(":")[0] for hit in hits if hit.note.kind == "digest"]
        assert sorted(digests) == shown


def test_a_digest_is_found_by_its_id_and_its_sources(memory, notes):
    digest = put_digest(memory, CARS, notes)
    for where in ({"id": digest.id}, {"sources": notes[1].id}):
        hits = memory.search("red Volvo", namespace=ANN, where=where)
        assert [hit.note for hit in hits] == [digest]


def test_a_digest_with_a_source_of_no_metadata_does_not_pass_by_its_own(memory, notes):
    put_digest(memory, CARS, notes, metadata={"team": "red"})
    assert found(memory, where={"metadata.team": "red"}) == []


def test_as_of_a_time_a_digest_is_shown_if_all_its_sources_had_happened(memory, notes):
    put_digest(memory, CARS, notes)
    last = notes[-1].when
    assert found(memory, as_of=last) == ["digest", *["statement"] * 3]
    assert found(memory, as_of=last - timedelta(seconds=1)) == ["statement"] * 2


def test_as_of_a_time_a_digest_of_that_time_is_shown_though_it_is_stale_by_now(memory, notes):
    put_digest(memory, CARS, notes)
    later = memory.add("I sold the Volvo", namespace=ANN, at=START + timedelta(days=9))
    memory.supersede(notes[2].id, later.id, namespace=ANN)
    assert "digest" not in found(memory)
    assert "digest" in found(memory, as_of=START + timedelta(days=8))
    assert "digest" not in found(memory, as_of=START + timedelta(days=9))


def test_as_of_a_time_a_digest_is_not_shown_if_it_does_not_know_what_held(memory, notes):
    later = memory.add("I sold the Volvo", namespace=ANN, at=START + timedelta(days=9))
    memory.supersede(notes[2].id, later.id, namespace=ANN)
    put_digest(memory, CARS, notes)
    assert "digest" in found(memory, as_of=START + timedelta(days=8))
    assert "digest" not in found(memory, as_of=START + timedelta(days=9))


def test_a_time_before_a_digest_was_written_knows_it_not(memory, notes):
    before = put_digest(memory, CARS, notes).recorded_at - timedelta(microseconds=1)
    assert found(memory, known_at=before) == ["statement"] * 3
    after = put_digest(memory, CARS + " So.", notes).recorded_at
    assert found(memory, known_at=after) == ["digest", "digest", *["statement"] * 3]


def test_at_a_time_a_digest_is_known_as_it_was_written_by_then(memory, notes):
    write(memory, notes[:2], text="Ann has no car.", topic="Ann's cars")
    then = memory.add("Nothing changes", namespace=ANN).recorded_at
    write(memory, notes, text="Ann has a red Volvo.", topic="Ann's car")

    def known(**options):
        where = {"kind": "digest"}
        hits = memory.search("Ann's cars", namespace=ANN, where=where, **options)
        return [(hit.note.content, hit.note.own_entry.text, hit.note.sources) for hit in hits]

    ids = tuple(note.id for note in notes)
    assert known() == [("Ann has a red Volvo.", "Ann's car", ids)]
    assert known(known_at=then) == [("Ann has no car.", "Ann's cars", ids[:2])]
    memory.delete(notes[0].id, namespace=ANN)
    assert known(known_at=then) == []


def test_under_a_filter_a_digest_is_judged_by_the_sources_that_it_had_then(memory, notes):
    write(memory, notes[:2], text="Ann has no car.", topic="Ann's cars")
    then = memory.add("Nothing changes", namespace=ANN).recorded_at
    write(memory, notes, text="Ann has a red Volvo.", topic="Ann's car")
    by_ann = {"speaker": "Ann"}
    assert "digest" not in found(memory, where=by_ann)
    assert "digest" in found(memory, where=by_ann, known_at=then)


def test_a_stale_digest_is_not_shown_and_can_be_read(memory, notes):
    digest = put_digest(memory, CARS, notes)
    later = memory.add("I have a green Volvo now", namespace=ANN)
    written = later.recorded_at
    memory.supersede(notes[2].id, later.id, namespace=ANN)
    assert "digest" not in found(memory)
    assert "gathered" not in memory.context("Ann's Volvo", namespace=ANN)
    assert found(memory, where={"kind": "digest"}) == []
    assert memory.get(digest.id, namespace=ANN) == digest
    assert "digest" in found(memory, known_at=written)


def test_what_is_stale_makes_room_for_the_next_hits(memory, notes):
    later = memory.add("The garage is open", namespace=ANN)
    for number in range(12):
        put_digest(memory, f"{CARS} {number}", notes, topic=f"red Volvo {number}")
    memory.supersede(notes[2].id, later.id, namespace=ANN)
    hits = memory.search("red Volvo", namespace=ANN, k=3)
    assert [hit.note.kind for hit in hits] == ["statement"] * 3


def test_a_digest_of_a_source_that_is_deleted_or_has_expired_is_not_shown(memory, notes):
    soon = datetime.now(UTC) + timedelta(seconds=0.2)
    short = memory.add("A Volvo ad", namespace=ANN, expires_at=soon, at=START)
    put_digest(memory, CARS + " Ad.", [*notes, short])
    put_digest(memory, CARS, notes)
    while datetime.now(UTC) <= soon:
        sleep(0.05)
    assert found(memory).count("digest") == found(memory, as_of=soon).count("digest") == 1
    memory.delete(notes[0].id, namespace=ANN)
    assert "digest" not in found(memory)
    assert "digest" not in found(memory, known_at=soon)


def test_no_link_leads_from_a_digest(memory, notes):
    memory.add("The garage smells of paint", namespace=ANN, evolve=False)
    put_digest(memory, CARS, notes[:1], topic="zebra")
    (hit, *_) = memory.search("zebra", namespace=ANN)
    assert hit.note.kind == "digest"
    others = memory.search("zebra", namespace=ANN, explain=True)[1:]
    assert all(other.why.spread == 0 for other in others if other.via == "match")


def test_a_question_that_names_a_speaker_favours_a_digest_about_them(memory, notes):
    about = put_digest(memory, "A red Volvo.", notes[2:], topic="Ann's car")
    other = put_digest(memory, "A red Volvo", notes[2:], topic="Some car")
    scores = {
        hit.note.id: hit.score - hit.why.fusion
        for hit in memory.search("Which Volvo has Ann?", namespace=ANN, explain=True)
        if hit.note.kind == "digest"
    }
    assert scores[about.id] > scores[other.id] == 0


async def test_the_asynchronous_form_shows_the_same(memory, notes):
    put_digest(memory, CARS, notes)
    hits = await memory.asearch("red Volvo", namespace=ANN, where={"thread": "a"})
    assert [hit.note.kind for hit in hits] == ["statement"]
    text = await memory.acontext("Which cars has Ann?", namespace=ANN)
    assert text == memory.context("Which cars has Ann?", namespace=ANN)
    assert CARS in text


def test_the_memory_of_somebody_else_has_no_part_in_it(memory, notes):
    put_digest(memory, CARS, notes)
    assert memory.search("red Volvo", namespace=("bob",)) == []


def test_the_profile_is_the_newest_digest_that_is_one_while_it_is_current(memory, notes):
    assert memory.profile(namespace=ANN) is None
    put_digest(memory, CARS, notes)
    put_digest(memory, "An old profile.", notes, metadata={"profile": True})
    profile = put_digest(memory, "Ann drives a Volvo.", notes, metadata={"profile": True})
    memory.add("Not a profile", namespace=ANN, metadata={"profile": True})
    assert memory.profile(namespace=ANN) == profile
    assert memory.profile(namespace=("bob",)) is None
    later = memory.add("I sold the Volvo", namespace=ANN)
    memory.supersede(notes[2].id, later.id, namespace=ANN)
    assert memory.profile(namespace=ANN) is None


async def test_the_profile_is_read_asynchronously(memory, notes):
    profile = put_digest(memory, "Ann drives a Volvo.", notes, metadata={"profile": True})
    assert await memory.aprofile(namespace=ANN) == profile


def test_an_expired_profile_is_not_returned(memory, notes):
    past = datetime.now(UTC) - timedelta(days=1)
    put_digest(memory, "Ann is busy.", notes, metadata={"profile": True}, expires_at=past)
    assert memory.profile(namespace=ANN) is None


def test_where_there_are_no_digests_to_ask_for_notes_changes_nothing(memory):
    said = [("Do you like jazz?", "Bob"), ("Yes.", "Ann"), ("I like loud jazz a lot", "Ann")]
    for thread in ("one", "two"):
        items = [NoteInput(content=text, speaker=who, thread=thread) for text, who in said]
        memory.add_many(items, namespace=ANN)
    for find in (memory.search, memory.recall):
        hits, same = (
            [hit.note.id for hit in find("Who likes loud jazz? Yes", namespace=ANN, **more)]
            for more in ({}, {"where": {"kind": "note"}})
        )
        assert hits == same
    assert len(hits) < len(memory.get_all(namespace=ANN))
