"""What a test of yours needs: fake models and embedders, and the suite every store has to pass.

The fakes need nothing but the core. `NoteStoreConformance` needs pytest and is loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .copying import CopyingModel
from .fakes import HashEmbedder, ScriptedModel, ScriptError
from .recorded import RecordedModel

if TYPE_CHECKING:
    from .conformance import NoteStoreConformance

__all__ = [
    "CopyingModel",
    "HashEmbedder",
    "NoteStoreConformance",
    "RecordedModel",
    "ScriptError",
    "ScriptedModel",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a module attribute
    """Return `NoteStoreConformance`, importing it only when it is asked for."""
    if name != "NoteStoreConformance":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .conformance import NoteStoreConformance  # noqa: PLC0415 - needs pytest

    return NoteStoreConformance
