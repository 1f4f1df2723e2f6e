"""After a process was killed: finish what it had begun in several steps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from operator import attrgetter

from ..fetch import all_changes
from ..ids import new_operation, now
from ..notes import Change, ChangeKind, Namespace, Note
from ..runtime import Runtime, resolve
from . import edits
from .edits import LINK
from .quotes import Gone, QuoteRemoval, corrections
from .rewrite import rewrite
from .undo import fields_of
from .unknown_texts import remove_all_of

NEVER = 2**63


async def recover_interrupted(runtime: Runtime) -> None:
    """Finish what the store has told since it was opened: writes of anyone that failed half way."""
    take = getattr(runtime.store, "take_interrupted", tuple)
    await recover(runtime, await resolve(take()))


async def recover(runtime: Runtime, steps: Sequence[Change]) -> None:
    """Finish what the last steps before a kill belong to; what is finished is left alone.

    After a `delete`, other notes may still hold links to the removed one, or entries because of it. After an
    `update`, other notes may still quote the old text. A link may have been made, changed or removed at one end
    only. Of the notes that a `prompt` showed, one may be gone by now.
    """
    for namespace in dict.fromkeys(step.namespace for step in steps):
        mine = [step for step in steps if step.namespace == namespace]
        await _recover_namespace(runtime, namespace, mine)


async def _recover_namespace(
    runtime: Runtime, namespace: Namespace, steps: Sequence[Change]
) -> None:
    receipts = sorted({step.note_id for step in steps if step.kind == "delete"})
    again = {note.id for note in await resolve(runtime.store.get(namespace, receipts))}
    # What was added again after it was deleted has links of its own.
    if gone := [Gone(note_id=note_id, texts=()) for note_id in receipts if note_id not in again]:
        await QuoteRemoval(runtime, namespace, new_operation(), gone).remove(deleted=True)
    for corrected in corrections(steps):  # one by one: each may quote the others
        await QuoteRemoval(runtime, namespace, new_operation(), [corrected]).remove()
    prompts = [step for step in steps if step.kind == "prompt"]
    written = {step.op: step.seq for step in sorted(steps, key=attrgetter("seq"))}
    if doubtful := await _shown_too_late(runtime, namespace, prompts, written):
        await remove_all_of(runtime, namespace, doubtful)
    ends = {end for step in steps for other in _linked(step) for end in (step.note_id, other)}
    ends |= {end for step in steps if step.kind == "reinforce" for end in _reinforced(step)}
    await drop_one_sided(runtime, namespace, sorted(ends))
    await level(runtime, namespace, sorted(ends))


def _reinforced(step: Change) -> set[str]:
    return {end for one, other, _ in step.data["links"] for end in (one, other)}


def _linked(step: Change) -> list[str]:
    """Return the notes at the other ends of the links that a change made, changed or removed."""
    return [name.removeprefix(LINK) for name in fields_of(step) if name.startswith(LINK)]


async def _shown_too_late(
    runtime: Runtime,
    namespace: Namespace,
    prompts: Sequence[Change],
    written: Mapping[str, int],
) -> list[str]:
    """Return the operations that were written after a text was removed which a model had been shown.

    `written` is the `seq` of the last change of each operation. Who removed the text did not find them yet, and whoever wrote them may have been killed before he looked.
    """
    deleted = await _deleted_since(runtime, namespace, prompts)
    purged = await _purged_at(runtime, namespace, prompts)
    return sorted(
        {
            step.op
            for step in prompts
            for note_id in step.data["shown"]
            if deleted.get(note_id, NEVER) < written[step.op]
            or any(
                step.data.get("since", NEVER) < seq < written[step.op] for seq in purged[note_id]
            )
        }
    )


async def _deleted_since(
    runtime: Runtime, namespace: Namespace, prompts: Sequence[Change]
) -> dict[str, int]:
    """Return those of the notes shown that are gone, and since when."""
    shown = sorted({note_id for step in prompts for note_id in step.data["shown"]})
    stored = {note.id for note in await resolve(runtime.store.get(namespace, shown))}
    since: dict[str, int] = {}
    for note_id in set(shown) - stored:
        receipts = await all_changes(runtime.store, namespace, note_id, ("delete",))
        since[note_id] = max((made.data.get("since", made.seq) for made in receipts), default=0)
    return since


async def _purged_at(
    runtime: Runtime, namespace: Namespace, prompts: Sequence[Change]
) -> defaultdict[str, list[int]]:
    """Return when notes lost contexts because those quoted a text that was removed."""
    times: defaultdict[str, list[int]] = defaultdict(list)
    if starts := [step.data["since"] for step in prompts if "since" in step.data]:
        kinds: tuple[ChangeKind, ...] = ("forget", "retract")
        for made in await all_changes(runtime.store, namespace, None, kinds, min(starts)):
            if made.data["entries"]:
                times[made.note_id].append(made.seq)
    return times


async def drop_one_sided(runtime: Runtime, namespace: Namespace, ids: Sequence[str]) -> None:
    """Drop the links of these notes that the note at the other end does not hold."""
    notes = {note.id: note for note in await resolve(runtime.store.get(namespace, ids))}
    targets = {target for note in notes.values() for target in note.links} - notes.keys()
    others = await resolve(runtime.store.get(namespace, sorted(targets)))
    everyone = notes | {note.id: note for note in others}
    op, at, why = new_operation(), now(), "its other end was not written"
    steps = {}
    for note in notes.values():
        lost = [target for target in note.links if not _holds(everyone.get(target), note.id)]
        if lost:
            steps[note.id] = edits.chain([edits.drop_link(t, op, at, why) for t in lost])
    await rewrite(runtime, namespace, op, steps, base=everyone)


async def level(runtime: Runtime, namespace: Namespace, ids: Sequence[str]) -> None:
    """Make the ends of the links among these notes agree: what was written last is at one of them."""
    notes = {note.id: note for note in await resolve(runtime.store.get(namespace, ids))}
    steps: defaultdict[str, list[edits.Edit]] = defaultdict(list)
    for note in notes.values():
        for target, link in note.links.items():
            if target not in notes or note.id not in notes[target].links:
                continue
            other = notes[target].links[note.id]
            # Strengthening and reinforcing move `reinforced` on; weakening lowers the strength alone.
            last = max(link, other, key=lambda one: (one.reinforced, -one.strength))
            if (link.strength, link.reinforced) != (last.strength, last.reinforced):
                steps[note.id].append(edits.set_strength(target, last.strength, last.reinforced))
    done = {note_id: edits.chain(parts) for note_id, parts in steps.items()}
    await rewrite(runtime, namespace, new_operation(), done, base=notes)


def _holds(note: Note | None, target: str) -> bool:
    return note is not None and target in note.links
