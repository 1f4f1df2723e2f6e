"""What an evaluation runs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..config import MemoryConfig
from ..errors import InvalidInputError
from .systems import BASELINES, FULL, KNOWN, MAIN, VARIANTS, needed_variant


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What to run.

    Attributes:
        ks: How many of the first hits count, for each figure.
        answer_ks: How many of the first hits a model answers from. Empty: no questions are answered.
        systems: What is measured, by the names in `systems`; the memory itself always is.
        concurrency: Calls of a language model at once.
        build_concurrency: Batches of new notes asked about at once (`MemoryConfig.max_concurrency`). It
            is apart from `concurrency` because it decides which notes see each other.

    Raises:
        InvalidInputError: No `ks`, one below 1, or an unknown system.
    """

    ks: tuple[int, ...] = (5, 10, 20)
    answer_ks: tuple[int, ...] = ()
    systems: tuple[str, ...] = (MAIN,)
    concurrency: int = 4
    build_concurrency: int = 4

    def __post_init__(self) -> None:
        """Check the values."""
        if not self.ks or min(self.ks) < 1:
            raise InvalidInputError(f"k={self.ks!r} must be numbers of at least 1, such as 5,10,20")
        for name in ("concurrency", "build_concurrency"):
            if getattr(self, name) < 1:
                raise InvalidInputError(f"{name}={getattr(self, name)!r} must be at least 1")
        if min(self.answer_ks, default=1) < 1:
            raise InvalidInputError(f"answer_k={self.answer_ks!r} must be at least 1")
        for name in self.systems:
            if name not in KNOWN:
                raise InvalidInputError(
                    f"there is no system {name!r}; there are {', '.join(KNOWN)}"
                )

    @property
    def depth(self) -> int:
        """How many hits are needed."""
        return max((*self.ks, *self.answer_ks))

    @property
    def chosen(self) -> tuple[str, ...]:
        """The systems, each once and in the usual order; the whole conversation only answers."""
        named = {MAIN, *self.systems}
        return tuple(name for name in KNOWN if name in named and (self.answer_ks or name != FULL))

    @property
    def variants(self) -> dict[str, MemoryConfig]:
        """How each memory is built that these systems need, by its name."""
        needed = {needed_variant(name) for name in self.chosen if name not in BASELINES}
        return {
            name: replace(config, max_concurrency=self.build_concurrency, on_model_error="raise")
            for name, config in VARIANTS.items()
            if name in needed
        }
