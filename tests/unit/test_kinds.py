"""What kind of utterance a text is: filler, a question, or a statement, in several languages."""

from __future__ import annotations

import json
from pathlib import Path

from amem_integrations.kinds import kind_of, telling_words

TEXTS = json.loads((Path(__file__).parents[1] / "data/kinds.json").read_text(encoding="utf-8"))


def test_a_text_is_filler_a_question_or_a_statement():
    for kind, texts in TEXTS.items():
        for text in texts:
            assert kind_of(text) == kind, text


def test_filler_with_a_name_a_number_or_a_date_is_no_filler():
    for more in ["Rex", "42", "in March", "Осло", "東京", "मुंबई"]:
        for text in TEXTS["filler"]:
            assert kind_of(f"{text} {more}") != "filler", (text, more)


def test_a_long_text_is_read_in_reasonable_steps():
    assert kind_of("thanks " * 40) == "filler"
    assert kind_of("thanks " * 250 + "Rex") == "statement"
    assert kind_of("ha" * 900 + "t") == "statement"
    assert kind_of("thanks " * 4_000) == "statement"
    # Each of these is one filler or two.
    for filler in ("bye bye ", "thank you very much ", "拜拜", "\u0647\u0647\u0647\u0647\u0647 "):
        assert kind_of((filler * 140)[:280] + " Zoe") == "statement"


def test_an_s_that_stands_alone_tells_nothing():
    for text in ("Ann 's dog ran", "Ann \u2019s dog ran", "Ann's dog ran", "50%'s dog ran Ann"):
        assert telling_words(text) == telling_words("Ann dog ran"), text
