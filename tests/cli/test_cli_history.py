"""`amem history`, `undo`, `proposals`, `approve`, `reject`: what was changed, and having a say in it."""

from __future__ import annotations

import pytest
from cli_kit import add_wedding
from support import models


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
    told = {line[1:].partition(":")[0] for change in every for line in change["diff"]}
    assert told.isdisjoint({"cause", "kind", "why"})  # the headline of the cause says it in words
    notes = {wedding.json("show", name)["id"] for name in ("first", "second")}
    assert {change["note_id"] for change in every} == notes
    assert wedding.json("history", "-k", "2") == every[-2:]


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
        (("undo", "ffffffff"), "there is no change"),
        (("approve", "ffffffff"), "there is no change"),
        (("undo", every[0]), "cannot be undone: a note is taken back by `amem delete`"),
        (("undo", ""), f"starts {len(every)} ids"),
        (("undo", every[0], "--model", "rules"), "--model and --since"),
        (("reject",), "--all"),
        (("approve", every[0], "--all"), "--all"),
        (("approve", "--all", "--text", "Other words."), "single proposal"),
    ]:
        assert said in wedding.fails(*arguments), arguments


def test_all_that_a_model_did_is_taken_back(wedding):
    assert wedding("undo", "--since", "2100-01-01").stdout == "No changes.\n"
    report = wedding.json("undo", "--model", "rules")
    assert len(report["undone"]) == len(report["changes"]) == 4
    assert report["skipped"] == {}
    assert wedding.json("stats")["states"] == {"pending": 2}
    again = wedding.json("undo", *report["changes"])
    assert set(again["undone"]) == set(report["changes"])
    assert len(wedding.json("show", "first")["contexts"]) == 2


@pytest.fixture
def reviewed(amem):
    """A memory whose every link and context of a later note waits for a decision."""
    add_wedding(amem, "--review")
    return amem


def test_with_a_review_what_is_proposed_waits_and_is_shown_as_diffs(reviewed):
    assert {change["kind"] for change in reviewed.json("proposals")} >= {"evolve", "link"}
    first = reviewed.json("show", "first")
    assert first["links"] == {}
    text = reviewed("proposals").stdout
    for said in (f"+to: {first['id']}", "+relation: same_topic", "+context: ", "because of",
                 "not written: it waits for a review"):  # fmt: skip
        assert said in text


def test_proposals_are_approved_at_once_or_rejected_by_name(reviewed):
    ids = [proposal["id"] for proposal in reviewed.json("proposals")]
    rejected = reviewed.json("reject", *map(short, ids))
    assert [change["state"] for change in rejected] == ["rejected"] * len(ids)
    assert reviewed.json("proposals") == []
    reviewed("approve", ids[0])
    reviewed("undo", ids[0])
    made = reviewed.json("approve", "--all")
    assert {change["id"]: change["state"] for change in made} == {ids[0]: "on"}


def test_a_proposal_is_shown_and_can_be_written_in_other_words(amem):
    amem("add", "The cat sleeps on the sofa.", "--key", "cat")
    amem.model = models.model(models.update_first("Zebras graze quietly"))  # what the gate stops
    amem("add", "The sofa was sold.", "--key", "sofa")
    (proposal,) = amem.json("proposals")
    text = amem("proposals").stdout
    assert "Zebras" in text
    assert "not written" in text
    (made,) = amem.json("approve", short(proposal["id"]), "--text", "The sofa is gone.")
    assert (made["kind"], made["by"], made["state"]) == ("evolve", "user", "on")
    assert amem.json("show", "cat")["contexts"][-1]["text"] == "The sofa is gone."
    assert "No proposals" in amem("proposals").stdout
