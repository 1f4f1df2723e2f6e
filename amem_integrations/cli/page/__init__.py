"""One page to look through a memory: a file that needs nothing else, and asks nothing of a network."""

from __future__ import annotations

from .html import render

__all__ = ["render"]
