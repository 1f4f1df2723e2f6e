"""The methods of `AgenticMemory`, written once for synchronous and asynchronous callers, by theme."""

from __future__ import annotations

from . import (
    add,
    admin,
    edit,
    embed,
    evolve,
    fill,
    history,
    read,
    recall,
    resume,
    review,
    search,
    transfer,
    turn,
    usage,
    work,
)  # fmt: skip

__all__ = [
    "add", "admin", "edit", "embed", "evolve", "fill", "history", "read", "recall", "resume", "review", "search",
    "transfer", "turn", "usage", "work",
]  # fmt: skip
