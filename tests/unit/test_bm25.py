"""The BM25 embedder: the same tokens and weights always, and those of Qdrant's own."""

from __future__ import annotations

import pytest
import qdrant_edge
from hypothesis import given
from hypothesis import strategies as st

from amem_integrations.stores import bm25
from amem_integrations.stores.bm25 import encode_document, encode_query

AWKWARD = [
    "Pottery class, yesterday!",
    "naïve café Zoë Ünïcode ÅNGSTRÖM",
    "snake_case and kebab-case v2.0 3.14 10,000",
    "mail me@example.com or https://example.org/a?b=c#d",
    "don't can't it's",
    "word word WORD Word other",
    "emoji 🏺 pots 👩‍🎨 art",
    "tabs\tand\nnew lines\r\n",
]


def weights(encoded):
    indices, values = encoded
    return dict(zip(indices, values, strict=True))


def test_indices_and_weights_are_those_of_qdrants_own_embedder():
    stemmer = qdrant_edge.SnowballParams(qdrant_edge.SnowballLanguage.English)
    words = {"tokenizer": qdrant_edge.TokenizerType.Word, "stemmer": stemmer}
    left_out = qdrant_edge.StopwordsSet(custom=set(bm25._STOPWORDS))
    config = qdrant_edge.Bm25Config(k=1.2, b=0.75, avg_len=60, stopwords=left_out, **words)
    for text in AWKWARD:
        theirs = qdrant_edge.Bm25(config).embed_document(text)
        expected = dict(zip(theirs.indices, theirs.values, strict=True))
        assert weights(encode_document(text)) == pytest.approx(expected, rel=1e-5), text


SAME = [
    ("classes", "Class"),
    ("café", "cafe\u0301"),
    ("STRASSE", "straße"),
    ("مُحَمَّدٌ", "محمد"),
    ("العَرَبِيَّةُ", "العربية"),
    ("محـــمد", "محمد"),
    ("שָׁלוֹם", "שלום"),
    ("בְּרֵאשִׁ֖ית", "בראשית"),
]


def test_forms_of_a_word_are_one_word():
    for one, other in SAME:
        assert encode_query(one) == encode_query(other) != ([], []), one
    assert encode_query("कि") != encode_query("की")  # another vowel sign


def test_stopwords_are_left_out_but_no_and_not_stay():
    assert encode_query("the and of with") == ([], [])
    assert len(encode_query("no not")[0]) == 2


def test_a_word_of_a_query_weighs_as_often_as_it_is_said():
    (pottery,) = encode_query("pottery")[0]
    (clay,) = encode_query("clay")[0]
    assert weights(encode_query("clay clay the pottery clay")) == {pottery: 1.0, clay: 3.0}


def test_of_several_passages_the_one_counts_that_a_word_says_most_about():
    best, other = "pottery pottery", "the history of pottery in a small old town"
    (pottery,) = encode_query("pottery")[0]
    expected = weights(encode_document(best))[pottery]
    assert expected > weights(encode_document(other))[pottery]
    for passages in ((best, other), (other, best)):
        assert weights(encode_document(*passages))[pottery] == expected


PARTS = [
    ("昨日東京で陶芸をした", "東京"),
    ("昨日東京で陶芸をした", "陶"),
    ("私はパンが好き", "パン"),
    ("我昨天去了陶艺课", "陶艺课"),
    ("도자기수업을 들었다", "수업"),
    ("ฉันเรียนปั้นดินเผา", "ดินเผา"),
    ("pottery教室", "教室"),
    ("pottery教室", "pottery"),
]


def test_text_without_spaces_is_found_by_a_part():
    for text, query in PARTS:
        wanted = set(encode_query(query)[0])
        assert wanted, query
        assert wanted <= set(encode_document(text)[0]), query


WORDS = [
    ("हिन्दी में कुम्हार", 3),  # Devanagari: vowel signs and virama
    ("தமிழ் மொழி", 2),
    ("বাংলা ভাষা", 2),
    ("ಕನ್ನಡ తెలుగు മലയാളം ਪੰਜਾਬੀ ગુજરાતી සිංහල", 6),
    ("مُحَمَّدٌ يَكْتُبُ", 2),
    ("שָׁלוֹם עֲלֵיכֶם", 2),
    ("नमस्‍ते", 1),  # with a joiner
    ("می‌خواهم", 1),  # Persian, with a non-joiner
    ("x\u0303y 1\ufe0f\u20e3", 2),
]


def test_a_combining_mark_belongs_to_its_word():
    for text, words in WORDS:
        assert len(encode_query(text)[0]) == words, text


@given(st.text())
def test_a_text_finds_itself(text):
    query, document = encode_query(text)[0], encode_document(text)[0]
    assert set(query) <= set(document)
    assert bool(query) == bool(document)
