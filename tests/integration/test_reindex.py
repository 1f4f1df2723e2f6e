"""A memory as a file, as a graph, in another place, with another embedder."""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import getitem

import pytest
from support import models
from support.ports import WatchedEmbedder
from support.qdrant_server import FakeQdrant, serving

from amem_integrations import NoteInput, errors
from amem_integrations.conversation import Message
from amem_integrations.flows.transfer import whole_file
from amem_integrations.reindex import reindex
from amem_integrations.testing import HashEmbedder, ScriptedModel

ANN, BOB = ("ann",), ("bob", "work")
TIME = datetime(2024, 5, 7, tzinfo=UTC)
HEADER = {"format": "amem-integrations", "version": 2, "namespace": ["ann"]}
KINDS = ("note", "decision", "call")
UUID = "00000000-0000-4000-8000-000000000001"
TIED = {"content": "a", "recorded_at": "2026-01-01T00:00:00Z", "id": UUID}
LINKED = [["t", 1, 1, {"links": {}}]]
NO_EXPORTS = [
    ([], "no export"),
    ([{}], "no export"),
    (["nonsense"], "line 1"),
    ([{**HEADER, "version": 99}], "newer version"),
    ([{**HEADER, "version": 1}], "older version"),
    ([HEADER, {"note": {"id": 5}}], "line 2"),
    ([HEADER, {"something": {}}], "line 2"),
    ([HEADER, []], "line 2"),
    ([HEADER, "[" * 100_000], "line 2"),
    ([HEADER, "\udcff"], "line 2"),  # a byte that is not UTF-8
    ([HEADER, {"decision": {"id": "x"}}], "line 2"),
    ([HEADER, {"call": {"id": "x", "by": "m", "seq": "then"}}], "line 2"),
    ([HEADER, {"note": {**TIED, "seq": 1, "earlier": LINKED}}], "line 2.*no links"),
    ([HEADER, {"note": {**TIED, "seq": 2**63 - 1}}], "line 2.*no times"),
    ([HEADER, {"note": {**TIED, "seq": 1, "thorough": 2**62}}], "line 2.*no times"),
    ([HEADER, {"call": {"id": UUID, "by": "m", "seq": 2**62}}], "line 2.*no times"),
    ([HEADER, {"call": {"id": UUID, "by": "m", "seq": 1, "shown": [[UUID, 2**70]]}}], "line 2"),
]


def opened(location=":memory:", embedder=None):
    model = models.model(models.update_first("It was moved to Mày 🏺.", tags=("plans",)))
    return models.opened(location, model, embedder)


def fill(memory, namespace=ANN):
    """Notes with everything in them: links, evolution, metadata, updates, corrections, undone changes, a tombstone."""
    of, said = {"namespace": namespace}, {"namespace": namespace, "thread": "t"}
    first = memory.add('The trip is in "April"\n', metadata={"a": [1, 1.0, None]}, **said)
    memory.add("The trip is in May now", key="m2", speaker="Zoë", **said)
    third = memory.add("Never mind", **said)
    home = memory.add("I live in Bergen", evolve=False, **of)
    memory.update(home.id, content="I live in Oslo", **of)
    memory.update(first.id, metadata={"b": {"x:y": "z"}}, **of)
    memory.undo(next(c.id for c in memory.history(third.id, **of) if c.kind == "link"), **of)
    memory.delete(memory.add("Forget it", **of).id, **of)


def content(memory, namespace=ANN):
    """The notes, and their history without what tombstones tell."""
    notes = memory.get_all(namespace=namespace, limit=1000)
    changes = memory.history(None, namespace=namespace)
    return notes, [change for change in changes if change.kind != "delete"]


def views(memory, namespace=ANN):
    """What notes show, whatever their ids and wordings are numbered by."""
    notes = memory.get_all(namespace=namespace, limit=1000)
    place = {note.id: n for n, note in enumerate(notes)}
    return [
        (
            *(note.content, note.metadata, note.state),
            [(entry.text, entry.tags, place[entry.cause]) for entry in note.contexts],
            sorted((place[i], link.reason, link.direction) for i, link in note.links.items()),
            [place[i] for i in note.supersessions],
        )
        for note in notes
    ]


