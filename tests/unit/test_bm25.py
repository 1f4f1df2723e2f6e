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


def weights(encoded: tuple[list[int], list[float]]) -> dict[int, float]:
    indices, values = encoded
    return dict(zip(indices, values, strict=True))


@pytest.mark.parametrize("text", AWKWARD)
def test_indices_and_weights_are_those_of_qdrants_own_embedder(text: str) -> None:
    config = qdrant_edge.Bm25Config(
        k=1.2,
        b=0.75,
        avg_len=60,
        tokenizer=qdrant_edge.TokenizerType.Word,
        stopwords=qdrant_edge.StopwordsSet(custom=set()),
        stemmer=qdrant_edge.DisabledStemmer(),
    )
    theirs = qdrant_edge.Bm25(config).embed_document(text)
    ours = weights(Bm25(None).encode_document(text))
    assert ours == pytest.approx(dict(zip(theirs.indices, theirs.values, strict=True)), rel=1e-5)


def test_forms_of_a_word_are_one_word() -> None:
    bm25 = Bm25()
    assert bm25.encode_query("classes") == bm25.encode_query("Class")
    assert Bm25("german").encode_query("Häuser") == Bm25("german").encode_query("häusern")


def test_without_a_language_words_stay_as_they_are() -> None:
    bm25 = Bm25(None)
    assert bm25.encode_query("classes") != bm25.encode_query("class")
    assert bm25.encode_query("the")[0]


def test_stopwords_are_left_out_but_no_and_not_stay() -> None:
    assert Bm25().encode_query("the and of with") == ([], [])
    assert len(Bm25().encode_query("no not")[0]) == 2


def test_composed_and_decomposed_letters_are_the_same() -> None:
    assert Bm25().encode_query("café") == Bm25().encode_query("cafe\u0301")


def test_case_is_folded() -> None:
    assert Bm25(None).encode_query("STRASSE") == Bm25(None).encode_query("straße")


def test_a_word_of_a_query_weighs_as_often_as_it_is_said() -> None:
    bm25 = Bm25()
    (pottery,) = bm25.encode_query("pottery")[0]
    (clay,) = bm25.encode_query("clay")[0]
    assert weights(bm25.encode_query("clay clay the pottery clay")) == {pottery: 1.0, clay: 3.0}


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("昨日東京で陶芸をした", "東京"),
        ("昨日東京で陶芸をした", "陶"),
        ("私はパンが好き", "パン"),
        ("我昨天去了陶艺课", "陶艺课"),
        ("도자기수업을 들었다", "수업"),
        ("ฉันเรียนปั้นดินเผา", "ดินเผา"),
        ("pottery教室", "教室"),
        ("pottery教室", "pottery"),
    ],
)
def test_text_without_spaces_is_found_by_a_part(text: str, query: str) -> None:
    bm25 = Bm25()
    wanted = set(bm25.encode_query(query)[0])
    assert wanted
    assert wanted <= set(bm25.encode_document(text)[0])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("हिन्दी में कुम्हार", 3),  # Devanagari: vowel signs and virama
        ("தமிழ் மொழி", 2),
        ("বাংলা ভাষা", 2),
        ("ಕನ್ನಡ తెలుగు മലയാളം ਪੰਜਾਬੀ ગુજરાતી සිංහල", 6),
        ("مُحَمَّدٌ يَكْتُبُ", 2),
        ("שָׁלוֹם עֲלֵיכֶם", 2),
        ("नमस्‍ते", 1),  # with a joiner
        ("می‌خواهم", 1),  # Persian, with a non-joiner
        ("x\u0303y 1\ufe0f\u20e3", 2),
    ],
)
def test_a_combining_mark_belongs_to_its_word(text: str, words: int) -> None:
    assert len(Bm25(None).encode_query(text)[0]) == words


@pytest.mark.parametrize(
    ("pointed", "bare"),
    [
        ("مُحَمَّدٌ", "محمد"),
        ("العَرَبِيَّةُ", "العربية"),
        ("محـــمد", "محمد"),
        ("שָׁלוֹם", "שלום"),
        ("בְּרֵאשִׁ֖ית", "בראשית"),
    ],
)
def test_a_word_with_points_and_without_is_the_same(pointed: str, bare: str) -> None:
    assert Bm25().encode_query(pointed) == Bm25().encode_query(bare)
    assert Bm25().encode_query(bare)[0]


def test_words_that_differ_in_a_vowel_sign_are_different() -> None:
    assert Bm25().encode_query("कि") != Bm25().encode_query("की")


@given(st.text())
def test_a_text_finds_itself(text: str) -> None:
    bm25 = Bm25()
    query, document = bm25.encode_query(text)[0], bm25.encode_document(text)[0]
    assert set(query) <= set(document)
    assert bool(query) == bool(document)


def test_the_fingerprint_names_all_that_matters() -> None:
    prints = [
        Bm25(**options).fingerprint  # type: ignore[arg-type]
        for options in ({}, {"language": None}, {"avg_len": 50}, {"k": 1.0}, {"b": 0.5})
    ]
    assert len({repr(each) for each in prints}) == len(prints)
    assert Bm25().fingerprint == Bm25().fingerprint


@pytest.mark.parametrize(
    "options", [{"language": "klingon"}, {"avg_len": 0}, {"k": -1}, {"b": 1.5}]
)
def test_a_wrong_setting_is_named(options: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError):
        Bm25(**options)  # type: ignore[arg-type]
