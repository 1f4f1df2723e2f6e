"""Which option an answer chooses."""

import pytest

from benchmarks.evaluation.dialsim.figures import chosen, refuses

OPTIONS = ("Ann", "Ann and Ben", "A cat", "Wren", "I don't know. (None of the above)")
A, B, C, D, E = range(5)


@pytest.mark.parametrize(
    ("answer", "place"),
    [
        ("(B)", B),
        ("(b)", B),
        ("B", B),
        (" B.", B),
        ("B) Ann and Ben", B),
        ("D: Wren", D),
        ("The answer is (D), since Ann was away.", D),
        ("(D) Wren (as she says)", D),
        ("(A) and (D) are both said, but the answer is (D).", D),
        ("Not (A). The answer is: D", D),
        ("The answer is D.", D),
        ("The answer is A cat", C),
        ("The answer is a cat", C),
        ("**C**", C),
        ("Wren", D),
        ("It was wren!", D),
        ("Ann and Ben", B),
        ("Ann", A),
        ("A cat", C),
        ("I don't know.", E),
        ("I don\N{RIGHT SINGLE QUOTATION MARK}t know who it was", E),
        ("The memories do not say.", E),
        ("I cannot answer this.", E),
        ("None of the above", E),
        ("There is no information about Wren.", E),
        ("I don't know. (None of the above)", E),
    ],
)
def test_an_answer_chooses_an_option(answer, place):
    assert chosen(answer, OPTIONS) == place


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "?",
        "Zoe",
        "(A) or (D)",
        "A) or (D",
        "Ann or Wren",
        "(Z)",
        "Z",
        "A friend of theirs",
        "Wrens",
        "(H) Tea",
    ],
)
def test_an_answer_that_chooses_none_or_several_is_none(answer):
    assert chosen(answer, OPTIONS) is None


def test_an_option_without_words_is_chosen_by_its_letter_alone():
    assert chosen("", ("?", "!")) is None
    assert chosen("(A)", ("?", "!")) == 0


@pytest.mark.parametrize(
    ("answer", "whether"),
    [
        ("I don't know.", True),
        ("That cannot be determined from the memories", True),
        ("It is not mentioned", True),
        ("Wren knows", False),
        ("You know who", False),
        ("", False),
    ],
)
def test_a_refusal_is_told_from_an_answer(answer, whether):
    assert refuses(answer) is whether
