"""What a scoring compares: the parts of a gold answer, and of an answer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Each of `golds` counts by the best match among `answers`; both hold at least one text."""

    answers: tuple[str, ...]
    golds: tuple[str, ...]

    @property
    def texts(self) -> tuple[str, ...]:
        """All of the texts."""
        return self.answers + self.golds
