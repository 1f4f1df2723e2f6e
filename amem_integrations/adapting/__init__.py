"""For those who write an adapter: what every framework's adapter needs, without a framework.

- `both`, `Call`: one body of code for a method and its asynchronous twin.
- `Failures`: go on without a memory that does not answer, and say so. `Waiting`: what is stored once it does.
- `evolve_turn`, `Evolving`: when notes evolve.
- `RecallOptions` and its keywords: what is recalled, by the same words at every door; `falling`: scores of several
  searches, to sort by; `FIELDS`: what `where` knows of a note, which `parse` checks.
- `Background`: evolve them in a thread.
- `Documents`: what a loader or a pipeline gives is added, replaced, found by id, and removed with its source.
- `Unembedded`: the notes of a turn are stored at once, and embedded by one call when it is complete.
- `check_namespace`: nobody's memory is never a default.
- `check_counts`, `check_flags`: options are whole numbers from 1, or True or False, and nothing that looks alike.
- `RECALLED`: how many notes a recall considers, unless it is told otherwise; `WINDOW`: how many messages before a question
  are searched with the question.
- `Prefixes`, `Truncation`: what an embedder puts before a text, and of how many texts it read only the beginning.
- `clock`: instants as `seq` has them, also where the memory is ahead of the system's clock.
- `HELD`: why a plan does not write what `MemoryConfig(review=True)` leaves to a person.

Messages become notes by `amem_integrations.conversation`; a hit as JSON, for a document's metadata, is
`ScoredNote.to_dict()`.
"""

from __future__ import annotations

from ..errors import status_of
from ..filters import FIELDS, parse
from ..flows.recall import RECALLED, marked
from ..flows.search import falling
from ..flows.turn import ANSWERS, HASH, LEFT_OVERS, Recalled, Remembered
from ..follow_up import WINDOW
from ..ids import clock, parse_time
from ..notes import Origin, check_namespace
from ..plans import HELD
from ..providers.embedders import Prefixes, Truncation
from .background import Background
from .documents import RECORD, DocumentInput, DocumentReport, Documents, described
from .evolution import Evolving, evolve_turn, evolves_now
from .failures import PASSING, Failures, OnError
from .recall_options import (
    RecallKeywords,
    RecallOptions,
    SearchKeywords,
    check_counts,
    check_flags,
    checked_recall,
)
from .twins import Call, awaited, both, directly, in_thread
from .unembedded import Unembedded

__all__ = [
    "ANSWERS",
    "FIELDS",
    "HASH",
    "HELD",
    "LEFT_OVERS",
    "PASSING",
    "RECALLED",
    "RECORD",
    "WINDOW",
    "Background",
    "Call",
    "DocumentInput",
    "DocumentReport",
    "Documents",
    "Evolving",
    "Failures",
    "OnError",
    "Origin",
    "Prefixes",
    "RecallKeywords",
    "RecallOptions",
    "Recalled",
    "Remembered",
    "SearchKeywords",
    "Truncation",
    "Unembedded",
    "awaited",
    "both",
    "check_counts",
    "check_flags",
    "check_namespace",
    "checked_recall",
    "clock",
    "described",
    "directly",
    "evolve_turn",
    "evolves_now",
    "falling",
    "in_thread",
    "marked",
    "parse",
    "parse_time",
    "status_of",
]
