"""How well a memory tells what is current: without verdicts, by kept replies of a language model, with right verdicts.

On the reported half of the labelled dialogues of `tests/data/currency.jsonl`, and of the chats of `first_hit.jsonl`. A
case is a line of JSON: dated `turns`, which of them supersede which, and `questions` with the turns that answer them now
(`current`), those that are outdated (`stale`), and what was true at earlier times (`as_of`).

    python benchmarks/currency.py [--errors]
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import Any

from amem_integrations import (
    AgenticMemory,
    ChatModel,
    Completion,
    Embedder,
    MiniLmEmbedder,
    ModelRequest,
    NoteInput,
    RuleModel,
    ScoredNote,
)

DATA = Path(__file__).parents[1] / "tests/data"
NAMESPACE = ("currency",)
SHOWN = 10  # hits looked at for each question

Case = Mapping[str, Any]


def read_cases(path: str | PathLike[str], half: str | None = None) -> list[Case]:
    """Return the cases of a file, or those of one half of it (`"tune"` or `"report"`)."""
    cases = [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]
    return [case for case in cases if half is None or case["half"] == half]


class LabelModel:
    """Answers like the rules, but knows from the labels of a case what supersedes what."""

    def __init__(self, case: Case) -> None:
        """Take the case that is asked about; its turns are known by their keys."""
        self.name = "labels"
        self._rules = RuleModel()
        self._labels = {(one["newer"], one["older"]): one for one in case["supersedes"]}

    def generate(self, request: ModelRequest) -> Completion:
        """Return the answer of the rules, with the verdicts of the labels."""
        answer = json.loads(self._rules.generate(request).text)
        shown = {note["alias"]: note for note in request.inputs["notes"]}
        others = {note["alias"]: note for note in request.inputs.get("candidates", ())} | shown
        for item in answer["notes"]:
            note = shown[item["id"]]
            if request.task == "construct":
                item["until"] = self._until(note["key"])
            else:
                item["supersedes"] = [
                    {"to": c["alias"], "relation": label["relation"], "reason": "as labelled"}
                    for c in note["candidates"]
                    if (label := self._labels.get((note["key"], others[c["alias"]]["key"])))
                ]
        return Completion(text=json.dumps(answer))

    def _until(self, key: str) -> str:
        return next(
            (o["until"] for o in self._labels.values() if o["newer"] == key and o.get("until")), ""
        )


class ReplyModel:
    """Answers from kept replies of a language model, which was asked about all turns of a case at once."""

    def __init__(self, replies: Sequence[Mapping[str, Any]]) -> None:
        """Take the replies for one case, in the order of the calls."""
        self.name = "kept replies"
        self._rules = RuleModel()
        self._replies = list(replies)

    def generate(self, request: ModelRequest) -> Completion:
        """Return the next reply; attributes are those of the rules."""
        if request.task == "construct":
            return self._rules.generate(request)
        reply = self._replies.pop(0) if self._replies else {"notes": []}
        return Completion(text=json.dumps(reply))


def read_replies(path: str | PathLike[str]) -> dict[str, list[Mapping[str, Any]]]:
    """Return by case the replies of a file: lines of JSON with `case`, `call` (1, 2, …) and `reply`."""
    replies: dict[str, list[Mapping[str, Any]]] = {}
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        kept = json.loads(line)
        replies.setdefault(kept["case"], []).append(kept["reply"])
    return replies


@dataclass(slots=True)
class CurrentFacts:
    """What was counted over cases; `false`, `missed` and `wrong` name what went wrong."""

    counts: Counter[str] = field(default_factory=Counter)
    false: list[tuple[str, str, str]] = field(default_factory=list)
    missed: list[tuple[str, str, str]] = field(default_factory=list)
    wrong: list[tuple[str, str]] = field(default_factory=list)

    def values(self) -> dict[str, float | int]:
        """Return precision and recall of the decision, and the shares of questions answered rightly."""
        n = self.counts
        return {
            "notes": n["notes"],
            "precision": _share(n["right"], n["right"] + len(self.false)),
            "recall": _share(n["right"], n["right"] + len(self.missed)),
            "false_per_note": _share(len(self.false), n["notes"]),
            "questions": n["questions"],
            "current_first": _share(n["first"], n["questions"]),
            "questions_with_stale": n["with_stale"],
            "none_stale_above": _share(n["above"], n["with_stale"]),
            "as_of_questions": n["as_of"],
            "as_of_right": _share(n["as_of_right"], n["as_of"]),
            "as_of_first": _share(n["as_of_first"], n["as_of"]),
            "plain_questions": n["plain"],  # nothing that answered them is outdated
            "plain_first": _share(n["plain_first"], n["plain"]),
        }


def measure(
    cases: Iterable[Case],
    embedder: Embedder,
    model_for: Callable[[Case], ChatModel | None],
    *,
    at_once: bool = False,
) -> CurrentFacts:
    """Return how well a memory tells what is current.

    `model_for` gives the model that a case is built with. Its turns are added one by one, or all `at_once`.
    """
    total = CurrentFacts()
    for case in cases:
        with AgenticMemory.open(":memory:", embedder=embedder, model=model_for(case)) as memory:
            keys = _build(memory, case, at_once=at_once)
            _count_decisions(total, memory, case, keys)
            for question in case["questions"]:
                _count_question(total, memory, case, question, keys)
    return total


def _build(memory: AgenticMemory, case: Case, *, at_once: bool) -> dict[str, str]:
    """Add the turns, and return the key of each note."""
    turns = [
        NoteInput(
            content=turn["content"],
            at=datetime.fromisoformat(turn["at"]),
            key=turn["id"],
            thread="dialogue" if at_once else turn.get("thread"),
            speaker=turn.get("speaker"),
            source=turn.get("source", "user"),
        )
        for turn in case["turns"]
    ]
    for some in [turns] if at_once else [[turn] for turn in turns]:
        memory.add_many(some, namespace=NAMESPACE)
    return {note.id: note.key or "" for note in memory.get_all(namespace=NAMESPACE)}


def _count_decisions(
    total: CurrentFacts, memory: AgenticMemory, case: Case, keys: Mapping[str, str]
) -> None:
    """Compare the pairs that were superseded with the labelled ones."""
    notes = memory.get_all(
        namespace=NAMESPACE, as_of=datetime.fromisoformat(case["turns"][-1]["at"])
    )
    made = {(keys[newer], keys[note.id]) for note in notes for newer in note.supersessions}
    labelled = {(one["newer"], one["older"]) for one in case["supersedes"]}
    total.counts.update(notes=len(notes), right=len(made & labelled))
    total.false += [(case["id"], *pair) for pair in sorted(made - labelled)]
    total.missed += [(case["id"], *pair) for pair in sorted(labelled - made)]


def _count_question(
    total: CurrentFacts, memory: AgenticMemory, case: Case, question: Case, keys: Mapping[str, str]
) -> None:
    end = datetime.fromisoformat(case["turns"][-1]["at"])
    hits = memory.search(question["question"], namespace=NAMESPACE, k=SHOWN, as_of=end)
    ranks = _ranks(hits, keys)
    right = _is_above(ranks, question["current"], question["stale"])
    first = _best(ranks, question["current"]) == 0
    total.counts.update(questions=1, first=first)
    if not question["stale"]:
        total.counts.update(plain=1, plain_first=first)
    else:
        total.counts.update(with_stale=1, above=right)
        if not right:
            total.wrong.append((case["id"], question["question"]))
    for past in question.get("as_of", ()):
        hits = memory.search(
            question["question"],
            namespace=NAMESPACE,
            k=SHOWN,
            as_of=datetime.fromisoformat(past["at"]),
        )
        others = {*question["current"], *question["stale"]} - set(past["current"])
        ranks = _ranks(hits, keys)
        is_right = _is_above(ranks, past["current"], others)
        first = _best(ranks, past["current"]) == 0
        total.counts.update(as_of=1, as_of_right=is_right, as_of_first=first)
        if not is_right:
            total.wrong.append((case["id"], f"{question['question']} (as of {past['at'][:10]})"))


def _ranks(hits: Sequence[ScoredNote], keys: Mapping[str, str]) -> dict[str, int]:
    return {keys[hit.note.id]: rank for rank, hit in enumerate(hits)}


def _best(ranks: Mapping[str, int], wanted: Iterable[str]) -> int:
    return min((ranks.get(key, SHOWN) for key in wanted), default=SHOWN)


def _is_above(ranks: Mapping[str, int], wanted: Iterable[str], others: Iterable[str]) -> bool:
    """Return whether the best of the wanted is shown, and above all the others."""
    best = _best(ranks, wanted)
    return best < SHOWN and best < _best(ranks, others)


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 1.0


def main() -> None:
    """Print a line of JSON for each."""
    cases = read_cases(DATA / "currency.jsonl", "report")
    chats = read_cases(DATA / "first_hit.jsonl", "report")
    replies = read_replies(DATA / "currency.replies.jsonl")
    embedder = MiniLmEmbedder()
    found = {
        "without verdicts": measure(cases, embedder, lambda _: None),
        "by a model": measure(
            cases, embedder, lambda case: ReplyModel(replies.get(case["id"], [])), at_once=True
        ),
        "right verdicts": measure(cases, embedder, LabelModel),
        "chats, without verdicts": measure(chats, embedder, lambda _: None),
        "chats, right verdicts": measure(chats, embedder, LabelModel),
    }
    for name, one in found.items():
        shown = {key: round(value, 3) for key, value in one.values().items()}
        sys.stdout.write(f"{name}: {shown}\n")
        if "--errors" in sys.argv:
            sys.stdout.write(f"  false {one.false}\n  missed {one.missed}\n  wrong {one.wrong}\n")


if __name__ == "__main__":
    main()
