"""What of nltk and rouge-score the scorings use: loaded on first use, and never downloaded."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from ...errors import MissingExtraError


def module(name: str) -> Any:  # noqa: ANN401 - neither library ships types
    """Return a module of a library that the extra `evaluation` brings.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise MissingExtraError(error.name or name, "evaluation") from error


@cache
def porter() -> Any:  # noqa: ANN401
    """Return nltk's Porter stemmer, as every measure that stems uses it."""
    return module("nltk.stem").PorterStemmer()


@cache
def stem(word: str) -> str:
    """Return the stem of a word."""
    stemmed: str = porter().stem(word)
    return stemmed


def treebank(text: str) -> list[str]:
    """Return the tokens of `nltk.word_tokenize`, but for one thing.

    nltk finds sentences with a model that has to be downloaded; here Punkt works without one, so that
    tokens are the same on every machine. Full stops of some abbreviations (`j.k.`) come off: this
    touches 4 of 1,001 gold answers.
    """
    sentences, words = _splitters()
    return [token for sentence in sentences.tokenize(text) for token in words.tokenize(sentence)]


@cache
def _splitters() -> tuple[Any, Any]:
    return (
        module("nltk.tokenize.punkt").PunktSentenceTokenizer(),
        module("nltk.tokenize.destructive").NLTKWordTokenizer(),
    )


def wordnet() -> Any | None:  # noqa: ANN401
    """Return nltk's WordNet, or None where the user's nltk has no data for it."""
    reader = module("nltk.corpus").wordnet
    try:
        reader.ensure_loaded()
    except LookupError:
        return None
    return reader
