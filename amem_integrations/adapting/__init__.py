"""For those who write an adapter: what every framework's adapter needs, without a framework.

The turn of a conversation is the memory's own: `AgenticMemory.recall_turn`, `search_turn`, `remember_turn`, `evolve_turn`
and `evolve_later`; `Recalled` and `Remembered` are what they return.

- `both`, `Call`: one body of code for a method and its asynchronous twin.
- `Failures`: go on without a memory that does not answer, and say so.
- `SearchOptions`, `RecallOptions`, `checked_recall`: what is recalled, by the same words at every door; `FIELDS`: what `where` knows of a
  note, which `parse` checks.
- `Documents`: what a loader or a pipeline gives is added, found by id, and removed with its source.
- `falling`: scores of several searches, to sort by; `marked`: hits that say of which namespace they are.
- `check_namespace`: nobody's memory is never a default.
- `check_counts`, `check_flags`: options are whole numbers from 1, or True or False, and nothing that looks alike.
- `RECALLED`: how many notes a recall considers, unless it is told otherwise; `WINDOW`: how many messages before a question
  are searched with the question.
- `WrappedEmbedder`: embeddings of a framework, with prefixes, as the memory's embedder; `Structured`, `check_structured` and
  `refuses_schemas`: whether a chat model of the framework is asked by schema or in words.
- `decide`: the plan with the answers of a reviewer, or an error that says which of them cannot be used.
- `HELD`: why a plan does not write what `MemoryConfig(review=True)` leaves to a person.

Messages become notes by `amem_integrations.conversation`; a hit as JSON, for a document's metadata, is
`ScoredNote.to_dict()`.
"""

from __future__ import annotations

from ..evolution.gate import decide
from ..filters import FIELDS, parse
from ..flows.recall import RECALLED, marked
from ..flows.search import falling
from ..flows.turn import ANSWERS, HASH, LEFT_OVERS, Recalled, Remembered
from ..follow_up import WINDOW
from ..ids import parse_time
from ..notes import Origin, check_namespace
from ..plans import HELD
from .documents import RECORD, DocumentInput, DocumentReport, Documents, described
from .failures import Failures, OnError
from .models import Structured, WrappedEmbedder, check_structured, refuses_schemas
from .recall_options import (
    RecallOptions,
    SearchOptions,
    check_counts,
    check_flags,
    checked_recall,
)
from .twins import Call, both, directly

__all__ = [
    "ANSWERS",
    "FIELDS",
    "HASH",
    "HELD",
    "LEFT_OVERS",
    "RECALLED",
    "RECORD",
    "WINDOW",
    "Call",
    "DocumentInput",
    "DocumentReport",
    "Documents",
    "Failures",
    "OnError",
    "Origin",
    "RecallOptions",
    "Recalled",
    "Remembered",
    "SearchOptions",
    "Structured",
    "WrappedEmbedder",
    "both",
    "check_counts",
    "check_flags",
    "check_namespace",
    "check_structured",
    "checked_recall",
    "decide",
    "described",
    "directly",
    "falling",
    "marked",
    "parse",
    "parse_time",
    "refuses_schemas",
]
