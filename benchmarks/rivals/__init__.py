"""Other memories, small and after their papers, behind one interface: turns are added, a question recalls a text.

Nothing is taken from their authors' code; each module says which parameters are the paper's and what differs.
"""

from collections.abc import Callable, Mapping

from .amem_published import AMemPublished
from .base import Memory, Rival
from .memgpt import MemGpt
from .memorybank import MemoryBank
from .readagent import ReadAgent

Maker = Callable[[Rival], Memory]

__all__ = ["RIVALS", "Maker", "Memory", "Rival"]

RIVALS: Mapping[str, Maker] = {
    "readagent": ReadAgent,
    "memorybank": MemoryBank,
    "memgpt": MemGpt,
    "amem-published": AMemPublished,
}
