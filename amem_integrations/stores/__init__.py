"""The two note stores: `EdgeStore` (a folder, Qdrant inside the process) and `QdrantStore` (a server).

Each is imported when it is first asked for: the client of the server alone takes most of a second.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .bm25 import Bm25
    from .edge import EdgeStore
    from .qdrant import QdrantStore

__all__ = ["Bm25", "EdgeStore", "QdrantStore"]

_MODULES = {"Bm25": "bm25", "EdgeStore": "edge", "QdrantStore": "qdrant"}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a class
    """Return a store class, importing its module now."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)
