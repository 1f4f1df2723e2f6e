"""Scores of answers against gold answers, by LoCoMo's own scoring and by that of A-MEM's authors.

**official** is `task_eval/evaluation.py` of snap-research/locomo: F1 over stemmed words without articles and
punctuation. How an answer is compared with the gold depends on the category:

- 1, multi-hop: both are lists, split at commas; the score is the mean of the best match of each part of the gold.
- 2 and 4: as they stand.
- 3, open-domain: the gold is what comes before a semicolon; the rest is its reason.
- 5, adversarial: `f1` is 1 if the answer says that it was not mentioned, else 0; other measures are None.

BLEU, ROUGE and METEOR, which their script lacks, are taken over the same words (METEOR stems by itself).

**amem** is `utils.py` and `test_advanced.py` of WujiangXu/A-mem, only for comparison with figures made by it:

- F1 is over sets of words in lower case, without `. , ! ?`; there is no stemming, and articles count.
- Lists and reasons are compared as they stand, whatever the category.
- The gold of an adversarial question is the *wrong* answer that it leads to. **This rewards hallucinating:** to say
  that it was not mentioned scores about 0, to fall for the question 1. Never read its category 5 as quality.

Nothing is downloaded: METEOR matches words and stems, without synonyms. Equal texts score 1, except ROUGE-2 of a single word (0) and METEOR (1 - 0.5 / n³ of n words).
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache, lru_cache
from importlib.metadata import version
from statistics import fmean
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from nltk.stem import PorterStemmer
from nltk.tokenize.destructive import NLTKWordTokenizer
from nltk.tokenize.punkt import PunktSentenceTokenizer
from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu
from nltk.translate.meteor_score import single_meteor_score
from rouge_score.rouge_scorer import RougeScorer
from rouge_score.tokenize import tokenize as split_rouge

from amem_integrations.ports import Embedder
from amem_integrations.runtime import resolve, run
from amem_integrations.stored_note import Vector

from .data import ADVERSARIAL, LIST, REASONED, Question

ROUGE = ("rouge1", "rouge2", "rougeL")
MEASURES = ("f1", "bleu1", *ROUGE, "meteor", "sbert")
REFUSALS = ("no information available", "not mentioned")

Measured = dict[str, float | None]
Parts = tuple[tuple[str, ...], tuple[str, ...]]  # answers and golds; neither is empty
Vectors = Mapping[str, Vector]

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the|and)\b")
_MARKS = re.compile(r"[.,!?]")
_REFUSAL = re.compile(
    r"\b(?:do not|don.?t|cannot|can.?t|unable to) (?:know|answer|say|tell|be determined)\b"
    r"|\bnone of the (?:above|options)\b|\bno information\b|\bnot (?:mentioned|specified)\b",
    re.IGNORECASE,
)
_PORTER = PorterStemmer()
_stem = cache(_PORTER.stem)
_SENTENCES, _WORDS = PunktSentenceTokenizer(), NLTKWordTokenizer()
_ROUGE = RougeScorer(ROUGE, tokenizer=SimpleNamespace(tokenize=list))  # texts are split already
_SMOOTHING = SmoothingFunction().method1
# nltk has synonyms only where they were downloaded.
_NO_SYNONYMS = SimpleNamespace(synsets=lambda _word: ())


class Words(NamedTuple):
    """The words of a text, as each measure reads them."""

    f1: Collection[str]
    bleu: Sequence[str]
    rouge: Sequence[str]
    meteor: Sequence[str]


def score(items: Sequence[tuple[Question, str]], *, embedder: Embedder) -> list[Measured]:
    """Return the scores of answers to questions, in the order given.

    All texts are encoded in one batch, each distinct one once: give the answers of a whole run at once.

    Returns:
        Scores from 0 to 1 (`sbert` from -1) by scoring and measure, such as `official@f1`; None where there is no gold. A
        high `amem` score of an adversarial question means that the model was fooled.
    """
    official = [official_parts(question, answer) for question, answer in items]
    amem = [amem_parts(question, answer) for question, answer in items]
    texts = dict.fromkeys(
        text for parts in (*official, *amem) if parts for some in parts for text in some if text
    )
    rows = run(resolve(embedder.embed_documents(list(texts)))) if texts else ()
    vectors: Vectors = dict(zip(texts, rows, strict=True))
    found = []
    for (question, answer), ours, theirs in zip(items, official, amem, strict=True):
        own = _measured(ours, official_words, vectors)
        if question.category == ADVERSARIAL:
            own["f1"] = float(any(refusal in answer.lower() for refusal in REFUSALS))
        both = {"official": own, "amem": _measured(theirs, amem_words, vectors)}
        found.append({f"{of}@{name}": some[name] for of, some in both.items() for name in some})
    return found


def refuses(answer: str) -> bool:
    """Return whether an answer says in any words that it does not know."""
    return _REFUSAL.search(answer) is not None


def describe(embedder: Embedder) -> dict[str, Any]:
    """Return what scores depend on beside the answers, as JSON values."""
    return {
        "embedder": embedder.name,
        "meteor_stages": ["exact", "stem"],
        "versions": {name: version(name) for name in ("nltk", "rouge-score")},
    }


def official_parts(question: Question, answer: str) -> Parts | None:
    """Return what LoCoMo's scoring compares; None where there is nothing to compare with."""
    if (gold := question.gold) is None:
        return None
    if question.category == LIST:
        return _split(answer), _split(gold)
    if question.category == REASONED:
        gold = gold.split(";")[0]
    return (answer.strip(),), (gold.strip(),)


