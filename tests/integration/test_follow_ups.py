"""Follow-ups: a question that only what was said before makes clear finds its note; one that stands alone loses nothing."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from amem_integrations import AgenticMemory, InvalidInputError, NoteInput
from amem_integrations.kinds import points_back
from amem_integrations.retrieval.relevance import WINDOW, messages_before, together

KIM = ("kim",)
ROOT = Path(__file__).parents[2]
FOLLOW_UPS, CHANGES = (
    ROOT / "tests/data/follow_ups.jsonl",
    ROOT / "benchmarks/dialogues/currency.jsonl",
)
SCENES = [json.loads(line) for line in FOLLOW_UPS.read_text(encoding="utf-8").splitlines()]
OTHERS = [json.loads(line) for line in CHANGES.read_text(encoding="utf-8").splitlines()[:40]]
REPORTED = range(1, len(SCENES), 2)  # the constants were chosen on the other half


def key(scene, place):
    return f"{scene}/{place}"


@pytest.fixture(scope="module")
def memory(minilm):
    """Return 216 notes on many subjects, and the messages before the questions as notes too, as an agent stores them."""
    at, items = datetime(2026, 3, 1, tzinfo=UTC), []

    def say(text, thread, key=None, **later):
        at_ = items[-1].at if items else at
        more = {"at": at_ + timedelta(**later), "speaker": "Kim"}
        items.append(NoteInput(content=text, thread=thread, key=key, **more))

    for place in range(len(OTHERS)):
        for number, text in enumerate(SCENES[place]["notes"] if place < len(SCENES) else ()):
            say(text, f"s{place}", key(place, number), minutes=1)
        for turn in OTHERS[place]["turns"][:3]:
            say(turn["content"], f"o{place}", hours=5)
    for place, scene in enumerate(SCENES):
        for number, one in enumerate(scene["follow_ups"]):
            for text in one["before"]:
                say(text, f"t{place}/{number}", minutes=1)
    with AgenticMemory.open(":memory:", embedder=minilm) as opened:
        opened.add_many(items, namespace=KIM, evolve=False)
        yield opened


def share_found(memory, field, before):
    """Return for how many follow-ups of the reported half the answer is among the first five hits."""
    found = []
    for place in REPORTED:
        for number, one in enumerate(SCENES[place]["follow_ups"]):
            messages = before(place, number, one)
            hits = memory.search(one[field], namespace=KIM, k=5, messages=messages)
            found.append(key(place, one["answer"]) in [hit.note.key for hit in hits])
    return sum(found) / len(found)


def other_messages(place, number):
    return SCENES[(place + 5 + number) % len(SCENES)]["follow_ups"][0]["before"]


def test_follow_ups_find_nearly_what_questions_in_full_do_which_lose_nothing_by_other_messages(
    memory,
):
    in_full = share_found(memory, "full", lambda *_: ())
    assert share_found(memory, "question", lambda *_: ()) < 0.8  # they need what was said before
    after_others = share_found(
        memory, "question", lambda p, n, one: [*other_messages(p, n), *one["before"]]
    )
    assert after_others >= 0.85 * in_full
    among = share_found(memory, "full", lambda place, number, _: other_messages(place, number))
    assert among >= in_full - 0.01


def test_recall_and_context_take_messages_too(memory):
    messages = [
        {"role": "user", "content": "My sister Ella is coming over on Saturday."},
        {"role": "assistant", "content": "Nice! Are you cooking for her?"},
        {"role": "user", "content": "And where does she work?"},  # the question itself
    ]
    hits = memory.recall("And where does she work?", namespace=KIM, k=5, messages=messages)
    assert "harbour museum" in " ".join(hit.note.content for hit in hits)
    text = memory.context("And where does she work?", namespace=KIM, k=5, messages=messages)
    assert "harbour museum" in text
    for scene in SCENES:  # what was said before is stored as well, and comes last
        asked = scene["follow_ups"][0]
        hits = memory.search(asked["question"], namespace=KIM, k=5, messages=asked["before"])
        assert not {hit.note.content for hit in hits} & set(asked["before"])


def test_messages_that_are_none_are_an_error(memory):
    for wrong in ("hello", [3], [{"content": "no role"}], {"role": "user"}):
        with pytest.raises(InvalidInputError, match="message"):
            memory.search("And where does she work?", namespace=KIM, messages=wrong)


def test_only_the_last_messages_count_and_small_talk_does_not():
    said = ["I met Ann.", "Then Bob came.", "Carl sang.", "Thanks!", "Dora left."]
    for messages in (said, [*said, "And why?"]):  # the question itself may stand there
        found = [one.text for one in messages_before("And why?", messages)]
        assert found == [*said[1:3], *said[4:]][-WINDOW:]
    assert messages_before("When did Dora leave?", said) == ()
    assert together("Where?", ()) == "Where?"


def test_a_question_points_back_by_a_pronoun_without_a_name_by_going_on_or_by_saying_nothing_else():
    back = [
        "And where does she work?",
        "What about Fridays?",
        "When is it?",
        "When does it end on Friday?",
        "Should I call her?",
        "Why?",
        "Und wann kommt sie?",
        "Où habite-t-elle ?",
        "¿Y cuándo es?",
        "彼女はどこで働いていますか",
        "她在哪里工作",
    ]
    alone = [
        "When is Ella's wedding?",
        "What did Hanneke say about her holiday?",
        "How old is my son?",
        "Wann hat Anna Geburtstag?",
        "¿Cuándo es la boda de Ana?",
        "What is 2+2?",
        "Thanks!",
    ]
    assert [text for text in back if not points_back(text)] == []
    assert [text for text in alone if points_back(text)] == []
