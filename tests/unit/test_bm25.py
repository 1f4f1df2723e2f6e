"""The BM25 embedder: the same tokens and weights always, and those of Qdrant's own."""

from __future__ import annotations

import pytest
import qdrant_edge
from hypothesis import given
from hypothesis import strategies as st

from amem_integrations.errors import ConfigurationError
from amem_integrations.stores.bm25 import Bm25

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
    words = {"tokenizer": qdrant_edge.TokenizerType.Word, "stemmer": qdrant_edge.DisabledStemmer()}
    none = qdrant_edge.StopwordsSet(custom=set())
    config = qdrant_edge.Bm25Config(k=1.2, b=0.75, avg_len=60, stopwords=none, **words)
    for text in AWKWARD:
        theirs = qdrant_edge.Bm25(config).embed_document(text)
        expected = dict(zip(theirs.indices, theirs.values, strict=True))
        assert weights(Bm25(None).encode_document(text)) == pytest.approx(expected, rel=1e-5), text


SAME = [
    (Bm25(), "classes", "Class"),
    (Bm25("german"), "Häuser", "häusern"),
    (Bm25(), "café", "cafe\u0301"),
    (Bm25(None), "STRASSE", "straße"),
    (Bm25(), "مُحَمَّدٌ", "محمد"),
    (Bm25(), "العَرَبِيَّةُ", "العربية"),
    (Bm25(), "محـــمد", "محمد"),
    (Bm25(), "שָׁלוֹם", "שלום"),
    (Bm25(), "בְּרֵאשִׁ֖ית", "בראשית"),
]


def test_forms_of_a_word_are_one_word():
    for bm25, one, other in SAME:
        assert bm25.encode_query(one) == bm25.encode_query(other) != ([], []), one
    assert Bm25(None).encode_query("classes") != Bm25(None).encode_query("class")
    assert Bm25().encode_query("कि") != Bm25().encode_query("की")  # another vowel sign


def test_stopwords_are_left_out_but_no_and_not_stay():
    assert Bm25().encode_query("the and of with") == ([], [])
    assert len(Bm25().encode_query("no not")[0]) == 2
    assert Bm25(None).encode_query("the")[0]


def test_a_word_of_a_query_weighs_as_often_as_it_is_said():
    bm25 = Bm25()
    (pottery,) = bm25.encode_query("pottery")[0]
    (clay,) = bm25.encode_query("clay")[0]
    assert weights(bm25.encode_query("clay clay the pottery clay")) == {pottery: 1.0, clay: 3.0}


def test_of_several_passages_the_one_counts_that_a_word_says_most_about():
    bm25, best, other = Bm25(), "pottery pottery", "the history of pottery in a small old town"
    (pottery,) = bm25.encode_query("pottery")[0]
    expected = weights(bm25.encode_document(best))[pottery]
    assert expected > weights(bm25.encode_document(other))[pottery]
    for passages in ((best, other), (other, best)):
        assert weights(bm25.encode_document(*passages))[pottery] == expected


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
        wanted = set(Bm25().encode_query(query)[0])
        assert wanted, query
        assert wanted <= set(Bm25().encode_document(text)[0]), query


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
        assert len(Bm25(None).encode_query(text)[0]) == words, text


@given(st.text())
def test_a_text_finds_itself(text):
    bm25 = Bm25()
    query, document = bm25.encode_query(text)[0], bm25.encode_document(text)[0]
    assert set(query) <= set(document)
    assert bool(query) == bool(document)


def test_the_fingerprint_names_all_that_matters():
    different = [{}, {"language": None}, {"avg_len": 50}, {"k": 1.0}, {"b": 0.5}]
    assert len({repr(Bm25(**options).fingerprint) for options in different}) == len(different)
    for options in ({"language": "klingon"}, {"avg_len": 0}, {"k": -1}, {"b": 1.5}):
        with pytest.raises(ConfigurationError):
            Bm25(**options)
