"""How notes are shown to a chat model."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from support import models

from amem_integrations import NoteInput
from amem_integrations.evolution.show import clipped

ANN = ("ann",)
MAY = datetime(2023, 5, 8, tzinfo=UTC)


@pytest.fixture
def opened(open_memory):
    """Open memories; their model is at `memory.model`."""
    return lambda model=None, **settings: open_memory(model or models.model(), **settings)


def last(memory, task="evolve"):
    return memory.model.asked(task)[-1]


def said(content, **more):
    return NoteInput(content=content, speaker="Ann", thread="t", at=MAY, **more)


def test_new_notes_stand_under_their_day_with_its_weekday_and_speakers_are_said_once(opened):
    memory = opened()
    memory.add_many([said("I paint"), said("A lot")], namespace=ANN)
    (request,) = memory.model.asked("construct")
    assert "(Monday 8 May 2023)\n[n1] Ann: I paint\n[n2] Ann: A lot" in request.prompt
    memory.add_many([NoteInput(content=c, thread="t", speaker="Bob") for c in "ab"], namespace=ANN)
    assert "Speakers: Ann, Bob\n" in last(memory, "construct").prompt
    # A note without a speaker is shown by its role, and notes of no thread as no conversation.
    for source, line in (("user", "user: "), ("assistant", "assistant: "), ("import", "")):
        memory.add(f"Tides of {source}", namespace=ANN, source=source)
        assert f"[n1] {line}Tides of {source}" in last(memory, "construct").prompt
        assert "no conversation" not in last(memory, "construct").prompt
    memory.add_many(["kayak trip", "my kayak trip"], namespace=ANN)
    none = "(notes of their own, no conversation)\n("
    assert f"New notes:\n{none}" in last(memory, "construct").prompt
    assert f"refer to:\n{none}" in last(memory).prompt


def test_the_ids_that_a_note_may_refer_to_stand_under_it_with_a_star_at_what_it_replies_to(opened):
    memory = opened()
    bob = NoteInput(content="kayak trip 2", speaker="Bob", thread="t", at=MAY)
    memory.add_many([said("kayak trip 0"), said("kayak trip 1"), bob], namespace=ANN)
    prompt = last(memory).prompt
    assert "[n1] Ann: kayak trip 0\n  ids: (none)" in prompt
    assert "[n2] Ann: kayak trip 1\n  ids: n1\n" in prompt
    assert "[n3] Bob: kayak trip 2\n  ids: n2*, n1" in prompt
    # Filler is shown as a turn, but is no candidate, and nobody replies to it.
    memory = opened(models.model(construct=models.exclaiming))
    splendid = NoteInput(content="Splendid!", speaker="Bob", thread="t", at=MAY)
    memory.add_many([said("kayak trip"), splendid, said("kayak again")], namespace=ANN)
    assert "Splendid" not in last(memory).prompt
    assert "ids: n1\n" in last(memory).prompt  # no star: the turn before it is Ann's own
    assert "[n2] Bob: Splendid!" in last(memory, "construct").prompt


def test_what_a_note_means_by_itself_stands_under_it_where_its_words_leave_that_open(opened):
    contexts = {
        "It was great!": "Ann enjoyed the kayak trip of 7 May 2023.",
        "The kayak trip was wet": "Ann says that the kayak trip was wet.",
        "Quite": "",
    }

    construct = models.each(lambda note: {"c": contexts[note["content"]]})
    memory = opened(models.model(models.nothing, construct))
    memory.add_many([said(content) for content in contexts], namespace=ANN)
    (request,) = memory.model.asked("evolve")
    assert "It was great!\n  = Ann enjoyed the kayak trip of 7 May 2023.\n" in request.prompt
    assert request.prompt.count("  = ") == 1


def test_of_the_links_between_candidates_six_are_listed(opened):
    @models.each
    def link_all(note):
        return {"links": [{"to": c["alias"], "rel": "x" * 40} for c in note["candidates"]]}

    memory = opened(models.model(link_all))
    for n in range(6):
        memory.add(f"kayak trip {n}", namespace=ANN)
    asked = memory.model.asked("evolve")
    assert [len(request.inputs["links"]) for request in asked] == [0, 1, 3, 6, 6]
    for request in asked:
        rows = request.prompt.partition("Links between them:\n")[2]
        assert rows.count("x" * 40) == len(request.inputs["links"])
        assert (rows == "(none)") is (not request.inputs["links"])


@pytest.mark.parametrize("link", [True, False])
def test_a_reply_may_refer_only_to_what_stands_under_its_note(opened, link):
    def answer(request):
        ids = {c["alias"] for c in request.inputs["notes"][0]["candidates"]}
        other = next(c["alias"] for c in request.inputs["candidates"] if c["alias"] not in ids)
        return {"notes": [{"id": "n1", "links" if link else "updates": [{"to": other, "c": "So"}]}]}

    def late(request):
        return answer(request) if len(request.inputs["notes"]) > 1 else {"notes": []}

    memory = opened(models.model(late), candidates=1, recent=0)
    memory.add("zebra quartz", namespace=ANN, thread="1")
    memory.add("kayak trip", namespace=ANN, thread="2")
    items = [NoteInput(content=c, thread="3") for c in ("zebra quartz again", "kayak trip again")]
    memory.add_many(items, namespace=ANN, evolve=False)
    report = memory.evolve(namespace=ANN)
    assert (report.links, report.evolved, report.dropped) == (0, (), 1)


def test_a_short_earlier_note_is_shown_in_its_own_words_beside_its_context(opened):
    memory = opened()
    for text in ("kayak trip", "kayak trip " * 20):
        memory.add(text, namespace=ANN, thread="old", speaker="Ann", at=MAY)
    memory.add_many([said("kayak trip now"), said("the kayak trip")], namespace=ANN)
    prompt = last(memory).prompt
    assert 'Ann, 8 May 2023: About kayak trip "kayak trip"\n' in prompt
    assert f"About {'kayak trip ' * 20}".strip() + "\n" in prompt
    first, second = prompt.split("[n2]")  # it is shown where it is first listed, and once
    assert (first.count("[c1]"), second.count("[c1]"), "c1" in second) == (1, 0, True)
    memory = opened(models.model(models.supersede_first))
    for text in ("is in June", "is in May", "was good"):
        memory.add(f"The kayak trip {text}", namespace=ANN)
    assert "(outdated)" in last(memory).prompt


def test_what_was_added_to_an_earlier_note_is_shown_in_full_or_not_at_all(opened):
    texts = [
        f"{name} " + "kayak " * size + "end" for name, size in (("a", 45), ("b", 15), ("c", 15))
    ]

    def remark(request):
        (note,) = request.inputs["notes"]
        trip = [c["alias"] for c in request.inputs["candidates"] if c["content"] == "kayak trip"]
        updates = [{"to": trip[0], "c": texts.pop(0)}] if trip and texts else []
        return {"notes": [{"id": note["alias"], "updates": updates}]}

    memory = opened(models.model(remark))
    for n in ("", " 0", " 1", " 2", " at last"):
        memory.add(f"kayak trip{n}", namespace=ANN)
    prompt = last(memory).prompt
    assert prompt.count("Later: ") == prompt.count("kayak end") == 2  # the long one has no room


def test_the_turns_before_are_as_many_as_fit(opened):
    memory = opened()
    for n in range(30):
        memory.add(f"turn {n} {'of words' * 6}", namespace=ANN, thread="t", evolve=n > 28)
    before = memory.model.asked("construct")[-1].inputs["before"]
    assert 8 < len(before) < 24
    said = [n["content"].split()[1] for n in before]
    assert said == [str(n) for n in range(29 - len(before), 29)]
    memory.add("word " * 400, namespace=ANN, thread="t", evolve=False)
    memory.add("And you?", namespace=ANN, thread="t")
    assert len(memory.model.asked("construct")[-1].inputs["before"]) == 1


def test_text_is_cut_between_words_and_says_so():
    for text in ("kayak " * 100, "x" * 600, "日本語" * 200):
        cut = clipped(text, 100)
        assert len(cut) <= 100
        assert cut.endswith(" …")
        assert set(cut.split()) <= {"kayak", "…"} or " " not in text