# export and import


@pytest.fixture
def filled(tmp_path):
    """A filled memory of Ann's, and the file that it was exported to."""
    with opened() as memory:
        fill(memory)
        assert memory.export(tmp_path / "ann.jsonl", namespace=ANN) == 4
        yield memory, tmp_path / "ann.jsonl"


def test_what_is_exported_and_imported_is_the_same_in_another_engine(filled, tmp_path):
    source, file = filled
    times = {"at": TIME, "until": TIME, "expires_at": TIME.replace(year=9999)}
    page = NoteInput(content="A page", origin="document", source="import", **times)
    (made,) = source.add_many([page], namespace=ANN)
    source.update(made.id, namespace=ANN, content="Another page", thorough=True)
    for n in range(30):  # of more calls than are read at once
        source.add(f"The trip, part {n}", namespace=ANN, thread="t")
    source.export(file, namespace=ANN)
    with opened(tmp_path / "m") as target:
        assert target.import_(file, namespace=ANN) == 35
        assert content(target) == content(source)
        there, here = (m._runtime.store.notes(ANN, [made.id])[made.id] for m in (source, target))
        assert there.thorough == here.thorough > 0
        for query in ("trip", "Oslo", "plans"):
            found, again = (m.search(query, namespace=ANN) for m in (source, target))
            assert [hit.note for hit in found] == [hit.note for hit in again] != []
        target.export(tmp_path / "again.jsonl", namespace=ANN)
        assert (tmp_path / "again.jsonl").read_text() == file.read_text()
        changes = target.history(None, namespace=ANN)
        evolved = [c for c in changes if c.kind == "evolve" and c.state == "on"][-1]
        target.undo(evolved.id, namespace=ANN)


def test_the_export_of_an_empty_memory_is_imported_as_one(tmp_path):
    with opened() as source, opened() as target:
        assert source.export(tmp_path / "all") == 0
        assert target.import_(tmp_path / "all") == 0
        assert target.import_(tmp_path / "all", namespace=ANN) == 0
        assert target.namespaces() == []


def test_what_a_model_failed_at_is_imported_as_failed(tmp_path):
    for task in ("construct", "evolve"):
        answers = {"construct": models.construct, task: "no JSON"}
        with models.opened(model=ScriptedModel(answers)) as source:
            notes = [source.add(f"The trip is in {n}", namespace=ANN) for n in ("May", "June")]
            assert notes[-1].state == "failed"
            source.export(tmp_path / task, namespace=ANN)
            with models.opened(model=ScriptedModel(answers)) as target:
                assert target.import_(tmp_path / task, namespace=ANN) == len(notes)
                assert content(target) == content(source)


def test_importing_again_changes_nothing_and_leaves_what_is_newer(filled, tmp_path):
    memory, file = filled
    memory.update(memory.get_all(namespace=ANN)[0].id, namespace=ANN, content="Newer")
    before = content(memory)
    memory.import_(file, namespace=ANN)
    assert content(memory) == before
    # An id of another namespace is refused, and its note stays.
    text = file.read_text(encoding="utf-8").replace('["ann"]', '["eve"]')
    (tmp_path / "eve.jsonl").write_text(text.replace("Oslo", "Rome"), encoding="utf-8")
    with pytest.raises(errors.StoreError, match="another namespace"):
        memory.import_(tmp_path / "eve.jsonl")
    assert (content(memory), memory.namespaces()) == (before, [ANN])


