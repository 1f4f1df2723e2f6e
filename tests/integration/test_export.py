"""The file of an export: whole or not at all, in an order that can be read once, and damaged without harm."""

from __future__ import annotations

import json
from contextlib import ExitStack

import pytest
from support import models

from amem_integrations import AgenticMemory, InvalidInputError
from amem_integrations.flows.transfer import whole_file
from amem_integrations.testing import HashEmbedder

ANN = ("ann",)


def opened():
    return AgenticMemory.open(
        ":memory:", model=models.model(models.link_to_first), embedder=HashEmbedder()
    )


def test_an_export_that_breaks_off_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "out.jsonl"
    path.write_text("before", encoding="utf-8")
    writing = ExitStack()
    file = writing.enter_context(whole_file(path))
    file.write("half")
    file.flush()
    assert path.read_text(encoding="utf-8") == "before"
    assert not writing.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert path.read_text(encoding="utf-8") == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_of_a_damaged_file_nothing_is_imported_and_the_line_is_named(tmp_path):
    path = tmp_path / "out.jsonl"
    with opened() as memory:
        memory.add_many([f"the trip, day {n}" for n in range(3)], namespace=ANN)
        memory.export(path, namespace=ANN)
    lines = path.read_text(encoding="utf-8").splitlines()
    newer = json.dumps({**json.loads(lines[0]), "version": 99})
    for number, damaged in [(3, '{"note": {"id": 7}}'), (4, '{"other": 1}'), (1, newer)]:
        broken = tmp_path / "broken.jsonl"
        broken.write_text("\n".join([*lines[: number - 1], damaged, *lines[number:]]), "utf-8")
        said = "version 99" if number == 1 else f"line {number} of "
        with opened() as memory:
            with pytest.raises(InvalidInputError, match=said):
                memory.import_(broken)
            assert memory.stats()["notes"] == 0


def test_notes_that_a_file_numbers_alike_are_all_read_on(tmp_path):
    path = tmp_path / "out.jsonl"
    with opened() as memory:
        memory.add_many([f"the trip, day {n}" for n in range(5)], namespace=ANN, evolve=False)
        memory.export(path, namespace=ANN)
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for line in lines[1:]:
        line["note"]["seq"] = lines[1]["note"]["seq"]
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    with opened() as memory:
        memory.import_(path)
        after, found = 0, list[str]()
        while page := memory.get_all(namespace=ANN, where={"seq": {"$gt": after}}, limit=2):
            found += [note.content for note in page]
            after = page[-1].seq
    assert found == [f"the trip, day {n}" for n in range(5)]
