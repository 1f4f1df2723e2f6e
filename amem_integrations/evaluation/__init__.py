"""Evaluation: how much of what was said a memory finds again, and what a model answers from it.

`locomo` and `recordings` read what the user brings. `systems` are what is compared, `runner` builds
memories (`building`), searches them and has questions answered (`answering`), and keeps all it paid for
(`cache`). `scoring`, `metrics` and `statistics` make figures of it, `report` and `plots` pages of the
figures, `provenance` says how they came about. `sweep` looks for the best number of hits, `scaling`
measures time and memory over the number of notes, `dialsim` is another benchmark. `amem eval` is all of
it on the command line.
"""

from __future__ import annotations

from .locomo import Conversation, Question, Turn
from .models import Models, Named
from .recordings import Recording
from .results import Answer, Outcome, Result, Spent, Writes
from .runner import evaluate
from .settings import Settings

__all__ = [
    "Answer",
    "Conversation",
    "Models",
    "Named",
    "Outcome",
    "Question",
    "Recording",
    "Result",
    "Settings",
    "Spent",
    "Turn",
    "Writes",
    "evaluate",
]
