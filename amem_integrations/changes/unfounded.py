"""Facts live by their sources: one that nothing shows any more is removed for good, as any note that is deleted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from ..ids import now
from ..notes import Namespace, Note
from ..runtime import Runtime, resolve
from .edits import change
from .gone_texts import Gone


class Removal(Protocol):
    """What removes the quotes of some texts (see `quotes`)."""

    async def remove(self, *, deleted: bool = False) -> None:
        """Remove all quotes; `deleted`: the notes that they are of are gone."""
        ...


def evidence_left(fact: Note, gone: Mapping[str, Gone], *, deleted: bool) -> tuple[str, ...]:
    """Return the sources of a fact that say still what they said when it was learned from them.

    A form, which has a key, has none if one of them does not: it is filled anew.
    """

    def is_lost(lost: Gone) -> bool:
        if lost.in_context:
            return False
        return deleted if lost.corrected_at is None else fact.recorded_at <= lost.corrected_at

    left = tuple(i for i in fact.sources if i not in gone or not is_lost(gone[i]))
    return () if fact.key is not None and left != fact.sources else left


async def remove_facts(
    runtime: Runtime, namespace: Namespace, op: str, facts: Sequence[Note], removal: Removal
) -> None:
    """Remove facts for good; `removal` removes what quotes them."""
    await removal.remove()
    receipts = [change(op, "delete", fact, recorded_at=now()) for fact in facts]
    ids = [fact.id for fact in facts]
    await resolve(runtime.store.delete(namespace, ids, receipts))
    await removal.remove(deleted=True)
