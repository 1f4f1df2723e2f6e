"""Both scorings at once: what they share, and what every answer gets from them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amem_integrations.testing import HashEmbedder
from benchmarks.evaluation import Question, locomo, scoring

DATA = os.environ.get("AMEM_DATA")
OVERLAPS = [name for name in scoring.MEASURES if name != "sbert"]


def question(category: int, gold: str | None, adversarial: str | None = None) -> Question:
    return Question(
        text="?", category=category, evidence=frozenset(), answer=gold, adversarial=adversarial
    )


class Counting(HashEmbedder):
    """Remembers what it was asked to encode."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[list[str]] = []

    def embed_documents(self, texts):
        self.batches.append(list(texts))
        return super().embed_documents(texts)


def test_scores_come_in_the_order_of_the_answers_with_every_measure():
    items = [(question(4, "kite"), "barn"), (question(4, "kite"), "kite"), (question(4, None), "x")]
    found = scoring.score(items, embedder=HashEmbedder())
    assert [one.official["f1"] for one in found] == [0, 1, None]
    assert [one.amem["f1"] for one in found] == [0, 1, None]
    for one in found:
        assert tuple(one.official) == tuple(one.amem) == scoring.MEASURES
    assert scoring.score([], embedder=HashEmbedder()) == []


def test_each_distinct_text_is_encoded_once_and_all_in_one_batch():
    embedder = Counting()
    items = [
        (question(1, "kite, barn"), "barn, owl"),
        (question(4, "kite"), "barn"),
        (question(4, "kite"), ""),
        (question(5, None, "owl"), "kite"),
    ]
    scoring.score(items, embedder=embedder)
    (batch,) = embedder.batches
    assert sorted(batch) == ["barn", "barn, owl", "kite", "kite, barn", "owl"]


def test_nothing_is_encoded_when_there_is_nothing_to_compare():
    embedder = Counting()
    scoring.score([(question(4, None), "kite"), (question(4, ""), "")], embedder=embedder)
    assert embedder.batches == []


def test_sbert_is_the_cosine_of_the_two_texts():
    embedder = HashEmbedder()
    gold, answer = embedder.embed_documents(["red kite", "red barn"])
    (found,) = scoring.score([(question(4, "red kite"), "red barn")], embedder=embedder)
    assert found.amem["sbert"] == found.official["sbert"] == pytest.approx(float(gold @ answer))


def test_sbert_of_a_list_is_the_mean_of_the_best_cosines():
    embedder = HashEmbedder()
    red, barn, owl = embedder.embed_documents(["red kite", "barn", "grey owl"])
    (found,) = scoring.score([(question(1, "red kite, barn"), "grey owl, barn")], embedder=embedder)
    best = max(float(red @ owl), float(red @ barn))
    assert found.official["sbert"] == pytest.approx((best + 1) / 2, abs=1e-6)


def test_falling_for_an_adversarial_question_is_good_only_in_the_authors_scoring():
    asked = question(5, None, "tea is healthy")
    fooled, refused = scoring.score(
        [(asked, "tea is healthy"), (asked, "Not mentioned in the conversation")],
        embedder=HashEmbedder(),
    )
    assert (fooled.official["f1"], refused.official["f1"]) == (0, 1)
    assert (fooled.amem["f1"], refused.amem["f1"]) == (1, 0)


@settings(deadline=None)
@given(st.integers(1, 5), st.text(max_size=30), st.text(max_size=30))
def test_any_text_has_scores_within_their_ranges(category, gold, answer):
    (found,) = scoring.score([(question(category, gold, gold), answer)], embedder=HashEmbedder())
    for values in (found.official, found.amem):
        for name in OVERLAPS:
            assert values[name] is None or 0 <= values[name] <= 1 + 1e-9
        assert values["sbert"] is None or -1 <= values["sbert"] <= 1
    missing = [name for name, value in found.official.items() if value is None]
    assert missing == (list(scoring.MEASURES[1:]) if category == 5 else [])


@settings(deadline=None)
@given(st.integers(1, 4), st.text(max_size=30))
def test_an_empty_answer_scores_nothing(category, gold):
    (found,) = scoring.score([(question(category, gold), " ")], embedder=HashEmbedder())
    zero = dict.fromkeys(scoring.MEASURES, 0.0)
    assert found.official == found.amem == zero


@pytest.mark.parametrize("gold", ["2022", "七月", "Ёж и ёлка", "naïve café", "🦉"])
def test_numbers_and_other_scripts_are_words_like_any_other(gold):
    (found,) = scoring.score([(question(4, gold), gold)], embedder=HashEmbedder())
    assert found.official["f1"] == found.official["bleu1"] == found.official["rougeL"] == 1
    assert found.amem["f1"] == found.amem["bleu1"] == 1
    assert found.official["sbert"] == pytest.approx(1)


def test_what_scores_depend_on_is_described():
    described = scoring.describe(HashEmbedder())
    assert described["embedder"] == HashEmbedder().name
    assert described["meteor_stages"][:2] == ["exact", "stem"]
    assert set(described["versions"]) == {"nltk", "rouge-score"}
    assert json.loads(json.dumps(described)) == described


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=Path(__file__).parents[2],
        env={**os.environ, **environment},
    )


