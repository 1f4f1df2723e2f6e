"""Consolidate: keep a memory in order, without losing anything that was said."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..changes.merging import merge, unmerge
from ..changes.proposals import rejection
from ..changes.rewrite import rewrite
from ..duplicates import difference
from ..evolution.near_duplicates import find_duplicates
from ..fetch import note_pages
from ..filters import Condition, check_count
from ..ids import new_operation, now
from ..notes import Namespace, Note, check_namespace
from ..plans import ConsolidationReport, DigestReport
from ..runtime import RULES, Runtime, resolve
from .digest import digest, number_left
from .edit import sweep
from .review import open_proposals

CALLS = 20
OUTDATED = "what it is about is gone or outdated"
DIFFERENT = "it no longer says the same"


async def consolidate(
    runtime: Runtime, *, namespace: Sequence[str], dry_run: bool = False, budget: int = CALLS
) -> ConsolidationReport:
    """Put a namespace in order, and return what was done. All of it but the deletion of expired notes can be undone.

    In this order: expired notes are deleted (see `sweep`); proposals about notes that are gone or outdated are
    rejected; notes that say the same are merged: the most complete of them (of equally complete ones the earliest)
    is found in place of the others, which stay stored, and are its `evidence`; the digests are brought up to date (see
    `digest`). A second call finds nothing more to do. Each step is a write of its own, so after an interruption the
    next call goes on from there.

    Args:
        namespace: Whose memory.
        dry_run: Only say what would be done; nothing is written, and no model is called.
        budget: Most calls of the model; what is left waits for the next call.

    Raises:
        InvalidInputError: A bad `budget`.
        StoreError: The store refused; what was done before stays.
    """
    work = _Work(runtime.counting(), check_namespace(namespace), dry_run=dry_run)
    check_count("budget", budget, 0)
    swept = await work.sweep()
    dropped = await work.drop_proposals()
    unmerged = await work.unmerge()
    merged = await work.merge()
    digests = await work.digest(budget)
    return ConsolidationReport(
        swept=tuple(swept),
        dropped=tuple(dropped),
        unmerged=tuple(unmerged),
        merged=merged,
        digests=digests,
        dry_run=dry_run,
    )


@dataclass(frozen=True)
class _Work:
    """The steps of a consolidation, each of which looks at the notes as they are then."""

    runtime: Runtime
    namespace: Namespace
    dry_run: bool

    async def sweep(self) -> list[str]:
        """Delete the notes that have expired."""
        where = (Condition("expires_at", "$lte", now()),)
        pages = note_pages(self.runtime.store, self.namespace, where)
        expired = [note.id async for page in pages for note in page]
        if expired and not self.dry_run:
            await sweep(self.runtime, namespace=self.namespace)
        return expired

    async def drop_proposals(self) -> list[str]:
        """Reject the open proposals whose note or cause is gone or outdated."""
        notes, waiting = await open_proposals(self.runtime, self.namespace)
        past = [
            made
            for made in waiting
            if made.note_id in notes
            and any(i not in notes or _is_past(notes[i]) for i in (made.note_id, made.cause or ""))
        ]
        op, at = new_operation(), now()
        records = [rejection(made, notes[made.note_id], op, at, OUTDATED) for made in past]
        if records and not self.dry_run:
            await resolve(self.runtime.store.replace(self.namespace, [], records))
        return [made.id for made in past]

    async def unmerge(self) -> list[str]:
        """Let the notes be found again that are merged into one that is gone, or says something else now."""
        notes = {note.id: note for note in await self._notes()}
        loose = [n for n in notes.values() if n.merged_into and not _stands(n, notes)]
        if loose and not self.dry_run:
            op, at = new_operation(), now()
            await rewrite(
                self.runtime, self.namespace, op, {note.id: unmerge(op, at) for note in loose}
            )
        return [note.id for note in loose]

    async def merge(self) -> dict[str, tuple[str, ...]]:
        """Merge the notes that say the same; return them by the one that stands for them."""
        notes = await self._notes()
        found = await find_duplicates(self.runtime, self.namespace, notes)
        if found and not self.dry_run:
            op, at = new_operation(), now()
            known = {note.id: note for note in notes}
            await rewrite(
                self.runtime,
                self.namespace,
                op,
                {note_id: merge(into, op, at) for note_id, into in found.items()},
                base={note_id: known[note_id] for note_id in found},
            )
            # A note may have been changed or deleted while its duplicates were written.
            loose = set(await self.unmerge())
            found = {note_id: into for note_id, into in found.items() if note_id not in loose}
        merged: defaultdict[str, list[str]] = defaultdict(list)
        for note_id, into in found.items():
            merged[into].append(note_id)
        return {into: tuple(others) for into, others in merged.items()}

    async def digest(self, budget: int) -> DigestReport:
        """Bring the digests up to date, with at most `budget` calls of the model."""
        if self.dry_run and self.runtime.model_name != RULES:
            return DigestReport(left=await number_left(self.runtime, self.namespace))
        return await digest(self.runtime, namespace=self.namespace, budget=budget)

    async def _notes(self) -> list[Note]:
        """Return all notes that have not expired, oldest first."""
        pages = note_pages(self.runtime.store, self.namespace, expired=False)
        return [note async for page in pages for note in page]


def _is_past(note: Note) -> bool:
    """Return whether a note is outdated: another takes its place, it is over, or it has expired."""
    time = now()
    over = note.holds_until is not None and note.holds_until <= time
    return over or note.superseded_by is not None or note.is_expired(time)


def _stands(note: Note, notes: Mapping[str, Note]) -> bool:
    """Return whether a merged note still says the same as the one that stands for it."""
    into = notes.get(note.merged_into or "")
    return into is not None and into.merged_into is None and difference(note, into) is None
