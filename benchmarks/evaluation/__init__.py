"""Evaluation: how much of the evidence in conversations a memory finds, and what a model answers from it.

| | |
| --- | --- |
| `data` | what a data set is read into, and results; `locomo` (with `golds`) and `dialsim` read one |
| `systems`, `models` | what is compared, the settings of a run, and the chat models |
| `runner` | builds memories (`building`), searches them, has questions answered (`answering`), keeps what it paid for (`cache`) |
| `report` | the figures of a run, with `scoring` and `statistics`; `sweep` and `scaling` have reports of their own |
| `document`, `page`, `plots` | a report as Markdown, and all reports as one page with charts |
| `provenance` | how a report came about |
| `commands`, `eval_options` | `python -m benchmarks.evaluation …` |
"""

from __future__ import annotations

from .data import (
    Answer,
    Condition,
    Conversation,
    Outcome,
    Question,
    Result,
    Spent,
    Task,
    Turn,
    Writes,
)
from .models import Models, Named
from .runner import evaluate
from .systems import Settings

__all__ = [
    "Answer",
    "Condition",
    "Conversation",
    "Models",
    "Named",
    "Outcome",
    "Question",
    "Result",
    "Settings",
    "Spent",
    "Task",
    "Turn",
    "Writes",
    "evaluate",
]
