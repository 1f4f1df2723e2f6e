"""`amem add`, `search`, `show`, `stats`, `evolve`, and what all commands have in common."""

from __future__ import annotations

import json

import pytest
from support import models

from amem_integrations.cli.app import format_namespace, parse_namespace
from amem_integrations.errors import ModelUnavailableError, NamespaceError
from amem_integrations.testing import ScriptedModel


def test_what_was_added_is_found_and_shown(amem):
    added = amem.json(
        "add", "I moved to Oslo.", "--speaker", "Ann", "--at", "2026-05-08", "--key", "k1",
        "--thread", "t", "--metadata", "city=Oslo=N", "--expires", "2126-05-08",
    )  # fmt: skip
    assert (added["content"], added["state"]) == ("I moved to Oslo.", "done")
    assert (added["metadata"], added["at"]) == ({"city": "Oslo=N"}, "2026-05-08T00:00:00Z")
    assert added["expires_at"] == "2126-05-08T00:00:00Z"
    (hit,) = amem.json("search", "Who moved to Oslo?")
    assert (hit["note"]["id"], hit["via"]) == (added["id"], "match")
    for name in (added["id"], added["id"][:6], "k1"):
        assert amem.json("show", name)["content"] == "I moved to Oslo."
    text = amem("show", "k1").stdout
    assert "Ann" in text
    assert "2026-05-08" in text
    assert "Oslo" in amem("show").stdout
    assert amem.json("update", "k1", "--expires", "never")["expires_at"] is None
    assert amem.json("update", "k1", "I moved to Bergen.")["state"] == "done"
    amem("add", "I moved to Rome\nat last.", "--key", "k1")
    *_, change = [made for made in amem.json("history", "k1") if "-content" in str(made["diff"])]
    assert change["diff"][:2] == ["-content: I moved to Bergen.", "+content: I moved to Rome"]
    gone = amem.json("update", "k1", "--expires", "2020-01-01")
    assert gone["expires_at"] == "2020-01-01T00:00:00Z"
    assert amem.json("show") == []


def test_text_can_come_from_standard_input(amem):
    done = amem("add", "-", input="Two lines\nof it\n")
    assert done.exit_code == 0
    assert amem.json("show")[0]["content"] == "Two lines\nof it"
    assert "empty" in amem.fails("add", "-", input="")


def test_a_search_shows_the_path_of_links(talk):
    asked = ("search", "Which holiday plan did Jonas carry out?", "-k", "12")
    led = [hit for hit in talk.json(*asked) if hit["via"] != "match"]
    assert {"note_id", "relation", "reason", "strength"} == set(led[0]["via"][0])
    text = talk(*asked).stdout
    assert "over a link with" in text
    assert led[0]["via"][0]["reason"] in text
    assert {hit["via"] for hit in talk.json(*asked, "--no-links")} == {"match"}


def test_a_search_takes_conditions_and_explains_itself(talk):
    conditions = ("--where", '{"speaker": "Mira"}', "--explain")
    hits = talk.json("search", "Porto", *conditions)
    assert {hit["note"]["speaker"] for hit in hits} == {"Mira"}
    assert {"dense_rank", "lexical_rank", "match", "fusion", "spread"} == set(hits[0]["why"])
    assert "dense_rank" in talk("search", "Porto", *conditions).stdout
    old = "2025-01-01"
    for option, value in (("--as-of", old), ("--known-at", old), ("--min-similarity", "1")):
        assert talk.json("search", "Porto", option, value) == [], option
    assert "Nothing found" in talk("search", "Porto", "--as-of", old).stdout
    # What only reads loads no embedder.
    talk.names.clear()
    note = talk.json("show")[0]["id"]
    for arguments in (("show",), ("show", note), ("stats",)):
        assert talk(*arguments).exit_code == 0
    assert talk.names == []


def test_the_embedder_is_the_one_the_memory_was_made_with(amem):
    amem("add", "One.", "--embedder", "special")
    amem("add", "Two.")
    amem("search", "two")
    assert amem.names == ["special", "special", "special"]
    told = amem.fails("search", "two", "--embedder", "other")
    assert "amem reindex --embedder NAME" in told
    assert "amem_integrations" not in told


def test_a_memory_does_not_say_which_code_is_run(amem, tmp_path):
    amem("add", "One.", "--embedder", "hash")
    about = amem.folder / "amem" / "amem.json"
    model = str(tmp_path)  # a folder may hold modules of its own
    for name in ("python:os:getcwd", model):
        about.write_text(json.dumps({**json.loads(about.read_text()), "embedder": name}))
        amem.names.clear()
        assert "--embedder if that code is yours" in amem.fails("search", "one")
        assert amem.names == []
        assert amem.json("search", "one", "--embedder", name)
        assert len(amem.json("show")) == 1


