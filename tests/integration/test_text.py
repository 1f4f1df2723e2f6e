"""Long texts, and texts without spaces between words."""
# ruff: noqa: RUF001 - Chinese punctuation is what it looks like

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import models

from amem_integrations import AgenticMemory, ConfigurationError, MemoryConfig, NoteInput
from amem_integrations.chunks import split
from amem_integrations.testing import HashEmbedder
from amem_integrations.texts import count_tokens

ANN = ("ann",)
STORY = "\n\n".join(
    f"Chapter {n}. " + " ".join(f"In sentence {n}.{s} the hero walks on." for s in range(12))
    for n in range(5)
)


def opened(location=":memory:", model=None, embedder=None, **settings):
    return AgenticMemory.open(
        location, model=model, embedder=embedder or HashEmbedder(), config=MemoryConfig(**settings)
    )


# cutting


def test_a_short_text_is_left_as_it_is():
    assert split("  one\n\ntwo ", 20) == ["  one\n\ntwo "]


def test_a_text_is_cut_between_paragraphs_if_these_are_short_enough():
    parts = split(STORY, 120)
    assert [part.strip() for part in parts] == STORY.split("\n\n")
    assert "".join(parts) == STORY


def test_a_long_paragraph_is_cut_between_sentences():
    for part in split(STORY, 60):
        assert part.startswith(("Chapter", "In sentence"))
        assert part.rstrip().endswith(".")


def test_a_text_without_spaces_is_cut_between_its_sentences():
    text = "我昨天报名参加了陶艺课。老师教我们做杯子！" * 20
    parts = split(text, 60)
    assert "".join(parts) == text
    assert all(part[-1] in "。！" for part in parts)


def test_the_parts_are_of_about_equal_length():
    sizes = [count_tokens(part) for part in split("word " * 1000, 200)]
    assert max(sizes) - min(sizes) < 20


@given(st.text(st.sampled_from("ab .\n。é🏺\t!"), min_size=1, max_size=600), st.integers(20, 60))
def test_cutting_loses_nothing_but_space_and_keeps_to_the_size(text, size):
    parts = split(text, size)
    assert "".join("".join(parts).split()) == "".join(text.split())
    assert all(count_tokens(part) <= size for part in parts) or len(parts) == 1
    assert all(part.strip() for part in parts) or parts == [text]


# storing


@pytest.mark.parametrize("key", [None, "doc"])
@pytest.mark.parametrize("thread", [None, "t"])
def test_a_long_text_becomes_notes_one_after_the_other_in_their_thread(memory, key, thread):
    first = memory.add(STORY, namespace=ANN, key=key, thread=thread, speaker="Ann")
    notes = memory.get_all(namespace=ANN)
    assert notes[0] == first
    assert len(notes) > 2
    assert "".join(" ".join(n.content for n in notes).split()) == "".join(STORY.split())
    assert {(n.speaker, n.thread) for n in notes} == {("Ann", thread or first.id)}
    assert {n.state for n in notes} == {"done"}
    assert all(a.id in b.links for a, b in pairwise(notes))
    assert memory.search("sentence 4.11", namespace=ANN)[0].note.content in STORY


def test_adding_a_long_text_again_changes_nothing(memory):
    first = memory.add(STORY, namespace=ANN)
    notes = memory.get_all(namespace=ANN)
    assert memory.add(STORY, namespace=ANN) == first
    assert memory.get_all(namespace=ANN) == notes


