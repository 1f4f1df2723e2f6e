"""`amem history`, `undo`, `proposals`, `approve`, `reject`: what was changed, and having a say in it."""

from __future__ import annotations

import pytest

from amem_integrations.testing import ScriptedModel


def short(change_id):
    """The name of a change, as it is printed."""
    return ":".join(part[:8] for part in change_id.split(":"))


def of_kind(amem, kind, *note):
    return next(change for change in amem.json("history", *note) if change["kind"] == kind)


def test_a_history_shows_what_was_added_as_a_diff(wedding):
    changes = wedding.json("history", "first")
    assert [change["kind"] for change in changes] == ["add", "construct", "link", "evolve"]
    assert changes[3]["diff"][0].startswith("+context: ")
    text = wedding("history", "first").stdout
    assert all(said in text for said in ("+context: ", "because of", "+relation: ", " by rules"))
    every = wedding.json("history")
    notes = {wedding.json("show", name)["id"] for name in ("first", "second")}
    assert {change["note_id"] for change in every} == notes
    assert wedding.json("history", "-k", "2") == every[-2:]


def test_a_correction_shows_the_old_text_and_the_new(amem):
    for day in ("Monday", "Tuesday"):
        amem("add", f"We meet on {day}\nat noon", "--key", "k")
    diff = of_kind(amem, "update", "k")["diff"]
    assert diff[:3] == ["-content: We meet on Monday", "+content: We meet on Tuesday", " at noon"]


def test_when_a_note_expires_can_be_said_changed_and_taken_back(amem):
    amem("add", "The code is 4711", "--key", "k", "--expires", "2126-05-08")
    assert amem.json("show", "k")["expires_at"] == "2126-05-08T00:00:00Z"
    updated = amem.json("update", "k", "--expires", "2126-06-01T12:00Z")
    assert (updated["content"], updated["expires_at"]) == (
        "The code is 4711",
        "2126-06-01T12:00:00Z",
    )
    assert amem.json("update", "k", "--expires", "never")["expires_at"] is None


def test_what_evolved_can_be_taken_back_and_that_too(wedding):
    name = short(of_kind(wedding, "evolve", "first")["id"])
    (undone,) = wedding.json("undo", name)
    assert (undone["kind"], undone["diff"]) == ("undo", [f"-{name}: on", f"+{name}: off"])
    assert len(wedding.json("show", "first")["contexts"]) == 1
    assert f"+{name}: off" in wedding("history", "first").stdout
    assert of_kind(wedding, "evolve", "first")["state"] == "off"
    wedding("undo", undone["id"])
    assert len(wedding.json("show", "first")["contexts"]) == 2


def test_what_is_not_there_not_clear_or_not_to_be_undone_is_one_line(wedding):
    every = [change["id"] for change in wedding.json("history")]
    for arguments, said in [
        (("history", "nothing"), "there is no note"),
        *(
            ((command, "ffffffff"), "there is no change")
            for command in ("undo", "approve", "reject")
        ),
        (("undo", every[0]), "kind 'add'"),
        (("undo", ""), f"starts {len(every)} ids"),
        (("undo",), "model= and since="),
        (("undo", every[0], "--model", "rules"), "model= and since="),
        *(((command,), "--all") for command in ("approve", "reject")),
        *(((command, every[0], "--all"), "--all") for command in ("approve", "reject")),
        (("approve", "--all", "--text", "Other words."), "single proposal"),
    ]:
        assert said in wedding.fails(*arguments), arguments


def test_all_that_a_model_did_is_taken_back(wedding):
    assert wedding.json("undo", "--since", "2100-01-01")["undone"] == []
    report = wedding.json("undo", "--model", "rules")
    assert len(report["undone"]) == len(report["changes"]) == 4
    assert report["skipped"] == {}
    assert wedding.json("stats")["states"] == {"pending": 2}
    assert wedding.json("undo", "--model", "rules")["undone"] == []
    again = wedding.json("undo", *report["changes"])
    assert set(again["undone"]) == set(report["changes"])
    assert len(wedding.json("show", "first")["contexts"]) == 2


@pytest.fixture
def reviewed(amem):
    """A memory whose every link and context of a later note waits for a decision."""
    said = "My sister Lena's wedding in Porto is on {} June."
    for key, day in (("first", 14), ("second", 21)):
        amem("add", said.format(day), "--key", key, "--thread", key, "--review")
    return amem


def test_what_was_approved_is_left_and_named(reviewed):
    (made, *others) = reviewed.json("proposals")
    reviewed("approve", made["id"])
    report = reviewed.json("undo", "--model", "rules")
    assert report["skipped"] == {made["id"]: "a reviewer approved it"}
    assert len(report["rejected"]) == len(others)
    assert reviewed.json("proposals") == []


def test_with_a_review_what_is_proposed_waits_and_is_shown_as_diffs(reviewed):
    assert {change["kind"] for change in reviewed.json("proposals")} >= {"evolve", "link"}
    first = reviewed.json("show", "first")
    assert first["links"] == {}
    text = reviewed("proposals").stdout
    for said in (f"+to: {first['id']}", "+relation: same_topic", "+context: ", "because of",
                 "not written: it waits for a review"):  # fmt: skip
        assert said in text


def test_all_proposals_are_approved_at_once(reviewed):
    ids = {proposal["id"] for proposal in reviewed.json("proposals")}
    made = reviewed.json("approve", "--all")
    assert {change["id"]: change["state"] for change in made} == dict.fromkeys(ids, "on")
    assert reviewed.json("proposals") == []
    first, second = (reviewed.json("show", name) for name in ("first", "second"))
    assert (list(first["links"]), list(second["links"])) == ([second["id"]], [first["id"]])


def test_several_proposals_are_rejected_by_name(reviewed):
    ids = [proposal["id"] for proposal in reviewed.json("proposals")]
    rejected = reviewed.json("reject", *map(short, ids))
    assert [change["state"] for change in rejected] == ["rejected"] * len(ids)
    assert reviewed.json("proposals") == []


def stopped_by_the_gate(request):
    """Answer a task; the sentence for an earlier note has nothing to do with it."""
    if request.task == "construct":
        said = {"keywords": ["sofa"], "context": "About a sofa.", "tags": ["home"]}
        return {"notes": [{"id": note["alias"], **said} for note in request.inputs["notes"]]}
    (note,), (other, *_) = request.inputs["notes"], request.inputs["candidates"]
    update = {"to": other["alias"], "context": "Zebras graze quietly", "keywords": [], "tags": []}
    return {"notes": [{"id": note["alias"], "links": [], "updates": [update]}]}


def test_a_proposal_is_shown_and_can_be_written_in_other_words(amem):
    amem("add", "The cat sleeps on the sofa.", "--key", "cat")
    amem.model = ScriptedModel(stopped_by_the_gate)
    amem("add", "The sofa was sold.", "--key", "sofa")
    (proposal,) = amem.json("proposals")
    text = amem("proposals").stdout
    assert "Zebras" in text
    assert "not written" in text
    (made,) = amem.json("approve", short(proposal["id"]), "--text", "The sofa is gone.")
    assert (made["kind"], made["by"], made["state"]) == ("evolve", "user", "on")
    assert amem.json("show", "cat")["contexts"][-1]["text"] == "The sofa is gone."
    assert amem.json("proposals") == []
    assert "No proposals" in amem("proposals").stdout
