"""Long texts, and texts without spaces between words."""
# ruff: noqa: RUF001 - Chinese punctuation is what it looks like

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amem_integrations import AgenticMemory, MemoryConfig, NoteInput
from amem_integrations.testing import HashEmbedder
from amem_integrations.texts import count_tokens, split

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


def test_a_text_is_cut_between_paragraphs_if_these_are_short_enough():
    parts = split(STORY, 120)
    assert [part.strip() for part in parts] == STORY.split("\n\n")
    assert "".join(parts) == STORY


def test_a_long_paragraph_is_cut_between_sentences():
    for part in split(STORY, 60):
        assert part.startswith(("Chapter", "In sentence"))
        assert part.rstrip().endswith(".")


@given(st.text(st.sampled_from("ab .\n。é🏺\t!"), min_size=1, max_size=600), st.integers(20, 60))
def test_cutting_loses_nothing_but_space_and_keeps_to_the_size(text, size):
    parts = split(text, size)
    assert "".join("".join(parts).split()) == "".join(text.split())
    assert all(count_tokens(part) <= size for part in parts) or len(parts) == 1
    assert all(part.strip() for part in parts) or parts == [text]


# storing


@pytest.mark.parametrize("key", [None, "doc"])
def test_a_long_text_is_one_note_with_passages(memory, key):
    note = memory.add(STORY, namespace=ANN, key=key, thread="t", speaker="Ann")
    assert memory.get_all(namespace=ANN) == [note]
    assert (note.content, note.thread, note.state) == (STORY, "t", "done")
    assert len(note.passages) > 2
    assert "".join(STORY[start:end] for start, end in note.passages) == STORY


def test_a_hit_on_a_long_text_says_where_the_passage_stands(memory):
    memory.add("A walk by the river.", namespace=ANN)
    note = memory.add(STORY, namespace=ANN)
    hit = memory.search("In sentence 4.11 the hero walks on", namespace=ANN)[0]
    assert hit.note.id == note.id
    assert hit.passage.text == STORY[hit.passage.start : hit.passage.end]
    assert "sentence 4.11" in hit.passage.text


def test_an_update_of_a_long_text_gives_the_note_other_passages(memory):
    note = memory.add(STORY, namespace=ANN)
    memory.update(note.id, namespace=ANN, content="No hero, but a heroine.")
    memory.evolve()
    (hit,) = memory.search("heroine", namespace=ANN)
    assert (hit.note.content, hit.passage) == ("No hero, but a heroine.", None)
    assert memory.search("sentence 4.11", namespace=ANN)[0].note.content == hit.note.content
    memory.update(note.id, namespace=ANN, content=STORY.replace("hero", "heroine"))
    (hit,) = memory.search("In sentence 4.11 the heroine walks on", namespace=ANN)
    assert "sentence 4.11 the heroine" in hit.passage.text


def test_deleting_a_long_text_removes_all_of_it(memory):
    note = memory.add(STORY, namespace=ANN)
    other = memory.add("Something else", namespace=ANN)
    memory.delete(note.id, namespace=ANN)
    assert memory.get_all(namespace=ANN) == [memory.get(other.id, namespace=ANN)]
    assert "hero" not in repr(memory.history(None, namespace=ANN))


def test_add_many_gives_a_note_for_each_item(memory):
    items = ["short", NoteInput(content=STORY, thread="t"), "also short", STORY]
    notes = memory.add_many(items, namespace=ANN)
    assert [n.content[:9] for n in notes] == ["short", "Chapter 0", "also shor", "Chapter 0"]
    assert len({n.id for n in notes}) == 4


def test_the_length_of_passages_follows_the_embedder():
    class Wide(HashEmbedder):
        max_tokens = 512

    class Narrow(HashEmbedder):
        max_tokens = 100

    longest = []
    for embedder in (HashEmbedder(), Wide(), Narrow()):
        with opened(embedder=embedder) as memory:
            note = memory.add(STORY, namespace=ANN, evolve=False)
            (note,) = memory.get_all(namespace=ANN)
            longest.append(max(count_tokens(STORY[start:end]) for start, end in note.passages))
    plain, wide, narrow = longest
    assert 60 < plain == wide <= 150
    assert narrow <= 60


# Chinese and Japanese

CHINESE = ["我昨天报名参加了陶艺课", "她喜欢在周末去爬山", "他的猫叫小黑，今年三岁"]
JAPANESE = ["私は陶芸教室に申し込みました", "週末は山に登るのが好きです", "猫の名前はクロです"]


def test_text_without_spaces_is_found_by_its_words(memory):
    for texts, queries in (
        (CHINESE, ("陶艺", "谁在爬山？", "猫")),
        (JAPANESE, ("陶芸", "山に登る", "猫の名前")),
    ):
        space = (texts[0],)
        memory.add_many(texts, namespace=space)
        for text, query in zip(texts, queries, strict=True):
            hits = memory.search(query, namespace=space, k=3, explain=True)
            assert {h.note.content: h.why.lexical_rank for h in hits}[text] == 1, query


@pytest.mark.parametrize("other", ["Short now.", STORY + " And one thing more.", STORY[::-1]])
def test_a_correction_of_a_long_text_can_be_undone(memory, other):
    note = memory.add(STORY, namespace=ANN)
    memory.update(note.id, namespace=ANN, content=other)
    assert memory.get(note.id, namespace=ANN).content == other
    update = [c for c in memory.history(note.id, namespace=ANN) if c.kind == "update"][-1]
    undone = memory.undo(update.id, namespace=ANN)
    assert memory.get(note.id, namespace=ANN).content == STORY
    memory.undo(undone.id, namespace=ANN)
    assert memory.get(note.id, namespace=ANN).content == other


@pytest.mark.parametrize("text", ["!" * 32000, "\n " * 15999 + "x", ".'" * 16000, "a" * 32000])
def test_any_text_is_cut_in_linear_time_and_joined_again(text):
    assert "".join(split(text, 150)) == text
