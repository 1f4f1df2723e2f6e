"""The two stores of a memory: `FolderStore` (a folder, Qdrant inside the process) and `ServerStore` (a server).

Each is imported when it is first asked for: the client of the server alone takes most of a second.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .bm25 import Bm25
    from .folder import FolderStore
    from .server import ServerStore

__all__ = ["Bm25", "FolderStore", "ServerStore"]

_MODULES = {"Bm25": "bm25", "FolderStore": "folder", "ServerStore": "server"}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a class
    """Return a store class, importing its module now."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)