def test_what_is_stored_only_is_finished_by_evolve(amem):
    assert amem.json("add", "First.", "--later")["state"] == "pending"
    assert amem.json("stats")["states"] == {"pending": 1}
    assert len(amem.json("evolve")["done"]) == 1
    assert amem.json("stats", namespace=None)["states"] == {"done": 1}
    amem.model = ScriptedModel(lambda _: ModelUnavailableError("nobody answers"))
    assert amem.json("add", "Kept all the same.")["state"] == "pending"
    assert "nobody answers" in amem.fails("evolve")


def test_what_was_made_without_a_model_is_made_anew_with_one(amem):
    assert amem.json("add", "I sold the sofa.", "--key", "k")["attributes_source"] == "rules"

    amem.model = models.model()
    assert amem("evolve", "--upgrade").exit_code == 0
    assert amem.json("show", "k")["attributes_source"] == "scripted"


def test_a_note_cannot_steer_the_terminal(amem):
    amem("add", "red \x1b[31m [bold]x[/bold] \N{RIGHT-TO-LEFT OVERRIDE} :smile:", "--key", "k")
    for arguments in (("show",), ("show", "k"), ("search", "red bold")):
        text = amem(*arguments).stdout
        assert "\x1b[31m" not in text
        assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in text
        assert "[bold]x[/bold]" in text
        assert ":smile:" in text
        assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in amem(*arguments, "--json").stdout
    assert amem.json("show", "k")["content"].count("\N{RIGHT-TO-LEFT OVERRIDE}") == 1


NAMESPACES = [
    ("ann", ("ann",)), ("team/ann", ("team", "ann")), ('["a/b", "c"]', ("a/b", "c")), ('["[x"]', ("[x",)),
    ("a b/ü", ("a b", "ü")),
]  # fmt: skip
MALFORMED = ["", "/", "a//b", "a/", "[", "[]", '["a", 1]', '[""]']


def test_a_namespace_is_written_in_one_way_and_read_back(talk):
    for text, namespace in NAMESPACES:
        assert parse_namespace(text) == namespace
        assert format_namespace(namespace) == text
    for text in MALFORMED:
        with pytest.raises(NamespaceError):
            parse_namespace(text)
    for arguments in (("add", "x"), ("search", "x"), ("show",)):
        assert "--namespace" in talk.fails(*arguments, namespace=None)


ERRORS = [
    (("add", " "), "empty"),
    (("add", "x", "--at", "yesterday"), "'yesterday' is not a time"),
    (("add", "x", "--at", "0001-01-01T00:00+14:00"), "outside the calendar"),
    (("add", "x", "--metadata", "novalue"), "NAME=VALUE"),
    (("search", "x", "--where", "{"), "not JSON"),
    (("search", "x", "--where", "[]"), "must be a JSON object of field"),
    (("search", "x", "--where", '{"colour": 1}'), "unknown field 'colour'"),
    (("search", "x", "--min-similarity", "7"), "--min-similarity 7.0 must be a cosine"),
    (("search", "x", "--where", "[" * 50_000), "not JSON"),
    (("show", "--namespace", "[" * 50_000), "JSON list of labels"),
    (("show", "--namespace", "a//b"), "--namespace 'a//b' must be labels with / between them"),
    (("history", "0" * 8, "-n", "team/ann"), "there is no note '00000000' in namespace team/ann"),
    (("show", "nothing"), "no note has the id or key 'nothing'"),
    (("show", "11111111-1111-1111-1111-111111111111"), "no note has the id or key '1111"),
    (("undo",), "the id of a change, or --model and --since"),
    (("undo", "--model", ""), "--model '' must be the name"),
    (("import", "missing.jsonl"), "missing.jsonl: No such file"),
    (("stats", "--memory", ":memory:"), "keeps nothing"),
    (("stats", "--memory", "localhost:6333"), "without a scheme"),
    (("stats", "--memory", "http://[::1"), "a Qdrant server is given as"),
]


def test_an_error_is_one_line_and_a_status(talk):
    for arguments, said in ERRORS:
        assert said in talk.fails(*arguments)
    for name in ("namespace ('it's') x", "namespace ('a', 3, 'b') x"):  # which only look like one
        assert f"id or key {name!r}" in talk.fails("show", name)


def test_a_wrong_call_is_one_line_and_a_status_too(amem):
    for arguments, said in (
        (("nonsense",), "No such command"),
        (("add",), "Missing argument"),
        (("add", "x", "--nonsense"), "No such option"),
        (("search", "x", "-k", "many"), "Invalid value for '-k'"),
        (("show", "-k", "0"), "Invalid value for '-k'"),
        (("history", "-k", "9" * 20), "Invalid value for '-k'"),
    ):
        assert said in amem.fails(*arguments, status=2)


def test_a_memory_that_is_not_there_is_not_made_by_looking(amem):
    commands = ["stats", "show", "search x", "evolve", "export x", "reindex", "optimize", "compact"]
    for command in (*commands, "worker --once"):
        assert "there is no memory in" in amem.fails(*command.split())
        assert not amem.folder.exists()