def test_what_was_deleted_or_cleared_comes_back_by_an_import_with_what_was_decided_about_it(filled):
    memory, file = filled
    memory.supersede(*[n.id for n in memory.get_all(namespace=ANN)[:2]], namespace=ANN)
    memory.export(file, namespace=ANN)
    before = views(memory)
    # The tombstone of the note has been collected, or is still there.
    for time in (datetime.now(UTC) + timedelta(days=2), TIME):
        memory.delete(memory.get_all(namespace=ANN)[2].id, namespace=ANN)
        memory._runtime.store.remove_tombstones(ANN, time)
        memory.import_(file, namespace=ANN)
        assert views(memory) == before
    memory.clear(namespace=ANN)
    assert memory.import_(file, namespace=ANN) == 4
    assert views(memory) == before
    after = content(memory)
    memory.import_(file, namespace=ANN)
    assert content(memory) == after
    memory.delete(memory.get_all(namespace=ANN)[0].id, namespace=ANN)
    assert "April" not in repr(content(memory))


def lines_of(file):
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def write(file, lines):
    file.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")


def test_what_was_made_of_a_text_that_is_not_in_the_file_is_not_imported(tmp_path):
    path = tmp_path / "cut.jsonl"
    with opened() as memory:
        first = memory.add("The trip is in April", namespace=ANN)
        memory.add("The trip is in May now", namespace=ANN)
        memory.export(path, namespace=ANN)
        assert "moved" in memory.get(first.id, namespace=ANN).contexts[-1].text
    write(path, [m for m in lines_of(path) if "now" not in m.get("note", {}).get("content", "")])
    with opened() as memory:
        assert memory.import_(path, namespace=ANN) == 1
        (note,) = memory.get_all(namespace=ANN)
        assert (len(note.contexts), note.links) == (1, {})


def test_an_import_into_another_namespace_gets_ids_of_that_one(filled):
    memory, file = filled
    before = content(memory)
    memory.import_(file, namespace=BOB)
    assert content(memory) == before
    assert views(memory, BOB) == views(memory)
    mine, yours = memory.get_all(namespace=ANN), memory.get_all(namespace=BOB)
    inside = {note.id for note in yours}
    assert not {note.id for note in mine} & inside
    assert all(set(note.links) <= inside for note in yours)
    assert {e.cause for note in yours for e in note.contexts} <= inside
    assert memory.add("The trip is in May now", namespace=BOB, key="m2").id in inside
    made = [c for c in memory.history(None, namespace=BOB) if c.kind == "undo"][-1]
    memory.undo(made.id, namespace=BOB)
    assert content(memory) == before


def test_an_import_into_another_namespace_knows_again_what_was_said_again_after_a_correction(
    tmp_path,
):
    tea, moved = "I like tea", "I moved to Oslo"
    with opened() as memory:
        first = memory.add(moved, namespace=ANN)
        memory.add(tea, namespace=ANN)
        for corrected in (False, True):
            if corrected:
                memory.update(first.id, namespace=ANN, content="I moved to Rome")
                memory.add(moved, namespace=ANN)
            memory.export(tmp_path / "ann", namespace=ANN)
            memory.import_(tmp_path / "ann", namespace=BOB)
        memory.import_(tmp_path / "ann", namespace=("eve",))
        for space, said in (
            (BOB, [moved, tea, moved]),
            (("eve",), ["I moved to Rome", tea, moved]),
        ):
            memory.add_many([moved, tea], namespace=space)
            assert [note.content for note in memory.get_all(namespace=space)] == said


def test_a_file_that_is_no_export_is_a_clear_error(tmp_path):
    path = tmp_path / "bad.jsonl"
    with opened() as memory:
        for rows, message in NO_EXPORTS:
            lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
            path.write_text("".join(f"{line}\n" for line in lines), errors="surrogateescape")
            with pytest.raises(errors.InvalidInputError, match=message):
                memory.import_(path, namespace=ANN)
        for space in (ANN, BOB):
            memory.add("I moved to Oslo.", namespace=space)
        memory.export(path)
        with pytest.raises(errors.InvalidInputError, match="holds 2 namespaces"):
            memory.import_(path, namespace=("eve",))
        assert memory.namespaces() == [ANN, BOB]
        for call in (memory.export, memory.import_):
            for wrong in ("ann", (), ("",)):
                with pytest.raises(errors.NamespaceError):
                    call(path, namespace=wrong)


