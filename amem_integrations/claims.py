"""Claims: which process works on which thread of a store that several processes share.

A claim is a point of the store, made and changed by conditional writes. Its holder writes a new version of it
every few seconds; who has seen one version stand for the length of the claim, by a clock of his own that is
never set, takes it over. No clocks of two machines are compared.

Claims save calls of a model. That no work is done twice does not depend on them: see `evolution.commit`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from secrets import randbits
from typing import Protocol
from uuid import UUID, uuid4, uuid5

from .errors import AmemError, StoreError
from .ids import clock
from .notes import Namespace

log = logging.getLogger("amem_integrations")

# The id of a claim comes from its namespace and thread, under this root.
_CLAIM_IDS = UUID("b3f6c7c2-52f5-5c39-9f0e-0f4e2b8e7d54")
RENEWALS = 3  # in the time that a claim lasts
SURE = 2 / 3  # of that time, since the last renewal, in which nobody can have taken it
MOST_SEEN = 10_000  # claims of others that are remembered


class ClaimLost(AmemError):  # noqa: N818 - no error of the caller; it never leaves the package
    """Another process has taken over the thread: what was made for it is not written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One version of a claim.

    Attributes:
        id: Of its point, by namespace and thread.
        owner: Who holds it.
        seconds: How long a version has to stand until another may take it over.
        version: One more each time it is written; the first is random, so that no two claims share one.
        seq: When it was made, unlike any other.
    """

    id: str
    owner: str
    seconds: float
    version: int
    seq: int

    def next(self, owner: str, seconds: float) -> Claim:
        """Return the version that renews this one, or takes it over."""
        return replace(self, owner=owner, seconds=seconds, version=self.version + 1)


class ClaimStore(Protocol):
    """What a store can do besides if claims can be kept in it; a repeated call does no harm."""

    def get_claims(self, namespace: Namespace, ids: Sequence[str]) -> dict[str, Claim]:
        """Return by id the claims that stand."""
        ...

    def put_claims(self, namespace: Namespace, claims: Sequence[Claim]) -> set[str]:
        """Make claims where there are none, and return the ids of those made."""
        ...

    def swap_claims(self, namespace: Namespace, claims: Sequence[Claim]) -> set[str]:
        """Write claims whose stored version is one less; return the ids of those written."""
        ...

    def drop_claims(self, namespace: Namespace, claims: Sequence[Claim]) -> None:
        """Remove claims that stand in exactly this version."""
        ...


def claim_id(namespace: Namespace, thread: str | None) -> str:
    """Return the id of the claim of a thread; None stands for all notes without one."""
    return str(uuid5(_CLAIM_IDS, repr((tuple(namespace), thread))))


@dataclass(eq=False, slots=True)
class Hold:
    """The threads that one piece of work holds in a namespace."""

    namespace: Namespace
    threads: dict[str | None, str] = field(default_factory=dict)  # the id of the claim by thread
    is_over: bool = False


@dataclass(slots=True)
class _Held:
    """A claim of this process; `since` is a time before it was last written."""

    namespace: Namespace
    claim: Claim
    since: float
    holds: set[Hold]


class SharedClaims:
    """The claims of one process in a store; safe to use from several threads.

    Several pieces of work of the process may hold one thread at a time: which notes each works on, they settle
    among themselves. The methods wait for the store; asynchronous callers run them in threads.
    """

    def __init__(self, store: ClaimStore, seconds: float) -> None:
        """Start with nothing held; claims last for so many `seconds`."""
        self._store, self._seconds, self._owner = store, seconds, str(uuid4())
        self._changed = threading.Condition()
        self._renewing = threading.Lock()
        self._held: dict[str, _Held | None] = {}  # None: the store is being asked for it
        self._seen: dict[str, tuple[str, int, float]] = {}
        self._keeper: threading.Thread | None = None

    def take(self, hold: Hold, threads: Iterable[str | None]) -> Hold:
        """Add to a hold those threads that nobody else holds, and return it; it does not wait for the others.

        Raises:
            StoreError: The store does not answer.
        """
        wanted = {claim_id(hold.namespace, thread): thread for thread in threads}
        asked = self._join(hold, wanted)
        got: list[Claim] = []
        since = time.monotonic()
        try:
            got = self._ask(hold.namespace, asked)
        finally:
            with self._changed:
                for claim_id_ in asked:
                    del self._held[claim_id_]
                for claim in got:
                    self._held[claim.id] = _Held(hold.namespace, claim, since, {hold})
                    hold.threads[wanted[claim.id]] = claim.id
                self._keep()
            if hold.is_over:  # its caller was cancelled meanwhile
                self.release(hold)
        return hold

    def confirm(self, hold: Hold) -> Hold:
        """Return the hold if all that it has is still ours.

        Raises:
            ClaimLost: Some of it is not.
            StoreError: The store does not answer.
        """
        ids = set(hold.threads.values())
        oldest = time.monotonic() - SURE * self._seconds
        with self._changed:
            doubtful = [h for i in ids if (h := self._held.get(i)) is not None and h.since < oldest]
        if doubtful:
            self._renew(doubtful)
        with self._changed:
            kept = {
                i for i in ids if (held := self._held.get(i)) is not None and hold in held.holds
            }
        if lost := [thread for thread, i in hold.threads.items() if i not in kept]:
            raise ClaimLost(
                f"another process has taken over the threads {lost} of {hold.namespace}"
            )
        return hold

    def release(self, hold: Hold) -> Hold:
        """Give back what a hold has, unless other work of this process holds it too; return it, empty.

        Doing it twice does no harm. Where the store does not answer, the claim runs out.
        """
        with self._renewing:  # or a version would be dropped that is not the last
            free = self._let_go(hold)
            if free:
                with suppress(StoreError):
                    self._store.drop_claims(hold.namespace, free)
        return hold

    def close(self) -> None:
        """Give back everything, before the store is closed."""
        with self._changed:
            holds = {hold for held in self._held.values() if held for hold in held.holds}
        for hold in holds:
            self.release(hold)

    def _let_go(self, hold: Hold) -> list[Claim]:
        """Take what a hold has from it; return the claims that nothing in this process holds any more."""
        free: list[Claim] = []
        with self._changed:
            hold.is_over = True
            for claim_id_ in hold.threads.values():
                held = self._held.get(claim_id_)
                if held is not None and hold in held.holds:
                    held.holds.remove(hold)
                    if not held.holds:
                        del self._held[claim_id_]
                        free.append(held.claim)
            hold.threads.clear()
        return free

    def _join(self, hold: Hold, wanted: dict[str, str | None]) -> list[str]:
        """Add to a hold what this process holds already; return what the store is to be asked for."""
        unknown = []
        with self._changed:
            for claim_id_, thread in wanted.items():
                if claim_id_ not in self._held:
                    unknown.append(claim_id_)
                elif (held := self._held[claim_id_]) is not None:
                    held.holds.add(hold)
                    hold.threads[thread] = claim_id_
            self._held.update(dict.fromkeys(unknown))
        return unknown

    def _ask(self, namespace: Namespace, ids: Sequence[str]) -> list[Claim]:
        """Return the claims that are ours now."""
        if not ids:
            return []
        new = [
            Claim(
                id=claim_id_,
                owner=self._owner,
                seconds=self._seconds,
                version=randbits(48),
                seq=clock.tick(),
            )
            for claim_id_ in ids
        ]
        made = self._store.put_claims(namespace, new)
        got = [claim for claim in new if claim.id in made]
        if len(got) < len(new):
            left = [claim.id for claim in new if claim.id not in made]
            standing = self._store.get_claims(namespace, left).values()
            ours = [c.next(self._owner, self._seconds) for c in standing if self._may_take(c)]
            taken = self._store.swap_claims(namespace, ours) if ours else ()
            got += [claim for claim in ours if claim.id in taken]
        for claim in got:
            self._seen.pop(claim.id, None)
        return got

    def _may_take(self, claim: Claim) -> bool:
        """Return whether a claim that stands was seen to stand for its time; one of our own that is left, too."""
        if claim.owner == self._owner:
            return True
        now = time.monotonic()
        owner, version, since = self._seen.get(claim.id, ("", 0, now))
        if (owner, version) != (claim.owner, claim.version):
            if len(self._seen) >= MOST_SEEN:
                self._seen.clear()
            since = now
            self._seen[claim.id] = (claim.owner, claim.version, now)
        return now - since >= claim.seconds

    def _renew(self, all_held: Collection[_Held]) -> None:
        """Write new versions; what another process has taken over is not held any more.

        Raises:
            StoreError: The store does not answer.
        """
        with self._renewing:
            by_namespace: defaultdict[Namespace, list[_Held]] = defaultdict(list)
            for held in all_held:
                if self._held.get(held.claim.id) is held:
                    by_namespace[held.namespace].append(held)
            for namespace, some in by_namespace.items():
                since = time.monotonic()
                new = [(held, held.claim.next(self._owner, self._seconds)) for held in some]
                done = self._store.swap_claims(namespace, [claim for _, claim in new])
                with self._changed:
                    for held, claim in new:
                        if claim.id in done:
                            held.claim, held.since = claim, since
                        elif self._held.get(claim.id) is held:
                            del self._held[claim.id]
                            log.info("another process has taken over a thread of %r", namespace)

    def _keep(self) -> None:
        """Have a thread renew what is held, until nothing is; a forked child has none."""
        if any(self._held.values()) and (self._keeper is None or not self._keeper.is_alive()):
            self._keeper = threading.Thread(target=self._run, name="amem-claims", daemon=True)
            self._keeper.start()

    def _run(self) -> None:
        pause = self._seconds / RENEWALS
        while True:
            with self._changed:
                held = [each for each in self._held.values() if each is not None]
                if not held:
                    self._keeper = None
                    return
                due = min(each.since for each in held) + pause
                if (left := due - time.monotonic()) > 0:
                    self._changed.wait(left)
                    continue
            due_now = [each for each in held if each.since + pause <= time.monotonic()]
            try:
                self._renew(due_now)
            except Exception as error:  # noqa: BLE001 - whatever it is, the next try may do, or they run out
                log.debug("claims could not be renewed: %r", error)
                time.sleep(pause / 2)
