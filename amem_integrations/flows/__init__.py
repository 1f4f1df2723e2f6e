"""The methods of `AgenticMemory`, written once for synchronous and asynchronous callers, by theme."""

from __future__ import annotations

from . import add, admin, consolidate, edit, evolve, history, search, transfer

__all__ = ["add", "admin", "consolidate", "edit", "evolve", "history", "search", "transfer"]
