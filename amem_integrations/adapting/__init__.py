"""For those who write an adapter: what every framework's adapter needs, without a framework.

- `both`, `Call`: one body of code for a method and its asynchronous twin.
- `Failures`: go on without a memory that does not answer, and say so.
- `evolve_turn`, `Evolving`: when notes evolve.
- `recalled`, `reinforce_used`: which of the recalled notes an answer used; their links are reinforced.
- `Background`: evolve them in a thread.
- `check_namespace`: nobody's memory is never a default.
- `HELD`: why a plan does not write what `MemoryConfig(review=True)` leaves to a person.

Messages become notes by `amem_integrations.conversation`; a hit as JSON, for a document's metadata, is
`ScoredNote.to_dict()`.
"""

from __future__ import annotations

from ..notes import check_namespace
from ..plans import HELD
from .background import Background
from .calls import Call, awaited, both, directly, in_thread
from .evolution import LEFT_OVERS, Evolving, evolve_turn, evolves_now
from .failures import PASSING, Failures, OnError
from .usefulness import Recalled, recalled, reinforce_used, used_in

__all__ = [
    "HELD",
    "LEFT_OVERS",
    "PASSING",
    "Background",
    "Call",
    "Evolving",
    "Failures",
    "OnError",
    "Recalled",
    "awaited",
    "both",
    "check_namespace",
    "directly",
    "evolve_turn",
    "evolves_now",
    "in_thread",
    "recalled",
    "reinforce_used",
    "used_in",
]
