"""The user's own instructions and prompts, and prompts that are too long for the model."""

from __future__ import annotations

import pytest
from pydantic import BaseModel
from support import models

from amem_integrations import ConfigurationError, MemoryConfig, ModelReplyError, NoteInput
from amem_integrations.evolution.ask import MARGIN
from amem_integrations.prompts import PARTED, TEMPLATES
from amem_integrations.prompts.replies import FillReply, LinkReply, ReviseReply
from amem_integrations.testing import ScriptedModel
from amem_integrations.texts import count_tokens

ANN = ("ann",)
OWN = "Write in German. Leave out what is said about football."
TURNS = [f"kayak trip number {n} went to Norway" for n in range(8)]


@pytest.fixture
def opened(open_memory):
    """Opens memories, by default with a model that links every note; the model is at `memory.model`."""

    def open_(model=None, **settings):
        return open_memory(model or models.model(models.link_to_first), **settings)

    return open_


def add(memory, contents=TURNS):
    items = [NoteInput(content=content, thread="t") for content in contents]
    return memory.add_many(items, namespace=ANN)


def test_no_placeholder_stands_in_the_system_message_of_a_prompt():
    assert not any("$" in text.split(PARTED)[0] for text in TEMPLATES.values())


class Form(BaseModel):
    """What somebody does."""

    sport: str = ""


def paper_model(link=LinkReply(links=[]), **revise):  # noqa: B008 - nobody changes it
    script = {"construct": models.construct, "link": link, "revise": ReviseReply(**revise)}
    return ScriptedModel({**script, "fill": FillReply(value={}), "evolve": models.nothing})


def test_the_paper_makes_three_kinds_of_call_one_note_at_a_time(opened):
    said, config = "It was a kayak trip.", MemoryConfig.paper()
    model = paper_model(lambda r: models.link_to_first(r)["notes"][0], change=True, context=said)
    memory = opened(model, calls=config.calls, batch_size=config.batch_size, recent=0)
    first, later = add(memory, TURNS[:2])
    tasks = [request.task for request in model.requests]
    assert sorted(tasks) == ["construct", "construct", "link", "revise"]
    assert first.id in later.links
    assert memory.get(first.id, namespace=ANN).contexts[-1].text == said


def test_instructions_reach_every_prompt_in_one_marked_place_and_its_beginning_is_the_same(opened):
    memory = opened(instructions=OWN)
    add(memory)
    memory.add(TURNS[0], namespace=ANN, thread="another")
    model = paper_model(change=True, context="It was a kayak trip " * 10)
    paper = opened(model, instructions=OWN, calls="paper", batch_size=1)
    for content in TURNS:
        paper.add(content, namespace=ANN)
    paper.fill(Form, namespace=ANN)
    requests = [*memory.model.requests, *model.requests]
    begun = {(request.task, request.system) for request in requests}
    assert sorted(task for task, _ in begun) == sorted(TEMPLATES)
    for request in requests:
        assert request.system.endswith(f"<instructions>\n{OWN}\n</instructions>")
        assert OWN not in request.prompt
    plain = opened()
    add(plain)
    assert not any("<instructions>" in request.system for request in plain.model.requests)


PROMPTS = [
    ("construct", "S\n---\n$notes", r"has \$notes; it needs \$before, \$notes, \$speakers and"),
    ("construct", "S\n---\n$notes $before $speakers $day", r"\$day, .* it needs .* no other"),
    ("evolve", "S $notes\n---\n$notes $links", r"\$notes before the line"),
    ("evolve", "$notes and $links", "a line '---'"),
    ("evolve", "S\n---\n$notes $links costs $5", r"write '\$\$'"),
    ("evolve", 5, "must be a text"),
    ("sing", "S\n---\n$notes", "unknown task 'sing'"),
]
REFUSED = [
    *(({"instructions": given}, "instructions") for given in ("", "  ", 7, ["be brief"])),
    *(({"context_tokens": given}, "context_tokens") for given in (0, -1, 1.5, "many", True)),
    *(({"prompts": {task: text}}, said) for task, text, said in PROMPTS),
    ({"prompts": "S\n---\n$notes"}, "text by task"),
]


def test_what_cannot_be_used_is_refused_when_the_settings_are_made():
    for settings, message in REFUSED:
        with pytest.raises(ConfigurationError, match=message):
            MemoryConfig(**settings)