SCORE = """
import json
from benchmarks.evaluation import Question, scoring
from amem_integrations.testing import HashEmbedder
question = Question(text="?", category=4, evidence=frozenset(), answer="auto")
found = scoring.score([(question, "car")], embedder=HashEmbedder())[0]
stages = scoring.describe(HashEmbedder())["meteor_stages"]
print(json.dumps([stages, found.official["meteor"], found.amem["meteor"]]))
"""


@pytest.mark.parametrize("library", ["nltk", "rouge_score"])
def test_a_missing_library_is_said_with_the_extra_that_brings_it(library):
    done = python(f"import sys\nsys.modules[{library!r}] = None\n{SCORE}")
    assert "amem-integrations[evaluation]" in done.stderr


def test_importing_the_scorings_loads_no_library():
    loaded = "[name for name in ('nltk', 'rouge_score', 'absl') if name in sys.modules]"
    done = python(
        f"import sys, benchmarks.evaluation.gold_corrections, benchmarks.evaluation.scoring\nprint({loaded})"
    )
    assert done.stdout.strip() == "[]", done.stderr


def wordnet(folder: Path) -> None:
    """Write a WordNet of one synset: car, auto."""
    files = folder / "corpora" / "wordnet"
    files.mkdir(parents=True)
    for part in ("adj", "adv", "noun", "verb"):
        for name in (f"index.{part}", f"data.{part}", f"{part}.exc"):
            (files / name).touch()
    for name in ("cntlist.rev", "index.sense"):
        (files / name).touch()
    (files / "lexnames").write_text("00\tnoun.artifact\t1\n")
    (files / "data.noun").write_text("00000000 00 n 02 car 0 auto 0 000 | a motor vehicle  \n")
    index = "auto n 1 0 1 0 00000000  \ncar n 1 0 1 0 00000000  \n"
    (files / "index.noun").write_text(index)


def test_meteor_knows_synonyms_where_the_users_nltk_has_wordnet(tmp_path):
    wordnet(tmp_path)
    done = python(SCORE, NLTK_DATA=str(tmp_path))
    assert json.loads(done.stdout) == [["exact", "stem", "synonyms"], 0.5, 0.5], done.stderr


def test_meteor_does_without_wordnet_and_downloads_nothing(tmp_path):
    done = python(SCORE, NLTK_DATA=str(tmp_path), HOME=str(tmp_path))
    assert json.loads(done.stdout) == [["exact", "stem"], 0.0, 0.0], done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def asked() -> list[Question]:
    """The questions of LoCoMo."""
    if not DATA:
        pytest.skip("AMEM_DATA is not set: no LoCoMo here")
    conversations = locomo.load(Path(DATA) / "locomo" / "locomo_dev.json")
    return [one for conversation in conversations for one in conversation.questions]


def perfect(values: scoring.Measured) -> bool:
    names = ("f1", "bleu1", "rouge1", "rougeL", "sbert")
    return [values[name] for name in names] == pytest.approx([1] * len(names), abs=1e-6)


def test_on_locomo_every_gold_answer_is_a_perfect_answer(asked):
    items = [(one, one.answer) for one in asked if one.category != 5]
    items = [(one, gold.split(";")[0] if one.category == 3 else gold) for one, gold in items]
    for (one, gold), scores in zip(
        items, scoring.score(items, embedder=HashEmbedder()), strict=True
    ):
        assert perfect(scores.official), one
        if one.category != 1:
            words = scoring.normalised(gold).split()
            assert scores.official["rouge2"] == float(len(words) > 1), one
            assert scores.official["meteor"] == pytest.approx(1 - 0.5 / len(words) ** 3), one


def test_on_locomo_every_gold_is_perfect_as_it_stands_in_the_authors_scoring(asked):
    golds = [one.adversarial if one.category == 5 else one.answer for one in asked]
    items = list(zip(asked, golds, strict=True))
    for (one, gold), scores in zip(
        items, scoring.score(items, embedder=HashEmbedder()), strict=True
    ):
        assert perfect(scores.amem), one
        assert scores.amem["meteor"] == pytest.approx(1 - 0.5 / len(gold.split()) ** 3), one
        if one.category == 5:  # of one question even the "wrong" answer is a refusal
            assert scores.official["f1"] == (gold == "Not mentioned"), one


def test_on_locomo_refusing_is_right_for_adversarial_questions_alone(asked):
    items = [(one, "Not mentioned in the conversation") for one in asked]
    found = scoring.score(items, embedder=HashEmbedder())
    right = [one.official["f1"] == 1 for one in found]
    assert right == [one.category == 5 for one in asked]


def test_on_locomo_two_adversarial_questions_have_a_real_answer_beside_the_wrong_one(asked):
    adversarial = [one for one in asked if one.category == 5]
    assert all(one.adversarial for one in adversarial)
    both = [(one.answer, one.adversarial) for one in adversarial if one.answer]
    assert both == [("No", "Yes"), ("No", "Yes")]
    assert not any(one.adversarial for one in asked if one.category != 5)