def test_an_export_that_breaks_off_leaves_the_file_as_it_was(tmp_path):
    path, other = tmp_path / "out.jsonl", tmp_path / "out.jsonl.tmp"  # which is somebody else's
    path.write_text("before", encoding="utf-8")
    other.write_text("of another", encoding="utf-8")

    def breaks_off():
        with whole_file(path) as file:
            file.write("half")
            file.flush()
            assert path.read_text(encoding="utf-8") == "before"
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        breaks_off()
    said = {file: file.read_text(encoding="utf-8") for file in tmp_path.iterdir()}
    assert said == {path: "before", other: "of another"}


def test_an_export_is_for_no_other_eyes_than_the_file_before(filled, tmp_path):
    memory, path = filled
    path.write_text("before", encoding="utf-8")
    path.chmod(0o600)
    memory.export(path, namespace=ANN)
    assert path.stat().st_mode & 0o777 == 0o600


def test_an_export_goes_where_a_link_leads_and_into_a_pipe(filled, tmp_path):
    memory, path = filled
    link, pipe = tmp_path / "link", tmp_path / "pipe"
    link.symlink_to("out.jsonl")
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    for goal in (link, pipe):
        memory.export(goal, namespace=ANN)
    written = (tmp_path / "out.jsonl").read_bytes()
    assert link.is_symlink()
    assert os.read(reader, 1_000_000) == written == path.read_bytes()
    os.close(reader)


def test_of_a_file_with_a_record_that_makes_no_view_or_cannot_be_stored_nothing_is_imported(filled):
    _, path = filled
    text = path.read_text(encoding="utf-8")
    deep = json.loads('{"deeper":' * 50 + "{}" + "}" * 50)
    data = {"relation": None, "strength": "strong", "keywords": 7, "tags": [1], "until": "then"}
    item = [("text", "a\0b"), ("text", "a\ud83d"), ("to", "x"), ("sources", [["x", 1]])]
    damages = [
        *(("decision", ["items", 0, "data", name], value) for name, value in data.items()),
        *(("decision", ["items", 0, name], value) for name, value in item),
        ("decision", ["id"], "x"),
        ("decision", ["at"], "0001-01-01T00:00:00+14:00"),
        ("call", ["by"], "a\0b"),
        ("call", ["shown"], [["x", 1]]),
        ("note", ["content"], "a\0b"),
        ("note", ["id"], "x"),
        ("note", ["metadata"], deep),
        ("note", ["metadata"], {"n": 2**70}),
        ("note", ["earlier"], [["t", 1, 1, {"speaker": "a\0b"}]]),
    ]
    with opened() as memory:
        for kind, (*steps, last), value in damages:
            lines = list(map(json.loads, text.splitlines()))
            number, damaged = [(n, one) for n, one in enumerate(lines, 1) if kind in one][-1]
            reduce(getitem, steps, damaged[kind])[last] = value
            write(path, lines)
            with pytest.raises(errors.InvalidInputError, match=f"line {number} of "):
                memory.import_(path)
            assert memory.stats()["notes"] == 0, (kind, steps, last)


def test_notes_that_stand_twice_in_a_file_or_are_numbered_alike_are_imported_and_read_once(filled):
    _, file = filled
    lines = lines_of(file)
    notes = [line["note"] for line in lines if "note" in line]
    twice = [*lines, *({"note": note} for note in notes)]
    alike = [
        {"note": line["note"] | {"seq": notes[0]["seq"]}} if "note" in line else line
        for line in lines
    ]
    for rows in (twice, alike):
        write(file, rows)
        with opened() as memory:
            memory.import_(file)
            after, found = 0, []
            while page := memory.get_all(namespace=ANN, where={"seq": {"$gt": after}}, limit=2):
                found += [note.content for note in page]
                after = page[-1].seq
        assert len(found) == len(set(found)) == 4


