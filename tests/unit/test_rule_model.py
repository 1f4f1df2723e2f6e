from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from support import models

from amem_integrations import AgenticMemory, MemoryConfig, ModelRequest, NoteInput, RuleModel
from amem_integrations.prompts.replies import ConstructReply
from amem_integrations.testing import HashEmbedder

ANN = ("ann",)


@pytest.fixture
def memory():
    with models.opened(embedder=HashEmbedder(256), min_gate_similarity=0.0) as opened:
        yield opened


def test_a_context_says_who_spoke_when_and_what_it_replied_to(memory):
    at = datetime(2023, 5, 8, tzinfo=UTC)
    turns = [("Bob", "What did you do?"), ("Ann", "I, Ann, went to a pottery class")]
    items = [NoteInput(content=c, speaker=s, at=at, thread="t") for s, c in turns]
    notes = memory.add_many(items, namespace=ANN)
    said = ["Bob on 8 May 2023", 'Ann on 8 May 2023, replying to "What did you do?"']
    assert [note.contexts[0].text for note in notes] == said
    assert ("pottery class" in notes[1].keywords, "pottery" in notes[1].tags) == (True, True)
    assert "Ann" not in notes[1].keywords
    assert {note.attributes_source for note in notes} == {"rules"}
    alone = memory.add_many(["I like tea", "I like ink"], namespace=ANN)  # no conversation
    assert [note.contexts[0].text for note in alone] == ["", ""]


def paddle(memory):
    said = (("1", "want to"), ("2", "did"))
    texts = {thread: f"I {verb} paddle around Lofoten by kayak" for thread, verb in said}
    return [memory.add(text, namespace=ANN, thread=thread) for thread, text in texts.items()]


def test_a_note_of_another_conversation_that_says_the_same_is_linked_and_evolves(memory):
    first, later = paddle(memory)
    assert later.links[first.id].relation == "same_topic"
    assert "kayak" in later.links[first.id].reason or "paddle" in later.links[first.id].reason
    evolved = memory.get(first.id, namespace=ANN)
    assert evolved.contexts[1].cause == later.id
    assert "did paddle" in evolved.contexts[1].text
    again = memory.add("I did so paddle around Lofoten by kayak", namespace=ANN, thread="2")
    assert again.links[later.id].relation == "follows"  # what it says of its own conversation
    assert again.links[first.id].relation == "same_topic"


def test_rules_link_at_once_with_the_settings_of_the_paper_too():
    config = MemoryConfig.paper()
    with AgenticMemory.open(":memory:", embedder=HashEmbedder(256), config=config) as memory:
        first, later = paddle(memory)
        assert first.id in later.links
        assert len(memory.get(first.id, namespace=ANN).contexts) == 2
        assert set(memory.stats()["usage"]) == {"construct", "evolve", "total", "models"}
        memory.add("Around the kayak it was cold", namespace=ANN, thread="3")
        assert len(memory.get(first.id, namespace=ANN).contexts) == 2
        assert memory.proposals(namespace=ANN) == []


def test_a_construct_answer_is_json_of_the_form_asked_for_and_its_quote_is_short():
    note = {"alias": "n1", "key": None, "content": "I like tea", "speaker": None, "at": None}
    note |= {"thread": "t"}
    before = {**note, "alias": "b1", "content": "東京" * 1000}  # in a script without spaces
    empty = {"task": "construct", "system": "", "prompt": "", "reply": ConstructReply}
    request = ModelRequest(**empty, inputs={"notes": [note], "before": [before]})
    reply = ConstructReply.model_validate(json.loads(RuleModel().generate(request).text))
    assert reply.notes[0].id == "n1"
    assert 500 <= len(reply.notes[0].context) < 550
