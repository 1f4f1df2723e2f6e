"""Rules about writing: insert, replace, delete, and the history of changes."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np
import pytest
from support.stored import (
    ANN,
    BOB,
    NOW,
    change,
    full_note,
    item,
    link,
    note,
    note_id,
    unit,
)

from amem_integrations.errors import InvalidInputError, NamespaceError, StoreError
from amem_integrations.notes import Change
from amem_integrations.ports import Indexed, NoteStore, Query


def test_insert_returns_the_ids_that_were_new(store: NoteStore) -> None:
    assert store.insert(ANN, [item("a")], []) == {note_id("a")}
    assert store.insert(ANN, [item("a"), item("b")], []) == {note_id("b")}


def test_insert_leaves_stored_notes_as_they_are(store: NoteStore) -> None:
    store.insert(ANN, [item("a", [1], "pottery")], [])
    again = item("a", [0, 1], "chess", content="changed")
    store.insert(ANN, [again], [])
    assert store.get(ANN, [note_id("a")]) == [note("a")]
    (stored,) = store.get_indexed(ANN, [note_id("a")])
    assert np.allclose(stored.vector, unit(1))  # type: ignore[arg-type]


def test_insert_keeps_the_first_of_two_notes_with_one_id(store: NoteStore) -> None:
    twice = [item("a", content="first"), item("a", content="second")]
    assert store.insert(ANN, twice, []) == {note_id("a")}
    assert store.get(ANN, [note_id("a")])[0].content == "first"


def test_insert_records_no_change_of_a_note_that_was_there(store: NoteStore) -> None:
    store.insert(ANN, [item("a")], [change("1", "a")])
    store.insert(ANN, [item("a")], [change("2", "a")])
    assert store.changes(ANN) == [change("1", "a")]


def test_writing_nothing_is_allowed(store: NoteStore) -> None:
    assert store.insert(ANN, [], []) == set()
    assert store.replace(ANN, [], []) == set()
    store.delete(ANN, [], [])
    assert store.namespaces() == []


def test_every_field_of_a_note_comes_back_as_it_was(store: NoteStore) -> None:
    given = full_note("a")
    store.insert(ANN, [Indexed(note=given)], [])
    (found,) = store.get(ANN, [given.id])
    assert found == given
    assert repr(found.metadata) == repr(given.metadata)


def test_times_of_any_zone_come_back_as_the_same_moment(store: NoteStore) -> None:
    local = datetime(2026, 1, 1, 0, 30, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    store.insert(ANN, [item("a", at=local)], [])
    assert store.get(ANN, [note_id("a")])[0].at == local


def test_large_content_comes_back_whole(store: NoteStore) -> None:
    content = "ünïcode " * 100_000
    store.insert(ANN, [item("a", content=content)], [])
    assert store.get(ANN, [note_id("a")])[0].content == content


def test_a_note_that_cannot_be_stored_is_refused_whole(store: NoteStore) -> None:
    wrong: list[dict[str, Any]] = [
        {"id": "not-a-uuid"},
        {"id": note_id("a").upper()},
        {"content": "nul \0"},
        {"speaker": "half \ud83d"},
        {"at": datetime(2026, 1, 1)},  # noqa: DTZ001 - the point of it
        {"metadata": {"x": float("nan")}},
        {"metadata": {"x": datetime(2026, 1, 1)}},  # noqa: DTZ001
        {"metadata": {1: "x"}},
        {"metadata": {"x": {1, 2}}},
        {"metadata": {"x": 2**64}},
        {"links": {"nowhere": link()}},
    ]
    for bad in wrong:
        with pytest.raises(InvalidInputError):
            store.insert(ANN, [item("good"), item("bad", **bad)], [change("1", "good")])
        assert store.count(ANN) == 0
        assert store.changes(ANN) == []


def test_metadata_nested_too_deep_is_refused(store: NoteStore) -> None:
    deep: dict[str, Any] = {}
    for _ in range(200):
        deep = {"deeper": deep}
    with pytest.raises(InvalidInputError, match="metadata"):
        store.insert(ANN, [item("a", metadata=deep)], [])


def test_a_vector_of_wrong_shape_or_length_is_refused(store: NoteStore) -> None:
    for bad in ([1, 0, 0], [2, 0, 0, 0], [0, 0, 0, 0], [np.nan, 1, 0, 0]):
        wrong = Indexed(note=note("a"), vector=np.array(bad, dtype=np.float32))
        with pytest.raises(InvalidInputError, match="vector"):
            store.insert(ANN, [wrong], [])
        with pytest.raises(InvalidInputError, match="vector"):
            store.search(ANN, [Query(vector=wrong.vector)])


def test_a_note_of_another_namespace_is_refused(store: NoteStore) -> None:
    with pytest.raises(NamespaceError):
        store.insert(BOB, [item("a")], [])
    with pytest.raises(NamespaceError):
        store.insert(BOB, [], [change("1", "a")])


def test_replace_writes_the_next_revision(store: NoteStore) -> None:
    store.insert(ANN, [item("a")], [])
    new = item("a", revision=1, ops=("op",), content="new")
    assert store.replace(ANN, [new], []) == set()
    assert store.get(ANN, [note_id("a")]) == [new.note]


@pytest.mark.parametrize("bad", ["stale", "gone"])
def test_replace_of_a_batch_with_a_stale_note_writes_nothing_or_on_a_server_the_others(
    store: NoteStore, bad: str
) -> None:
    store.insert(ANN, [item("a"), item("stale", revision=5)], [])
    names, remote = ("a", bad), store.remote
    versions = [item(name, revision=1, ops=("op",), content="new") for name in names]
    recorded = [change(name, name) for name in (*names, "c")]
    written = ["a", "c"] if remote else []
    unwritten = {note_id(name) for name in names if name not in written}
    assert store.replace(ANN, versions, recorded) == unwritten
    assert store.get(ANN, [note_id("a")]) == [versions[0].note if remote else note("a")]
    assert store.get(ANN, [note_id("stale")]) == [note("stale", revision=5)]
    assert {made.op for made in store.changes(ANN)} == {f"op {name}" for name in written}
    assert store.replace(ANN, versions[:1], recorded[:1]) == set()
    assert store.get(ANN, [note_id("a")]) == [versions[0].note]


def test_replace_again_by_the_same_operation_succeeds(store: NoteStore) -> None:
    store.insert(ANN, [item("a")], [])
    new = item("a", revision=1, ops=("op",))
    assert store.replace(ANN, [new], []) == set()
    assert store.replace(ANN, [new], []) == set()
    other = item("a", revision=1, ops=("other",))
    assert store.replace(ANN, [other], []) == {note_id("a")}


def test_replace_without_vector_or_text_keeps_those_stored(store: NoteStore) -> None:
    store.insert(ANN, [item("a", [1, 2], "pottery")], [])
    store.replace(ANN, [item("a", revision=1)], [])
    store.replace(ANN, [item("a", text="chess", revision=2)], [])
    store.replace(ANN, [item("a", [1, 2], revision=3)], [])
    asked = [Query(vector=unit(1, 2), text="chess"), Query(text="pottery")]
    first, second = store.search(ANN, asked)
    assert [note for note, _ in first.dense] == [note_id("a")]
    assert first.dense[0][1] == pytest.approx(1, abs=1e-5)
    assert [note for note, _ in first.lexical] == [note_id("a")]
    assert list(second.lexical) == []


def test_replace_with_an_empty_text_takes_the_vector_away(store: NoteStore) -> None:
    store.insert(ANN, [item("a", [1, 2], "pottery")], [])
    store.replace(ANN, [item("a", text="", revision=1)], [])
    (found,) = store.search(ANN, [Query(vector=unit(1, 2), text="pottery")])
    assert list(found.dense) == list(found.lexical) == []
    assert store.get_indexed(ANN, [note_id("a")])[0].vector is None


def test_replace_refuses_two_versions_of_one_note(store: NoteStore) -> None:
    store.insert(ANN, [item("a")], [])
    with pytest.raises(InvalidInputError):
        store.replace(ANN, [item("a", revision=1), item("a", revision=2)], [])


def test_delete_removes_notes_and_the_changes_about_them_but_receipts(store: NoteStore) -> None:
    receipt = change("gone", "a", kind="delete")
    changes = [change("a", "a"), change("b", "b")]
    store.insert(ANN, [item("a", [1], "x"), item("b", [1], "x")], changes)
    store.delete(ANN, [note_id("a"), note_id("unknown"), "no id"], [receipt])
    assert store.get(ANN, [note_id("a"), note_id("b")]) == [note("b")]
    (found,) = store.search(ANN, [Query(vector=unit(1), text="x")])
    assert [hit for hit, _ in (*found.dense, *found.lexical)] == [note_id("b")] * 2
    assert {made.op for made in store.changes(ANN)} == {"op b", "op gone"}


def test_delete_leaves_mentions_as_they_are(store: NoteStore) -> None:
    caused = change("caused", "b", kind="evolve", cause=note_id("a"), data={"text": "secret"})
    shown = change("shown", "b", number=1, data={"shown": [note_id("a")], "text": "secret"})
    store.insert(ANN, [item("a"), item("b")], [caused, shown])
    store.delete(ANN, [note_id("a")], [])
    assert store.changes(ANN) == [caused, shown]


def test_delete_leaves_notes_of_which_one_was_changed_since_it_was_read(store: NoteStore) -> None:
    a, b = note_id("a"), note_id("b")
    receipts = [change("gone a", "a", kind="delete"), change("gone b", "b", kind="delete")]
    store.insert(ANN, [item("a"), item("b")], [change("a", "a"), change("b", "b")])
    store.replace(ANN, [item("a", revision=1)], [])
    if not store.remote:
        stay = store.delete(ANN, [a, b], receipts, revisions={a: 0, b: 0})
        assert stay == {a, b} == {made.id for made in store.get(ANN, [a, b])}
        assert {made.op for made in store.changes(ANN)} == {"op a", "op b"}
    assert store.delete(ANN, [a, b], receipts, revisions={a: 1, b: 0}) == set()
    assert store.get(ANN, [a, b]) == []
    assert {made.op for made in store.changes(ANN)} == {"op gone a", "op gone b"}


def test_an_id_of_another_namespace_cannot_be_inserted_and_is_named(store: NoteStore) -> None:
    store.insert(ANN, [item("a")], [change("1", "a")])
    taken, free = item("a", namespace=BOB), item("b", namespace=BOB)
    with pytest.raises(StoreError, match=note_id("a")):
        store.insert(BOB, [taken, free], [])
    assert store.namespaces() == [ANN]
    assert store.get(ANN, [note_id("a")]) == [note("a")]


def test_closing_twice_is_allowed(store: NoteStore) -> None:
    store.flush()
    store.close()
    store.close()


def test_changes_come_back_as_they_were_oldest_first(store: NoteStore) -> None:
    recorded = [
        change("2", "b", number=2, kind="evolve", cause=note_id("a"), model="m"),
        change("1", "a", number=1, data={"was": {"content": "Zoë 🏺", "n": "1"}, "list": []}),
    ]
    store.replace(ANN, [], recorded)
    assert store.changes(ANN) == [recorded[1], recorded[0]]
    assert store.changes(ANN, note_id=note_id("b")) == [recorded[0]]
    assert store.changes(ANN, note_id=note_id("nobody")) == []


def test_a_limit_on_changes_keeps_the_latest(store: NoteStore) -> None:
    recorded = [change(str(n), "a", number=n) for n in range(5)]
    store.replace(ANN, [], recorded)
    assert store.changes(ANN, limit=2) == recorded[3:]


def test_changes_are_read_on_after_a_seq_to_the_nanosecond(store: NoteStore) -> None:
    recorded = [change(str(n), "ab"[n % 2], number=n) for n in range(250)]
    store.replace(ANN, [], recorded)
    seen: list[Change] = []
    after = -1
    while page := store.changes(ANN, after=after, limit=99):
        seen += page
        after = page[-1].seq
    assert seen == recorded
    assert store.changes(ANN, note_id=note_id("b"), after=recorded[200].seq) == recorded[201::2]
    assert store.changes(ANN, after=recorded[-1].seq) == []


def test_changes_of_some_kinds_only(store: NoteStore) -> None:
    recorded = [
        change(kind, "a", number=number, kind=kind)
        for number, kind in enumerate(("add", "construct", "link", "proposal"))
    ]
    store.replace(ANN, [], recorded)
    assert store.changes(ANN, kinds=("proposal", "add")) == [recorded[0], recorded[3]]
    assert store.changes(ANN, kinds=("proposal", "add"), limit=1) == [recorded[3]]
    assert store.changes(ANN, kinds=("delete",)) == []


def test_changes_are_found_by_id_in_the_order_asked_for(store: NoteStore) -> None:
    recorded = [change(str(n), "a", number=n) for n in range(3)]
    store.replace(ANN, [], recorded)
    ids = [recorded[2].id, "no id", "", recorded[0].id]
    assert store.changes_by_id(ANN, ids) == [recorded[2], recorded[0]]
    assert store.changes_by_id(ANN, []) == []
    assert store.changes_by_id(BOB, ids) == []


def test_changes_are_found_by_their_operation_oldest_first(store: NoteStore) -> None:
    made = [change(str(n), "ab"[n % 2], number=n, op=f"op {n % 3}") for n in range(9)]
    store.replace(ANN, [], made[::-1])
    wanted = [each for each in made if each.op in ("op 0", "op 2")]
    assert store.changes_by_op(ANN, ["op 2", "op 0", "op 7"]) == wanted
    assert store.changes_by_op(ANN, []) == []


def test_all_changes_of_an_operation_are_found_however_many(store: NoteStore) -> None:
    made = [change(str(n), "a", number=n, op="one") for n in range(600)]
    store.replace(ANN, [], made)
    assert store.changes_by_op(ANN, ["one"]) == made


def test_mentions_are_changes_about_others_caused_by_a_note_or_made_when_it_was_shown(
    store: NoteStore,
) -> None:
    a, b = note_id("a"), note_id("b")
    about_itself = change("own", "a", cause=a, data={"shown": [a, b]})
    caused = change("caused", "c", number=1, cause=a)
    shown = change("shown", "c", number=2, data={"shown": [note_id("x"), b], "shows": a})
    other = change("other", "c", number=3, cause=note_id("c"), data={"shown": []})
    prompt = change("prompt", "c", number=4, kind="prompt")
    store.replace(ANN, [], [prompt, other, shown, caused, about_itself])
    kinds = (about_itself.kind,)
    assert store.mentions(ANN, [a], about=kinds) == [about_itself, caused]
    assert store.mentions(ANN, [a], about=("undo",)) == [caused]
    assert store.mentions(ANN, [a]) == [caused]
    assert store.mentions(ANN, [b]) == [about_itself, shown]
    assert store.mentions(ANN, [a, b, "no id"]) == [caused, shown]
    assert store.mentions(ANN, ["no id"]) == store.mentions(ANN, []) == []
    assert store.mentions(BOB, [a, b]) == []
    assert store.mentions(ANN, [a], prompts_after=other.seq) == [caused, prompt]
    assert store.mentions(ANN, [a], prompts_after=prompt.seq) == [caused]
    assert store.mentions(ANN, [], prompts_after=0) == [prompt]
    assert store.mentions(BOB, [a], prompts_after=0) == []


def test_a_stored_change_can_be_rewritten_and_an_unknown_one_is_not_added(store: NoteStore) -> None:
    recorded = change("1", "a", cause=note_id("b"), data={"text": "secret"})
    store.replace(ANN, [], [recorded])
    blank = replace(recorded, cause=None, data={"text": ""})
    store.rewrite_changes(ANN, [blank, change("2", "a")])
    assert store.changes(ANN) == [blank]
    assert store.mentions(ANN, [note_id("b")]) == []
    store.rewrite_changes(ANN, [])


def test_clear_removes_everything_of_a_namespace_but_receipts_and_what_was_spent(
    store: NoteStore,
) -> None:
    for space in (ANN, BOB):
        given = item(f"of {space}", [1], "x", namespace=space)
        recorded = replace(change("recorded", f"of {space}"), namespace=space)
        store.insert(space, [given], [recorded])
    earlier = change("earlier", "gone", kind="delete", number=1)
    store.delete(ANN, [note_id("gone")], [earlier])
    spent = change("spent", "", kind="usage", note_id="", number=2, data={"day": "2024-05-08"})
    store.replace(ANN, [], [spent])
    receipt = change("all", "", kind="clear", note_id="", number=3)
    store.clear(ANN, [receipt])
    assert store.count(ANN) == 0
    assert store.changes(ANN) == [earlier, spent, receipt]
    assert store.namespaces() == [BOB]
    assert len(store.changes(BOB)) == store.count(BOB) == 1


def test_a_change_written_twice_is_there_once(store: NoteStore) -> None:
    store.replace(ANN, [], [change("1", "a")])
    store.replace(ANN, [], [change("1", "a")])
    assert store.changes(ANN) == [change("1", "a")]


def test_changes_of_two_namespaces_may_share_an_id(store: NoteStore) -> None:
    theirs = replace(change("1", "a"), namespace=BOB, recorded_at=NOW + timedelta(days=1))
    store.replace(ANN, [], [change("1", "a")])
    store.replace(BOB, [], [theirs])
    assert store.changes(ANN) == [change("1", "a")]
    assert store.changes(BOB) == [theirs]
