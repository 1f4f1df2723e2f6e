"""History: what was changed, taking it back, and answering what the gate stopped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..changes import proposals as answers
from ..changes import undo as undoing
from ..changes.edits import Edit
from ..changes.merging import MERGED_INTO, merged_into
from ..changes.rewrite import rewrite
from ..duplicates import difference
from ..errors import InvalidInputError, NoteNotFoundError, RevisionConflictError
from ..evolution.supersede import supersede
from ..fetch import all_changes, existing, not_found
from ..ids import derive, new_operation, now
from ..notes import Change, Namespace, Note, check_namespace
from ..plans import PlannedSupersession
from ..runtime import Runtime, resolve
from .content import remove_old_text, set_later_chunks, show_merged


async def history(
    runtime: Runtime, note_id: str | None, *, namespace: Sequence[str]
) -> list[Change]:
    """Return the changes of a note, or (None) of the whole namespace, oldest first.

    Of a deleted note the receipt is left, and of a cleared namespace the receipt of that.

    Raises:
        NoteNotFoundError: There neither is nor was a note with this id in this namespace.
    """
    space = check_namespace(namespace)
    changes = await all_changes(runtime.store, space, note_id)
    if note_id is not None and not (changes and note_id):
        await existing(runtime.store, space, [note_id])
    return [made for made in changes if made.kind != "prompt"]


async def undo(runtime: Runtime, change_id: str, *, namespace: Sequence[str]) -> Change:
    """Take a change back and return the change that does so, which can be undone itself.

    What can be undone: `construct` (the note is pending again), `evolve`, `link` and `unlink` (at both
    ends), `update`, `upgrade`, `supersede`, `merge`, `unmerge`, `condense` and `undo`.

    Raises:
        RevisionConflictError: A later change touched the same field; the message names it.
        InvalidInputError: A change of this kind cannot be undone; the message says what to do.
        NoteNotFoundError: There is no such change in this namespace.
        ModelUnavailableError: The embedder failed; nothing was changed.
    """
    space, store = check_namespace(namespace), runtime.store
    made = await _change(runtime, space, change_id)
    undoing.check_undoable(made)
    later = await all_changes(store, space, made.note_id, after=made.seq)
    undoing.check_free(made, later)
    op, at = new_operation(), now()
    edits = {**undoing.undo_other_ends(made, op, at), made.note_id: undoing.undo(made, op, at)}
    known = {note.id: note for note in await existing(store, space, list(edits))}
    if into := undoing.fields_of(made).get(MERGED_INTO, {}).get("before"):
        await _check_merge(runtime, space, known[made.note_id], into)
    done = await rewrite(runtime, space, op, edits, base=known)
    undone = [change for change in done.changes if change.note_id == made.note_id]
    if not undone:
        raise RevisionConflictError(f"change {change_id!r} has no effect any more; see history()")
    await remove_old_text(runtime, space, op, undone)
    await show_merged(runtime, space, f"{op}:merged", undone)
    if rest := undone[0].data["fields"].get("rest"):
        await set_later_chunks(runtime, space, done.notes[made.note_id], rest["after"])
    return undone[0]


async def _check_merge(runtime: Runtime, namespace: Namespace, note: Note, into: str) -> None:
    """Do nothing if a note can be merged into another (again).

    Raises:
        RevisionConflictError: They do not say the same any more, or one of them has another part in a merge.
    """
    other = next(iter(await resolve(runtime.store.get(namespace, [into]))), None)
    if other is None:
        reason: str | None = "it was deleted"
    elif other.merged_into is not None or await merged_into(runtime, namespace, [note.id]):
        reason = "one of them was merged otherwise since"
    else:
        reason = difference(note, other)
    if reason is not None:
        raise RevisionConflictError(
            f"note {note.id!r} cannot be merged into note {into!r} again: {reason}"
        )


async def proposals(runtime: Runtime, *, namespace: Sequence[str]) -> list[Change]:
    """Return the updates that the gate stopped and nobody has answered yet, oldest first.

    `data["entry"]` is what would be added to the note `note_id`, or `data["supersession"]` how the note `cause`
    would take its place; `data["rejected"]` is why it was not written.
    """
    space, store = check_namespace(namespace), runtime.store
    changes = await all_changes(store, space, kinds=("proposal", "rejection"))
    notes = await resolve(store.get(space, list(dict.fromkeys(made.note_id for made in changes))))
    # Only an entry that is there now is an answer; what was approved and undone is open again.
    entries = answers.possible_answers(changes, notes)
    approvals = await resolve(store.changes_by_id(space, entries))
    return answers.open_proposals(changes, approvals)


async def approve(
    runtime: Runtime,
    change_id: str,
    *,
    namespace: Sequence[str],
    context: str | None = None,
    keywords: Sequence[str] | None = None,
    tags: Sequence[str] | None = None,
) -> Change:
    """Write the entry of a proposal although the gate stopped it; return the change, which can be undone.

    Args:
        change_id: Which proposal.
        namespace: Whose memory.
        context: Another text for the entry.
        keywords: Other keywords.
        tags: Other tags.

    Raises:
        InvalidInputError: It is no proposal, was approved already, or its text is empty.
        NoteNotFoundError: There is no such proposal in this namespace.
        ModelUnavailableError: The embedder failed; nothing was changed.
    """
    space = check_namespace(namespace)
    proposal = await _proposal(runtime, space, change_id)
    target, source = await existing(runtime.store, space, [proposal.note_id, proposal.cause or ""])
    await _check_not_approved(runtime, space, proposal, target)
    given: Mapping[str, Any] = {"text": context, "keywords": keywords, "tags": tags}
    edited = {name: value for name, value in given.items() if value is not None}
    op = new_operation()
    if "supersession" in proposal.data:
        edit = _supersession(proposal, target, source, op, edited)
    else:
        entry = answers.approved_entry(proposal, source, op, edited, now())
        edit = answers.approve(proposal, entry, op, sorted(edited))
    done = await rewrite(runtime, space, op, {target.id: edit}, base={target.id: target})
    if not done.changes:
        raise not_found(space, target.id)
    return done.changes[0]


def _supersession(
    proposal: Change, older: Note, newer: Note, op: str, edited: Mapping[str, Any]
) -> Edit:
    """Return the edit that a proposed supersession stands for."""
    if edited:
        raise InvalidInputError(
            f"proposal {proposal.id!r} is a supersession, in which there is nothing to change; "
            "give no context, keywords or tags"
        )
    given = proposal.data["supersession"]
    plan = PlannedSupersession(
        id=derive("change", op, "supersede", older.id, newer.id),
        target=older.id,
        relation=given["relation"],
        reason=given["reason"],
    )
    model = proposal.model or ""
    return supersede(plan, newer, model=model, op=op, at=now(), proposal=proposal.id)


async def reject(runtime: Runtime, change_id: str, *, namespace: Sequence[str]) -> Change:
    """Take a proposal off the list; return the record of it. `approve` may still be called.

    Raises:
        InvalidInputError: It is no proposal, or was approved.
        NoteNotFoundError: There is no such proposal in this namespace.
    """
    space = check_namespace(namespace)
    proposal = await _proposal(runtime, space, change_id)
    (target,) = await existing(runtime.store, space, [proposal.note_id])
    await _check_not_approved(runtime, space, proposal, target)
    record = answers.rejection(proposal, target, new_operation(), now(), "by a reviewer")
    await resolve(runtime.store.replace(space, [], [record]))
    return record


async def _check_not_approved(
    runtime: Runtime, namespace: Namespace, proposal: Change, target: Note
) -> None:
    entries = answers.possible_answers([proposal], [target])
    for made in await resolve(runtime.store.changes_by_id(namespace, entries)):
        if made.data.get("proposal") == proposal.id:
            raise InvalidInputError(
                f"proposal {proposal.id!r} was approved by change {made.id!r}; undo that first"
            )


async def _proposal(runtime: Runtime, namespace: Namespace, change_id: str) -> Change:
    found = await _change(runtime, namespace, change_id)
    if found.kind != "proposal":
        raise InvalidInputError(
            f"change {change_id!r} is of kind {found.kind!r}, not a proposal; see proposals()"
        )
    if found.data.get("blanked"):
        raise InvalidInputError(
            f"proposal {change_id!r} quoted a text that was deleted or corrected since"
        )
    return found


async def _change(runtime: Runtime, namespace: Namespace, change_id: str) -> Change:
    found = await resolve(runtime.store.changes_by_id(namespace, [change_id]))
    if not found:
        raise NoteNotFoundError(
            f"there is no change {change_id!r} in namespace {namespace!r}; history() lists them"
        )
    return found[0]
