"""The methods of `AgenticMemory`, written once for synchronous and asynchronous callers, by theme."""

from __future__ import annotations

from . import (
    add,
    edit,
    evolve,
    forms,
    history,
    overview,
    read,
    recall,
    review,
    search,
    transfer,
    turn,
    work,
    writing,
)  # fmt: skip

__all__ = [
    "add", "edit", "evolve", "forms", "history", "overview", "read", "recall", "review", "search",
    "transfer", "turn", "work", "writing",
]  # fmt: skip
