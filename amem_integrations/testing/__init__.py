"""What a test of yours needs: fake models and embedders, which need nothing but the core."""

from __future__ import annotations

from .fakes import CopyingModel, HashEmbedder, ScriptedModel, ScriptError
from .recorded import RecordedModel

__all__ = ["CopyingModel", "HashEmbedder", "RecordedModel", "ScriptError", "ScriptedModel"]
