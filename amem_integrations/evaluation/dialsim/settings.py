"""What a simulation runs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ...config import MemoryConfig
from ...errors import InvalidInputError


class Format(StrEnum):
    """How an answer is asked for."""

    CHOICE = "choice"
    OPEN = "open"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What to run.

    Attributes:
        formats: How each question is asked, one time for each.
        k: How many notes an answer is given from; the published simulator shows 20 utterances.
        seed: Decides which questions are asked.
        questions: How many questions at most, from the first one.
        concurrency: Questions put to a model at once.
        build_concurrency: Batches of new notes asked about at once (`MemoryConfig.max_concurrency`).

    Raises:
        InvalidInputError: No format, or a number below 1.
    """

    formats: tuple[Format, ...] = (Format.CHOICE, Format.OPEN)
    k: int = 20
    seed: int = 0
    questions: int | None = None
    concurrency: int = 4
    build_concurrency: int = 4

    def __post_init__(self) -> None:
        """Check the values."""
        if not self.formats:
            raise InvalidInputError("formats=() must have at least one of choice and open")
        for name in ("k", "questions", "concurrency", "build_concurrency"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InvalidInputError(f"{name}={value!r} must be at least 1")

    @property
    def config(self) -> MemoryConfig:
        """How the memory is built: by default, but that a model which is down stops it."""
        return MemoryConfig(max_concurrency=self.build_concurrency, on_model_error="raise")
