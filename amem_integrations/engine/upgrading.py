"""Make notes again with a language model that were made without one."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence

from .._sync import resolve
from ..errors import ModelReplyError
from ..ids import new_operation, now
from ..notes import Change, Namespace, Note
from ..plans import EvolutionReport
from ..runtime import Runtime
from ..steps import construct, edits
from ..steps.proposals import rejection
from ..steps.upgrading import RULES, WHY, attributed, made_by_rules, without_rules
from .evolution import turns_before
from .history import all_changes
from .rewriting import rewrite

__all__ = ["RULES", "upgrade_batch"]

log = logging.getLogger("amem_integrations")


async def upgrade_batch(
    runtime: Runtime, namespace: Namespace, batch: Sequence[Note]
) -> EvolutionReport:
    """Give notes made by rules the attributes of a model; what was linked and evolved by rules goes with the old ones.

    A note without a usable answer stays as it is. The others are then `constructed`: should this be
    interrupted, any `evolve` goes on with them.
    """
    before = await turns_before(runtime, namespace, batch[0])
    try:
        attributes = await construct.ask_attributes(runtime, batch, before)
    except ModelReplyError as error:
        return _stayed({note.id: str(error) for note in batch})
    answered = [note for note in batch if note.id in attributes]
    seen = construct.seen_by(batch, before)
    op, at = new_operation(), now()
    steps: defaultdict[str, list[edits.Edit]] = defaultdict(list)
    touched: dict[str, set[str]] = {}
    for note in answered:
        linked, (current, *others) = await _rule_ends(runtime, namespace, note)
        for target, edit in without_rules(current, linked, others, op, at).items():
            steps[target].append(edit)
        anew = attributes[note.id], note, seen[note.id], linked
        steps[note.id].append(attributed(*anew, model=runtime.model_name, op=op, at=at))
        touched[note.id] = {*linked, *(other.id for other in others)}
    chained = {note_id: edits.chain(parts) for note_id, parts in steps.items()}
    await rewrite(runtime, namespace, op, chained)
    for note in answered:
        await _reject(runtime, namespace, note, sorted(touched[note.id]), op)
    missing = {note.id: "the model left it out" for note in batch if note.id not in attributes}
    return _stayed(missing) + EvolutionReport(constructed=tuple(attributes))


async def _rule_ends(
    runtime: Runtime, namespace: Namespace, note: Note
) -> tuple[set[str], list[Note]]:
    """Return what rules linked a note to; and the note as it is now, and those that point back to it."""
    linked = made_by_rules(await all_changes(runtime.store, namespace, note.id, ("link",)))
    current = await resolve(runtime.store.get(namespace, [note.id])) or [note]
    return linked, [*current, *await resolve(runtime.store.backlinks(namespace, [note.id]))]


async def _reject(
    runtime: Runtime, namespace: Namespace, note: Note, targets: Sequence[str], op: str
) -> None:
    """Answer what was proposed by rules because of a note: nobody should have to."""
    records: list[Change] = []
    for target in await resolve(runtime.store.get(namespace, targets)):
        for made in await all_changes(runtime.store, namespace, target.id, ("proposal",)):
            if made.cause == note.id and made.model == RULES:
                records.append(rejection(made, target, op, now(), WHY))  # noqa: PERF401
    if records:
        await resolve(runtime.store.replace(namespace, [], records))


def _stayed(reasons: dict[str, str]) -> EvolutionReport:
    for note_id, reason in reasons.items():
        log.warning("note %s stays as it was made without a model: %s", note_id, reason)
    return EvolutionReport(failed=reasons)
