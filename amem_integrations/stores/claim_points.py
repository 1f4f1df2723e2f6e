"""Claims as points in the collection of the notes they are about.

They have no namespace, so nothing that reads notes finds them, and a `revision` as notes have, so the same
conditional writes serve both, with the same indexes, in the same shard.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..claims import Claim
from ..notes import Namespace
from .payloads import Point
from .writes import PointStore

CLAIM = "claim"  # the `kind` of these points; no note has one


class ClaimPoints(PointStore):
    """The claims of threads, see `ClaimStore`."""

    def get_claims(self, namespace: Namespace, ids: Sequence[str]) -> dict[str, Claim]:
        """See `ClaimStore.get_claims`."""
        del namespace
        self._check_open()
        found = self._notes.retrieve(ids)
        return {
            i: _claim(point) for i, point in found.items() if point.payload.get("kind") == CLAIM
        }

    def put_claims(self, namespace: Namespace, claims: Sequence[Claim]) -> set[str]:
        """See `ClaimStore.put_claims`."""
        del namespace
        self._check_open()
        taken = self._notes.insert([_point(claim) for claim in claims])
        return {claim.id for claim in claims} - taken

    def swap_claims(self, namespace: Namespace, claims: Sequence[Claim]) -> set[str]:
        """See `ClaimStore.swap_claims`."""
        del namespace
        self._check_open()
        stale = self._notes.swap([_point(claim) for claim in claims])
        return {claim.id for claim in claims} - stale

    def drop_claims(self, namespace: Namespace, claims: Sequence[Claim]) -> None:
        """See `ClaimStore.drop_claims`."""
        del namespace
        self._check_open()
        every, ids, integer = self._dialect.every, self._dialect.ids, self._dialect.integer
        exactly = [every([ids([c.id]), integer("revision", c.version)]) for c in claims]
        self._notes.delete(self._dialect.some(exactly))


def _point(claim: Claim) -> Point:
    payload = {
        "kind": CLAIM,
        "owner": claim.owner,
        "seconds": claim.seconds,
        "seq": claim.seq,
        "revision": claim.version,
        "ops": [f"{claim.owner}:{claim.version}"],
    }
    return Point(claim.id, payload)


def _claim(point: Point) -> Claim:
    payload = point.payload
    return Claim(
        id=point.id,
        owner=payload["owner"],
        seconds=payload["seconds"],
        version=payload["revision"],
        seq=payload["seq"],
    )
