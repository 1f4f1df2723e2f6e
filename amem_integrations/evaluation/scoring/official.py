"""The scoring of LoCoMo's authors (`task_eval/evaluation.py` of snap-research/locomo).

Their one measure is F1 over stemmed words without articles and punctuation. How an answer is set against
the gold depends on the category:

- 1, multi-hop: both are lists, split at commas; each part of the gold counts by its best match, and the
  mean over them is the score.
- 2 and 4: as they stand.
- 3, open-domain: the gold is what comes before a semicolon; the rest is its reason.
- 5, adversarial: 1 if the answer says that it was not mentioned, else 0. It stands as `f1`, as in
  their averages; no other measure can be taken of a refusal, so these are None.

BLEU, ROUGE and METEOR are not part of their script. They are taken here over the same words (METEOR: before
stemming, which it does itself), and the similarity over the same parts.
"""

from __future__ import annotations

import re
import string
from functools import lru_cache

from ...errors import InvalidInputError
from ..locomo import CATEGORIES, Question
from .libraries import stem
from .overlap import Words
from .parts import Parts

REFUSALS = ("no information available", "not mentioned")

_LISTS, _REASONED, _ADVERSARIAL = 1, 3, 5
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the|and)\b")


def parts(question: Question, answer: str) -> Parts | None:
    """Return what is compared with what; None where there is nothing to compare with.

    Raises:
        InvalidInputError: The question is of no category that LoCoMo has.
    """
    if question.category not in CATEGORIES:
        raise InvalidInputError(
            f"category={question.category!r} of {question.text!r} must be one of {list(CATEGORIES)}"
        )
    gold = question.answer
    if gold is None or question.category == _ADVERSARIAL:
        return None
    if question.category == _LISTS:
        return Parts(answers=_split(answer), golds=_split(gold))
    if question.category == _REASONED:
        gold = gold.split(";")[0]
    return Parts(answers=(answer.strip(),), golds=(gold.strip(),))


def refusal(question: Question, answer: str) -> dict[str, float]:
    """Return the score of an adversarial question, as `f1`; nothing for any other."""
    if question.category != _ADVERSARIAL:
        return {}
    return {"f1": float(any(said in answer.lower() for said in REFUSALS))}


@lru_cache(maxsize=8192)
def words(text: str) -> Words:
    """Return the words of a text: without punctuation and articles, stemmed."""
    plain = normalised(text).split()
    stems = tuple(map(stem, plain))
    return Words(f1=stems, bleu=stems, rouge=stems, meteor=plain)


def normalised(text: str) -> str:
    """Return a text in lower case, without punctuation (of ASCII), articles, `and` and double spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def _split(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(","))
