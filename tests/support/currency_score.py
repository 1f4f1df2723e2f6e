"""How well verdicts on the dialogues of `currency` agree with their labels.

A verdict that follows from the labels is right too: in a chain A to B to C, C takes the place of A. A label
counts as found if the older statement has any right successor from the newer one on. Labels without a
winner (`contradicts`) are found by such a verdict only, and such a verdict is right for them only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from support.currency import Case, Turn

Labels = Mapping[tuple[str, str], str]
Decide = Callable[[Turn, Sequence[Turn]], Sequence[str | None]]
Similarity = Callable[[str, str], float]


@dataclass
class Score:
    """Counts over cases; `misses` and `wrong` name what to read."""

    notes: int = 0
    right: int = 0
    relations: int = 0
    labels: int = 0
    found: int = 0
    wrong: list[str] = field(default_factory=list)
    misses: list[str] = field(default_factory=list)
    questions: int = 0
    current_above_stale: int = 0

    @property
    def precision(self) -> float:
        return self.right / (self.right + len(self.wrong))

    @property
    def recall(self) -> float:
        return self.found / self.labels

    @property
    def wrong_share(self) -> float:
        """False verdicts for each note."""
        return len(self.wrong) / self.notes

    @property
    def current_share(self) -> float:
        """Share of the questions with stale answers whose current answer is above all of them."""
        return self.current_above_stale / self.questions

    def __str__(self) -> str:
        return (
            f"precision {self.precision:.3f}, recall {self.recall:.3f} of {self.labels}, "
            f"relation {self.relations} of {self.right}, false verdicts {self.wrong_share:.3f} a note, "
            f"current above stale {self.current_share:.3f} of {self.questions}"
        )


def score(cases: Iterable[Case], decide: Decide, similarity: Similarity) -> Score:
    """Return the score of a decision: relations of a turn to each of the turns before it, or None."""
    total = Score()
    for case in cases:
        verdicts = _verdicts(case, decide)
        _count_verdicts(total, case, verdicts)
        _count_questions(total, case, verdicts, similarity)
    return total


def _verdicts(case: Case, decide: Decide) -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}
    for number, turn in enumerate(case.turns):
        earlier = case.turns[:number]
        for older, relation in zip(earlier, decide(turn, earlier), strict=True):
            if relation is not None:
                found[older.id, turn.id] = relation
    return found


def _count_verdicts(total: Score, case: Case, verdicts: Labels) -> None:
    labels = {(one.older, one.newer): one.relation for one in case.supersedes}
    implied = _implied(labels)
    right = {
        pair
        for pair, relation in verdicts.items()
        if pair in implied and (relation == "contradicts") == (implied[pair] == "contradicts")
    }
    found = {
        (older, newer)
        for older, newer in labels
        if any(a == older and (b == newer or (newer, b) in implied) for a, b in right)
    }
    total.notes += len(case.turns)
    total.right += len(right)
    total.relations += sum(verdicts[pair] == implied[pair] for pair in right)
    total.labels += len(labels)
    total.found += len(found)
    total.wrong += [f"{case.id} {pair}" for pair in sorted(verdicts.keys() - right)]
    total.misses += [f"{case.id} {pair}" for pair in sorted(labels.keys() - found)]


def _implied(labels: Labels) -> dict[tuple[str, str], str]:
    """Return the labels and what follows from them."""
    implied = dict(labels)
    while True:
        more = {
            (older, last): relation
            for (older, newer), relation in implied.items()
            for first, last in labels
            if first == newer and (older, last) not in implied
        }
        if not more:
            return implied
        implied |= more


def _count_questions(total: Score, case: Case, verdicts: Labels, similarity: Similarity) -> None:
    for question in case.questions:
        if not question.stale:
            continue
        scores = {turn.id: similarity(question.question, turn.content) for turn in case.turns}
        for turn in case.turns:  # what is replaced lends its score to what replaced it
            scores[turn.id] = max(
                scores[turn.id],
                *(
                    scores[older] + 1e-6
                    for (older, newer), relation in verdicts.items()
                    if newer == turn.id and relation != "contradicts" and turn.source == "user"
                ),
                -1.0,
            )
        current = max(scores[turn_id] for turn_id in question.current)
        total.questions += 1
        total.current_above_stale += current > max(scores[turn_id] for turn_id in question.stale)
