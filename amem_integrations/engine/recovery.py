"""After a process was killed: finish what it had begun in several steps."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from .._sync import resolve
from ..ids import new_operation, now
from ..notes import Change
from ..runtime import Runtime
from ..steps import edits
from .editing import LATE, Editing
from .rewriting import rewrite, withdraw_echoes


async def recover(runtime: Runtime, steps: Sequence[Change]) -> None:
    """Finish what the last steps before a kill belong to; what is finished is left alone.

    A `forget` whose cause is still there belongs to a deletion that did not get to the note itself. An
    `unlink` whose other end still holds the link did not get to that one. An `update` may not have got to the
    notes that what was said before had added something to. A `delete` is one that the store has finished by
    itself, while other notes may still speak of the removed one.
    """
    for step in steps:
        if step.kind == "forget" and not step.op.endswith(LATE):
            await _finish_delete(runtime, step)
        elif step.kind == "unlink":
            await _finish_unlink(runtime, step)
        elif step.kind == "delete":
            await _forget_removed(runtime, step)
    updates = [step for step in steps if step.kind == "update"]
    for (space, op), made in groupby(updates, key=lambda step: (step.namespace, step.op)):
        await withdraw_echoes(runtime, space, op, list(made), again=True)


async def _finish_delete(runtime: Runtime, step: Change) -> None:
    gone = step.cause or ""
    if await resolve(runtime.store.get(step.namespace, [gone])):
        await Editing(runtime).delete(gone, namespace=step.namespace)


async def _forget_removed(runtime: Runtime, step: Change) -> None:
    if not await resolve(runtime.store.get(step.namespace, [step.note_id])):
        op = f"{new_operation()}{LATE}"
        await Editing(runtime).forget_traces(step.namespace, step.note_id, op, now())


async def _finish_unlink(runtime: Runtime, step: Change) -> None:
    target = step.data["target"]
    notes = await resolve(runtime.store.get(step.namespace, [step.note_id, target]))
    links = {note.id: note.links for note in notes}
    if step.note_id in links.get(target, {}) and target not in links.get(step.note_id, {}):
        op = new_operation()
        drop = edits.drop_link(step.note_id, op, now())
        await rewrite(runtime, step.namespace, op, {target: drop})
