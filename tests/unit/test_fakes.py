import json

import numpy as np
import pytest

from amem_integrations.errors import ConfigurationError, ModelUnavailableError
from amem_integrations.ports import ModelRequest
from amem_integrations.prompts.replies import ConstructReply, EvolveReply, LinkReply, ReviseReply
from amem_integrations.testing import HashEmbedder, RecordedModel, ScriptedModel, ScriptError

BARE = {"links": [], "updates": []}
RECORDS = [
    {"id": "D1:1", "keywords": ["greeting"], "context": "Caroline greets Melanie.", "tags": ["small talk"], **BARE},
    {"id": "D1:2", "keywords": ["work"], "context": "Melanie is busy.", "tags": ["daily life"],
     **BARE, "links": [{"to": "D1:1", "why": "answers how she is"}]},
    {"id": "D1:3", "keywords": ["support group"], "context": "Caroline went to a support group.", "tags": ["community"],
     "links": [{"to": "D1:2", "why": "answers"}, {"to": "D1:1", "why": "goes on"}],
     "updates": [{"to": "D1:1", "context": "Caroline greets with news.", "tags": ["news"]}]},
]  # fmt: skip


REPLIES = {"construct": ConstructReply, "evolve": EvolveReply, "revise": ReviseReply}


def request(task, **inputs):
    form = REPLIES.get(task, LinkReply)
    return ModelRequest(task=task, system="s" * 8, prompt="p" * 12, reply=form, inputs=inputs)


def note(alias, key, *candidates):
    return {"alias": alias, "key": key, "candidates": [{"alias": name} for name in candidates]}


def shown(**keys):
    return [{"alias": alias, "key": key} for alias, key in keys.items()]


def reply(model, asked):
    return asked.reply.model_validate_json(model.generate(asked).text)


def test_hashed_vectors_are_unit_length_and_do_not_depend_on_case_or_order():
    embedder = HashEmbedder(dimensions=100)

    vectors = embedder.embed_documents(["Pottery class", "class, pottery!", ""])

    assert (vectors.shape, vectors.dtype) == ((3, 100), np.float32)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-6)
    np.testing.assert_array_equal(vectors[0], vectors[1])
    np.testing.assert_array_equal(vectors[0], embedder.embed_query("class pottery"))
    assert embedder.encoded == 4


def test_texts_that_share_words_are_more_similar_than_texts_that_share_none():
    texts = ["melanie loves pottery", "melanie makes pottery", "the train was late"]
    query, near, far = HashEmbedder().embed_documents(texts)

    assert query @ near > 0.5
    assert abs(query @ far) < 0.35


def test_a_script_repeats_one_answer_uses_up_a_list_and_says_what_is_missing():
    model = ScriptedModel({"construct": {"notes": []}, "evolve": ["first", "second"]})
    tasks = ["construct", "evolve", "construct", "evolve"]
    answers = [model.generate(request(task)).text for task in tasks]
    assert answers == ['{"notes": []}', "first", '{"notes": []}', "second"]
    assert [asked.task for asked in model.requests] == tasks
    assert len(model.asked("evolve")) == 2
    with pytest.raises(ScriptError, match="no answer left for request 3 of 'evolve'"):
        model.generate(request("evolve"))
    with pytest.raises(ScriptError, match="no answer to 'link'; it answers construct"):
        model.generate(request("link"))


def test_a_script_raises_exceptions_and_calls_functions():
    model = ScriptedModel({"construct": [ModelUnavailableError("no answer"), lambda r: r.task]})
    with pytest.raises(ModelUnavailableError, match="no answer"):
        model.generate(request("construct"))
    assert model.generate(request("construct")).text == "construct"
    assert len(model.requests) == 2


def test_recorded_attributes_are_found_by_key_and_unknown_keys_are_left_out(tmp_path):
    path = tmp_path / "annotations.jsonl"
    path.write_text("\n".join(map(json.dumps, RECORDS)) + "\n", encoding="utf-8")
    for model in (RecordedModel(RECORDS), RecordedModel(path)):
        notes = [note("n1", "D1:2"), note("n2", None), note("n3", "D1:1") | {"kind": "filler"}]
        answer = reply(model, request("construct", notes=notes, before=[]))
        (made,) = answer.notes
        assert answer.filler == ["n3"]
        assert (made.id, made.context) == ("n1", "Melanie is busy.")
        assert (made.keywords, made.tags) == (["work"], ["daily life"])


def pairs(model):
    """How many pairs the annotations hold, and how many were offered, by kind."""
    return {kind: (len(some), len(model.offered[kind])) for kind, some in model.annotated.items()}


def test_recorded_links_and_updates_are_proposed_only_to_candidates_of_that_note():
    model = RecordedModel(RECORDS)
    asked = request(
        "evolve",
        notes=[note("n1", "D1:2", "c1"), note("n2", "D1:3", "n1")],
        candidates=shown(c1="D1:1", c2="D1:9"),
    )

    answer = reply(model, asked)

    found = [(made.id, [link.to for link in made.links]) for made in answer.notes]
    assert found == [("n1", ["c1"]), ("n2", ["n1"])]
    assert answer.notes[1].updates == []
    assert pairs(model) == {"links": (3, 2), "updates": (1, 0)}


def test_the_two_calls_of_the_paper_are_answered_as_well():
    model = RecordedModel(RECORDS)
    given = {"notes": [note("n1", "D1:3", "c1", "c2")], "candidates": shown(c1="D1:1", c2="D1:2")}
    linked = reply(model, request("link", **given))
    asked = {"note": note("n1", "D1:3"), "others": []}
    revised, kept = (
        reply(model, request("revise", neighbour=one, **asked)) for one in given["candidates"]
    )
    assert {link.to: link.reason for link in linked.links} == {"c1": "goes on", "c2": "answers"}
    assert revised == ReviseReply(change=True, context="Caroline greets with news.", tags=["news"])
    assert kept == ReviseReply(change=False)
    assert pairs(model) == {"links": (2, 2), "updates": (1, 1)}


def test_a_task_that_was_not_annotated_is_refused():
    with pytest.raises(ConfigurationError, match="cannot answer 'merge'"):
        RecordedModel(RECORDS).generate(request("merge"))
