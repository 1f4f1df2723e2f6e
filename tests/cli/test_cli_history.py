"""`amem history`, `undo`, `proposals`, `approve`, `reject`: what was changed, and having a say in it."""

from __future__ import annotations

import pytest

from amem_integrations.testing import ScriptedModel


def kinds(changes):
    return [change["kind"] for change in changes]


def short(change_id):
    """The name of a change, as it is printed."""
    return ":".join(part[:8] for part in change_id.split(":"))


def test_a_history_shows_what_was_added_as_a_diff(wedding):
    changes = wedding.json("history", "first")
    assert kinds(changes) == ["add", "construct", "link", "evolve"]
    assert changes[3]["diff"][0].startswith("+context: ")
    text = wedding("history", "first").stdout
    assert "+context: " in text
    assert "because of" in text
    assert "+link" in text
    assert wedding.names == ["hash", "hash"] or len(wedding.names) == 2


def test_a_correction_shows_the_old_text_and_the_new(amem):
    amem("add", "We meet on Monday\nat noon", "--key", "k")
    amem("add", "We meet on Tuesday\nat noon", "--key", "k")
    update = next(c for c in amem.json("history", "k") if c["kind"] == "update")
    assert update["diff"][:4] == [
        " content:",
        "-We meet on Monday",
        "+We meet on Tuesday",
        " at noon",
    ]


def test_when_a_note_expires_can_be_said_changed_and_taken_back(amem):
    amem("add", "The code is 4711", "--key", "k", "--expires", "2126-05-08")
    assert amem.json("show", "k")["expires_at"] == "2126-05-08T00:00:00Z"
    assert (
        amem.json("update", "k", "--expires", "2126-06-01T12:00Z")["content"] == "The code is 4711"
    )
    assert amem.json("show", "k")["expires_at"] == "2126-06-01T12:00:00Z"
    amem("update", "k", "--expires", "never")
    assert amem.json("show", "k")["expires_at"] is None


def test_without_a_note_the_history_is_of_all_and_the_last(wedding):
    changes = wedding.json("history")
    assert {change["note_id"] for change in changes} == {
        wedding.json("show", name)["id"] for name in ("first", "second")
    }
    assert wedding.json("history", "-k", "2") == changes[-2:]


def test_what_evolved_can_be_taken_back_and_that_too(wedding):
    made = next(c for c in wedding.json("history", "first") if c["kind"] == "evolve")
    name = short(made["id"])
    (undone,) = wedding.json("undo", name)
    assert undone["kind"] == "undo"
    assert undone["diff"] == [f" {name}: on -> off"]
    assert len(wedding.json("show", "first")["contexts"]) == 1
    assert f"{name}: on -> off" in wedding("history", "first").stdout
    assert (
        next(c for c in wedding.json("history", "first") if c["kind"] == "evolve")["state"] == "off"
    )
    wedding("undo", undone["id"])
    assert len(wedding.json("show", "first")["contexts"]) == 2


def test_a_link_is_taken_back_at_both_ends(wedding):
    link = next(c for c in wedding.json("history", "first") if c["kind"] == "link")
    wedding("undo", link["id"])
    assert wedding.json("show", "first")["links"] == {}
    assert wedding.json("show", "second")["links"] == {}


MISSING = [
    (("history", "nothing"), "no note has the id or key"),
    (("undo", "ffffffff"), "there is no change"),
    (("approve", "ffffffff"), "there is no change"),
    (("reject", "ffffffff"), "there is no change"),
]


def test_what_is_not_there_is_one_line(wedding):
    for arguments, said in MISSING:
        assert said in wedding.fails(*arguments)


def test_what_cannot_be_undone_says_why(wedding):
    added = wedding.json("history", "first")[0]
    assert "kind 'add'" in wedding.fails("undo", added["id"])


def test_the_start_of_several_ids_is_refused(wedding):
    changes = [change["id"] for change in wedding.json("history")]
    assert f"starts {len(changes)} ids" in wedding.fails("undo", "")


def test_all_that_a_model_did_is_taken_back(wedding):
    report = wedding.json("undo", "--model", "rules")
    assert len(report["undone"]) == len(report["changes"]) == 4
    assert report["skipped"] == {}
    assert wedding.json("stats")["states"] == {"pending": 2}
    assert wedding("undo", "--model", "rules").stdout == (
        "0 changes taken back, 0 left, 0 proposals rejected\n"
    )


def test_several_changes_are_taken_back_by_name(wedding):
    report = wedding.json("undo", "--model", "rules")
    again = wedding.json("undo", *report["changes"])
    assert set(again["undone"]) == set(report["changes"])
    assert len(wedding.json("show", "first")["contexts"]) == 2


