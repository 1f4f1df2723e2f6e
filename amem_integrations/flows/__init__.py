"""The methods of `AgenticMemory`, written once for synchronous and asynchronous callers, by theme."""

from __future__ import annotations

from . import (
    add,
    edit,
    embed,
    evolve,
    forms,
    history,
    overview,
    read,
    recall,
    resume,
    review,
    search,
    transfer,
    turn,
    work,
)  # fmt: skip

__all__ = [
    "add", "edit", "embed", "evolve", "forms", "history", "overview", "read", "recall", "resume", "review", "search",
    "transfer", "turn", "work",
]  # fmt: skip
