"""Each text on a note is judged by what was shown when it was written: what quotes a gone text goes, no more, no less."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from pydantic import BaseModel
from support import models

from amem_integrations import AgenticMemory, InvalidInputError, MemoryConfig, NoteInput
from amem_integrations.testing import HashEmbedder, ScriptedModel

ANN = ("ann",)
SECRET = "zanzibar4711"


def datetime_in(days: int) -> datetime:
    return datetime.now(UTC).replace(microsecond=0) + timedelta(days=days)


def opened(model, **settings):
    config = MemoryConfig(min_gate_similarity=-1, **settings)
    return AgenticMemory.open(":memory:", model=model, embedder=HashEmbedder(), config=config)


def exported(memory, tmp_path) -> str:
    memory.export(tmp_path / "export.jsonl", namespace=ANN)
    return (tmp_path / "export.jsonl").read_text(encoding="utf-8").casefold()


def blue(request):
    """Says of each note, and of its links, that it is blue."""
    if request.task == "construct":
        notes = request.inputs["notes"]
        return {"notes": [{"id": note["alias"], "context": "It is blue"} for note in notes]}
    reply = models.link_to_first(request)
    for note in reply["notes"]:
        note["links"][0]["reason"] = "blue"
    return reply


@pytest.mark.on_a_server
def test_what_another_note_that_was_shown_says_as_well_stays():
    with opened(ScriptedModel({"construct": blue, "evolve": blue})) as memory:
        memory.add("The ink is blue", namespace=ANN, thread="t")
        one = memory.add("Some tea is blue", namespace=ANN, thread="t")
        last = memory.add("Thanks", namespace=ANN, thread="t")
        assert one.id in memory.get(last.id, namespace=ANN).links
        memory.delete(one.id, namespace=ANN)
        left = memory.get(last.id, namespace=ANN)
        assert ([entry.text for entry in left.contexts], left.state) == (["It is blue"], "done")


def superseding(request):
    """Links each note to its best candidate and takes its place; only the latter quotes."""
    reply = models.link_to_first(request)
    for note in reply["notes"]:
        to = note["links"][0]["to"]
        quote = SECRET if SECRET in json.dumps(request.inputs) else "it is newer"
        note["supersedes"] = [{"to": to, "relation": "updates", "reason": quote}]
    return reply


@pytest.mark.on_a_server
def test_both_ends_of_a_link_say_the_same_after_the_reason_of_a_supersession_went(tmp_path):
    with opened(models.model(superseding), candidates=2, recent=2) as memory:
        one = memory.add(SECRET, namespace=ANN, thread="t")
        older = memory.add("tea at nine", namespace=ANN, thread="t")
        newer = memory.add("tea at nine thirty", namespace=ANN, thread="t")
        memory.delete(one.id, namespace=ANN)
        assert SECRET not in exported(memory, tmp_path)
        ends = [memory.get(note.id, namespace=ANN).links for note in (older, newer)]
        reasons = [
            end[i.id].reason for end, i in zip(ends, (newer, older), strict=True) if i.id in end
        ]
        assert len(set(reasons)) <= 1


class Likes(BaseModel):
    """What somebody likes."""

    drinks: list[str] = []
    food: str = ""


def test_the_history_of_a_form_says_nothing_of_a_note_that_is_gone(tmp_path):
    replies = [{"value": {"food": SECRET}, "of": ["n2"]}, {"value": {"food": "rice"}, "of": ["n1"]}]
    script = {"construct": models.construct, "evolve": models.nothing, "fill": replies}
    with opened(ScriptedModel(script)) as memory:
        secret, _ = memory.add_many([f"I eat {SECRET}", "I drink"], namespace=ANN, evolve=False)
        memory.fill(Likes, namespace=ANN)
        memory.add("I eat rice", namespace=ANN, evolve=False)
        assert memory.fill(Likes, namespace=ANN) == Likes(food="rice")
        memory.delete(secret.id, namespace=ANN)
        assert SECRET not in exported(memory, tmp_path)


@pytest.mark.parametrize("field", ["thread", "key", "speaker"])
def test_the_name_of_a_thread_or_a_key_that_a_model_was_given_is_gone(tmp_path, field):
    def construct(request):
        said = " ".join(
            str(n[field]) for n in [*request.inputs["before"], *request.inputs["notes"]]
        )
        return {"notes": [{"id": n["alias"], "context": said} for n in request.inputs["notes"]]}

    model = ScriptedModel({"construct": construct, "evolve": models.nothing})
    with opened(model) as memory:
        given = {"thread": "t", field: f"room {SECRET}"}
        one = memory.add("tea is served", namespace=ANN, **given)
        items = [NoteInput(content=text, thread=given["thread"]) for text in ("ink", "sea")]
        memory.add_many(items, namespace=ANN)
        memory.delete(one.id, namespace=ANN)
        left = memory.get_all(namespace=ANN)
        assert all(SECRET not in repr(note.contexts) for note in left if note.thread == "t")
        assert SECRET not in exported(memory, tmp_path) or field == "thread"


LONG = "And so it went on and on and on, as ever before. "


def test_a_later_chunk_of_a_superseded_text_is_superseded_too():
    with opened(models.model(), split_tokens=20) as memory:
        one = memory.add(LONG.strip(), namespace=ANN)
        newer = memory.add("It is over", namespace=ANN)
        memory.supersede(one.id, newer.id, namespace=ANN)
        memory.update(one.id, namespace=ANN, content=LONG * 4)
        chunks = [note for note in memory.get_all(namespace=ANN) if note.chunk]
        assert len(chunks) > 1
        for hit in memory.search(LONG, namespace=ANN, k=20):
            assert hit.superseded_by == (newer.id if hit.note.chunk else None)
        with pytest.raises(InvalidInputError, match="part of the text"):
            memory.supersede(one.id, chunks[-1].id, namespace=ANN)
