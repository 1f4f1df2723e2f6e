"""Removals: which notes and changes are to go, and what stays of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..notes import ChangeKind
from .checks import is_id
from .conditions import Dialect, Filter, seq_range
from .reads import batches

# What stays when a namespace is cleared: that something was removed, and what models have cost.
RECEIPTS: tuple[ChangeKind, ...] = ("delete", "clear", "usage")


@dataclass(frozen=True, slots=True)
class Removal:
    """What is to go: these notes of a namespace (its key) and their changes, or (None) all of it.

    `receipts` are the points to be kept. With `upto` nothing goes that was added after this `seq`, with `revisions`
    no note that has another one.
    """

    namespace: str
    ids: Sequence[str] | None
    receipts: Sequence[str] = ()
    upto: int | None = None
    revisions: Mapping[str, int] | None = None

    def notes(self, dialect: Dialect, namespace: Filter) -> list[Filter]:
        """Return what matches the notes; `namespace` matches all of theirs."""
        ours = self._until(dialect, namespace)
        if self.ids is None:
            return [dialect.every([ours])]
        alike: dict[int | None, list[str]] = {}
        for i in filter(is_id, self.ids):
            alike.setdefault((self.revisions or {}).get(i), []).append(i)
        found = []
        for revision, ids in alike.items():
            same = [] if revision is None else [dialect.integer("revision", revision)]
            found += [dialect.every([ours, dialect.ids(some), *same]) for some in batches(ids)]
        return found

    def changes(self, dialect: Dialect, namespace: Filter) -> list[Filter]:
        """Return what matches the changes about the notes, but for the receipts."""
        ours, any_of = self._until(dialect, namespace), dialect.any_of
        if self.ids is None:
            return [dialect.every([ours], but=[any_of("kind", RECEIPTS)])]
        kept = [dialect.ids(self.receipts)]
        return [
            dialect.every([ours, any_of("note_id", some)], but=kept)
            for some in batches(filter(is_id, self.ids))
        ]

    def _until(self, dialect: Dialect, namespace: Filter) -> Filter:
        if self.upto is None:
            return namespace
        return dialect.every([namespace, seq_range(dialect, "lte", self.upto)])
