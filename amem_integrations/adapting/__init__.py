"""For those who write an adapter of their own: what every framework's adapter needs, without a framework.

- `Failures`: go on without a memory that does not answer, and say so.
- `Background`: evolve notes in a thread.
- `check_namespace`: nobody's memory is never a default.

A hit as JSON, for a document's metadata, is `ScoredNote.to_dict()`.
"""

from __future__ import annotations

from ..ids import check_namespace
from .background import Background
from .failures import PASSING, Failures, OnError

__all__ = ["PASSING", "Background", "Failures", "OnError", "check_namespace"]
