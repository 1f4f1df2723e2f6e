"""How much of a gold answer's wording an answer has: F1, BLEU-1, ROUGE and METEOR.

A scoring says what the words of a text are; the measures are the same for all of them. Each is 0 when
either side has no words, and 1 for equal texts, but for ROUGE-2 of a single word (0) and METEOR, which
takes off 0.5 / n³ from n equal words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from . import libraries

ROUGE = ("rouge1", "rouge2", "rougeL")


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """The words of a text, as each measure reads them."""

    f1: Collection[str]
    bleu: Sequence[str]
    rouge: Sequence[str]
    meteor: Sequence[str]


class Overlap:
    """Measures the overlap of words; what the measures need is loaded once."""

    def __init__(self) -> None:
        """Load the libraries.

        Raises:
            MissingExtraError: nltk or rouge-score is not installed.
        """
        bleu = libraries.module("nltk.translate.bleu_score")
        self._bleu, self._smoothing = bleu.sentence_bleu, bleu.SmoothingFunction().method1
        self._meteor = libraries.module("nltk.translate.meteor_score").single_meteor_score
        rouge = libraries.module("rouge_score.rouge_scorer").RougeScorer
        self._rouge = rouge(ROUGE, tokenizer=_AsGiven())
        self._wordnet = libraries.wordnet()

    @property
    def meteor_stages(self) -> tuple[str, ...]:
        """By what METEOR matches words: synonyms only where the user's nltk has WordNet."""
        return ("exact", "stem", *(("synonyms",) if self._wordnet is not None else ()))

    def __call__(self, answer: Words, gold: Words) -> dict[str, float]:
        """Return every measure of an answer against a gold answer, from 0 to 1."""
        return {
            "f1": f1(answer.f1, gold.f1),
            "bleu1": self._bleu1(answer.bleu, gold.bleu),
            **self._rouges(answer.rouge, gold.rouge),
            "meteor": self._of_meteor(answer.meteor, gold.meteor),
        }

    def _bleu1(self, answer: Sequence[str], gold: Sequence[str]) -> float:
        score = self._bleu([gold], answer, weights=(1.0,), smoothing_function=self._smoothing)
        return float(score)

    def _rouges(self, answer: Sequence[str], gold: Sequence[str]) -> dict[str, float]:
        scores = self._rouge.score(gold, answer)
        return {name: float(scores[name].fmeasure) for name in ROUGE}

    def _of_meteor(self, answer: Sequence[str], gold: Sequence[str]) -> float:
        wordnet = _NoSynonyms() if self._wordnet is None else self._wordnet
        score = self._meteor(gold, answer, stemmer=libraries.porter(), wordnet=wordnet)
        return float(score)


def f1(answer: Collection[str], gold: Collection[str]) -> float:
    """Return the F1 of the words, each as often as it comes; 0 when none is shared."""
    shared = (Counter(answer) & Counter(gold)).total()
    return 2 * shared / (len(answer) + len(gold)) if shared else 0.0


class _AsGiven:
    """A tokenizer for rouge-score: the words come ready."""

    def tokenize(self, words: Sequence[str]) -> Sequence[str]:
        return words


class _NoSynonyms:
    """Stands for WordNet where there is none."""

    def synsets(self, word: str) -> Sequence[Any]:  # noqa: ARG002 - WordNet's signature
        return ()
