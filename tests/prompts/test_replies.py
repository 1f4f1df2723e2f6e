"""Replies that name wrong notes, too few, or some twice, and what a memory stores of them.

`tests/data/replies_about_notes.jsonl` holds the replies in turn, and how many entries are dropped and replies rejected. To
those about two new notes belong the contexts after them (null: the note is failed), to those about one new note after one
turn the reason of its link (null: the note only follows).
"""

from __future__ import annotations

import json
from pathlib import Path

from support import models

from amem_integrations.testing import ScriptedModel

ANN = ("ann",)
DATA = Path(__file__).parents[1] / "data" / "replies_about_notes.jsonl"
ROWS = [json.loads(row) for row in DATA.read_text("utf-8").splitlines()]


def opened(**answers):
    return models.opened(model=ScriptedModel(answers))


def counted(memory, task):
    counts = memory.stats()["usage"][task]
    return counts["dropped"], counts.get("rejected_replies", 0)


def test_every_new_note_gets_its_own_attributes_or_fails_with_a_reason():
    for row in [row for row in ROWS if "contexts" in row]:
        with opened(construct=row["replies"], evolve=models.nothing) as memory:
            notes = memory.add_many(["one", "two"], namespace=ANN)
            entries = [note.contexts[0].text if note.contexts else None for note in notes]
            states = ["failed" if context is None else "done" for context in row["contexts"]]
            assert (entries, [n.state for n in notes]) == (row["contexts"], states), row["case"]
            assert all(bool(note.failure) == (note.state == "failed") for note in notes)
            assert counted(memory, "construct") == (row["dropped"], row["rejected"]), row["case"]
            assert [note.content for note in notes] == ["one", "two"]


def test_only_notes_that_were_shown_are_linked():
    for row in [row for row in ROWS if "reason" in row]:
        with opened(construct=models.construct, evolve=row["replies"]) as memory:
            first = memory.add("one", namespace=ANN, thread="t")
            note = memory.add("two", namespace=ANN, thread="t")
            assert note.state == "done"
            found = {target: (made.relation, made.reason) for target, made in note.links.items()}
            expected = ("related", row["reason"]) if row["reason"] else ("follows", "")
            assert found == {first.id: expected}, row["case"]
            assert counted(memory, "evolve") == (row["dropped"], row["rejected"]), row["case"]


def made(alias, context):
    return {"id": alias, "context": context}


def link(to, reason="same trip"):
    return {"to": to, "reason": reason}


def reply(*notes):
    return json.dumps({"notes": notes})


def test_what_is_after_a_cut_in_an_answer_is_asked_about_next():
    whole = [made("n1", "One."), made("n2", "Two."), made("n3", "Three.")]
    cut = json.dumps({"notes": whole})[:-20]
    linked = reply(
        {"id": "n1"}, {"id": "n2", "links": [link("n1")]}, {"id": "n3", "links": [link("n1")]}
    )
    rest = reply({"id": "n3", "links": [link("n1", "same boat")]})
    answers = {"construct": [cut, reply(made("n1", "Three."))], "evolve": [linked[:-20], rest]}
    model = ScriptedModel(answers)
    with models.opened(model=model) as memory:
        notes = memory.add_many(["one", "two", "three"], namespace=ANN)
        assert [note.contexts[0].text for note in notes] == ["One.", "Two.", "Three."]
        reasons = {target: made.reason for target, made in notes[2].links.items()}
        assert reasons == {notes[0].id: "same boat"}
        assert [len(request.inputs["notes"]) for request in model.requests] == [3, 1, 3, 1]
        assert "rejected_replies" not in memory.stats()["usage"]["total"]
