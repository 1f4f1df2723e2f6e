"""Health: figures that say whether a memory is in good order, counted note by note."""

from __future__ import annotations

import unicodedata
from collections import Counter
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from ..current_facts import CurrentFacts, named
from ..fetch import get, note_pages
from ..ids import now
from ..notes import Namespace, Note
from ..runtime import Runtime
from .review import proposals


@dataclass(slots=True)
class Health:
    """What was counted so far, over any number of namespaces."""

    states: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    degrees: Counter[int] = field(default_factory=Counter)  # notes by their number of links
    proposals: Counter[str] = field(default_factory=Counter)  # open ones, by their models
    threads: set[tuple[Namespace, str]] = field(default_factory=set)

    def add(self, note: Note) -> None:
        """Count a note."""
        self.states[note.state] += 1
        self.degrees[len(note.links)] += 1
        self.counts["links"] += sum(link.direction == "out" for link in note.links.values())
        self.counts["evolved"] += any(entry.cause != note.id for entry in note.contexts)
        if note.thread is not None:
            self.threads.add((note.namespace, note.thread))

    def values(self) -> dict[str, Any]:
        """Return the figures as JSON values."""
        notes = self.states.total()
        superseded = self.counts["superseded"]
        return {
            "notes": notes,
            "states": dict(self.states),
            "threads": len(self.threads),
            "links": self.counts["links"],
            "evolved": self.counts["evolved"],
            "without_links": self.degrees[0],
            "degree": _distribution(self.degrees),
            "superseded": superseded,
            "superseded_share": round(superseded / notes, 4) if notes else 0.0,
            "duplicates": self.counts["duplicates"],
            "proposals": dict(self.proposals),
        }


async def examine(runtime: Runtime, namespace: Namespace, health: Health) -> None:
    """Count what is in a namespace."""
    seen: set[str] = set()
    outdated: dict[str, Note] = {}
    async for page in note_pages(runtime.store, namespace):
        for note in page:
            health.add(note)
            words = _normalised(note.content)
            health.counts["duplicates"] += words in seen
            seen.add(words)
            if note.supersessions:
                outdated[note.id] = note
    health.counts["superseded"] += await _superseded(runtime, namespace, outdated)
    waiting = await proposals(runtime, namespace=namespace)
    health.proposals.update(made.by for made in waiting)


async def _superseded(runtime: Runtime, namespace: Namespace, outdated: dict[str, Note]) -> int:
    """Return how many of the notes that hold supersessions are not current now."""
    others = sorted(named(outdated.values()) - outdated.keys())
    later = await get(runtime.store, namespace, others)
    time = now()
    current = CurrentFacts({**outdated, **{note.id: note for note in later}}, time, now=time)
    return sum(bool(current.successors(note)) for note in outdated.values())


def _normalised(text: str) -> str:
    """Return the words of a text: without case, punctuation and spacing."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    kept = (c if unicodedata.category(c)[0] in "LNMS" else " " for c in folded)
    return " ".join("".join(kept).split()) or folded


def _distribution(degrees: Counter[int]) -> dict[str, Any]:
    """Return how the values that were counted are distributed."""
    values = sorted(degrees.elements()) or [0]
    shares = {"min": 0.0, "median": 0.5, "p90": 0.9, "max": 1.0}
    least = {name: max(1, ceil(share * len(values))) for name, share in shares.items()}
    return {
        **{name: values[place - 1] for name, place in least.items()},
        "histogram": [degrees[value] for value in range(max(degrees, default=-1) + 1)],
    }