def test_what_the_user_wrote_is_left(wedding):
    wedding("update", "first", "It is on 22 June.")
    wedding("undo", "--since", "2020-01-01")
    assert wedding.json("show", "first")["content"] == "It is on 22 June."


def test_what_was_approved_is_left_and_named(reviewed):
    (made, *others) = reviewed.json("proposals")
    reviewed("approve", made["id"])
    text = reviewed("undo", "--model", "rules").stdout
    assert f"1 left, {len(others)} proposals rejected" in text
    assert f"left {short(made['id'])} a reviewer approved it" in text
    assert reviewed.json("proposals") == []


def test_nothing_is_taken_back_before_its_time(wedding):
    assert wedding.json("undo", "--since", "2100-01-01")["undone"] == []


AMBIGUOUS = [(), ("ffffffff", "--model", "rules")]


def test_what_to_undo_is_said_once(wedding):
    for arguments in AMBIGUOUS:
        assert "--model or --since" in wedding.fails("undo", *arguments)


@pytest.fixture
def stopped(amem):
    """A memory with an update that the gate stopped."""
    amem("add", "The cat sleeps on the sofa.", "--key", "cat")
    amem.model = ScriptedModel(answer)
    amem("add", "The sofa was sold.", "--key", "sofa")
    amem.model = None
    return amem


def answer(request):
    if request.task == "construct":
        notes = [
            {
                "id": note["alias"],
                "keywords": ["sofa"],
                "context": "About a sofa.",
                "tags": ["home"],
            }
            for note in request.inputs["notes"]
        ]
        return {"notes": notes}
    (note,), (other, *_) = request.inputs["notes"], request.inputs["candidates"]
    update = {"to": other["alias"], "context": "Zebras graze quietly", "keywords": [], "tags": []}
    return {"notes": [{"id": note["alias"], "links": [], "updates": [update]}]}


def test_a_proposal_is_shown_and_can_be_written_in_other_words(stopped):
    (proposal,) = stopped.json("proposals")
    assert "Zebras" in stopped("proposals").stdout
    assert "not written" in stopped("proposals").stdout
    (made,) = stopped.json("approve", short(proposal["id"]), "--text", "The sofa is gone.")
    assert (made["kind"], made["by"], made["state"]) == ("evolve", "user", "on")
    assert stopped.json("show", "cat")["contexts"][-1]["text"] == "The sofa is gone."
    assert stopped.json("proposals") == []
    assert "No proposals" in stopped("proposals").stdout


def test_a_proposal_can_be_rejected(stopped):
    (proposal,) = stopped.json("proposals")
    assert stopped.json("reject", proposal["id"])[0]["state"] == "rejected"
    assert stopped.json("proposals") == []
    assert len(stopped.json("show", "cat")["contexts"]) == 1


@pytest.fixture
def reviewed(amem):
    """A memory whose every link and context of a later note waits for a decision."""
    said = "My sister Lena's wedding in Porto is on {} June."
    for key, day in (("first", 14), ("second", 21)):
        amem("add", said.format(day), "--key", key, "--thread", key, "--review")
    return amem


def test_with_a_review_what_is_proposed_waits_and_is_shown_as_diffs(reviewed):
    proposals = reviewed.json("proposals")
    assert set(kinds(proposals)) >= {"evolve", "link"}
    first = reviewed.json("show", "first")["id"]
    text = reviewed("proposals").stdout
    assert f"+link {first[:8]} same_topic" in text
    assert "+context: " in text
    assert "because of" in text
    assert "not written: it waits for a review" in text
    assert reviewed.json("show", "first")["links"] == {}


def test_all_proposals_are_approved_at_once(reviewed):
    ids = {proposal["id"] for proposal in reviewed.json("proposals")}
    made = reviewed.json("approve", "--all")
    assert {change["id"] for change in made} == ids
    assert {change["state"] for change in made} == {"on"}
    assert reviewed.json("proposals") == []
    first, second = (reviewed.json("show", name) for name in ("first", "second"))
    assert list(first["links"]) == [second["id"]]
    assert list(second["links"]) == [first["id"]]


def test_several_proposals_are_rejected_by_name(reviewed):
    ids = [proposal["id"] for proposal in reviewed.json("proposals")]
    rejected = reviewed.json("reject", *map(short, ids))
    assert [change["state"] for change in rejected] == ["rejected"] * len(ids)
    assert reviewed.json("proposals") == []


DECIDING = ["approve", "reject"]


def test_which_proposals_are_meant_has_to_be_said(reviewed):
    for command in DECIDING:
        assert "--all" in reviewed.fails(command)
        one = reviewed.json("proposals")[0]["id"]
        assert "--all" in reviewed.fails(command, one, "--all")


def test_other_words_are_for_one_proposal(reviewed):
    assert "single proposal" in reviewed.fails("approve", "--all", "--text", "Other words.")
