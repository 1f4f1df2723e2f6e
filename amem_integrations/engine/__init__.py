"""The flows of the memory, written once for synchronous and asynchronous callers.

`intake` stores what was said, `evolution` makes notes of it, `writing` and `reading` are the flows that
a caller sees, from top to bottom.
"""

from __future__ import annotations

from ..runtime import Runtime
from .claims import Claims
from .decisions import Decisions
from .editing import Editing
from .history import History
from .progress import Progress
from .reading import Reading, SearchOptions
from .recovery import recover
from .writing import Writing

__all__ = [
    "Claims",
    "Decisions",
    "Editing",
    "Engine",
    "History",
    "Progress",
    "Reading",
    "SearchOptions",
    "Writing",
    "recover",
]


class Engine(Writing, Reading, Editing, History):
    """All flows over one form of the ports."""

    def __init__(self, runtime: Runtime, claims: Claims) -> None:
        self.runtime = runtime
        Writing.__init__(self, runtime, claims)
        Reading.__init__(self, runtime)
        Editing.__init__(self, runtime)
        History.__init__(self, runtime)