def test_a_key_with_another_long_text_is_the_users_update_of_all_its_parts(memory):
    memory.add(STORY, namespace=ANN, key="doc", thread="t")
    before = memory.get_all(namespace=ANN)
    shorter = STORY[: len(STORY) // 2].replace("hero", "heroine")
    memory.add(shorter, namespace=ANN, key="doc", thread="t")
    after = memory.get_all(namespace=ANN)
    assert [n.id for n in after] == [n.id for n in before][: len(after)]
    assert "".join(" ".join(n.content for n in after).split()) == "".join(shorter.split())
    note = memory.add("There was no hero.", namespace=ANN, key="doc", thread="t")
    assert memory.get_all(namespace=ANN) == [note]
    memory.add(STORY, namespace=ANN, key="doc", thread="t")
    assert [n.id for n in memory.get_all(namespace=ANN)] == [n.id for n in before]


def test_an_update_of_a_long_text_changes_all_its_notes(memory):
    first = memory.add(STORY, namespace=ANN, thread="t")
    before = memory.get_all(namespace=ANN)
    assert memory.update(first.id, namespace=ANN, content=STORY) == first
    assert memory.get_all(namespace=ANN) == before
    shorter = STORY[: len(STORY) // 2].replace("hero", "heroine")
    memory.update(first.id, namespace=ANN, content=shorter)
    after = memory.get_all(namespace=ANN)
    assert [n.id for n in after] == [n.id for n in before][: len(after)]
    assert "".join(" ".join(n.content for n in after).split()) == "".join(shorter.split())
    assert memory.update(first.id, namespace=ANN, content="No hero.").content == "No hero."
    assert [n.content for n in memory.get_all(namespace=ANN)] == ["No hero."]


def test_deleting_the_note_that_add_returned_removes_all_of_the_text(memory):
    first = memory.add(STORY, namespace=ANN)
    other = memory.add("Something else", namespace=ANN)
    memory.delete(first.id, namespace=ANN)
    assert memory.get_all(namespace=ANN) == [memory.get(other.id, namespace=ANN)]
    assert "hero" not in repr(memory.history(None, namespace=ANN))


def test_a_text_that_is_not_to_be_split_stays_one_note(memory):
    item = NoteInput(content=STORY, key="doc", split=False)
    (note,) = memory.add_many([item], namespace=ANN)
    assert note.content == STORY
    memory.update(note.id, namespace=ANN, content=STORY + STORY)
    assert [n.content for n in memory.get_all(namespace=ANN)] == [STORY + STORY]


def test_add_many_gives_a_note_for_each_item():
    with opened() as memory:
        items = ["short", NoteInput(content=STORY, thread="t"), "also short", STORY]
        notes = memory.add_many(items, namespace=ANN)
        assert [n.content[:9] for n in notes] == ["short", "Chapter 0", "also shor", "Chapter 0"]
        assert len({n.id for n in notes}) == 4


def test_the_size_follows_the_embedder_and_the_settings():
    class Wide(HashEmbedder):
        max_tokens = 512

    class Narrow(HashEmbedder):
        max_tokens = 100

    counts = []
    for embedder, settings in (
        (HashEmbedder(), {}),
        (Wide(), {}),
        (Wide(), {"split_tokens": 400}),
        (Narrow(), {}),
        (HashEmbedder(), {"split": False}),
    ):
        with opened(embedder=embedder, **settings) as memory:
            memory.add(STORY, namespace=ANN, evolve=False)
            notes = memory.get_all(namespace=ANN)
            counts.append(max(count_tokens(n.content) for n in notes))
    plain, wide, set_, narrow, whole = counts
    assert plain == wide <= 150 < set_ <= 400
    assert narrow <= 60
    assert whole == count_tokens(STORY)


def test_a_size_that_is_too_small_is_a_clear_error():
    with pytest.raises(ConfigurationError, match="split_tokens"):
        MemoryConfig(split_tokens=5)


async def test_the_asynchronous_twin_splits_too():
    with opened(model=models.model()) as memory:
        first = await memory.aadd(STORY, namespace=ANN)
        notes = await memory.aget_all(namespace=ANN)
        assert notes[0] == first
        assert len(notes) > 2


# Chinese and Japanese

CHINESE = ["我昨天报名参加了陶艺课", "她喜欢在周末去爬山", "他的猫叫小黑，今年三岁"]
JAPANESE = ["私は陶芸教室に申し込みました", "週末は山に登るのが好きです", "猫の名前はクロです"]


@pytest.mark.parametrize(
    ("texts", "query", "wanted"),
    [
        (CHINESE, "陶艺", 0),
        (CHINESE, "谁在爬山？", 1),
        (CHINESE, "猫", 2),
        (JAPANESE, "陶芸", 0),
        (JAPANESE, "山に登る", 1),
        (JAPANESE, "猫の名前", 2),
    ],
)
def test_text_without_spaces_is_found_by_its_words(memory, texts, query, wanted):
    memory.add_many(texts, namespace=ANN)
    hits = memory.search(query, namespace=ANN, k=3, explain=True)
    ranked = {hit.note.content: hit.why.lexical_rank for hit in hits}
    assert ranked[texts[wanted]] == 1


def whole(memory):
    notes = memory.get_all(namespace=ANN, limit=1000)
    return "".join(note.content for note in sorted(notes, key=lambda note: note.chunk))


@pytest.mark.parametrize("other", ["Short now.", STORY + " And one thing more.", STORY[::-1]])
def test_another_text_can_be_undone_whole(memory, other):
    first = memory.add(STORY, namespace=ANN)
    memory.update(first.id, namespace=ANN, content=other)
    assert whole(memory) == other
    update = [c for c in memory.history(first.id, namespace=ANN) if c.kind == "update"][-1]
    undone = memory.undo(update.id, namespace=ANN)
    assert whole(memory) == STORY
    memory.undo(undone.id, namespace=ANN)
    assert whole(memory) == other


def test_a_short_note_that_becomes_long_is_split_and_joined_again(memory):
    note = memory.add("tiny", namespace=ANN, key="k")
    memory.add(STORY, namespace=ANN, key="k")
    assert memory.stats()["notes"] > 2
    assert whole(memory) == STORY
    memory.update(note.id, namespace=ANN, content="tiny again")
    assert [kept.content for kept in memory.get_all(namespace=ANN)] == ["tiny again"]
    memory.update(note.id, namespace=ANN, content=STORY)
    assert whole(memory) == STORY


@pytest.mark.parametrize("text", ["!" * 32000, "\n " * 15999 + "x", ".'" * 16000, "a" * 32000])
def test_any_text_is_cut_in_linear_time_and_joined_again(text):
    assert "".join(split(text, 150)) == text
