"""Scores of answers against gold answers, by LoCoMo's own scoring and by that of A-MEM's authors.

`official` is the one to go by; `compatible` (under the name `amem`) is there to compare with published
figures. `golds` puts right the gold answers themselves. Nothing is downloaded: METEOR matches synonyms only
where the user's nltk has WordNet, and `describe` says whether it had. BERTScore is left out: it would need
a second embedder, and says what `sbert` says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from statistics import fmean
from typing import Any

from ...ports import Embedder
from ..locomo import Question
from . import compatible, official
from .overlap import Overlap, Words
from .parts import Parts
from .similarity import Similarity

__all__ = ["MEASURES", "SCORINGS", "Measured", "Scores", "describe", "score"]

MEASURES = ("f1", "bleu1", "rouge1", "rouge2", "rougeL", "meteor", "sbert")
SCORINGS = ("official", "amem")

Measured = dict[str, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """The scores of one answer, from 0 to 1 by measure (`sbert` from -1); None where there is no gold.

    In `official` an adversarial question has only `f1`: whether the answer refuses. In `amem` it is
    scored against the wrong answer, so there a high score means that it was fooled.
    """

    official: Measured
    amem: Measured


def score(items: Sequence[tuple[Question, str]], *, embedder: Embedder) -> list[Scores]:
    """Return the scores of answers to questions, in the order given.

    All texts are encoded in one batch, each distinct one once: give the answers of a whole run at once.

    Raises:
        InvalidInputError: A question is of no category that LoCoMo has.
        MissingExtraError: The extra `evaluation` is not installed.
    """
    by_official = [official.parts(question, answer) for question, answer in items]
    by_amem = [compatible.parts(question, answer) for question, answer in items]
    compared = [parts for parts in (*by_official, *by_amem) if parts is not None]
    similarity = Similarity(embedder, (text for parts in compared for text in parts.texts))
    overlap = Overlap()
    return [
        Scores(
            official={
                **_measured(parts, official.words, overlap, similarity),
                **official.refusal(question, answer),
            },
            amem=_measured(amem, compatible.words, overlap, similarity),
        )
        for (question, answer), parts, amem in zip(items, by_official, by_amem, strict=True)
    ]


def describe(embedder: Embedder) -> dict[str, Any]:
    """Return what scores depend on beside the answers, as JSON values.

    Raises:
        MissingExtraError: The extra `evaluation` is not installed.
    """
    return {
        "embedder": embedder.name,
        "meteor_stages": list(Overlap().meteor_stages),
        "versions": {name: version(name) for name in ("nltk", "rouge-score")},
    }


def _measured(
    parts: Parts | None,
    words: Callable[[str], Words],
    overlap: Overlap,
    similarity: Similarity,
) -> Measured:
    """Return for each measure the mean, over the parts of the gold, of the best match."""
    if parts is None:
        return dict.fromkeys(MEASURES)

    def pair(answer: str, gold: str) -> dict[str, float]:
        if not answer or not gold:
            return dict.fromkeys(MEASURES, 0.0)
        return {**overlap(words(answer), words(gold)), "sbert": similarity(answer, gold)}

    found = [[pair(answer, gold) for answer in parts.answers] for gold in parts.golds]
    return {name: fmean(max(one[name] for one in row) for row in found) for name in MEASURES}
