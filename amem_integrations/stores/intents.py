"""What a write announces of itself, so that others can finish it: which versions it makes, or what is to go.

The history is written before the notes. So each write puts an *intent* into the history collection, which
says what the write is about to do. It is read when a store is opened after a process was killed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..notes import ChangeKind

INTENT = "intent"  # the kind of the point that announces a write; no change has it
# What stays when a namespace is cleared: that something was removed, and what models have cost.
RECEIPTS: tuple[ChangeKind, ...] = ("delete", "clear", "usage")


@dataclass(frozen=True, slots=True)
class Removal:
    """What is to go: these notes of a namespace (its key) and their changes, or (None) all of it.

    `receipts` are the points to be kept. With `upto` nothing goes that was added after this `seq`.
    """

    namespace: str
    ids: Sequence[str] | None
    receipts: Sequence[str] = ()
    upto: int | None = None
