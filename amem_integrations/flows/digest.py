"""Digest: bring the digests of a namespace up to date with its notes."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from ..claims import ClaimLost, Hold
from ..current_facts import NOT_MERGED
from ..errors import ModelReplyError, ModelUnavailableError, RevisionConflictError
from ..evolution.digest_offer import (
    DIGEST,
    DONE,
    STATEMENT,
    Offer,
    is_enough,
    offer_anew,
    offer_of,
)
from ..evolution.write_digests import Written, considered, write_digests
from ..evolution.write_profile import profile_id, write_profile
from ..fetch import all_changes, note_pages
from ..filters import Condition, check_count
from ..ids import new_operation, now
from ..notes import ChangeKind, Namespace, Note, check_namespace
from ..plans import DigestReport
from ..runtime import RULES, Runtime, resolve, to_the_end
from .content import remove_notes

log = logging.getLogger("amem_integrations")

CALLS = 20
BATCH = 30  # notes that say something, shown in one call
MOST = 2 * BATCH  # notes in one call, with the questions between
FEW = 16  # unfinished notes read at a time, to find the first that has not expired
THREAD = "\0digests"  # the claim of who writes digests
BY_RULES = "rules write no digests; give a model"
BUSY = "another process writes them"
UNFINISHED = Condition("state", "$in", ("pending", "constructed", "failed"))
SAYING = Condition("kind", "$in", ("statement", "question"))
# Changes of notes by which a digest of them may become stale; a deletion and a correction empty it at once.
CHANGING: tuple[ChangeKind, ...] = ("supersede", "merge", "unmerge", "update", "undo")


async def digest(
    runtime: Runtime, *, namespace: Sequence[str], budget: int = CALLS, at_least: int = 1
) -> DigestReport:
    """Bring the digests of a namespace up to date with its finished notes, and return what was done.

    A digest is a note of kind `"digest"` that a model derived from others, its `sources`: all that they say on one
    narrow topic. First the stale ones are written anew; then notes that were not considered yet are shown, about
    thirty a call, with the digests nearest to them. Doing it again, or after an interruption, goes on where
    it was. Notes that are not evolved yet wait until they are.

    Args:
        namespace: Whose memory.
        budget: Most calls of the model; what is left waits for the next call.
        at_least: Only if so many notes that say something wait, and until fewer do.

    Raises:
        InvalidInputError: A bad `budget` or `at_least`.
        ModelUnavailableError: Only with `on_model_error="raise"`.
        StoreError: The store refused; what was written before stays.
    """
    space = check_namespace(namespace)
    check_count("budget", budget, 0)
    check_count("at_least", at_least)
    if runtime.model_name == RULES:
        return DigestReport(reason=BY_RULES)
    if at_least > 1 and (left := await number_left(runtime, space)) < at_least:
        return DigestReport(left=left)
    async with _holding(runtime, space) as held:
        if held is None:
            return DigestReport(reason=BUSY)
        return await _Work(held, space, budget).all(at_least)


async def number_left(runtime: Runtime, namespace: Namespace) -> int:
    """Return how many finished notes that say something were not considered yet."""
    return await _Place(runtime, namespace).number_left()


async def digest_if_due(runtime: Runtime, namespace: Namespace, added: int) -> DigestReport:
    """Do the same after evolution, for full batches of `digest_every` new notes; `added` were finished just now.

    How many wait is read once by a process, and counted from then on.
    """
    every = runtime.config.digest_every
    if not every or not added:
        return DigestReport()
    waiting = runtime.undigested
    if namespace not in waiting:
        waiting[namespace] = await number_left(runtime, namespace)
    else:
        waiting[namespace] += added
    if waiting[namespace] < every:
        return DigestReport()
    report = await digest(runtime, namespace=namespace, at_least=every)
    waiting[namespace] = 0 if report.reason else report.left
    return report


@asynccontextmanager
async def _holding(runtime: Runtime, namespace: Namespace) -> AsyncIterator[Runtime | None]:
    """Yield a runtime by which the digests of a namespace may be written; None if somebody else is at it."""
    token = Note(
        id=f"{THREAD}:{namespace!r}", seq=0, namespace=namespace, content="", recorded_at=now()
    )
    with runtime.claims.claiming([token]) as mine:
        if not mine:
            yield None
        elif runtime.shared_claims is None:
            yield runtime
        else:
            hold = Hold(namespace)
            try:
                await resolve(runtime.shared_claims.take(hold, [THREAD]))
                yield replace(runtime, hold=hold) if hold.threads else None
            finally:
                await to_the_end(runtime.shared_claims.release(hold))


@dataclass
class _Place:
    """How far the notes of a namespace were considered."""

    runtime: Runtime
    namespace: Namespace
    until: int = -1
    attempts: int = 0
    since: int = -1  # when that was recorded

    async def read(self) -> None:
        """Read it from the history."""
        made = await resolve(
            self.runtime.store.changes(self.namespace, note_id="", kinds=("considered",), limit=1)
        )
        for record in made:
            self.until, self.attempts = record.data["until"], record.data["attempts"]
            self.since = record.seq

    async def changed(self) -> list[Note]:
        """Return the digests that may have become stale since then, or were not written anew so far."""
        await self.read()
        store = self.runtime.store
        if not await resolve(store.count(self.namespace, (DIGEST,))):
            return []
        tried = Condition("attempts", "$lt", self.runtime.config.max_attempts)
        lists = [
            await resolve(store.scan(self.namespace, where=(DIGEST, tried, which)))
            for which in (Condition("content", "$eq", ""), Condition("attempts", "$gt", 0))
        ]
        changes = await all_changes(store, self.namespace, kinds=CHANGING, after=self.since)
        if ids := sorted({made.note_id for made in changes}):
            lists.append(await resolve(store.backlinks(self.namespace, ids)))
        time = now()
        found = {note.id: note for notes in lists for note in notes if note.kind == "digest"}
        found.pop(profile_id(self.namespace), None)  # it is written from the others
        return [note for note in found.values() if not note.is_expired(time)]

    async def next_notes(self) -> tuple[list[Note], int | None]:
        """Return the notes of the next call, oldest first, and the `seq` of the last that is considered by it.

        Those after an unfinished one wait for it; None: there are no others.
        """
        await self.read()
        after, store = Condition("seq", "$gt", self.until), self.runtime.store
        first = await self._first_unfinished(after)
        before = [] if first is None else [Condition("seq", "$lt", first.seq)]
        where = (SAYING, DONE, NOT_MERGED, after, *before)
        page = await resolve(store.scan(self.namespace, where=where, limit=MOST))
        saying = [place for place, note in enumerate(page) if note.kind == "statement"]
        time, last = now(), saying[BATCH - 1] if len(saying) >= BATCH else len(page) - 1
        notes = page[: last + 1]
        until = notes[-1].seq if notes else None
        return [note for note in notes if not note.is_expired(time)], until

    async def _first_unfinished(self, after: Condition) -> Note | None:
        """Return the first note that is still to be finished."""
        tried = Condition("attempts", "$lt", self.runtime.config.max_attempts)
        where = (UNFINISHED, tried, after)
        pages = note_pages(self.runtime.store, self.namespace, where, size=FEW, expired=False)
        async for page in pages:
            return page[0]
        return None

    async def number_left(self) -> int:
        """Return how many finished notes that say something were not considered."""
        await self.read()
        after = Condition("seq", "$gt", self.until)
        where = (STATEMENT, DONE, NOT_MERGED, after)
        number: int = await resolve(self.runtime.store.count(self.namespace, where))
        return number


@dataclass
class _Work:
    """One run."""

    runtime: Runtime
    namespace: Namespace
    budget: int
    report: DigestReport = field(default_factory=DigestReport)

    async def all(self, fewest: int) -> DigestReport:
        """Do all that the budget allows, while at least `fewest` notes that say something wait."""
        before, place = _calls(self.runtime), _Place(self.runtime, self.namespace)
        try:
            await self._anew(place, before)
            while self._left(before) > 0 and await place.number_left() >= fewest:
                if not await self._next(place, before):
                    break
            await self._profile(before)
        except (ModelUnavailableError, ClaimLost, RevisionConflictError) as error:
            if (
                isinstance(error, ModelUnavailableError)
                and self.runtime.config.on_model_error == "raise"
            ):
                raise
            log.warning("%s; a later call goes on with the digests", error)
            self.report = replace(self.report, reason=str(error))
        left = await place.number_left()
        return replace(self.report, left=left, calls=_calls(self.runtime) - before)

    async def _anew(self, place: _Place, before: int) -> None:
        """Write stale digests anew from what is left of their sources; those with too few go."""
        digests = await place.changed()
        while digests and self._left(before) > 0:
            offer, few = await offer_anew(self.runtime, self.namespace, digests)
            await remove_notes(self.runtime, self.namespace, few)
            removed = (*self.report.removed, *(note.id for note in few))
            self.report = replace(self.report, removed=removed)
            if offer is None:
                return
            try:
                await self._write(offer, None, before)
            except ModelReplyError as error:
                self.report = replace(self.report, failed=(*self.report.failed, str(error)))
            done = {*removed, *(one.id for one in offer.digests)}
            digests = [one for one in digests if one.id not in done]

    async def _profile(self, before: int) -> None:
        """Write the profile anew if it is wanted and digests have changed."""
        if self.runtime.config.profile and self.report.written and self._left(before) > 0:
            calls = self._left(before)
            try:
                done = await write_profile(
                    self.runtime, self.namespace, self.report.written, calls=calls
                )
            except ModelReplyError as error:
                self.report = replace(self.report, failed=(*self.report.failed, str(error)))
            else:
                self._add(done)

    async def _next(self, place: _Place, before: int) -> bool:
        """Take the next batch; return whether there was one."""
        notes, until = await place.next_notes()
        if until is None:
            return False
        offer = Offer(notes=())
        if any(note.kind == "statement" for note in notes):
            offer = await offer_of(self.runtime, self.namespace, notes)
            until = offer.notes[-1].seq if len(offer.notes) < len(notes) else until
        if not offer.notes or not (offer.digests or is_enough([*offer.notes, *offer.earlier])):
            await self._record(until)  # there is nothing that could be written yet
            return True
        try:
            await self._write(offer, until, before)
        except ModelReplyError as error:
            await self._failed(place, until, str(error))
            return place.attempts + 1 >= self.runtime.config.max_attempts
        return True

    async def _write(self, offer: Offer, until: int | None, before: int) -> None:
        done = await write_digests(
            self.runtime, self.namespace, offer, until=until, calls=self._left(before)
        )
        self._add(done)
        for other in done.again:
            if self._left(before) > 0:
                await self._write(replace(other), None, before)

    def _add(self, done: Written) -> None:
        self.report = replace(
            self.report,
            written=tuple(dict.fromkeys([*self.report.written, *done.digests])),
            proposed=(*self.report.proposed, *done.proposals),
            dropped=self.report.dropped + done.dropped,
        )

    async def _failed(self, place: _Place, until: int, why: str) -> None:
        """Record that a batch had no usable answer; after so many times it is passed over."""
        attempts = place.attempts + 1
        is_over = attempts >= self.runtime.config.max_attempts
        await self._record(*((until, 0) if is_over else (place.until, attempts)))
        log.warning("digests of %r: %s", self.namespace, why)
        self.report = replace(self.report, failed=(*self.report.failed, why))

    async def _record(self, until: int, attempts: int = 0) -> None:
        records = considered(new_operation(), self.namespace, until, attempts)
        await resolve(self.runtime.store.replace(self.namespace, [], records))

    def _left(self, before: int) -> int:
        return self.budget - (_calls(self.runtime) - before)


def _calls(runtime: Runtime) -> int:
    """Return how often the model was asked for digests, answered or not."""
    counts = [runtime.usage.snapshot().get(task, {}) for task in ("digest", "profile")]
    return sum(one.get(name, 0) for one in counts for name in ("calls", "refused", "unavailable"))
