"""The settings of a memory, checked once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryConfig:
    """How notes are made, linked and evolved.

    Attributes:
        calls: `"joint"` asks for the links and updates of a batch in one call (as the authors' code does
            for a note); `"paper"` makes the three kinds of call of the paper, Eq. 2, 6 and 7.
        link: Whether notes are linked. Off, nothing evolves either.
        evolve: Whether the notes that a new one touches are updated.
        batch_size: New notes of one thread per model call. 8 costs about .29 calls a note.
        candidates: Earlier notes shown for each new one. Of the links a language model drew over a
            whole conversation, 87 % led to one of these ten.
        recent: How many of the candidates are simply the last notes of the same thread.
        max_links: Most links a note keeps; beyond it the weakest goes, and the history says so.
        min_gate_similarity: Least cosine between a new context entry and the note it is for. At .50 with
            MiniLM, 99 % of honest updates pass and 91 % of updates of a random note do not.
        min_duplicate_similarity: Least cosine between the contents of two notes that `consolidate` may merge, if no
            number, name, date or negation tells them apart. `amem calibrate` finds it for another embedder than MiniLM.
        min_link_strength: Under this strength `consolidate` drops a link; 0 keeps all.
        assistant_supersedes: Whether what an assistant or a tool said may take the place of what a user said. Off,
            it becomes a proposal.
        max_concurrency: Batches asked about at once. They do not see what each other evolved, so another
            number may give slightly other links; the same number gives the same ones every time.
        max_attempts: How often a note is tried whose replies cannot be used, with up to two calls each time.
            Then it stays `failed`, found as ever, until `evolve(retry=True)`.
        on_model_error: `"log"` keeps the raw note as pending and goes on; `"raise"` raises, the raw
            note being stored all the same.
        max_content_chars: Longest content that is taken.
        split: Whether content that is too long for the embedder becomes several notes, cut between
            paragraphs or sentences, one after the other in their thread; `add` returns the first.
        split_tokens: How long such notes are at most, in tokens of about four bytes. None takes 150, or
            three fifths of what the embedder reads at once (its `max_tokens`), if that is less.

    Raises:
        ConfigurationError: A value is out of range.
    """

    calls: Literal["joint", "paper"] = "joint"
    link: bool = True
    evolve: bool = True
    batch_size: int = 8
    candidates: int = 10
    recent: int = 3
    max_links: int = 32
    min_gate_similarity: float = 0.5
    min_duplicate_similarity: float = 0.96
    min_link_strength: float = 0.1
    assistant_supersedes: bool = False
    max_concurrency: int = 4
    max_attempts: int = 5
    on_model_error: Literal["log", "raise"] = "log"
    max_content_chars: int = 32_000
    split: bool = True
    split_tokens: int | None = None

    def __post_init__(self) -> None:
        """Check every value."""
        for name in (
            "batch_size",
            "candidates",
            "max_links",
            "max_concurrency",
            "max_attempts",
            "max_content_chars",
        ):
            value = getattr(self, name)
            _require(_is_count(value) and value >= 1, name, value, "a whole number of at least 1")
        _require(_is_count(self.recent), "recent", self.recent, "a whole number")
        _require(0 <= self.recent <= self.candidates, "recent", self.recent, "0 to `candidates`")
        _require((self.split_tokens or 20) >= 20, "split_tokens", self.split_tokens, "at least 20")  # noqa: PLR2004
        for name in ("min_gate_similarity", "min_duplicate_similarity"):
            floor = getattr(self, name)
            _require(-1 <= floor <= 1, name, floor, "a cosine, -1 to 1")
        weakest = self.min_link_strength
        _require(0 <= weakest <= 1, "min_link_strength", weakest, "a strength, 0 to 1")
        _require(self.calls in ("joint", "paper"), "calls", self.calls, "'joint' or 'paper'")
        on_error = self.on_model_error
        _require(on_error in ("log", "raise"), "on_model_error", on_error, "'log' or 'raise'")

    @classmethod
    def paper(cls) -> MemoryConfig:
        """Return the settings of the paper: one note at a time, a call each for Eq. 2, 6 and 7."""
        return cls(calls="paper", batch_size=1, recent=0)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _require(holds: bool, name: str, value: object, wanted: str) -> None:
    if not holds:
        raise ConfigurationError(f"{name}={value!r} cannot be used; give {wanted}")
