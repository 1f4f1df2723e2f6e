"""Facade: administration, synchronous only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from .._sync import resolve, run
from ..filters import Condition
from ..ids import check_namespace
from ..notes import Namespace, Note
from .base import Base

PAGE = 256
PACKAGES = ("amem-integrations", "qdrant-client", "qdrant-edge-py")


class Admin(Base):
    """`namespaces`, `stats`, `info`, `usage`."""

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

    def info(self) -> dict[str, Any]:
        """Return what this memory was made with and works with; worth adding to the report of a fault.

        Keys: `embedder` and `dimensions` (of the vectors in it), `model`, `versions` (by package) and, of what
        is stored, `format`, `schema`, `template`, `bm25` and `created_at` as far as the store tells them.
        """
        made = dict(getattr(self._store, "made_with", {}))
        return {
            "embedder": made.pop("embedder", "") or self._embedder.name,
            "dimensions": made.pop("dimensions", self._embedder.dimensions),
            "model": self._engine.runtime.model_name,
            "versions": {package: _version(package) for package in PACKAGES},
            **made,
        }

    def usage(self) -> dict[str, Mapping[str, Any]]:
        """Return what the model cost since this memory was opened.

        By task (`construct`, `evolve`, …), in `total`, and in `models` by the name that notes and history
        know the model by: `calls`, `input_tokens`, `output_tokens`, `rejected_replies`, `dropped` (links
        and updates that named no note shown), `refused` (requests that the endpoint does not take, too
        long ones for example), `unavailable` (calls that got no answer).
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


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "from a checkout"
