"""Evaluation: how much of what was said a memory finds again, measured without a language model.

`locomo` and `recordings` read what the user brings, `runner` builds memories and asks them, `metrics`
and `report` make figures of what was found, `markdown` a page of the figures. `baselines` is what to
compare with, `provenance` what a report says of its making. `amem eval` is all of it in one command.
"""

from __future__ import annotations

from .locomo import Conversation, Question, Turn
from .recordings import Recording
from .report import Report, build
from .results import Outcome, Result, Writes
from .runner import evaluate
from .settings import Ablation, Settings

__all__ = [
    "Ablation",
    "Conversation",
    "Outcome",
    "Question",
    "Recording",
    "Report",
    "Result",
    "Settings",
    "Turn",
    "Writes",
    "build",
    "evaluate",
]
