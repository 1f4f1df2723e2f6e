"""The facade: `AgenticMemory`, and nothing of its own but forwarding and documentation."""

from __future__ import annotations

from .facade import AgenticMemory

__all__ = ["AgenticMemory"]
