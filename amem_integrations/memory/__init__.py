"""The facade: `AgenticMemory`, and nothing of its own but forwarding and documentation.

`migrate` and `reindex` are about memories that are not open.
"""

from __future__ import annotations

from .facade import AgenticMemory
from .moving import migrate, reindex

__all__ = ["AgenticMemory", "migrate", "reindex"]
