"""What every step works with: the ports, in their synchronous or asynchronous form, and the settings."""

from __future__ import annotations

from dataclasses import dataclass

from ._sync import Mapper
from .config import MemoryConfig
from .ports import ChatModel, Embedder, NoteStore
from .usage import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """The ports as the caller's form of the engine sees them."""

    store: NoteStore
    embedder: Embedder
    model: ChatModel
    model_name: str
    config: MemoryConfig
    usage: Usage
    map: Mapper
