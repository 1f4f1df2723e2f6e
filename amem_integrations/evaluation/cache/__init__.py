"""What an evaluation has paid for is kept, so that a run which was stopped goes on where it was.

Replies of models and vectors of embedders are kept one by one (`kept`, `model`, `embedder`), built
memories as folders (`memories`). A memory that was not finished is built again from its beginning with
the replies that are there: that costs no call, and ends the same as if nothing had stopped it.
"""

from __future__ import annotations

from .embedder import KeptEmbedder
from .kept import Kept
from .memories import Memories
from .model import KeptModel

__all__ = ["Kept", "KeptEmbedder", "KeptModel", "Memories"]
