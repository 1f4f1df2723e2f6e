"""What an evaluation runs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ..config import MemoryConfig
from ..errors import InvalidInputError


class Ablation(StrEnum):
    """What the memory has to do without."""

    NONE = "none"
    EVOLUTION = "evolution"
    LINKS = "links"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What to run.

    Attributes:
        ks: How many of the first hits count, for each figure.
        ablation: What is left out when the memory is built.
        baselines: Whether the memory is compared with plain rankings, and with itself without links
            and without evolution.

    Raises:
        InvalidInputError: No `ks`, or one below 1.
    """

    ks: tuple[int, ...] = (5, 10, 20)
    ablation: Ablation = Ablation.NONE
    baselines: bool = False

    def __post_init__(self) -> None:
        """Check the values."""
        if not self.ks or min(self.ks) < 1:
            raise InvalidInputError(f"k={self.ks!r} must be numbers of at least 1, such as 5,10,20")

    @property
    def config(self) -> MemoryConfig:
        """How the memory is built: by default, but for what is ablated."""
        return MemoryConfig(
            link=self.ablation is not Ablation.LINKS,
            evolve=self.ablation is Ablation.NONE,
        )
