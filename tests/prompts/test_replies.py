"""Replies that name wrong notes, too few, or some twice, and what a memory stores of them."""

from __future__ import annotations

import json

import pytest
from support import models

from amem_integrations import AgenticMemory, MemoryConfig
from amem_integrations.testing import HashEmbedder, ScriptedModel

ANN = ("ann",)


def made(alias, context="Said.", **fields):
    return {"id": alias, "context": context, **fields}


BOTH = json.dumps({"notes": [made("n1"), made("n2")]})

# For two new notes: the replies in turn, the contexts after them (None: the note is failed), the number of
# dropped entries, and that of rejected replies.
CONSTRUCTED = {
    "as requested": ([BOTH], ["Said.", "Said."], 0, 0),
    "in another order": (
        [json.dumps({"notes": [made("n2", "Two."), made("n1", "One.")]})],
        ["One.", "Two."],
        0,
        0,
    ),
    "in another language": (
        [json.dumps({"notes": [made("n1", "安去了里斯本。"), made("n2", "Ό,τι ειπώθηκε.")]})],
        ["安去了里斯本。", "Ό,τι ειπώθηκε."],
        0,
        0,
    ),
    "with keys in another language": (
        [json.dumps({"notizen": [{"kennung": "n1"}, {"kennung": "n2"}]}), BOTH],
        ["Said.", "Said."],
        0,
        1,
    ),
    "in prose of another language": (["Die Notizen sind klar.", BOTH], ["Said.", "Said."], 0, 1),
    "a note too few, then all": (
        [json.dumps({"notes": [made("n2")]}), BOTH],
        ["Said.", "Said."],
        0,
        1,
    ),
    "a note too few, twice": ([json.dumps({"notes": [made("n2")]})] * 2, [None, "Said."], 0, 2),
    "a note too many": (
        [json.dumps({"notes": [made("n1"), made("n2"), made("n3")]})],
        ["Said.", "Said."],
        1,
        0,
    ),
    "a note twice": (
        [json.dumps({"notes": [made("n1", "First."), made("n1", "Again."), made("n2")]})],
        ["First.", "Said."],
        1,
        0,
    ),
    "a wrong alias": (
        [json.dumps({"notes": [made("n7"), made("n2")]})] * 2,
        [None, "Said."],
        1,
        2,
    ),
    "positions as ids": ([json.dumps({"notes": [made(1), made(2)]})] * 2, [None, None], 2, 2),
    "positions from zero": ([json.dumps({"notes": [made(0), made(1)]})] * 2, [None, None], 2, 2),
    "ids of a store": (
        [json.dumps({"notes": [made("6f2c0f6e-0000-4000-8000-000000000001")]})] * 2,
        [None, None],
        1,
        2,
    ),
    "the example of the prompt": (
        [json.dumps({"notes": [made("n1", "…", keywords=["…"])]})] * 2,
        ["", None],
        0,
        2,
    ),
}


@pytest.mark.parametrize("case", CONSTRUCTED)
def test_every_new_note_gets_its_own_attributes_or_fails_with_a_reason(case):
    replies, contexts, dropped, rejected = CONSTRUCTED[case]
    model = ScriptedModel({"construct": replies, "evolve": models.nothing})
    with AgenticMemory.open(":memory:", model=model, embedder=HashEmbedder()) as memory:
        notes = memory.add_many(["one", "two"], namespace=ANN)
        entries = [note.contexts[0].text if note.contexts else None for note in notes]
        assert entries == contexts
        states = ["failed" if context is None else "done" for context in contexts]
        assert [note.state for note in notes] == states
        assert all(bool(note.failure) == (note.state == "failed") for note in notes)
        counted = memory.stats()["usage"]["construct"]
        assert (counted["dropped"], counted.get("rejected_replies", 0)) == (dropped, rejected)
        assert [note.content for note in notes] == ["one", "two"]


def link(to, reason="same trip"):
    return {"to": to, "reason": reason}


def reply(*notes):
    return json.dumps({"notes": notes})


LINKED = {"id": "n1", "links": [link("c1")]}

# For one new note after one turn: the replies in turn, the reason of its link (None: only that it follows), the
# number of dropped links, updates and notes, and that of rejected replies.
EVOLVED = {
    "as requested": ([reply(LINKED)], "same trip", 0, 0),
    "nothing": ([reply()], None, 0, 0),
    "nothing as a bare list": (["[]"], None, 0, 0),
    "a wrong alias": ([reply({"id": "n1", "links": [link("c9")]})], None, 1, 0),
    "a position": ([reply({"id": "n1", "links": [link(1)]})], None, 1, 0),
    "itself": ([reply({"id": "n1", "links": [link("n1")]})], None, 1, 0),
    "a link twice": (
        [reply({"id": "n1", "links": [link("c1", "first"), link("c1", "again")]})],
        "first",
        0,
        0,
    ),
    "a note twice": ([reply(LINKED, {"id": "n1", "links": []})], "same trip", 0, 0),
    "another note": ([reply({"id": "n5", "links": [link("c1")]})], None, 1, 0),
    "no evolution, in prose with strengthen": (
        ["No evolution needed; it would only strengthen c1.", reply()],
        None,
        0,
        1,
    ),
    "no evolution, by the keys of another prompt": (
        ['{"should_evolve": "no", "actions": ["strengthen"]}', reply(LINKED)],
        "same trip",
        0,
        1,
    ),
}


@pytest.mark.parametrize("case", EVOLVED)
def test_only_notes_that_were_shown_are_linked(case):
    replies, reason, dropped, rejected = EVOLVED[case]
    model = ScriptedModel({"construct": models.construct, "evolve": replies})
    config = MemoryConfig(min_gate_similarity=-1.0)
    with AgenticMemory.open(
        ":memory:", model=model, embedder=HashEmbedder(), config=config
    ) as memory:
        first = memory.add("one", namespace=ANN, thread="t")
        note = memory.add("two", namespace=ANN, thread="t")
        assert note.state == "done"
        found = {target: (made.relation, made.reason) for target, made in note.links.items()}
        assert found == {first.id: ("related", reason) if reason else ("follows", "")}
        counted = memory.stats()["usage"]["evolve"]
        assert (counted["dropped"], counted.get("rejected_replies", 0)) == (dropped, rejected)


def test_what_is_after_a_cut_in_an_answer_is_asked_about_next():
    whole = [made("n1", "One."), made("n2", "Two."), made("n3", "Three.")]
    cut = json.dumps({"notes": whole})[:-20]
    linked = reply(
        {"id": "n1"}, {"id": "n2", "links": [link("n1")]}, {"id": "n3", "links": [link("n1")]}
    )
    rest = reply({"id": "n3", "links": [link("n1", "same boat")]})
    answers = {"construct": [cut, reply(made("n1", "Three."))], "evolve": [linked[:-20], rest]}
    model = ScriptedModel(answers)
    with AgenticMemory.open(":memory:", model=model, embedder=HashEmbedder()) as memory:
        notes = memory.add_many(["one", "two", "three"], namespace=ANN)
        assert [note.contexts[0].text for note in notes] == ["One.", "Two.", "Three."]
        reasons = {target: made.reason for target, made in notes[2].links.items()}
        assert reasons == {notes[0].id: "same boat"}
        assert [len(request.inputs["notes"]) for request in model.requests] == [3, 1, 3, 1]
        assert "rejected_replies" not in memory.stats()["usage"]["total"]
