"""For those who write an adapter: what every framework's adapter needs, without a framework.

The turn of a conversation is the memory's own: `AgenticMemory.recall_turn`, `search_turn`, `remember_turn`,
`remember_fact`, `evolve_turn` and `evolve_later`; `Recalled` and `Remembered` are what they return.

- `both`, `Call`: one body of code for a method and its asynchronous twin.
- `Failures`: go on without a memory that does not answer, and say so.
- `SearchOptions`, `RecallOptions`, `checked_recall`: what is recalled, by the same words at every door; `FIELDS`: what `where` knows of a
  note, which `parse` checks.
- `Documents`: what a loader or a pipeline gives is added, found by id, and removed with its source.
- `falling`: scores of several searches, to sort by; `marked`: hits that say of which namespace they are.
- `check_namespace`: nobody's memory is never a default.
- `storable`: a text without what no store can hold.
- `check_counts`, `check_flags`: options are whole numbers from 1, or True or False, and nothing that looks alike.
- `RECALLED`: how many notes the recall of a turn considers, unless it is told otherwise; `WINDOW`: how many messages before a question
  are searched with the question.
- `WrappedEmbedder`: embeddings of a framework, with prefixes, as the memory's embedder; `Structured`, `check_structured` and
  `refuses_schemas`: whether a chat model of the framework is asked by schema or in words.
- `decide`: the plan with the answers of a reviewer, or an error that says which of them cannot be used.
- `HELD`: why a plan does not write what `MemoryConfig(review=True)` leaves to a person.

Messages become notes by `amem_integrations.conversation`; a hit as JSON, for a document's metadata, is
`ScoredNote.to_dict()`.
"""

from __future__ import annotations

from ..evolution.gate import decide as decide
from ..filters import FIELDS as FIELDS
from ..filters import parse as parse
from ..flows.read import marked as marked
from ..flows.turn import ANSWERS as ANSWERS
from ..flows.turn import HASH as HASH
from ..flows.turn import LEFT_OVERS as LEFT_OVERS
from ..flows.turn import RECALLED as RECALLED
from ..flows.turn import Recalled as Recalled
from ..flows.turn import Remembered as Remembered
from ..ids import parse_time as parse_time
from ..notes import check_namespace as check_namespace
from ..notes import storable as storable
from ..plans import HELD as HELD
from ..retrieval.relevance import WINDOW as WINDOW
from ..retrieval.search import falling as falling
from .documents import RECORD as RECORD
from .documents import DocumentInput as DocumentInput
from .documents import DocumentReport as DocumentReport
from .documents import Documents as Documents
from .documents import described as described
from .failures import Failures as Failures
from .failures import OnError as OnError
from .models import Structured as Structured
from .models import WrappedEmbedder as WrappedEmbedder
from .models import check_structured as check_structured
from .models import refuses_schemas as refuses_schemas
from .recall_options import RecallOptions as RecallOptions
from .recall_options import SearchOptions as SearchOptions
from .recall_options import check_counts as check_counts
from .recall_options import check_flags as check_flags
from .recall_options import checked_recall as checked_recall
from .twins import Call as Call
from .twins import both as both
