"""What a doctor finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at: how it is, and what to do about it."""

    level: Literal["good", "hint", "wrong"]
    about: str
    text: str
    advice: str | None = None


def good(about: str, text: str) -> Finding:
    """Return the finding that something is in order."""
    return Finding("good", about, text)


def hint(about: str, text: str, advice: str | None) -> Finding:
    """Return a finding worth knowing, with which everything works."""
    return Finding("hint", about, text, advice)


def wrong(about: str, text: str, advice: str | None) -> Finding:
    """Return a finding that something is wrong."""
    return Finding("wrong", about, text, advice)