def amem_parts(question: Question, answer: str) -> Parts | None:
    """Return what the scoring of A-MEM's authors compares; None where the data set gives no answer."""
    gold = question.adversarial if question.category == ADVERSARIAL else question.answer
    return None if gold is None else ((answer.strip(),), (gold.strip(),))


@lru_cache(maxsize=8192)
def official_words(text: str) -> Words:
    """Return the words of a text: without punctuation and articles, stemmed."""
    plain = normalised(text).split()
    stems = tuple(map(_stem, plain))
    return Words(f1=stems, bleu=stems, rouge=stems, meteor=plain)


@lru_cache(maxsize=8192)
def amem_words(text: str) -> Words:
    """Return the words of a text, which differ by measure."""
    return Words(
        f1=frozenset(_MARKS.sub(" ", text.lower()).split()),
        bleu=treebank(text.lower()),
        rouge=split_rouge(text, _PORTER),
        meteor=text.split(),
    )


def normalised(text: str) -> str:
    """Return a text in lower case, without punctuation (of ASCII), articles, `and` and double spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def _measured(parts: Parts | None, words: Callable[[str], Words], vectors: Vectors) -> Measured:
    if parts is None:
        return dict.fromkeys(MEASURES)

    def pair(answer: str, gold: str) -> dict[str, float]:
        if not answer or not gold:
            return dict.fromkeys(MEASURES, 0.0)
        cosine = float(np.dot(vectors[answer], vectors[gold]))
        return {**overlap(words(answer), words(gold)), "sbert": max(-1.0, min(1.0, cosine))}

    answers, golds = parts
    found = [[pair(answer, gold) for answer in answers] for gold in golds]
    return {name: fmean(max(one[name] for one in row) for row in found) for name in MEASURES}


def overlap(answer: Words, gold: Words) -> dict[str, float]:
    """Return every measure of the words of an answer against those of a gold, from 0 to 1."""
    rouge = _ROUGE.score(gold.rouge, answer.rouge)
    bleu = sentence_bleu([gold.bleu], answer.bleu, weights=(1.0,), smoothing_function=_SMOOTHING)
    return {
        "f1": f1(answer.f1, gold.f1),
        "bleu1": float(bleu),
        **{name: float(rouge[name].fmeasure) for name in ROUGE},
        "meteor": float(single_meteor_score(gold.meteor, answer.meteor, wordnet=_NO_SYNONYMS)),
    }


def f1(answer: Collection[str], gold: Collection[str]) -> float:
    """Return the F1 of the words, each as often as it occurs; 0 when none is shared."""
    shared = (Counter(answer) & Counter(gold)).total()
    return 2 * shared / (len(answer) + len(gold)) if shared else 0.0


def treebank(text: str) -> list[str]:
    """Return the tokens of `nltk.word_tokenize` with an untrained Punkt: some abbreviations lose a full stop."""
    return [token for one in _SENTENCES.tokenize(text) for token in _WORDS.tokenize(one)]


def _split(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(","))
