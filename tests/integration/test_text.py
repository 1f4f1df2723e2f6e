"""Long texts, and texts without spaces between words."""
# ruff: noqa: RUF001 - Chinese punctuation is what it looks like

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from support import models

from amem_integrations import NoteInput
from amem_integrations.testing import HashEmbedder
from amem_integrations.texts import count_tokens, split

ANN = ("ann",)
STORY = "\n\n".join(
    f"Chapter {n}. " + " ".join(f"In sentence {n}.{s} the hero walks on." for s in range(12))
    for n in range(5)
)


# cutting


def test_a_text_is_cut_between_paragraphs_if_these_are_short_enough_or_between_sentences():
    parts = split(STORY, 120)
    assert [part.strip() for part in parts] == STORY.split("\n\n")
    assert "".join(parts) == STORY
    for part in split(STORY, 60):
        assert part.startswith(("Chapter", "In sentence"))
        assert part.rstrip().endswith(".")
    tokens = [count_tokens(part) for part in split("word " * 260, 150)]
    assert (len(tokens), min(tokens) > 100) == (3, True)  # the last part is no scrap
    for text in ("!" * 32000, "\n " * 15999 + "x", ".'" * 16000, "a" * 32000):  # in linear time
        assert "".join(split(text, 150)) == text


@given(st.text(st.sampled_from("ab .\n。é🏺\t!"), min_size=1, max_size=600), st.integers(20, 60))
def test_cutting_loses_nothing_but_space_and_keeps_to_the_size(text, size):
    parts = split(text, size)
    assert "".join("".join(parts).split()) == "".join(text.split())
    assert all(count_tokens(part) <= size for part in parts) or len(parts) == 1
    assert all(part.strip() for part in parts) or parts == [text]


# storing


def test_a_long_text_is_one_note_with_passages(memory):
    items = ["short", NoteInput(content=STORY, thread="t"), "A walk by the river.", STORY]
    notes = memory.add_many(items, namespace=ANN)
    assert [n.content[:9] for n in notes] == ["short", "Chapter 0", "A walk by", "Chapter 0"]
    assert memory.get_all(namespace=ANN) == notes
    note, other = notes[1], notes[3]
    assert (note.content, note.thread, note.state) == (STORY, "t", "done")
    assert len(note.passages) > 2
    assert "".join(STORY[start:end] for start, end in note.passages) == STORY
    memory.delete(other.id, namespace=ANN)
    hit = memory.search("In sentence 4.11 the hero walks on", namespace=ANN)[0]
    assert hit.note.id == note.id
    assert hit.passage.text == STORY[hit.passage.start : hit.passage.end]
    assert "sentence 4.11" in hit.passage.text
    memory.delete(note.id, namespace=ANN)
    assert memory.get_all(namespace=ANN) == [notes[0], notes[2]]
    assert "hero" not in repr(memory.history(None, namespace=ANN))


def test_an_update_of_a_long_text_gives_the_note_other_passages(memory):
    note = memory.add(STORY, namespace=ANN)
    memory.update(note.id, namespace=ANN, content="No hero, but a heroine.")
    memory.evolve()
    (hit,) = memory.search("heroine", namespace=ANN)
    assert (hit.note.content, hit.passage) == ("No hero, but a heroine.", None)
    assert memory.search("sentence 4.11", namespace=ANN)[0].note.content == hit.note.content
    (update,) = [c for c in memory.history(note.id, namespace=ANN) if c.kind == "update"]
    memory.undo(update.id, namespace=ANN)
    again = memory.get(note.id, namespace=ANN)
    assert (again.content, again.passages) == (STORY, note.passages)


def test_the_length_of_passages_follows_the_embedder(open_memory, tmp_path):
    def longest_of(note):
        return max(count_tokens(STORY[start:end]) for start, end in note.passages)

    longest, small = [], HashEmbedder(name="small")
    small.max_tokens = 100
    for most in (256, 512, 100):
        embedder = HashEmbedder()
        embedder.max_tokens = most
        note = open_memory(embedder=embedder).add(STORY, namespace=ANN, evolve=False)
        longest.append(longest_of(note))
    plain, wide, narrow = longest
    assert 60 < plain == wide <= 150
    assert narrow <= 60
    with models.opened(tmp_path) as memory:
        note = memory.add(STORY, namespace=ANN, evolve=False)
        memory.reindex(small)
        assert longest_of(memory.get(note.id, namespace=ANN)) == narrow < longest_of(note)


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


# any text

PIECES = st.sampled_from([*"  %-0?日한é\u0301🏺\n", "'s", "\u2019s", "ab", "A."])
TEXT = st.lists(PIECES, max_size=5).map("".join)


@settings(max_examples=60)
@given(st.lists(TEXT, min_size=2, max_size=4))
def test_whatever_is_said_is_stored_evolves_and_can_be_asked_for(memory, texts):
    said, space = [f"Ann {text} dog" for text in texts], ("any", str(len(texts)))
    memory.clear(namespace=space)
    notes = memory.add_many(said, namespace=space)
    assert {note.state for note in notes} == {"done"}
    for text in said:
        assert text in {hit.note.content for hit in memory.search(text, namespace=space)}
        memory.recall(text, namespace=space, messages=said)
        assert memory.context(text, namespace=space)