def test_what_is_added_after_an_import_is_later_than_all_that_was_imported(filled):
    _, file = filled
    lines = lines_of(file)
    for record in (one for line in lines for kind, one in line.items() if kind in KINDS):
        record["seq"] += 10**18  # nanoseconds, some thirty years
    write(file, lines)
    with opened() as memory:
        memory.import_(file)
        memory.add("said now", namespace=ANN, evolve=False)
        assert memory.get_all(namespace=ANN)[-1].content == "said now"


# graph


def test_a_graph_has_notes_as_nodes_and_links_as_edges(filled, monkeypatch):
    memory, _ = filled
    graph, notes = memory.graph(namespace=ANN), memory.get_all(namespace=ANN)
    assert list(graph.nodes) == [note.id for note in notes]
    assert graph.nodes[notes[1].id]["speaker"] == "Zoë"
    assert list(graph.edges) == [(notes[1].id, notes[0].id)]
    assert graph.edges[notes[1].id, notes[0].id]["reason"] == "goes on with it"
    assert len(memory.graph(namespace=BOB)) == 0
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(errors.MissingExtraError, match="cli"):
        memory.graph(namespace=ANN)


# reindex

OTHER = HashEmbedder(dimensions=32, name="other")


def test_reindex_in_place_gives_every_note_a_vector():
    embedder = WatchedEmbedder()
    with opened(embedder=embedder) as memory:
        embedder.down = True
        memory.add_many([f"note {n}" for n in range(70)], namespace=ANN, evolve=False)
        assert memory.search("note", namespace=ANN)[0].similarity is None
        embedder.down, steps = False, []
        assert memory.reindex(progress=lambda *step: steps.append(step)) == 70
        assert steps == [(64, 70), (70, 70)]
        hits = memory.search("note", namespace=ANN, k=70)
        assert all(hit.similarity is not None for hit in hits)


