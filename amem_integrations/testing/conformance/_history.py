"""Rules about the history, and about removing all of it."""
# ruff: noqa: S101 - asserting is what a test does

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from ...notes import Change
from ...ports import NoteStore
from ._builders import ANN, BOB, NOW, StoreRules, change, done, item, note_id


class HistoryRules(StoreRules):
    """What a store promises about changes."""

    def test_changes_come_back_as_they_were_oldest_first(self, store: NoteStore) -> None:
        recorded = [
            change("2", "b", number=2, kind="evolve", cause=note_id("a"), model="m"),
            change("1", "a", number=1, data={"was": {"content": "Zoë 🏺", "n": "1"}, "list": []}),
        ]
        done(store.replace(ANN, [], recorded))
        assert done(store.changes(ANN)) == [recorded[1], recorded[0]]
        assert done(store.changes(ANN, note_id=note_id("b"))) == [recorded[0]]
        assert done(store.changes(ANN, note_id=note_id("nobody"))) == []

    def test_a_limit_on_changes_keeps_the_latest(self, store: NoteStore) -> None:
        recorded = [change(str(n), "a", number=n) for n in range(5)]
        done(store.replace(ANN, [], recorded))
        assert done(store.changes(ANN, limit=2)) == recorded[3:]

    def test_changes_are_read_on_after_a_seq_to_the_nanosecond(self, store: NoteStore) -> None:
        recorded = [change(str(n), "ab"[n % 2], number=n) for n in range(250)]
        done(store.replace(ANN, [], recorded))
        seen: list[Change] = []
        after = -1
        while page := done(store.changes(ANN, after=after, limit=99)):
            seen += page
            after = page[-1].seq
        assert seen == recorded
        assert (
            done(store.changes(ANN, note_id=note_id("b"), after=recorded[200].seq))
            == recorded[201::2]
        )
        assert done(store.changes(ANN, after=recorded[-1].seq)) == []

    def test_changes_of_some_kinds_only(self, store: NoteStore) -> None:
        recorded = [
            change(kind, "a", number=number, kind=kind)
            for number, kind in enumerate(("add", "construct", "link", "proposal"))
        ]
        done(store.replace(ANN, [], recorded))
        assert done(store.changes(ANN, kinds=("proposal", "add"))) == [recorded[0], recorded[3]]
        assert done(store.changes(ANN, kinds=("proposal", "add"), limit=1)) == [recorded[3]]
        assert done(store.changes(ANN, kinds=("delete",))) == []

    def test_changes_are_found_by_id_in_the_order_asked_for(self, store: NoteStore) -> None:
        recorded = [change(str(n), "a", number=n) for n in range(3)]
        done(store.replace(ANN, [], recorded))
        ids = [recorded[2].id, "no id", "", recorded[0].id]
        assert done(store.changes_by_id(ANN, ids)) == [recorded[2], recorded[0]]
        assert done(store.changes_by_id(ANN, [])) == []
        assert done(store.changes_by_id(BOB, ids)) == []

    def test_changes_are_found_by_their_operation_oldest_first(self, store: NoteStore) -> None:
        made = [change(str(n), "ab"[n % 2], number=n, op=f"op {n % 3}") for n in range(9)]
        done(store.replace(ANN, [], made[::-1]))
        wanted = [each for each in made if each.op in ("op 0", "op 2")]
        assert done(store.changes_by_op(ANN, ["op 2", "op 0", "op 7"])) == wanted
        assert done(store.changes_by_op(ANN, [])) == []

    def test_all_changes_of_an_operation_are_found_however_many(self, store: NoteStore) -> None:
        made = [change(str(n), "a", number=n, op="one") for n in range(600)]
        done(store.replace(ANN, [], made))
        assert done(store.changes_by_op(ANN, ["one"])) == made

    def test_mentions_are_changes_about_others_caused_by_a_note_or_made_when_it_was_shown(
        self, store: NoteStore
    ) -> None:
        a, b = note_id("a"), note_id("b")
        about_itself = change("own", "a", cause=a, data={"shown": [a, b]})
        caused = change("caused", "c", number=1, cause=a)
        shown = change("shown", "c", number=2, data={"shown": [note_id("x"), b], "shows": a})
        other = change("other", "c", number=3, cause=note_id("c"), data={"shown": []})
        done(store.replace(ANN, [], [other, shown, caused, about_itself]))
        assert done(store.mentions(ANN, [a])) == [caused]
        assert done(store.mentions(ANN, [b])) == [about_itself, shown]
        assert done(store.mentions(ANN, [a, b, "no id"])) == [caused, shown]
        assert done(store.mentions(ANN, ["no id"])) == done(store.mentions(ANN, [])) == []
        assert done(store.mentions(BOB, [a, b])) == []

    def test_a_stored_change_can_be_rewritten_and_an_unknown_one_is_not_added(
        self, store: NoteStore
    ) -> None:
        recorded = change("1", "a", cause=note_id("b"), data={"text": "secret"})
        done(store.replace(ANN, [], [recorded]))
        blank = replace(recorded, cause=None, data={"text": ""})
        done(store.rewrite_changes(ANN, [blank, change("2", "a")]))
        assert done(store.changes(ANN)) == [blank]
        assert done(store.mentions(ANN, [note_id("b")])) == []
        done(store.rewrite_changes(ANN, []))

    def test_clear_removes_everything_of_a_namespace_but_receipts(self, store: NoteStore) -> None:
        for space in (ANN, BOB):
            given = item(f"of {space}", [1], "x", namespace=space)
            recorded = replace(change("recorded", f"of {space}"), namespace=space)
            done(store.insert(space, [given], [recorded]))
        earlier = change("earlier", "gone", kind="delete", number=1)
        done(store.delete(ANN, [note_id("gone")], [earlier]))
        receipt = change("all", "", kind="clear", note_id="", number=2)
        done(store.clear(ANN, [receipt]))
        assert done(store.count(ANN)) == 0
        assert done(store.changes(ANN)) == [earlier, receipt]
        assert done(store.namespaces()) == [BOB]
        assert len(done(store.changes(BOB))) == done(store.count(BOB)) == 1

    def test_a_change_written_twice_is_there_once(self, store: NoteStore) -> None:
        done(store.replace(ANN, [], [change("1", "a")]))
        done(store.replace(ANN, [], [change("1", "a")]))
        assert done(store.changes(ANN)) == [change("1", "a")]

    def test_changes_of_two_namespaces_may_share_an_id(self, store: NoteStore) -> None:
        theirs = replace(change("1", "a"), namespace=BOB, recorded_at=NOW + timedelta(days=1))
        done(store.replace(ANN, [], [change("1", "a")]))
        done(store.replace(BOB, [], [theirs]))
        assert done(store.changes(ANN)) == [change("1", "a")]
        assert done(store.changes(BOB)) == [theirs]
