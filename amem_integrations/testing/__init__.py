"""What a test of yours needs: fake models and embedders, and the suite every store has to pass.

The fakes need nothing but the core. `NoteStoreConformance` needs pytest and is loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import lazy_names
from .fakes import CopyingModel, HashEmbedder, ScriptedModel, ScriptError
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

__getattr__, __dir__ = lazy_names(__name__, {"NoteStoreConformance": "conformance"})
