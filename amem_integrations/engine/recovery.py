"""After a process was killed: finish what it had begun in several steps."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from .._sync import resolve
from ..errors import ModelUnavailableError
from ..ids import new_operation, now
from ..notes import Change
from ..runtime import Runtime
from ..steps import edits
from .editing import LATE, Editing
from .rewriting import rewrite

log = logging.getLogger("amem_integrations")


async def recover(runtime: Runtime, steps: Sequence[Change]) -> None:
    """Finish what the last steps before a kill belong to; what is finished is left alone.

    A `forget` whose cause is still there belongs to a deletion that did not get to the note itself. An
    `unlink` whose other end still holds the link did not get to that one.
    """
    for step in steps:
        try:
            if step.kind == "forget" and not step.op.endswith(LATE):
                await _finish_delete(runtime, step)
            elif step.kind == "unlink":
                await _finish_unlink(runtime, step)
        except ModelUnavailableError as error:
            log.warning("a deletion cut short could not be finished: %s", error)


async def _finish_delete(runtime: Runtime, step: Change) -> None:
    gone = step.cause or ""
    if await resolve(runtime.store.get(step.namespace, [gone])):
        await Editing(runtime).delete(gone, namespace=step.namespace)


async def _finish_unlink(runtime: Runtime, step: Change) -> None:
    target = step.data["target"]
    notes = await resolve(runtime.store.get(step.namespace, [step.note_id, target]))
    links = {note.id: note.links for note in notes}
    if step.note_id in links.get(target, {}) and target not in links.get(step.note_id, {}):
        op = new_operation()
        drop = edits.drop_link(step.note_id, op, now())
        await rewrite(runtime, step.namespace, op, {target: drop})
