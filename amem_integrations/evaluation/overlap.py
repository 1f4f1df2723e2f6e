"""How much of a gold answer's wording an answer has: F1, BLEU-1, ROUGE and METEOR.

A scoring decides what the words of a text are; the measures are the same for all of them. Each is 0 when
either side has no words, and 1 for equal texts, except ROUGE-2 of a single word (0) and METEOR, which
subtracts 0.5 / n³ for n equal words. nltk and rouge-score are loaded on first use, and nothing is downloaded:
METEOR matches synonyms only where the user's nltk has WordNet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from ..errors import MissingExtraError

ROUGE = ("rouge1", "rouge2", "rougeL")


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """The words of a text, as each measure reads them."""

    f1: Collection[str]
    bleu: Sequence[str]
    rouge: Sequence[str]
    meteor: Sequence[str]


class Overlap:
    """Measures the overlap of words."""

    def __init__(self) -> None:
        """Load the libraries.

        Raises:
            MissingExtraError: nltk or rouge-score is not installed.
        """
        bleu = load("nltk.translate.bleu_score")
        self._bleu, self._smoothing = bleu.sentence_bleu, bleu.SmoothingFunction().method1
        self._meteor = load("nltk.translate.meteor_score").single_meteor_score
        scorer = load("rouge_score.rouge_scorer").RougeScorer
        self._rouge = scorer(ROUGE, tokenizer=_NoTokenizer())
        self._wordnet = _wordnet()

    @property
    def meteor_stages(self) -> tuple[str, ...]:
        """How METEOR matches words: synonyms only where the user's nltk has WordNet."""
        return ("exact", "stem", *(("synonyms",) if self._wordnet is not None else ()))

    def __call__(self, answer: Words, gold: Words) -> dict[str, float]:
        """Return every measure of an answer against a gold answer, from 0 to 1."""
        bleu = self._bleu(
            [gold.bleu], answer.bleu, weights=(1.0,), smoothing_function=self._smoothing
        )
        rouge = self._rouge.score(gold.rouge, answer.rouge)
        wordnet = _NoSynonyms() if self._wordnet is None else self._wordnet
        meteor = self._meteor(gold.meteor, answer.meteor, stemmer=porter(), wordnet=wordnet)
        return {
            "f1": f1(answer.f1, gold.f1),
            "bleu1": float(bleu),
            **{name: float(rouge[name].fmeasure) for name in ROUGE},
            "meteor": float(meteor),
        }


def f1(answer: Collection[str], gold: Collection[str]) -> float:
    """Return the F1 of the words, each as often as it occurs; 0 when none is shared."""
    shared = (Counter(answer) & Counter(gold)).total()
    return 2 * shared / (len(answer) + len(gold)) if shared else 0.0


def load(name: str) -> Any:  # noqa: ANN401 - neither library ships types
    """Return a module of nltk or rouge-score.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise MissingExtraError(error.name or name, "evaluation") from error


@cache
def porter() -> Any:  # noqa: ANN401
    """Return nltk's Porter stemmer, which every measure that stems uses."""
    return load("nltk.stem").PorterStemmer()


@cache
def stem(word: str) -> str:
    """Return the stem of a word."""
    stemmed: str = porter().stem(word)
    return stemmed


def treebank(text: str) -> list[str]:
    """Return the tokens of `nltk.word_tokenize`, with one difference.

    nltk finds sentences with a model that has to be downloaded; here Punkt works without one, so that
    tokens are the same on every machine. Full stops of some abbreviations (`j.k.`) come off: this
    affects 4 of 1,001 gold answers.
    """
    sentences, words = _splitters()
    return [token for sentence in sentences.tokenize(text) for token in words.tokenize(sentence)]


@cache
def _splitters() -> tuple[Any, Any]:
    return (
        load("nltk.tokenize.punkt").PunktSentenceTokenizer(),
        load("nltk.tokenize.destructive").NLTKWordTokenizer(),
    )


def _wordnet() -> Any | None:  # noqa: ANN401
    """Return nltk's WordNet, or None where the user's nltk has no data for it."""
    reader = load("nltk.corpus").wordnet
    try:
        reader.ensure_loaded()
    except LookupError:
        return None
    return reader


class _NoTokenizer:
    """A tokenizer for rouge-score: the words are given."""

    def tokenize(self, words: Sequence[str]) -> Sequence[str]:
        return words


class _NoSynonyms:
    """Stands in for WordNet where there is none."""

    def synsets(self, word: str) -> Sequence[Any]:  # noqa: ARG002 - WordNet's signature
        return ()
