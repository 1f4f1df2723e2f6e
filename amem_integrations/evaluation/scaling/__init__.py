"""Time of a search, and space of a memory, over the number of notes.

`measure` builds a memory of synthetic notes (`synthetic`) and times searches in it beside the engine's own calls
(`replay`) and a plain scan; `rows` does so for each size, in a process of its own, and keeps what it found.
"""

from __future__ import annotations

from .measure import Setup, encoding_ms
from .rows import measure_all, save, sections

__all__ = ["Setup", "encoding_ms", "measure_all", "save", "sections"]
