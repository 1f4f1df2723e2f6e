"""The scoring of A-MEM's authors (`utils.py` and `test_advanced.py` of WujiangXu/A-mem).

Only for comparison with figures that were made by it. It differs from LoCoMo's own in all of this:

- F1 is over sets of words in lower case, without `. , ! ?`; there is no stemming, and articles count.
- Lists and reasons are compared as they stand, whatever the category.
- The gold of an adversarial question is the *wrong* answer that it leads to. **This rewards hallucinating:**
  to say that it was not mentioned scores about 0, to fall for the question 1. Never read category 5 of
  this scoring as quality.

BLEU-1 reads the tokens of `nltk.word_tokenize`, ROUGE those of rouge-score with stemming (ASCII letters and
digits only, so that a Chinese text has none and scores 0), METEOR what stands between spaces. An empty answer or
gold scores 0 by every measure.
"""

from __future__ import annotations

import re
from functools import lru_cache

from ..locomo import Question
from .libraries import module, porter, treebank
from .overlap import Words
from .parts import Parts

_ADVERSARIAL = 5
_MARKS = re.compile(r"[.,!?]")


def parts(question: Question, answer: str) -> Parts | None:
    """Return what is compared with what; None where the dataset gives no answer."""
    gold = question.adversarial if question.category == _ADVERSARIAL else question.answer
    return None if gold is None else Parts(answers=(answer.strip(),), golds=(gold.strip(),))


@lru_cache(maxsize=8192)
def words(text: str) -> Words:
    """Return the words of a text, which are others for each measure."""
    return Words(
        f1=frozenset(_MARKS.sub(" ", text.lower()).split()),
        bleu=treebank(text.lower()),
        rouge=module("rouge_score.tokenize").tokenize(text, porter()),
        meteor=text.split(),
    )
