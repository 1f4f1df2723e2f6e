"""Leases: which worker works on which thread of a store that several processes share.

A lease saves calls of the model, and nothing more: without one, two workers would do the same work, and the decisions of
the first would stand. So a lease is read and written without a second look at who else might be writing.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta

from ..decisions import Lease, lease_id
from ..errors import StoreError
from ..ids import new_token, now
from ..notes import Namespace
from ..runtime import Awaiting, Runtime, resolve, to_the_end

RENEWALS = 3  # in the time that a lease lasts


@dataclass(slots=True)
class HeldLease:
    """A lease that a worker holds; `was_left` says that its last holder did not give it back."""

    runtime: Runtime
    stands: Lease
    was_left: bool

    async def renew(self) -> None:
        """Make the lease last for its time from now on."""
        await self._write(self.stands.holder, self.runtime.config.lease_seconds)

    async def give_back(self) -> None:
        """Let others have the thread; where the store does not answer, the lease runs out."""
        with suppress(StoreError):
            await self._write("", 0.0)

    @asynccontextmanager
    async def kept_alive(self) -> AsyncIterator[None]:
        """Renew the lease again and again meanwhile, in a thread; what fails is tried again."""
        done, pause = threading.Event(), self.runtime.config.lease_seconds / RENEWALS

        def renew_until_done() -> None:
            while not done.wait(pause):
                with suppress(StoreError):
                    asyncio.run(self.renew())

        thread = threading.Thread(target=renew_until_done, name="amem-lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            if isinstance(self.runtime.store, Awaiting):
                await asyncio.to_thread(thread.join)
            else:
                thread.join()

    async def _write(self, holder: str, seconds: float) -> None:
        read, until = self.stands, now() + timedelta(seconds=seconds)
        new = replace(read, token=new_token(), holder=holder, until=until)
        await to_the_end(self.runtime.store.swap_records(read.namespace, [(read.token, new)]))
        self.stands = new


async def take_lease(
    runtime: Runtime, namespace: Namespace, thread: str | None, holder: str
) -> HeldLease | None:
    """Return the lease of a thread, if nobody else holds one that has not ended.

    Raises:
        StoreError: The store does not answer.
    """
    identity = lease_id(namespace, thread)
    new = Lease(
        id=identity,
        token=new_token(),
        namespace=namespace,
        thread=thread,
        holder=holder,
        until=now() + timedelta(seconds=runtime.config.lease_seconds),
    )
    before = await _stored(runtime, namespace, identity)
    held = HeldLease(runtime, new, was_left=before is not None and bool(before.holder))
    try:
        if before is None:
            await to_the_end(runtime.store.insert_records(namespace, [new]))
        elif before.holder in ("", holder) or before.until <= now():
            await to_the_end(runtime.store.swap_records(namespace, [(before.token, new)]))
        stands = await _stored(runtime, namespace, identity)
    except asyncio.CancelledError:
        await held.give_back()
        raise
    return held if stands is not None and stands.token == new.token else None


async def _stored(runtime: Runtime, namespace: Namespace, identity: str) -> Lease | None:
    found = (await resolve(runtime.store.records(namespace, [identity]))).get(identity)
    return found if isinstance(found, Lease) else None
