"""Facade: administration, synchronous only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .._sync import resolve, run
from ..filters import Condition
from ..ids import check_namespace
from ..notes import Namespace, Note
from .base import Base

PAGE = 256


class Admin(Base):
    """`namespaces`, `stats`, `usage`."""

    def namespaces(self) -> list[Namespace]:
        """Return the namespaces that hold notes, sorted."""
        return run(self._engine.namespaces())

    def stats(self, *, namespace: Sequence[str] | None = None) -> dict[str, Any]:
        """Return counts over one namespace, or (None) over all.

        Keys: `namespaces`, `notes`, `states` (by state), `links` (each pair once), `evolved` (notes with
        context from a later note), `threads`, `without_links`.
        """
        spaces = self.namespaces() if namespace is None else [check_namespace(namespace)]
        counts: Counter[str] = Counter()
        states: Counter[str] = Counter()
        threads = set()
        for space in spaces:
            for note in self._scan(space):
                states[note.state] += 1
                counts["links"] += sum(link.direction == "out" for link in note.links.values())
                counts["evolved"] += any(entry.cause != note.id for entry in note.contexts)
                counts["without_links"] += not note.links
                threads.add((space, note.thread))
        return {
            "namespaces": len(spaces),
            "notes": states.total(),
            "states": dict(states),
            "threads": len({pair for pair in threads if pair[1] is not None}),
            **{name: counts[name] for name in ("links", "evolved", "without_links")},
        }

    def usage(self) -> dict[str, Mapping[str, int]]:
        """Return what the models cost since this memory was opened.

        By task (`construct`, `evolve`, …) and in `total`: `calls`, `input_tokens`, `output_tokens`,
        `rejected_replies`, `dropped` (links and updates that named no note shown), `unavailable`.
        """
        return self._usage.snapshot()

    def _scan(self, namespace: Namespace) -> Iterator[Note]:
        after = -1
        while True:
            where = (Condition("seq", "$gt", after),)
            page = run(resolve(self._store.scan(namespace, where=where, limit=PAGE)))
            yield from page
            if len(page) < PAGE:
                return
            after = page[-1].seq
