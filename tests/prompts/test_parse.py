"""Answers as models write them: what is read of each, or the reason that nothing is.

`tests/data/replies.jsonl` holds the answers. A row has what is `read` as a `reply`, or the `error`; or what is read of the
`second` of three notes, which a small model has spoiled, as people report it of local models with other memories.
"""

import json
import time
from pathlib import Path

import pytest

from amem_integrations.errors import ModelReplyError
from amem_integrations.prompts import replies
from amem_integrations.prompts.parse import parse

DATA = Path(__file__).parents[1] / "data" / "replies.jsonl"
ROWS = [json.loads(row) for row in DATA.read_text("utf-8").splitlines()]


def test_what_a_model_meant_is_read():
    for row in [row for row in ROWS if "read" in row]:
        kind = getattr(replies, row["reply"])
        found = parse(row["text"], kind)
        assert found.model_dump() == kind(**row["read"]).model_dump(), row["case"]
        assert found.is_cut is row.get("is_cut", False), row["case"]


def test_what_cannot_be_used_is_an_error_with_a_reason():
    for row in [row for row in ROWS if "error" in row]:
        with pytest.raises(ModelReplyError, match=row["error"]) as caught:
            parse(row["text"], getattr(replies, row["reply"]))
        assert len(str(caught.value)) < 300, row["case"]


def test_what_a_small_model_spoils_is_one_note_and_not_the_batch():
    spoiled = [row for row in ROWS if "second" in row]
    assert len(spoiled) > 30
    for row in spoiled:
        notes = parse(row["text"], replies.ConstructReply).notes
        second = {} if row["second"] is None else {"n2": row["second"]}
        expected = {"n1": "Ann paints.", **second, "n3": "Cid sails."}
        assert {note.id: note.context for note in notes} == expected, row["case"]


def test_a_copy_of_the_schema_is_an_error():
    for kind in (replies.ConstructReply, replies.EvolveReply, replies.ReviseReply):
        with pytest.raises(ModelReplyError, match="repeats the schema"):
            parse(json.dumps(kind.model_json_schema()), kind)


def test_the_time_to_read_an_endless_or_deep_answer_is_linear():
    started = time.process_time()
    for text in (
        '{"notes": [' + "\n" * 50_000,
        "{ word " * 7_000,
        '"' * 50_000,
        '{"' + '\\"' * 25_000,
        '{"a": 1} ' * 5_000,
        "[" * 100_000,
        '{"notes":' * 50_000,
        '{"' * 50_000,
        "{'" * 50_000,
    ):
        with pytest.raises(ModelReplyError):
            parse(text, replies.EvolveReply)
    assert time.process_time() - started < 10  # about 2; quadratic time would be 100 and more
