"""Claims as points in the collection of the notes they are about.

They have no namespace, so nothing that reads notes finds them, and a `revision` as notes have, so the same
conditional writes serve both, with the same indexes, in the same shard.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..claims import Claim
from ..notes import Namespace
from .announced import AnnouncedWrites
from .payloads import Point, namespace_key
from .reads import driven

CLAIM = "claim"  # the `kind` of these points; no note has one


class ClaimPoints(AnnouncedWrites):
    """The claims of threads, see `ClaimStore`."""

    @driven
    async def get_claims(self, namespace: Namespace, ids: Sequence[str]) -> dict[str, Claim]:
        """See `ClaimStore.get_claims`."""
        self._check_open()
        found = await self._notes.retrieve(ids)
        key = namespace_key(namespace)
        return {i: _claim(p) for i, p in found.items() if p.payload.get("about") == key}

    @driven
    async def put_claims(self, namespace: Namespace, claims: Sequence[Claim]) -> set[str]:
        """See `ClaimStore.put_claims`."""
        self._check_open()
        taken = await self._notes.insert(_points(namespace, claims))
        return {claim.id for claim in claims} - taken

    @driven
    async def swap_claims(self, namespace: Namespace, claims: Sequence[Claim]) -> set[str]:
        """See `ClaimStore.swap_claims`."""
        self._check_open()
        stale = await self._notes.swap(_points(namespace, claims))
        return {claim.id for claim in claims} - stale

    @driven
    async def drop_claims(self, namespace: Namespace, claims: Sequence[Claim]) -> None:
        """See `ClaimStore.drop_claims`."""
        del namespace  # the ids tell
        self._check_open()
        every, ids, integer = self._dialect.every, self._dialect.ids, self._dialect.integer
        exactly = [every([ids([c.id]), integer("revision", c.version)]) for c in claims]
        await self._notes.delete(self._dialect.some(exactly))


def _points(namespace: Namespace, claims: Sequence[Claim]) -> list[Point]:
    """Return the points of claims; they are `about` a namespace."""
    key = namespace_key(namespace)
    return [
        Point(
            claim.id,
            {
                "kind": CLAIM,
                "about": key,
                "owner": claim.owner,
                "seconds": claim.seconds,
                "seq": claim.seq,
                "revision": claim.version,
                "ops": [f"{claim.owner}:{claim.version}"],
            },
        )
        for claim in claims
    ]


def _claim(point: Point) -> Claim:
    payload = point.payload
    return Claim(
        id=point.id,
        owner=payload["owner"],
        seconds=payload["seconds"],
        version=payload["revision"],
        seq=payload["seq"],
    )
