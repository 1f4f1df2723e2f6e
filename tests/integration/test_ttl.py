"""How long notes are kept: a time of their own, or one of their namespace."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.util import find_spec

import pytest
from pydantic import BaseModel
from support import models

from amem_integrations import ConfigurationError, MemoryConfig, NoteInput, NoteNotFoundError
from amem_integrations.testing import ScriptedModel

ANN, BOB, TEAM = ("user", "ann"), ("user", "bob"), ("team",)
WEEK = timedelta(days=7)
NOON = datetime(2031, 5, 8, 12, tzinfo=UTC)


def kept(note):
    return None if note.expires_at is None else note.expires_at - note.recorded_at


@pytest.fixture(autouse=True)
def noon(clock):
    clock(NOON)


def opened(ttl=WEEK, **settings):
    return models.opened(ttl=ttl, **settings)


def test_a_new_note_is_kept_for_the_ttl_however_it_is_added():
    end = NOON + timedelta(hours=1)
    with opened() as memory:
        messages = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]
        notes = [
            memory.add("The key is under the mat", namespace=ANN),
            asyncio.run(memory.aadd("The mat is red", namespace=ANN)),
            *memory.add_many(["a", NoteInput(content="b", key="k")], namespace=ANN),
            *memory.add_messages(messages, namespace=ANN, thread="t"),
        ]
        assert [kept(note) for note in notes] == [WEEK] * 6
        assert [kept(note) for note in memory.get_all(namespace=ANN)] == [WEEK] * 6
        assert memory.add("the code is 4711", namespace=ANN, expires_at=end).expires_at == end


def test_the_longest_prefix_of_the_namespace_counts():
    day, year = timedelta(days=1), timedelta(days=365)
    ttl = {("user",): day, ("user", "ann"): year, ("user", "bob"): None}
    with opened(ttl) as memory:
        spaces = [("user", "eve"), ANN, (*ANN, "work"), BOB, TEAM, ("users",)]
        found = [kept(memory.add("hello", namespace=space)) for space in spaces]
        assert found == [day, year, year, None, None, None]
    with opened({(): day, ("user",): year}) as memory:
        found = [kept(memory.add("hello", namespace=space)) for space in (TEAM, ANN)]
        assert found == [day, year]


def test_saying_or_correcting_it_again_does_not_prolong_it(clock):
    with opened() as memory:
        first = memory.add("Meet at 5", namespace=ANN, key="meeting")
        plain = memory.add("The door is red", namespace=ANN)
        clock(NOON + timedelta(days=3))
        again = memory.add("Meet at 6", namespace=ANN, key="meeting")
        assert (again.content, again.expires_at) == ("Meet at 6", first.expires_at)
        changed = memory.update(plain.id, namespace=ANN, content="The door is blue")
        assert changed.expires_at == plain.expires_at
        memory.update(plain.id, namespace=ANN, expires_at=None)
        assert memory.get(plain.id, namespace=ANN).expires_at is None
        memory.undo(memory.history(plain.id, namespace=ANN)[-1].id, namespace=ANN)
        assert memory.get(plain.id, namespace=ANN).expires_at == plain.expires_at
        memory.update(plain.id, namespace=ANN, expires_at=NOON)
        assert [note.id for note in memory.get_all(namespace=ANN)] == [first.id]


def test_what_is_said_again_after_it_expired_is_kept_for_the_ttl_from_then_on(clock):
    with opened() as memory:
        keyed = memory.add("Meet at 5", namespace=ANN, key="meeting")
        plain = memory.add("The door is red", namespace=ANN)
        clock(NOON + 2 * WEEK)
        assert memory.get_all(namespace=ANN) == []
        again = memory.add("Meet at 5", namespace=ANN, key="meeting")
        assert (again.id, again.expires_at.date()) == (keyed.id, (NOON + 3 * WEEK).date())
        assert memory.get(keyed.id, namespace=ANN) == again
        anew = memory.add("The door is red", namespace=ANN)
        assert (anew.id != plain.id, kept(anew)) == (True, WEEK)


@pytest.mark.parametrize("content", ["Meet at 4", "Meet at 5"])
def test_what_is_added_again_while_it_is_swept_is_a_new_note(clock, content):
    with opened() as memory, pytest.MonkeyPatch.context() as patch:
        memory.add("Meet at 4", namespace=ANN, key="meeting", speaker="Ann")
        clock(NOON + 2 * WEEK)
        store = memory._runtime.store

        def swept_first(*given):
            patch.undo()
            assert memory.sweep() == 1
            return store.swap_notes(*given)

        patch.setattr(store, "swap_notes", swept_first)
        note = memory.add(content, namespace=ANN, key="meeting")
        assert (note.content, note.speaker, kept(note)) == (content, None, WEEK)
        assert memory.get_all(namespace=ANN) == [note]


def test_what_expired_by_the_ttl_is_found_by_no_door_and_swept(clock):
    with opened({("user",): WEEK}) as memory:
        gone = memory.add("the code is 4711", namespace=ANN)
        for space in (BOB, (*BOB, "work")):
            memory.add("the code is 4712", namespace=space)
        stays = memory.add("the code of the team is 4713", namespace=TEAM)
        clock(NOON + WEEK + timedelta(seconds=1))
        assert memory.search("code", namespace=ANN) == []
        assert "4711" not in memory.context("code", namespace=ANN)
        for call in (memory.get, memory.delete, partial(memory.update, content="It is 1")):
            with pytest.raises(NoteNotFoundError):
                call(gone.id, namespace=ANN)
        later = [memory.add(text, namespace=ANN) for text in ("it was moved", "it is back")]
        shown = memory.get_all(namespace=ANN, limit=2)  # a page of which one has expired
        assert [note.id for note in shown] == [note.id for note in later]
        assert memory.stats(namespace=ANN)["notes"] == 3  # until it is swept
        assert memory.sweep(namespace=ANN) == 1
        assert memory.sweep() == 2
        assert (memory.sweep(), memory.namespaces()) == (0, sorted([ANN, TEAM]))
        assert [change.kind for change in memory.history(gone.id, namespace=ANN)] == ["delete"]
        assert memory.get(stays.id, namespace=TEAM) == stays


def test_a_ttl_that_cannot_be_used_is_refused_and_a_mapping_that_changes_later_changes_nothing():
    refused = [7, timedelta(0), timedelta(days=-1), timedelta.max, {("user",): 7}, {"user": WEEK}]
    refused += [{("user", ""): WEEK}, {("user", 1): WEEK}, {("user",): timedelta(0)}]
    for ttl in refused:
        with pytest.raises(ConfigurationError, match="ttl"):
            MemoryConfig(ttl=ttl)
    ttl = {("user",): WEEK}
    config = MemoryConfig(ttl=ttl)
    ttl["user",] = timedelta(days=-1)
    assert config.ttl_of(ANN) == WEEK


def test_an_item_of_a_store_of_langgraph_has_its_own_ttl_or_that_of_its_namespace(clock):
    from langchain_amem import AMemStore  # noqa: PLC0415 - needs LangGraph

    mine, theirs, now = ("memories",), ("others",), datetime.now(UTC)
    clock(now)
    with opened({mine: WEEK}) as memory:
        store = AMemStore(memory)
        store.put(mine, "own", {"text": "a"}, ttl=10)
        store.put(mine, "default", {"text": "b"})
        store.put(theirs, "none", {"text": "d"})
        wanted = {"own": timedelta(minutes=10), "default": WEEK}
        for key, time in wanted.items():
            assert abs(store.note(mine, key).expires_at - now - time) < timedelta(minutes=1), key
        assert store.note(theirs, "none").expires_at is None


# No door shows what has expired


def test_what_has_expired_is_shown_to_no_model(clock, open_memory):
    class City(BaseModel):
        city: str | None = None

    def fill(request):
        return {"value": {"city": request.inputs["notes"][0]["content"]}, "of": ["n1"]}

    model = ScriptedModel({"construct": models.construct, "evolve": models.nothing, "fill": fill})
    memory = open_memory(model)
    said = {"namespace": ANN, "thread": "t", "evolve": False}
    gone = memory.add("The code is 4711", expires_at=NOON + WEEK, **said)
    clock(NOON + WEEK)
    oslo = memory.add("I live in Oslo", **said)
    assert memory.get_all(namespace=ANN, limit=1) == [oslo]
    memory.construct([gone.id], namespace=ANN)
    assert memory.propose([gone.id], namespace=ANN).notes == ()
    memory.evolve()
    assert memory.work(once=True, poll=0.05).done == 0
    assert memory.fill(City, namespace=ANN) == City(city="I live in Oslo")
    assert not any("4711" in request.prompt for request in model.requests)


def test_a_graph_and_the_proposals_leave_out_what_has_expired(clock, open_memory):
    memory = open_memory(models.model(models.update_first("It was moved.")), review=True)
    april = memory.add("The trip is in April", namespace=ANN, thread="t")
    may = memory.add("Rather in May", namespace=ANN, thread="t")
    waiting = memory.proposals(namespace=ANN)
    link, proposal = sorted(waiting, key=lambda one: one.kind != "link")
    memory.approve(link.id, namespace=ANN)
    memory.update(april.id, namespace=ANN, expires_at=NOON + WEEK)
    clock(NOON + WEEK)
    assert memory.proposals(namespace=ANN) == []
    with pytest.raises(NoteNotFoundError):
        memory.approve(proposal.id, namespace=ANN)
    if find_spec("networkx"):
        assert list(memory.graph(namespace=ANN)) == [may.id]


def test_what_has_expired_takes_no_place_any_more(clock):
    with opened(None) as memory:
        home = memory.add("I live in Oslo", namespace=ANN)
        stay = {"supersedes": [home.id], "expires_at": NOON + WEEK}
        memory.add("I live in Rome for a week", namespace=ANN, **stay)
        for time, places in ((NOON, ["Rome", "Oslo"]), (NOON + 2 * WEEK, ["Oslo"])):
            clock(time)
            hits = memory.search("Where do I live?", namespace=ANN)
            assert [hit.note.content.split()[3] for hit in hits] == places
            assert (hits[-1].note.superseded_by is None) == (len(places) == 1)
            assert (memory.get(home.id, namespace=ANN).superseded_by is None) == (len(places) == 1)


def test_what_has_expired_is_not_brought_back_when_what_replaced_it_is_over(clock):
    with opened(None) as memory:
        end = NOON + WEEK
        home = memory.add("I live in Oslo", namespace=ANN, expires_at=end)
        memory.add("I live in Rome for a week", namespace=ANN, supersedes=[home.id], until=end)
        clock(end)
        (hit,) = memory.search("Where do I live?", namespace=ANN)
        assert (hit.note.content, hit.is_over) == ("I live in Rome for a week", True)
        assert "Oslo" not in memory.context("Where do I live?", namespace=ANN)