def test_a_prompt_can_be_replaced(opened):
    own = "Be a librarian.\n---\n$speakers said $before and $notes for $$5"
    memory = opened(prompts={"construct": own}, instructions=OWN)
    memory.add("I paint ${before} $$", namespace=ANN, speaker="Ann")
    request, *_ = memory.model.asked("construct")
    assert request.system.startswith("Be a librarian.")
    assert OWN in request.system
    assert request.prompt.startswith("Ann said (none) and (")
    assert request.prompt.endswith("I paint ${before} $$ for $5")


def longest(model):
    """Return the length of the longest prompt, in tokens as they are estimated."""
    return (
        max(count_tokens(one.system) + count_tokens(one.prompt) for one in model.requests) * MARGIN
    )


@pytest.mark.parametrize("by", ["model", "settings"])
def test_a_batch_that_is_too_long_for_the_model_is_asked_about_in_parts(opened, by):
    whole, most = opened(), 2100
    expected = [(n.keywords, len(n.links)) for n in add(whole)]
    assert longest(whole.model) + 120 * 9 > most
    small = models.model(models.link_to_first)
    if by == "model":
        small.context_tokens = most
    memory = opened(small, **({"context_tokens": most} if by == "settings" else {}))
    notes = add(memory)
    assert {note.state for note in notes} == {"done"}
    assert [(n.keywords, len(n.links)) for n in notes] == expected
    assert longest(small) < most
    assert len(small.asked("evolve")) > 1
    assert [text for r in small.asked("construct") for text in models.said_in(r)] == TURNS
    assert memory.stats()["usage"]["total"].get("rejected_replies", 0) == 0


def test_of_a_note_that_is_too_long_with_its_candidates_the_last_ones_are_left_out(opened):
    memory = opened(batch_size=1, recent=0)
    model = memory.model
    for n in range(12):
        memory.add(f"{'kayak trip to Norway ' * 6}{n}", namespace=ANN, evolve=n < 11)
    assert len(model.asked("evolve")[-1].inputs["notes"][0]["candidates"]) > 3
    model.context_tokens = int(longest(model)) + 100
    memory.evolve(namespace=ANN)
    shown = model.asked("evolve")[-1].inputs["notes"][0]["candidates"]
    assert 1 <= len(shown) < 10
    assert longest(model) < model.context_tokens


def test_the_papers_calls_keep_to_what_the_model_reads(opened):
    whole, small = (paper_model(change=False) for _ in range(2))
    small.context_tokens = 2200
    for model in (whole, small):
        memory = opened(model, calls="paper", recent=0)
        for n in range(12):
            memory.add(f"{'kayak trip to Norway ' * 80}{n}", namespace=ANN)
    assert longest(whole) > 2200 > longest(small)
    assert small.asked("link")


def test_a_single_note_that_does_not_fit_is_asked_about_all_the_same(opened):
    for calls in ("joint", "paper"):
        model = paper_model(change=False)
        model.context_tokens = 10
        notes = add(opened(model, calls=calls), TURNS[:2])
        assert [note.state for note in notes] == ["done", "done"]


def refusing(answer, *, most, spoiled=""):
    """A model that refuses what shows more texts than `most`, and talks nonsense about a note with a word alone."""

    def answering(request):
        notes, before = request.inputs["notes"], request.inputs.get("before", ())
        if len(notes) + len(before) > most:
            return ModelReplyError("the prompt is too long")
        is_spoiled = spoiled and spoiled in notes[0]["content"]
        return "nonsense" if is_spoiled else answer(request)

    return answering


def test_a_note_that_is_refused_alone_is_asked_about_without_the_turns_before_it(opened):
    memory = opened(models.model(construct=refusing(models.construct, most=3)))
    for turn in TURNS:
        memory.add(turn, namespace=ANN, thread="t")
    assert {note.state for note in memory.get_all(namespace=ANN)} == {"done"}
    assert memory.model.asked("construct")[-1].inputs["before"] == []


def test_each_part_of_a_batch_is_shown_the_parts_before_it(opened):
    too_long = ModelReplyError("the prompt is too long")
    model = models.model(construct=models.refusing(lambda said: len(said) > 2, too_long))
    add(opened(model))
    asked = []
    for request in model.asked("construct"):
        if len(request.inputs["notes"]) <= 2:
            assert [note["content"] for note in request.inputs["before"]] == asked
            asked += models.said_in(request)
    assert asked == TURNS


def test_only_the_part_of_a_batch_without_a_usable_answer_has_no_links(opened):
    answering = refusing(models.link_to_first, most=1, spoiled="number 5")
    memory = opened(models.model(answering))
    notes = add(memory)
    failed = [note.content for note in notes if note.state == "failed"]
    assert failed == [TURNS[5]]
    assert all(note.links for note in notes if note.state == "done")
