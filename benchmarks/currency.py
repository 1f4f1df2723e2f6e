"""How well a memory tells what is current.

A memory is built from small dialogues in which facts change, or only seem to, without verdicts about what is outdated, by
kept replies of a language model, and with right verdicts of the user. `dialogues/currency.jsonl` was written for this
project, and so were the chats of `dialogues/first_hit.jsonl`, at which a test looks. Each line is a case:

- `id`, `kind`, and `half`: constants are chosen on `tune` and measured on `report`; each kind is in both.
- `turns`: 3 to 9 dated statements, oldest first. `source` is who made them: the user, an assistant, a tool. In the chats
  each has its `thread`, and there are more of them.
- `supersedes`: which turn takes the place of which (`older`, `newer`), how (`relation`), until when if the newer one
  holds for a time only (`until`), and whether that is no more than a proposal (`proposal`), because an
  assistant or a tool disagrees with a user. A chain lists its steps: A to B and B to C, not A to C.
- `questions`: turns that answer each at the time of the last turn (`current`), turns that answered it
  before (`stale`), and what answered it at earlier or later times (`as_of`, event time).

Half of the dialogues are no updates: `supersedes` is empty, and all of their statements stay true. `dialogues/currency.replies.jsonl`
has the replies of a language model that was asked about all turns of a case at once: `case`, `call` (1, 2, …), `reply`.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from amem_integrations import (
    AgenticMemory,
    Completion,
    Embedder,
    MiniLmEmbedder,
    ModelRequest,
    NoteInput,
    RuleModel,
)

from .command import script

DATA = Path(__file__).with_name("dialogues")
SPACE = ("currency",)
SHOWN = 10  # hits looked at for each question

Case = Mapping[str, Any]
Build = Callable[[Case, Embedder], AgenticMemory]


def cases(half: str | None = None, name: str = "currency") -> list[Case]:
    """Return the cases of a file, or those of one half: `"tune"` or `"report"`."""
    return [case for case in _rows(f"{name}.jsonl") if half in (None, case["half"])]


# --- three ways to build a memory


def without_verdicts(case: Case, embedder: Embedder) -> AgenticMemory:
    """Return a memory of the turns by rules, which never say that a note is outdated."""
    return _add(AgenticMemory.open(":memory:", embedder=embedder), case["turns"])


def with_right_verdicts(case: Case, embedder: Embedder) -> AgenticMemory:
    """Return a memory to which the user says what supersedes what, and until when an exception holds."""
    memory = AgenticMemory.open(":memory:", embedder=embedder)
    verdicts = [one for one in case["supersedes"] if not one.get("proposal")]
    untils = {one["newer"]: one["until"] for one in verdicts if one.get("until")}
    _add(memory, case["turns"], untils)
    ids = {note.key: note.id for note in memory.get_all(namespace=SPACE)}
    for one in verdicts:
        older, newer = ids[one["older"]], ids[one["newer"]]
        memory.supersede(older, newer, namespace=SPACE, relation=one["relation"])
    return memory


def by_model(case: Case, embedder: Embedder) -> AgenticMemory:
    """Return a memory whose links and verdicts are the kept replies of a language model, and its attributes by rules."""
    model = KeptReplies(
        row["reply"] for row in _rows("currency.replies.jsonl") if row["case"] == case["id"]
    )
    memory = AgenticMemory.open(":memory:", embedder=embedder, model=model)
    memory.add_many([_note(turn, thread="dialogue") for turn in case["turns"]], namespace=SPACE)
    return memory


class KeptReplies:
    """A model that gives kept replies in their order; attributes are those of the rules."""

    name = "kept replies"

    def __init__(self, replies: Iterable[Mapping[str, Any]]) -> None:
        self._rules, self._replies = RuleModel(), iter(replies)

    def generate(self, request: ModelRequest) -> Completion:
        """Return the next reply."""
        if request.task == "construct":
            return self._rules.generate(request)
        return Completion(text=json.dumps(next(self._replies, {"notes": []})))


def _add(
    memory: AgenticMemory, turns: Iterable[Case], untils: Mapping[str, str] | None = None
) -> AgenticMemory:
    for turn in turns:
        until = (untils or {}).get(turn["id"])
        memory.add_many([_note(turn, until=_time(until) if until else None)], namespace=SPACE)
    return memory


def _note(turn: Case, **more: Any) -> NoteInput:  # noqa: ANN401
    said = {name: turn.get(name) for name in ("content", "thread", "speaker", "source")}
    return NoteInput(**{**said, "at": _time(turn["at"]), "key": turn["id"], **more})


# --- what is counted


@dataclass(slots=True)
class Found:
    """The counts over cases, with the pairs that went wrong."""

    counts: Counter[str] = field(default_factory=Counter)
    false: list[tuple[str, ...]] = field(default_factory=list)
    missed: list[tuple[str, ...]] = field(default_factory=list)

    def values(self) -> dict[str, float]:
        """Return precision and recall of the verdicts, and the shares of questions answered rightly."""
        n = self.counts
        return {
            "precision": _share(n["right"], n["right"] + len(self.false)),
            "recall": _share(n["right"], n["right"] + len(self.missed)),
            "false_per_note": _share(len(self.false), n["notes"]),
            "current_first": _share(n["first"], n["questions"]),
            "none_stale_above": _share(n["above"], n["with_stale"]),
            "as_of_right": _share(n["as_of_right"], n["as_of"]),
        }


def measure(some: Iterable[Case], embedder: Embedder, build: Build) -> Found:
    """Return how well memories that are built of the cases tell what is current."""
    found = Found()
    for case in some:
        with build(case, embedder) as memory:
            _count_verdicts(found, memory, case)
            for question in case["questions"]:
                _count_question(found, memory, case, question)
    return found


def _count_verdicts(found: Found, memory: AgenticMemory, case: Case) -> None:
    """Compare the pairs that were superseded with the labelled ones."""
    notes = memory.get_all(namespace=SPACE, as_of=_time(case["turns"][-1]["at"]))
    keys = {note.id: note.key or "" for note in notes}
    made = {(keys[newer], keys[note.id]) for note in notes for newer in note.supersessions}
    labelled = {(one["newer"], one["older"]) for one in case["supersedes"]}
    found.counts.update(notes=len(notes), right=len(made & labelled))
    found.false += [(case["id"], *pair) for pair in sorted(made - labelled)]
    found.missed += [(case["id"], *pair) for pair in sorted(labelled - made)]


def _count_question(found: Found, memory: AgenticMemory, case: Case, question: Case) -> None:
    """Look where the answers stand, now and at earlier or later times."""

    def ranks(at: str) -> dict[str, int]:
        hits = memory.search(question["question"], namespace=SPACE, k=SHOWN, as_of=_time(at))
        return {hit.note.key or "": rank for rank, hit in enumerate(hits)}

    current, stale = question["current"], question["stale"]
    now = ranks(case["turns"][-1]["at"])
    first = _best(now, current) == 0
    found.counts.update(questions=1, first=first)
    if stale:
        right = _best(now, current) < _best(now, stale)
        found.counts.update(with_stale=1, above=right)
    for past in question["as_of"]:
        then, others = ranks(past["at"]), {*current, *stale} - set(past["current"])
        right = _best(then, past["current"]) < _best(then, others)
        found.counts.update(as_of=1, as_of_right=right)


def _best(ranks: Mapping[str, int], wanted: Collection[str]) -> int:
    """Return the best rank of the wanted turns; one after the last if none is shown."""
    return min((ranks.get(key, SHOWN) for key in wanted), default=SHOWN)


def _share(part: int, whole: int) -> float:
    return round(part / whole, 3) if whole else 1.0


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _rows(name: str) -> list[Case]:
    return [json.loads(row) for row in (DATA / name).read_text(encoding="utf-8").splitlines()]


def _currency() -> None:
    embedder = MiniLmEmbedder()
    for build in (without_verdicts, by_model, with_right_verdicts):
        print(f"{build.__name__}: {measure(cases('report'), embedder, build).values()}")


main = script("currency", __doc__, _currency)

if __name__ == "__main__":
    sys.exit(main())
