"""The pure side of taking things back: any change, turned round twice, is as if nothing had been."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.notes import NOON, make_entry, make_id, make_link, make_note

from amem_integrations.changes import edits
from amem_integrations.changes import undo as undoing
from amem_integrations.changes.edits import change
from amem_integrations.errors import RevisionConflictError
from amem_integrations.evolution import construct
from amem_integrations.kinds import kind_of
from amem_integrations.prompts.replies import NoteAttributes

OTHER = make_id(10**6)
texts = st.text(max_size=10)
links = st.builds(
    make_link,
    reason=texts,
    strength=st.floats(0, 1),
    direction=st.sampled_from(["out", "in"]),
)
times = st.none() | st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=9))]))
values = st.dictionaries(texts, st.none() | st.integers() | st.lists(texts), max_size=2)


@st.composite
def notes(draw):
    """A note with something in every field that a change can touch."""
    said = {"at": draw(times), "speaker": draw(st.none() | texts)}
    content = draw(texts)
    said["kind"] = kind_of(content)
    bare = make_note(content, metadata=draw(values), state="done", **said)
    own = [make_entry("own", bare.id, change="own")] if draw(st.booleans()) else []
    later = [
        make_entry(str(n), OTHER, change=f"e{n}", recorded_at=NOON + timedelta(seconds=n))
        for n in range(draw(st.integers(0, 3)))
    ]
    linked = {OTHER: draw(links)} if draw(st.booleans()) else {}
    return bare.revised(contexts=(*own, *later), links=linked)


def names(note):
    later = [f"entry:{entry.change}" for entry in note.contexts if entry.cause != note.id]
    return [*edits.GIVEN, "own", f"link:{OTHER}", "entry:new", *later]


def through_history(made):
    """The change as it comes back from a store."""
    return replace(made, data=json.loads(json.dumps(made.data)))


@given(notes())
def test_putting_a_field_as_it_is_changes_nothing(note):
    for name in names(note):
        assert undoing.with_field(note, name, edits.field_value(note, name)) == note


@given(notes())
def test_a_field_that_was_emptied_is_put_back_in_its_place(note):
    for name in names(note)[len(edits.GIVEN) :]:
        held = json.loads(json.dumps(edits.field_value(note, name)))
        assert undoing.with_field(undoing.with_field(note, name, None), name, held) == note


@given(links)
def test_a_link_seen_from_its_other_end_and_back_is_the_same(link):
    held = edits.link_json(link)
    assert undoing.mirrored(undoing.mirrored(held)) == held
    assert undoing.mirrored(held)["direction"] != link.direction


def undone(note, made):
    """The note with a change undone, and the record of it."""
    revised, (record,) = undoing.undo(made, f"undo {made.op}", NOON)(note)
    return revised, through_history(record)


@given(
    notes(),
    st.fixed_dictionaries(
        {}, optional={"content": texts, "speaker": texts, "at": times, "metadata": values}
    ),
)
def test_an_update_is_undone_and_redone_exactly(note, new):
    updated, records = edits.update("op", NOON, new)(note)
    assert {name: getattr(updated, name) for name in new} == new
    if not records:
        assert updated == note
        return
    before, record = undone(updated, through_history(records[0]))
    if note.own_entry is None and edits.stated(updated) != edits.stated(note):
        note = note.revised(state="pending")
    assert before == note
    again, record = undone(before, record)
    assert again == updated
    assert undone(again, record)[0] == before


@given(notes())
def test_a_construction_is_undone_and_redone_exactly(note):
    raw = undoing.with_field(note, "own", None).revised(state="pending")
    attributes = NoteAttributes(id="n1", context="c", keywords=["k"], tags=["t"])
    described = construct.Described(attributes=attributes, kind="statement")
    constructed, (made,) = construct.apply(described, raw, model="m", op="op", at=NOON)(raw)
    before, record = undone(constructed, through_history(made))
    assert before == raw
    assert undone(before, record)[0] == constructed


@given(notes())
def test_a_dropped_link_is_undone_and_redone_exactly(note):
    dropped, records = edits.drop_link(OTHER, "op", NOON)(note)
    for made in records:
        before, record = undone(dropped, through_history(made))
        assert before == note
        assert undone(before, record)[0] == dropped


def test_a_link_recorded_without_its_times_can_still_be_restored():
    note = make_note()
    data = {"target": OTHER, "relation": "r", "reason": "w", "strength": 0.5}
    made = change("op", "unlink", note, cause=OTHER, recorded_at=NOON, data=data)
    restored, _ = undone(note, made)
    assert restored.links[OTHER] == make_link(relation="r", reason="w")


def test_what_another_writer_has_just_put_there_is_not_lost():
    note = make_note("A")
    updated, (made,) = edits.update("op", NOON, {"content": "B"})(note)
    with pytest.raises(RevisionConflictError, match=made.id):
        undoing.undo(made, "undo", NOON)(updated.revised(content="C"))
