"""Digest: bring the digests of a namespace up to date with its notes."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from ..claims import ClaimLost, Hold
from ..digests import IS_DIGEST
from ..errors import ModelReplyError, ModelUnavailableError, RevisionConflictError
from ..evolution.digest_offer import (
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
from ..filters import Condition, Conditions, check_count
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
CHANGING: tuple[ChangeKind, ...] = ("supersede", "update", "undo")


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
        return await _Run(held.counting(), space, budget).all(at_least)


async def number_left(runtime: Runtime, namespace: Namespace) -> int:
    """Return how many finished notes that say something were not considered yet."""
    return await _Run(runtime, namespace).number_left()


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
class _Run:
    """One run: how far the notes of a namespace were considered, and what was done; `runtime` counts its calls."""

    runtime: Runtime
    namespace: Namespace
    budget: int = 0
    until: int = -1
    attempts: int = 0
    since: int = -1  # when that was recorded
    done: Written = field(default_factory=Written)
    removed: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    @property
    def calls(self) -> int:
        """How often the model was asked, answered or not."""
        return self.runtime.usage.asked("digest", "profile")

    @property
    def calls_left(self) -> int:
        """How often it may be asked yet."""
        return self.budget - self.calls

    async def all(self, fewest: int) -> DigestReport:
        """Do all that the budget allows, while at least `fewest` notes that say something wait."""
        reason = None
        try:
            await self._write_anew()
            while self.calls_left > 0 and await self.number_left() >= fewest:
                if not await self._take_next():
                    break
            await self._write_profile()
        except (ModelUnavailableError, ClaimLost, RevisionConflictError) as error:
            raises = self.runtime.config.on_model_error == "raise"
            if raises and isinstance(error, ModelUnavailableError):
                raise
            log.warning("%s; a later call goes on with the digests", error)
            reason = str(error)
        return DigestReport(
            written=self.done.digests,
            removed=tuple(self.removed),
            proposed=self.done.proposals,
            left=await self.number_left(),
            failed=tuple(self.failed),
            dropped=self.done.dropped,
            calls=self.calls,
            reason=reason,
        )

    async def number_left(self) -> int:
        """Return how many finished notes that say something were not considered."""
        await self._read()
        where = (STATEMENT, DONE, Condition("seq", "$gt", self.until))
        number: int = await resolve(self.runtime.store.count(self.namespace, where))
        return number

    async def _read(self) -> None:
        """Read in the history how far the notes were considered."""
        made = await resolve(
            self.runtime.store.changes(self.namespace, note_id="", kinds=("considered",), limit=1)
        )
        for record in made:
            self.until, self.attempts = record.data["until"], record.data["attempts"]
            self.since = record.seq

    async def _changed(self) -> list[Note]:
        """Return the digests that may have become stale since then, or were not written anew so far."""
        await self._read()
        store = self.runtime.store
        if not await resolve(store.count(self.namespace, (IS_DIGEST,))):
            return []
        lists = [
            await resolve(store.scan(self.namespace, where=(IS_DIGEST, self._tried, which)))
            for which in (Condition("content", "$eq", ""), Condition("attempts", "$gt", 0))
        ]
        changes = await all_changes(store, self.namespace, kinds=CHANGING, after=self.since)
        if ids := sorted({made.note_id for made in changes}):
            lists.append(await resolve(store.backlinks(self.namespace, ids)))
        time = now()
        found = {note.id: note for notes in lists for note in notes if note.kind == "digest"}
        found.pop(profile_id(self.namespace), None)  # it is written from the others
        return [note for note in found.values() if not note.is_expired(time)]

    @property
    def _tried(self) -> Condition:
        return Condition("attempts", "$lt", self.runtime.config.max_attempts)

    async def _next_notes(self) -> tuple[list[Note], int | None]:
        """Return the notes of the next call, oldest first, and the `seq` of the last that is considered by it.

        Those after an unfinished one wait for it; None: there are no others.
        """
        await self._read()
        after, store = Condition("seq", "$gt", self.until), self.runtime.store
        where: Conditions = (UNFINISHED, self._tried, after)
        unfinished: list[Note] = await anext(
            note_pages(store, self.namespace, where, size=FEW, expired=False), []
        )
        before = [Condition("seq", "$lt", note.seq) for note in unfinished[:1]]
        where = (SAYING, DONE, after, *before)
        page = await resolve(store.scan(self.namespace, where=where, limit=MOST))
        saying = [place for place, note in enumerate(page) if note.kind == "statement"]
        time, last = now(), saying[BATCH - 1] if len(saying) >= BATCH else len(page) - 1
        notes = page[: last + 1]
        until = notes[-1].seq if notes else None
        return [note for note in notes if not note.is_expired(time)], until

    async def _write_anew(self) -> None:
        """Write stale digests anew from what is left of their sources; those with too few go."""
        digests = await self._changed()
        while digests and self.calls_left > 0:
            offer, few = await offer_anew(self.runtime, self.namespace, digests)
            await remove_notes(self.runtime, self.namespace, few)
            self.removed += [note.id for note in few]
            if offer is None:
                return
            try:
                await self._write(offer, None)
            except ModelReplyError as error:
                self.failed.append(str(error))
            done = {*self.removed, *(one.id for one in offer.digests)}
            digests = [one for one in digests if one.id not in done]

    async def _write_profile(self) -> None:
        """Write the profile anew if it is wanted and digests have changed."""
        changed, calls = self.done.digests, self.calls_left
        if self.runtime.config.profile and changed and calls > 0:
            try:
                self.done += await write_profile(self.runtime, self.namespace, changed, calls=calls)
            except ModelReplyError as error:
                self.failed.append(str(error))

    async def _take_next(self) -> bool:
        """Take the next batch; return whether there was one."""
        notes, until = await self._next_notes()
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
            await self._write(offer, until)
        except ModelReplyError as error:
            return await self._has_failed(until, str(error))
        return True

    async def _write(self, offer: Offer, until: int | None) -> None:
        done = await write_digests(
            self.runtime, self.namespace, offer, until=until, calls=self.calls_left
        )
        self.done += done
        for other in done.again:
            if self.calls_left > 0:
                await self._write(other, None)

    async def _has_failed(self, until: int, why: str) -> bool:
        """Record that a batch had no usable answer; return whether it is passed over, after so many times."""
        attempts = self.attempts + 1
        is_over = attempts >= self.runtime.config.max_attempts
        await self._record(*((until, 0) if is_over else (self.until, attempts)))
        log.warning("digests of %r: %s", self.namespace, why)
        self.failed.append(why)
        return is_over

    async def _record(self, until: int, attempts: int = 0) -> None:
        records = considered(new_operation(), self.namespace, until, attempts)
        await resolve(self.runtime.store.replace(self.namespace, [], records))
