"""What an import took and what it could not take, by reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ..errors import InvalidInputError
from ..notes import Namespace, NoteInput
from .source import Entry, Source

T = TypeVar("T")

Labels = tuple[str, ...]  # a namespace, or () where the source does not say whose a note is
Found = tuple[Labels, NoteInput]


@dataclass(slots=True)
class Skipped:
    """What was left out: how often for each reason, and where first."""

    counts: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)

    def add(self, reason: str, where: str, times: int = 1) -> None:
        """Count what was left out for a reason."""
        if times:
            self.counts[reason] += times
            self.first.setdefault(reason, where)

    def attempt(self, convert: Callable[[Entry], T | None], entry: Entry) -> T | None:
        """Return what a value becomes, or count it as not readable."""
        try:
            return convert(entry)
        except InvalidInputError as error:
            self.add("cannot be read", str(error))
            return None

    def __str__(self) -> str:
        """Return all reasons in one line, the most frequent first."""
        return "; ".join(
            f"{reason}: {count} (first: {self.first[reason]})"
            for reason, count in self.counts.most_common()
        )


Reader = Callable[[Source, Skipped], Iterator[Found]]


@dataclass(slots=True, kw_only=True)
class ImportReport:
    """What one import did.

    Attributes:
        format: The format that the source was read as.
        found: How many notes the source holds, by namespace.
        added: How many notes are new, by namespace; a long text is several notes.
        skipped: What was left out: how often for each reason.
        first_skipped: Where each reason was met first, and with what.
    """

    format: str
    found: dict[Namespace, int] = field(default_factory=dict)
    added: dict[Namespace, int] = field(default_factory=dict)
    skipped: dict[str, int] = field(default_factory=dict)
    first_skipped: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "format": self.format,
            "namespaces": [
                {"namespace": list(one), "found": count, "added": self.added.get(one, 0)}
                for one, count in self.found.items()
            ],
            "skipped": dict(self.skipped),
            "first_skipped": dict(self.first_skipped),
        }
