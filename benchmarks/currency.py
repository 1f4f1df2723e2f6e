"""How well a memory tells what is current, by rules, by kept replies of a language model, and with right verdicts.

On the labelled dialogues of `tests/data/currency.jsonl`, the half that rules were not tuned on.

    python benchmarks/currency.py [--errors]
"""

from __future__ import annotations

import sys
from pathlib import Path

from amem_integrations import MiniLmEmbedder
from amem_integrations.evaluation.changing_facts import (
    LabelModel,
    ReplyModel,
    measure,
    read_cases,
    read_replies,
)

DATA = Path(__file__).parents[1] / "tests/data"


def main() -> None:
    """Print a line of JSON for each."""
    cases = read_cases(DATA / "currency.jsonl", "report")
    replies = read_replies(DATA / "currency.replies.jsonl")
    embedder = MiniLmEmbedder()
    found = {
        "by rules": measure(cases, embedder, lambda _: None),
        "by a model": measure(
            cases, embedder, lambda case: ReplyModel(replies.get(case["id"], [])), at_once=True
        ),
        "right verdicts": measure(cases, embedder, LabelModel),
    }
    for name, one in found.items():
        shown = {key: round(value, 3) for key, value in one.values().items()}
        sys.stdout.write(f"{name}: {shown}\n")
        if "--errors" in sys.argv:
            sys.stdout.write(f"  false {one.false}\n  missed {one.missed}\n  wrong {one.wrong}\n")


if __name__ == "__main__":
    main()
