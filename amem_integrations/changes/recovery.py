"""After a process was killed: finish what it had begun in several steps.

Nothing here is remembered in between: what is left to do is found out from what is stored, and each step leaves what
tells of it until it is done. So a process that is killed while it does this is followed by one that finds the same.

- The record of a prompt names a note that is gone, or that was added again since: the removal of that note did not
  look at what was written then, and its text is not known any more. All of that goes.
- The record of a prompt is `stale`: it showed a quote that was being removed. All that was written then goes.
- A correction has its old text in the history of its own note, so looking for quotes of it is just done again.
- What was undone or approved is blanked in the record it came from: it was being removed. It goes.
- A link has one end: it goes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ..fetch import all_changes
from ..ids import clock, new_operation, now
from ..notes import Change, Namespace, Note
from ..runtime import Runtime, resolve
from . import edits
from .edits import LINK
from .gone_texts import Gone, corrections
from .quote_removal import QuoteRemoval
from .rewrite import rewrite
from .undo import fields_of
from .unknown_texts import remove_all_of, remove_brought_back

NEVER = 2**63


async def recover(runtime: Runtime, steps: Sequence[Change]) -> None:
    """Finish what the last steps before a kill belong to; what is finished is left alone."""
    for namespace in dict.fromkeys(step.namespace for step in steps):
        mine = [step for step in steps if step.namespace == namespace]
        await _recover_namespace(runtime, namespace, mine)


async def _recover_namespace(
    runtime: Runtime, namespace: Namespace, steps: Sequence[Change]
) -> None:
    prompts = [step for step in steps if step.kind == "prompt"]
    receipts = {step.note_id for step in steps if step.kind == "delete"}
    named = sorted({note_id for made in prompts for note_id in made.data["shown"]} | receipts)
    stored = {note.id: note for note in await resolve(runtime.store.get(namespace, named))}
    missing = set(named) - stored.keys()
    mentions = await resolve(runtime.store.mentions(namespace, sorted(missing | receipts)))
    naming = [*prompts, *(made for made in mentions if made.kind == "prompt")]
    added = {note.id: note.seq for note in stored.values()}
    if doubtful := sorted({made.op for made in naming if _is_doubtful(made, missing, added)}):
        await remove_all_of(runtime, namespace, doubtful, missing)
    # What was added again after it was deleted has links of its own.
    if gone := [Gone(note_id=note_id, texts=()) for note_id in sorted(receipts & missing)]:
        removal = QuoteRemoval(runtime, namespace, new_operation(), gone, since=clock.tick())
        await removal.remove(deleted=True)
    for made in await _corrected(runtime, namespace, steps, prompts):
        found = await resolve(runtime.store.get(namespace, [made.note_id]))
        wholes = [note.chunk_of for note in found]
        op, since, whole = new_operation(), made.seq, next(iter(wholes), None)
        removal = QuoteRemoval(
            runtime, namespace, op, corrections([made]), since=since, whole=whole
        )
        await removal.remove()  # one by one: each may quote the others
    await remove_brought_back(runtime, namespace, steps)
    ends = {end for step in steps for other in _linked(step) for end in (step.note_id, other)}
    await drop_one_sided(runtime, namespace, sorted(ends))
    await level(runtime, namespace, steps)


def _is_doubtful(prompt: Change, missing: set[str], added: dict[str, int]) -> bool:
    """Return whether what was written may quote what is gone: `added` says of what is there since when."""
    shown, since = prompt.data["shown"], prompt.data.get("since", NEVER)
    late = any(added.get(note_id, 0) > since for note_id in shown)
    return late or bool(prompt.data.get("stale")) or not missing.isdisjoint(shown)


async def _corrected(
    runtime: Runtime, namespace: Namespace, steps: Sequence[Change], prompts: Sequence[Change]
) -> list[Change]:
    """Return the corrections among the steps, and those of notes since these were shown to a model."""
    found = {step.id: step for step in steps}
    shown = {note_id for made in prompts for note_id in made.data["shown"]}
    if starts := [made.data["since"] for made in prompts if "since" in made.data]:
        later = await all_changes(runtime.store, namespace, None, ("update", "undo"), min(starts))
        found |= {made.id: made for made in later if made.note_id in shown}
    return [made for made in found.values() if corrections([made])]


def _linked(step: Change) -> list[str]:
    """Return the notes at the other ends of the links that a change made, changed or removed."""
    return [name.removeprefix(LINK) for name in fields_of(step) if name.startswith(LINK)]


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


async def level(runtime: Runtime, namespace: Namespace, steps: Sequence[Change]) -> None:
    """Make the ends of links agree: where they differ, both get the strength that the last of the steps records."""
    last: dict[frozenset[str], float] = {}
    for step in sorted(steps, key=lambda each: each.seq):
        for name, field in fields_of(step).items():
            if name.startswith(LINK) and field["after"]:
                pair = frozenset((step.note_id, name.removeprefix(LINK)))
                last[pair] = field["after"]["strength"]
    ends = sorted({end for pair in last for end in pair})
    notes = {note.id: note for note in await resolve(runtime.store.get(namespace, ends))}
    wanted: defaultdict[str, list[edits.Edit]] = defaultdict(list)
    for note in notes.values():
        for target, link in note.links.items():
            other = notes[target].links.get(note.id) if target in notes else None
            strength = last.get(frozenset((note.id, target)), link.strength)
            if other is not None and other.strength != link.strength != strength:
                wanted[note.id].append(edits.set_strength(target, strength))
    done = {note_id: edits.chain(parts) for note_id, parts in wanted.items()}
    await rewrite(runtime, namespace, new_operation(), done, base=notes)


def _holds(note: Note | None, target: str) -> bool:
    return note is not None and target in note.links
