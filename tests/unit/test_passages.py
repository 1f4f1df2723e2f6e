"""Which passages of long texts answer a query, and how they are shown."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from support.notes import make_note

from amem_integrations import ScoredNote, render_notes
from amem_integrations.notes import Passage, Via
from amem_integrations.retrieval.passages import (
    MOST_CHARS,
    best_passages,
    excerpt,
    in_order_of_passages,
)
from amem_integrations.retrieval.relevance import relevant
from amem_integrations.texts import spans

PARAGRAPHS = [f"In chapter {n} nothing of note is said by anybody at all.\n\n" for n in range(40)]
STORY = "".join([*PARAGRAPHS[:20], "The dragon sleeps in Cardiff.\n\n", *PARAGRAPHS[20:]])
SPANS = spans(STORY, 60)


def long_hit(passages, score=1.0, text=STORY, **fields):
    note = make_note(text, passages=spans(text, 60))
    return ScoredNote(
        note=note, score=score, similarity=0.5, via="match", passages=tuple(passages), **fields
    )


def passage(text, score, story=STORY):
    start = story.index(text)
    return Passage(text=text, start=start, end=start + len(text), score=score)


def best_of(query, text=STORY, cosines=None):
    vectors = {} if cosines is None else {"a": cosines}
    return best_passages(query, {"a": (text, spans(text, 60))}, vectors)["a"]


def test_the_passage_with_the_words_of_the_query_is_the_best_where_no_vector_is_known():
    best = best_of("Where do the dragons sleep?")
    assert "dragon sleeps in Cardiff" in best[0].text
    for one in best:
        assert STORY[one.start : one.end] == one.text == one.text.strip()
    text = "今天天气很好。" * 30 + "我的猫叫小黑。" + "今天天气很好。" * 30  # without spaces
    assert "小黑" in best_of("小黑", text)[0].text
    best = best_of("chapter")  # of one text at most so many characters are taken
    assert len(best) > 2
    assert sum(len(one.text) for one in best) <= MOST_CHARS


def test_the_passage_with_the_best_cosine_is_the_best_where_no_word_tells():
    cosines = np.full(len(SPANS), 0.1, dtype=np.float32)
    cosines[3] = 0.8
    best, *_ = best_of("Qui dort ici ?", cosines=cosines)
    assert (best.start, best.end) == (SPANS[3][0], SPANS[3][0] + len(best.text))
    other_wording, *_ = best_of("Qui dort ici ?", cosines=cosines[1:])
    assert other_wording.start == 0


def test_passages_of_several_texts_are_ranked_together():
    other = "".join(PARAGRAPHS)
    texts = {"other": (other, spans(other, 60)), "story": (STORY, SPANS)}
    best = best_passages("Where does the dragon sleep?", texts, {})
    assert best["story"][0].score > best["other"][0].score


def test_hits_on_long_texts_stand_in_the_order_of_their_best_passages_and_others_stay():
    low, high = (long_hit([passage("The dragon", score)]) for score in (0.1, 0.9))
    short = ScoredNote(note=make_note("short"), score=0.8, similarity=0.5, via="match")
    found = in_order_of_passages([low, short, high])
    assert [hit.note.id for hit in found] == [high.note.id, short.note.id, low.note.id]
    assert [hit.score for hit in found] == [1.0, 0.8, 1.0]


def test_what_replaces_another_note_keeps_its_place_whatever_its_passages_say():
    newer, other = (long_hit([passage("The dragon", score)]) for score in (0.1, 0.5))
    older = long_hit([passage("The dragon", 0.9)], superseded_by=newer.note.id)
    found = in_order_of_passages([newer, older, other])
    assert [hit.note.id for hit in found] == [hit.note.id for hit in (newer, older, other)]


def test_an_excerpt_has_its_passages_in_the_order_of_the_text_with_marks_between_them():
    note = make_note(STORY)
    first, last = passage("In chapter 0", 0.1), passage("anybody at all.", 0.9)
    dragon = passage("The dragon sleeps in Cardiff.", 0.5)
    assert excerpt(note, [dragon]) == "… The dragon sleeps in Cardiff. …"
    assert excerpt(note, [dragon, first]) == "In chapter 0 … The dragon sleeps in Cardiff. …"
    assert excerpt(note, [last, first]).endswith("anybody at all. …")
    assert excerpt(make_note("short"), ()) == "short"
    assert len(excerpt(make_note("x" * 5000), ())) <= MOST_CHARS + 2


def test_a_prompt_shows_the_passages_of_a_long_text_and_not_all_of_it():
    hit = long_hit([passage("The dragon sleeps in Cardiff.", 0.9), passage("In chapter 39", 0.2)])
    text = render_notes([hit])
    assert "- … The dragon sleeps in Cardiff. … In chapter 39 …" in text
    assert "chapter 7" not in text
    assert "In chapter 39" not in render_notes([hit], max_tokens=42)
    assert "word" in render_notes([make_note("word " * 400)], max_tokens=32)


def test_a_prompt_has_the_passages_of_all_long_texts_by_their_scores():
    other = STORY.replace("Cardiff", "Swansea")
    best, second, third = (
        long_hit([passage("The dragon sleeps in Cardiff.", 0.9), passage("In chapter 39", 0.3)]),
        long_hit([passage("In chapter 12", 0.5, other)], text=other),
        ScoredNote(note=make_note("Short."), score=0.1, similarity=0.1, via="match"),
    )
    shown = [render_notes([best, second, third], max_tokens=n) for n in range(30, 120)]
    assert any("chapter 12" in text and "chapter 39" not in text for text in shown)
    assert not any("chapter 39" in text and "chapter 12" not in text for text in shown)
    assert all(words in shown[-1] for words in ("Cardiff", "chapter 12", "chapter 39", "Short."))


def test_a_long_text_is_about_a_question_if_one_of_its_passages_is():
    dragon = long_hit([passage("The dragon sleeps in Cardiff.", 0.9)])
    other = long_hit([passage("In chapter 1", 0.9)])
    step = Via(note_id=dragon.note.id, relation="r", reason="", strength=1.0)
    led_to = replace(other, via=(step,))
    for given, found in (([dragon, other], [dragon]), ([dragon, led_to], [dragon, led_to])):
        assert relevant("Where does the dragon sleep?", given, 0.99) == found