def test_reindex_with_another_embedder_keeps_everything_else(tmp_path, monkeypatch):
    with opened(tmp_path) as memory:
        fill(memory)
        fill(memory, BOB)
        before = content(memory), content(memory, BOB)
        with monkeypatch.context() as down:
            down.setattr(memory._runtime.store, "insert_notes", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                memory.remember_turn([Message(role="user", text="Later.")], namespace=("eve",))
        spent = memory.stats()["usage"]
        assert memory.reindex(OTHER) == 8
        assert (content(memory), content(memory, BOB)) == before
        assert memory.stats()["usage"] == spent
        memory.remember_turn([], namespace=("eve",))  # what waited follows
        assert [note.content for note in memory.get_all(namespace=("eve",))] == ["Later."]
        memory.clear(namespace=("eve",))
        assert memory.search("trip", namespace=ANN)[0].similarity is not None
        memory.add("Written with the new embedder", namespace=ANN)
    with pytest.raises(errors.EmbedderMismatchError):
        opened(tmp_path)
    with opened(tmp_path, OTHER) as memory:
        before = content(memory)
        assert len(before[0]) == 5
    third = HashEmbedder(dimensions=16, name="third")
    assert reindex(tmp_path, third) == 9  # by its place, for the embedder may be gone
    with opened(tmp_path, third) as memory:
        assert content(memory) == before
    assert [path.name for path in tmp_path.iterdir()] == ["amem"]


def test_an_interrupted_reindex_leaves_the_old_collection_and_nothing_else(tmp_path):
    class Flaky(HashEmbedder):
        left = 2

        def embed_documents(self, texts):
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt
            return super().embed_documents(texts)

    with opened(tmp_path) as memory:
        memory.add_many([f"note {n}" for n in range(200)], namespace=ANN, evolve=False)
        with pytest.raises(KeyboardInterrupt):
            memory.reindex(Flaky(dimensions=32, name="other"))
        assert [path.name for path in tmp_path.iterdir()] == ["amem"]
        # It is as before, and can be used.
        memory.add("added meanwhile", namespace=ANN, evolve=False)
        before = content(memory)
        assert memory.reindex(OTHER) == 201
        assert content(memory) == before


def test_a_reindex_with_what_is_no_embedder_is_refused_and_changes_nothing(tmp_path):
    with opened(tmp_path) as memory:
        note = memory.add("It was moved to May.", namespace=ANN)
        with pytest.raises(errors.ConfigurationError, match="embed_documents"):
            memory.reindex("minilm")
        assert memory.get(note.id, namespace=ANN) == note
    for embedder in (None, HashEmbedder(32, name="other")):
        with pytest.raises(errors.StoreClosedError):
            memory.reindex(embedder)
    with pytest.raises(errors.ConfigurationError, match="embed_documents"):
        reindex(tmp_path, "minilm")


def test_a_reindex_takes_records_and_tombstones_along_and_leaves_what_was_deleted(tmp_path):
    with opened(tmp_path) as memory:
        gone = memory.add("SECRET-TEXT", namespace=ANN)
        memory.delete(gone.id, namespace=ANN)
        memory.add("cleared", namespace=BOB)
        memory.clear(namespace=BOB)
        before = memory.usage(), memory.history(gone.id, namespace=ANN)
        assert all(before)
        memory.reindex(OTHER)
        assert (memory.usage(), memory.history(gone.id, namespace=ANN)) == before
        assert memory.info()["deleted_bytes"] == 0
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(b"SECRET-TEXT" in path.read_bytes() for path in files)
    with opened() as memory, pytest.raises(errors.ConfigurationError, match="export"):
        memory.reindex(OTHER)
    with pytest.raises(errors.ConfigurationError, match="export"):
        reindex("http://localhost:6333", OTHER)
    with pytest.raises(errors.StoreError, match="there is no memory in"):
        reindex(tmp_path / "none", OTHER)
    assert not (tmp_path / "none" / "amem").exists()


# a whole memory


@pytest.mark.enable_socket
def test_a_whole_memory_moves_from_a_folder_to_a_server_and_back(tmp_path):
    there, back = tmp_path / "there.jsonl", tmp_path / "back.jsonl"
    spaces = (ANN, BOB, ("eve",))

    def whole(memory):
        costs = memory.usage(), memory.usage(namespace=("eve",))
        return [content(memory, space) for space in spaces], costs

    with opened(tmp_path / "a") as memory:
        fill(memory)
        corrected = memory.add("It is at five", namespace=BOB)
        memory.update(corrected.id, namespace=BOB, content="It is at six")
        memory.add("cleared", namespace=("eve",))
        memory.clear(namespace=("eve",))
        before, found = whole(memory), memory.search("trip", namespace=ANN)
        assert all(before[1])
        assert memory.export(there) == 5
    with serving(FakeQdrant()) as fake, opened(fake.url) as memory:
        steps = []
        assert memory.import_(there, progress=lambda *step: steps.append(step)) == 5
        assert steps[-1] == (5, 5)
        memory.export(back)
    assert sorted(back.read_text().splitlines()) == sorted(there.read_text().splitlines())
    with opened(tmp_path / "b", OTHER) as memory:
        for _ in range(2):
            assert memory.import_(back) == 5
            assert whole(memory) == before
        again = memory.search("trip", namespace=ANN)
        assert {hit.note.id for hit in again} == {hit.note.id for hit in found}
        assert all(hit.similarity is not None for hit in again)


# optimize


def test_optimize_changes_no_answer(tmp_path):
    def notes(memory):
        return [hit.note for hit in memory.search("7", namespace=ANN)]

    with opened(tmp_path) as memory:
        items = [NoteInput(content=f"note {n} of {n % 7}", key=str(n)) for n in range(300)]
        memory.add_many(items, namespace=ANN, evolve=False)
        before = notes(memory)
        assert memory.optimize() in (True, False)
        assert notes(memory) == before != []
        memory.add("still written to", namespace=ANN)
