"""The history, and taking things back, one by one or all that a model did."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
from support import models
from support.ports import fail_once

from amem_integrations import NoteInput, errors
from amem_integrations.flows.writing import change_note
from amem_integrations.notes import Attempts
from amem_integrations.testing import ScriptedModel

ANN, BOB = ("ann",), ("bob",)
SAID = ("The trip is in April", "The trip is in May now", "The trip goes to Rome")
WHOLE = ["About The trip is in April", "It was moved to May."]


@pytest.fixture
def evolved(open_memory):
    """A memory with two notes, linked, and the first evolved by the second."""
    memory = open_memory(models.model(models.update_first(WHOLE[1], tags=("plans",))))
    first, second = (memory.add(text, namespace=ANN, thread="t") for text in SAID[:2])
    return memory, first.id, second.id


def get(memory, *ids):
    return [memory.get(note_id, namespace=ANN) for note_id in ids]


def last(memory, note_id, kind):
    return [c for c in memory.history(note_id, namespace=ANN) if c.kind == kind][-1]


@pytest.mark.on_a_server
def test_history_is_oldest_first_and_of_one_note(evolved):
    memory, first, second = evolved
    changes = memory.history(first, namespace=ANN)
    told = [(change.kind, change.note_id) for change in changes]
    assert told == [("add", first), ("construct", first), ("link", second), ("evolve", first)]
    assert [change.at for change in changes] == sorted(change.at for change in changes)
    kinds = [change.kind for change in memory.history(second, namespace=ANN)]
    assert kinds == ["add", "construct", "link"]
    everything = memory.history(None, namespace=ANN)
    assert {change.id for change in everything} >= {change.id for change in changes}
    assert [c.kind for c in everything if c.note_id == first] == ["add", "construct", "evolve"]


def test_a_change_says_what_by_whom_and_whether_it_holds(evolved):
    memory, first, second = evolved
    _, made, link, evolve = memory.history(first, namespace=ANN)
    assert {made.by, link.by, evolve.by} == {"scripted"}
    assert (made.before, made.state, made.after["context"]) == ({}, "on", WHOLE[0])
    assert (evolve.after["context"], evolve.after["tags"]) == (WHOLE[1], ["plans"])
    assert evolve.after["cause"] == second
    said = {"relation": "continues", "reason": "goes on with it", "strength": 0.8}
    assert link.after == {"to": first, **said}
    decision, *_ = made.id.split(":")
    # An id that no change has is told from a text that is gone.
    for unknown in (decision, f"{decision}:0:0123456789abcdef"):
        with pytest.raises(errors.NoteNotFoundError, match="there is no change"):
            memory.undo(unknown, namespace=ANN)
    memory.undo(link.id, namespace=ANN)
    assert last(memory, first, "link").state == "off"
    undone = last(memory, first, "undo")
    assert (undone.by, undone.before) == ("user", {"state": "on"})
    assert undone.after == {"change": link.id, "state": "off"}
    memory.update(first, namespace=ANN, metadata={"n": 1}, content="The trip is off")
    update = last(memory, first, "update")
    assert (update.by, update.before) == ("user", {"metadata": {}, "content": SAID[0]})
    assert update.after == {"metadata": {"n": 1}, "content": "The trip is off"}
    # What was made of the old words is void, shows no text, and cannot be had again.
    (made,) = [c for c in memory.history(first, namespace=ANN) if c.kind == "construct"]
    assert (made.state, made.by, made.before, made.after) == ("void", "scripted", {}, {})
    with pytest.raises(errors.InvalidInputError, match="quoted"):
        memory.undo(made.id, namespace=ANN)


def test_the_newest_twenty_edits_of_a_note_are_kept(memory):
    note = memory.add("0", namespace=ANN, evolve=False)
    for number in range(1, 31):
        memory.update(note.id, namespace=ANN, metadata={"n": number})
    changes = memory.history(note.id, namespace=ANN)
    assert [change.kind for change in changes] == ["add", *["update"] * 20]
    assert [change.after["metadata"]["n"] for change in changes[1:]] == list(range(11, 31))
    assert changes[1].before["metadata"] == {"n": 10}


# Undo


@pytest.mark.on_a_server
@pytest.mark.parametrize("kind", ["construct", "evolve", "link"])
def test_undo_takes_back_what_a_change_did_and_undoing_that_brings_it_back(evolved, kind):
    memory, first, second = evolved
    before = get(memory, first, second)
    made = last(memory, first, kind)
    undone = memory.undo(made.id, namespace=ANN)
    assert (undone.kind, undone.note_id) == ("undo", second if kind == "link" else first)
    note, other = get(memory, first, second)
    if kind == "construct":
        assert (note.own_entry, note.state, len(note.contexts)) == (None, "pending", 1)
    if kind == "evolve":
        assert ([entry.text for entry in note.contexts], note.tags) == (WHOLE[:1], ("topic",))
        hits = memory.search("moved plans", namespace=ANN, links=False, explain=True)
        assert {hit.note.id: hit.why.lexical_rank for hit in hits}[first] is None
    if kind == "link":
        assert (dict(note.links), dict(other.links)) == ({}, {})
    again = memory.undo(undone.id, namespace=ANN)
    assert get(memory, first, second) == before
    memory.undo(again.id, namespace=ANN)
    assert get(memory, first, second) == [note, other]
    flips = [made for made in memory.history(first, namespace=ANN) if made.kind == "undo"]
    assert [made.state for made in flips] == ["off", "off", "on"]
    with pytest.raises(errors.RevisionConflictError, match=flips[-1].id):
        memory.undo(undone.id, namespace=ANN)  # it was set again since


def test_an_edit_is_undone_by_its_id_also_where_its_token_is_a_number(memory, monkeypatch):
    numbers = count()
    monkeypatch.setattr("os.urandom", lambda size: bytes.fromhex(f"{next(numbers):0{2 * size}d}"))
    note = memory.add("We meet on Monday.", namespace=ANN)
    memory.update(note.id, namespace=ANN, content="We meet on Tuesday.")
    *_, edit = (c for c in memory.history(note.id, namespace=ANN) if c.kind == "update")
    memory.undo(edit.id, namespace=ANN)
    assert memory.get(note.id, namespace=ANN).content == "We meet on Monday."


def test_undo_of_an_update_brings_back_the_values_and_has_the_note_made_anew(evolved):
    memory, first, _ = evolved
    memory.update(first, namespace=ANN, content="The trip is off", metadata={"city": "Rome"})
    memory.evolve(namespace=ANN)
    assert memory.get(first, namespace=ANN).own_entry.text == "About The trip is off"
    undone = memory.undo(last(memory, first, "update").id, namespace=ANN)
    assert (undone.kind, undone.after["content"]) == ("update", SAID[0])
    note = memory.get(first, namespace=ANN)
    assert (note.content, note.metadata) == (SAID[0], {})
    assert (note.state, note.own_entry) == ("pending", None)
    memory.evolve(namespace=ANN)
    assert memory.get(first, namespace=ANN).own_entry.text == WHOLE[0]
    memory.undo(undone.id, namespace=ANN)
    note = memory.get(first, namespace=ANN)
    assert (note.content, note.metadata) == ("The trip is off", {"city": "Rome"})


def test_an_undone_construction_is_made_anew_or_had_again(evolved):
    memory, first, _ = evolved
    made = last(memory, first, "construct")
    memory.undo(made.id, namespace=ANN)
    assert memory.evolve(namespace=ANN).done == (first,)
    new = memory.get(first, namespace=ANN).own_entry.change
    assert new != made.id
    for shown in (made.id, new):  # the one that was switched on last shows
        memory.undo(made.id, namespace=ANN)
        assert memory.get(first, namespace=ANN).own_entry.change == shown


def test_undo_names_the_later_change_of_the_same_field(evolved):
    memory, first, _ = evolved
    memory.update(first, namespace=ANN, content="B")
    one = last(memory, first, "update")
    memory.update(first, namespace=ANN, content="C")
    two = last(memory, first, "update")
    with pytest.raises(errors.RevisionConflictError, match=two.id):
        memory.undo(one.id, namespace=ANN)
    assert memory.get(first, namespace=ANN).content == "C"
    # Once that one is undone, it stands in the way no more; what touched other fields never did.
    memory.update(first, namespace=ANN, metadata={"city": "Rome"})
    memory.undo(two.id, namespace=ANN)
    undone = memory.undo(one.id, namespace=ANN)
    note = memory.get(first, namespace=ANN)
    assert (note.content, note.metadata) == (SAID[0], {"city": "Rome"})
    with pytest.raises(errors.RevisionConflictError, match=undone.id):
        memory.undo(one.id, namespace=ANN)


def test_what_cannot_be_undone_says_what_to_do_instead(open_memory):
    construct = ["no json", "no json", *[models.construct] * 9]
    memory = open_memory(models.model(models.update_first("word " * 61), construct))
    notes = [memory.add(text, namespace=ANN, thread="t") for text in ("one", "two", "three", "4")]
    waiting, other, *_ = memory.proposals(namespace=ANN)
    rejected = memory.reject(other.id, namespace=ANN)
    memory.delete(notes[3].id, namespace=ANN)
    (failed, *_) = [c for c in memory.history(notes[0].id, namespace=ANN) if c.state == "failed"]
    for made, advice in (
        (last(memory, notes[1].id, "add"), r"delete\(\)"),
        (failed, r"evolve\(\)"),
        (waiting, r"approve\(\) or reject\(\)"),
        (rejected, r"approve\(\) the proposal"),
        (last(memory, notes[3].id, "delete"), "gone for good"),
    ):
        with pytest.raises(errors.InvalidInputError, match=advice):
            memory.undo(made.id, namespace=ANN)


def test_an_undo_that_another_one_overtakes_is_done_too(evolved, monkeypatch):
    memory, first, _ = evolved
    sentence, link = (last(memory, first, kind) for kind in ("evolve", "link"))
    assert sentence.id.partition(":")[0] == link.id.partition(":")[0]  # of one decision
    store = memory._runtime.store

    def overtaken(space, swaps):
        monkeypatch.undo()
        memory.undo(link.id, namespace=ANN)
        return store.swap_records(space, swaps)

    monkeypatch.setattr(store, "swap_records", overtaken)
    memory.undo(sentence.id, namespace=ANN)
    states = {change.id: change.state for change in memory.history(first, namespace=ANN)}
    assert (states[sentence.id], states[link.id]) == ("off", "off")


def test_a_note_is_known_in_the_wording_of_each_time(memory, clock):
    note = memory.add("It is to be said", namespace=ANN, evolve=False)
    times = [datetime(2031, 5, 8, hour, tzinfo=UTC) for hour in range(3)]
    for number, time in enumerate(times):
        clock(time)
        given = {"content": f"It is {number}", "metadata": {"n": number}}
        memory.update(note.id, namespace=ANN, **given)
    for number, time in enumerate(times):
        known = memory.get(note.id, namespace=ANN, known_at=time + timedelta(minutes=1))
        assert (known.content, known.metadata) == (f"It is {number}", {"n": number})


def test_what_was_on_at_a_time_is_known_then_whatever_was_switched_since(evolved):
    memory, first, second = evolved
    times = [datetime.now(UTC)]

    def known(time):
        note = memory.get(first, namespace=ANN, known_at=time)
        return [entry.text for entry in note.contexts], list(note.links), note.superseded_by

    assert known(times[0]) == (WHOLE, [second], None)
    kinds = ("evolve", "link")
    undone = [memory.undo(last(memory, first, kind).id, namespace=ANN) for kind in kinds]
    times.append(datetime.now(UTC))
    memory.undo(last(memory, first, "construct").id, namespace=ANN)
    memory.supersede(first, second, namespace=ANN)
    times.append(datetime.now(UTC))
    memory.undo(undone[0].id, namespace=ANN)
    assert known(times[0]) == (WHOLE, [second], None)
    assert known(times[1]) == (WHOLE[:1], [], None)
    assert known(times[2]) == ([], [], second)
    assert known(None) == (WHOLE[1:], [], second)


def test_clear_removes_everything_of_one_namespace_and_nothing_of_another(evolved):
    memory, _, second = evolved
    mine = memory.add("Bob's", namespace=BOB)
    memory.delete(second, namespace=ANN)
    memory.clear(namespace=ANN)
    assert memory.get_all(namespace=ANN) == memory.search("trip", namespace=ANN) == []
    assert memory.namespaces() == [BOB]
    left = memory.history(None, namespace=ANN)
    assert [change.kind for change in left] == ["delete", "delete"]
    assert memory.get(mine.id, namespace=BOB) == mine
    assert [c.kind for c in memory.history(mine.id, namespace=BOB)] == ["add", "construct"]
    memory.clear(namespace=ANN)
    assert memory.add(SAID[0], namespace=ANN).state == "done"


# All that a model did

BARE = ({}, {}, (), "pending")


def named(name, evolve=models.supersede_first):
    return ScriptedModel({"construct": models.construct, "evolve": evolve}, name=name)


@pytest.fixture
def good():
    """A memory of three notes, made, linked, evolved and superseded by the model `good`."""
    with models.opened(model=named("good"), batch_size=2) as memory:
        memory.add_many(SAID, namespace=ANN)
        assert memory.get_all(namespace=ANN)[0].superseded_by is not None
        yield memory


def state(memory):
    """The notes, but for which attempt comes next."""
    notes = memory.get_all(namespace=ANN)
    return [dataclasses.replace(note, next_attempts=Attempts()) for note in notes]


def bare(notes):
    return [(dict(n.links), dict(n.supersessions), n.contexts, n.state) for n in notes]


def agree(memory):
    """Both ends of every link hold it, unless one has room for stronger ones only."""
    notes, most = {n.id: n for n in memory.get_all(namespace=ANN)}, memory.config.max_links
    ends = [(i, notes[target].links) for i, note in notes.items() for target in note.links]
    return all(i in links or len(links) == most for i, links in ends)


def test_all_that_a_model_did_is_taken_back_last_first_and_can_be_had_again(good):
    good.add(SAID[0], namespace=BOB)
    before, bobs = state(good), good.get_all(namespace=BOB)
    assert good.undo(model="nobody", namespace=ANN).undone == ()
    links = [c.id for c in good.history(None, namespace=ANN) if c.kind == "link"]
    good.undo(good.undo(links[0], namespace=ANN).id, namespace=ANN)
    assert state(good) == before
    report = good.undo(model="good", namespace=ANN)
    without, history = state(good), good.history(None, namespace=ANN)
    assert bare(without) == [BARE] * 3
    assert [note.content for note in without] == list(SAID)
    made = {change.id: change for change in history}
    taken = [made[i] for i in report.undone]
    assert {one.kind for one in taken} == {"construct", "link", "evolve", "supersede"}
    assert taken == sorted(taken, key=lambda one: one.at, reverse=True)
    assert {made[i].kind for i in report.changes} == {"undo"}
    assert (len(report.undone), report.skipped) == (len(report.changes), {})
    twice = good.undo(model="good", namespace=ANN)
    assert (twice.undone, twice.changes, twice.skipped) == ((), (), {})
    assert good.history(None, namespace=ANN) == history
    again = good.undo(report.changes, namespace=ANN)
    assert state(good) == before
    assert (set(again.undone), again.skipped) == (set(report.changes), {})
    again = good.undo(model="good", namespace=ANN)
    assert (state(good), again.skipped) == (without, {})
    for change_id in reversed(again.changes):
        good.undo(change_id, namespace=ANN)
        assert agree(good)
    assert state(good) == before
    assert good.get_all(namespace=BOB) == bobs


def test_several_changes_are_taken_back_texts_too_whatever_their_order(good):
    first, second, third = before = state(good)
    good.update(first.id, namespace=ANN, content="The trip is in June", metadata={"n": 1})
    good.update(first.id, namespace=ANN, content="The trip is in July")
    good.update(second.id, namespace=ANN, metadata={"n": 2})
    ids = [c.id for c in good.history(None, namespace=ANN) if c.kind == "update"]
    link = next(c.id for c in good.history(third.id, namespace=ANN) if c.kind == "link")
    report = good.undo([*ids, link], namespace=ANN)
    assert len(report.undone) == 3 + 1
    assert [note.content for note in state(good)] == list(SAID)
    assert [note.metadata for note in state(good)] == [note.metadata for note in before]
    assert agree(good)
    good.undo(report.changes, namespace=ANN)
    assert state(good)[0].content == "The trip is in July"
    assert good.get(second.id, namespace=ANN).links.keys() == second.links.keys()


@pytest.mark.parametrize("moment", ["before", "after", "conflict"])
def test_an_edit_of_a_note_that_goes_while_it_is_undone_is_skipped(evolved, monkeypatch, moment):
    memory, first, second = evolved
    for one in (first, second):
        memory.update(one, namespace=ANN, content="B")
    ids = [last(memory, one, "update").id for one in (first, second)]
    if moment == "conflict":
        memory.update(second, namespace=ANN, content="C")

    async def change(writer, note_id, *given, **options):
        if moment == "before" and note_id == second:
            memory.delete(second, namespace=ANN)
        try:
            return await change_note(writer, note_id, *given, **options)
        finally:
            if moment != "before" and note_id == second:
                memory.delete(second, namespace=ANN)

    monkeypatch.setattr("amem_integrations.flows.history.change_note", change)
    report = memory.undo(ids, namespace=ANN)
    assert (report.undone, list(report.skipped)) == ((ids[0],), [ids[1]])
    assert memory.get(first, namespace=ANN).content == SAID[0]


def test_if_one_of_several_can_never_be_undone_none_is(good):
    before = state(good)
    ids = [change.id for change in good.history(before[0].id, namespace=ANN)]
    with pytest.raises(errors.InvalidInputError, match="delete"):
        good.undo(ids, namespace=ANN)
    for arguments in (
        {},
        {"change_id": "00000000-0000-4000-8000-000000000001", "model": "good"},
        {"since": datetime(2024, 5, 8)},  # noqa: DTZ001 - without a zone
        {"since": "yesterday"},
    ):
        with pytest.raises(errors.InvalidInputError):
            good.undo(**arguments, namespace=ANN)
    assert good.undo([], namespace=ANN).undone == ()
    assert state(good) == before
    link = next(c.id for c in good.history(None, namespace=ANN) if c.kind == "link")
    report = good.undo([link, link], namespace=ANN)
    after = state(good)
    assert (report.undone, len(report.changes)) == ((link,), 1)
    assert good.undo([link], namespace=ANN).undone == ()  # what is off already stays off
    assert state(good) == after


def test_only_what_was_done_since_a_time_is_taken_back(good):
    before, count = state(good), len(good.history(None, namespace=ANN))
    good.add("The trip is off", namespace=ANN)
    assert state(good)[:3] != before
    _, *made = good.history(None, namespace=ANN)[count:]
    since = min(change.at for change in made)  # the moment of the first of them counts
    assert len(good.undo(since=since, namespace=ANN).undone) == len(made)
    assert bare(state(good)) == [*bare(before), BARE]
    assert good.undo(since=since + timedelta(hours=1), namespace=ANN).undone == ()


def test_what_the_user_corrected_or_superseded_afterwards_is_left(good):
    first, second, third = state(good)
    good.supersede(second.id, third.id, namespace=ANN)
    good.update(first.id, namespace=ANN, content="The trip was never planned")
    report = good.undo(model="good", namespace=ANN)
    note = good.get(first.id, namespace=ANN)
    assert (note.content, dict(note.links)) == ("The trip was never planned", {})
    assert report.skipped == {}  # what was made of the old text is void already
    assert list(good.get(second.id, namespace=ANN).supersessions) == [third.id]
    assert good.undo(since=datetime(2024, 5, 8, tzinfo=UTC), namespace=ANN).undone == ()


def test_what_an_upgrade_has_switched_off_is_passed_over_until_that_is_taken_back(tmp_path):
    with models.opened(tmp_path) as memory:
        memory.add_many([NoteInput(content=text, thread="t") for text in SAID], namespace=ANN)
        by_rules = state(memory)
        assert any(note.links for note in by_rules)
    better = named("better", models.update_first("More is said of it."))
    with models.opened(tmp_path, better, batch_size=2) as memory:
        memory.evolve(namespace=ANN, upgrade=True)
        before = state(memory)
        report = memory.undo(model="rules", namespace=ANN)
        assert (state(memory), report.undone, report.skipped) == (before, (), {})
        memory.undo(model="better", namespace=ANN)
        assert memory.undo(model="better", namespace=ANN).skipped == {}
        now = state(memory)
        assert [(n.contexts, n.links) for n in now] == [(n.contexts, n.links) for n in by_rules]
        assert memory.undo(model="rules", namespace=ANN).skipped == {}
        assert bare(state(memory)) == [BARE] * 3
        assert len(memory.evolve(namespace=ANN).done) == 3  # by the model there is
        assert {note.attributes_source for note in state(memory)} == {"better"}


def test_what_a_reviewer_approved_stays_and_open_proposals_are_rejected(open_memory):
    memory = open_memory(named("good"), batch_size=2, review=True)
    memory.add_many(SAID, namespace=ANN)
    assert memory.undo(since=datetime.now(UTC), namespace=ANN).rejected == ()
    one, *others = memory.proposals(namespace=ANN)
    made = memory.approve(one.id, namespace=ANN)
    report = memory.undo(model="good", namespace=ANN)
    assert set(report.skipped) >= {made.id}
    assert set(report.skipped.values()) == {"a reviewer approved it"}
    assert set(report.rejected) == {proposal.id for proposal in others}
    assert memory.proposals(namespace=ANN) == []
    assert memory.undo(model="good", namespace=ANN).rejected == ()


def test_after_a_kill_it_goes_on_where_it_was(tmp_path):
    memory = models.opened(tmp_path, named("good", models.link_to_first), batch_size=8)
    memory.add_many([f"The trip, part {n}" for n in range(40)], namespace=ANN)
    fail_once(memory._runtime.store._records, "swap", after=2, error=KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        memory.undo(model="good", namespace=ANN)
    memory._runtime.store.close()
    with models.opened(tmp_path, named("good")) as memory:
        assert agree(memory)
        undone = [c for c in memory.history(None, namespace=ANN) if c.kind == "undo"]
        rest = memory.undo(model="good", namespace=ANN)
        assert 0 < len(undone) < 40 + 39
        assert (len(undone) + len(rest.undone), rest.skipped) == (40 + 39, {})
        assert bare(state(memory)) == [BARE] * 40
