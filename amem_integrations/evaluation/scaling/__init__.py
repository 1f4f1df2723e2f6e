"""What a search takes, and what a memory takes up, as notes become many.

`measure` builds a memory of synthetic notes (`synthetic`) and times searches in it beside the engine's own
calls (`replay`) and a plain scan; `rows` does so for each size, in a process of its own (`apart`), and
keeps what it found; `markdown` makes a page of it. `amem eval scale` is all of it in one command.
"""

from __future__ import annotations

from .markdown import render
from .measure import Setup, encoding_ms
from .rows import measure_all, save

__all__ = ["Setup", "encoding_ms", "measure_all", "render", "save"]
