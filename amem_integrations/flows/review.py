"""Review: what waits for a person's decision, and the decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, overload

from ..changes import proposals as answers
from ..changes.edits import Edit, change_of_namespace, prompt_id
from ..changes.rewrite import rewrite
from ..changes.unknown_texts import remove_brought_back
from ..errors import InvalidInputError
from ..evolution.commit import Planner
from ..evolution.relink import Relinker
from ..evolution.supersede import supersede
from ..fetch import all_changes, existing, existing_change, not_found
from ..ids import derive, new_operation, now
from ..notes import Change, Namespace, Note, check_namespace
from ..plans import PlannedSupersession
from ..runtime import Runtime, resolve


async def proposals(runtime: Runtime, *, namespace: Sequence[str]) -> list[Change]:
    """Return what the gate stopped, or (`MemoryConfig.review`) held back, and nobody has answered yet, oldest first.

    Each is about the note `note_id`, because of the note `cause`. `data` holds what would be written: `"entry"`, a
    context entry; `"link"`, a link of the two; `"relink"`, a change of their link; or
    `"supersession"`; and under `"rejected"` why it was not.
    """
    notes, waiting = await open_proposals(runtime, check_namespace(namespace))
    time = now()
    expired = {note.id for note in notes.values() if note.is_expired(time)}
    return [made for made in waiting if expired.isdisjoint((made.note_id, made.cause))]


async def open_proposals(
    runtime: Runtime, space: Namespace
) -> tuple[dict[str, Note], list[Change]]:
    """Return the proposals that wait for an answer, oldest first, and the notes that they name."""
    store = runtime.store
    changes = await all_changes(store, space, kinds=("proposal", "rejection", "relink"))
    waiting = [made for made in changes if made.kind != "relink"]
    named = [(made.note_id, made.cause) for made in waiting]
    ids = list(dict.fromkeys(note_id for each in named for note_id in each if note_id))
    notes = {note.id: note for note in await resolve(store.get(space, ids))}
    # Only an entry that is there now is an answer; what was approved and undone is open again.
    entries = answers.possible_answers(changes, list(notes.values()))
    approvals = await resolve(store.changes_by_id(space, entries))
    return notes, answers.open_proposals(changes, approvals, notes)


@overload
async def approve(
    runtime: Runtime,
    change_id: str,
    *,
    namespace: Sequence[str],
    context: str | None = None,
    keywords: Sequence[str] | None = None,
    tags: Sequence[str] | None = None,
) -> Change: ...
@overload
async def approve(
    runtime: Runtime, change_id: list[str] | tuple[str, ...], *, namespace: Sequence[str]
) -> list[Change]: ...
async def approve(
    runtime: Runtime,
    change_id: str | list[str] | tuple[str, ...],
    *,
    namespace: Sequence[str],
    context: str | None = None,
    keywords: Sequence[str] | None = None,
    tags: Sequence[str] | None = None,
) -> Change | list[Change]:
    """Write what was proposed, a link at both ends; return the change, which can be undone.

    Args:
        change_id: Which proposal; or several, for which it returns a change each.
        namespace: Whose memory.
        context: Another text for a context entry.
        keywords: Other keywords for it.
        tags: Other tags for it.

    Raises:
        InvalidInputError: It is no proposal, was approved already, or its text is empty. Of several, those before
            it are written.
        NoteNotFoundError: There is no such proposal in this namespace.
        ModelUnavailableError: The embedder failed; nothing was changed.
    """
    space = check_namespace(namespace)
    given = {"text": context, "keywords": keywords, "tags": tags}
    edited = {name: value for name, value in given.items() if value is not None}
    if not isinstance(change_id, list | tuple):
        return await _approve(runtime, space, change_id, edited)
    if edited:
        raise InvalidInputError("context=, keywords= and tags= are for a single proposal")
    return [await _approve(runtime, space, one, {}) for one in dict.fromkeys(change_id)]


@overload
async def reject(runtime: Runtime, change_id: str, *, namespace: Sequence[str]) -> Change: ...
@overload
async def reject(
    runtime: Runtime, change_id: list[str] | tuple[str, ...], *, namespace: Sequence[str]
) -> list[Change]: ...
async def reject(
    runtime: Runtime,
    change_id: str | list[str] | tuple[str, ...],
    *,
    namespace: Sequence[str],
) -> Change | list[Change]:
    """Take a proposal off the list, or several; return the record of each. `approve` may still be called.

    Raises:
        InvalidInputError: It is no proposal, or was approved. Of several, those before it are rejected.
        NoteNotFoundError: There is no such proposal in this namespace.
    """
    space = check_namespace(namespace)
    if not isinstance(change_id, list | tuple):
        return await _reject(runtime, space, change_id)
    return [await _reject(runtime, space, one) for one in dict.fromkeys(change_id)]


async def _prompts_of(
    runtime: Runtime, space: Namespace, proposal: Change, op: str
) -> list[Change]:
    """Return the record of what the model was shown for a proposal, as one of an operation that writes it."""
    shown = await resolve(runtime.store.changes_by_id(space, [prompt_id(proposal.op)]))
    return [change_of_namespace(op, "prompt", space, now(), dict(made.data)) for made in shown]


async def _approve(
    runtime: Runtime, space: Namespace, change_id: str, edited: Mapping[str, Any]
) -> Change:
    proposal = await _proposal(runtime, space, change_id)
    target, source = await existing(runtime.store, space, [proposal.note_id, proposal.cause or ""])
    await _check_not_approved(runtime, space, proposal, target)
    if edited and "entry" not in proposal.data:
        raise InvalidInputError(
            f"proposal {proposal.id!r} is no context entry; give no context, keywords or tags"
        )
    planner = Planner.of(runtime, new_operation(), now())
    done = await rewrite(
        runtime,
        space,
        planner.op,
        _edits(planner, proposal, source, edited),
        base={target.id: target, source.id: source},
        records=await _prompts_of(runtime, space, proposal, planner.op),
        follow=planner.other_ends,
    )
    await remove_brought_back(runtime, space, done.changes)
    for made in done.changes:
        if made.note_id == target.id:
            return made
    raise not_found(space, target.id)


def _edits(
    planner: Planner, proposal: Change, source: Note, edited: Mapping[str, Any]
) -> Mapping[str, Edit]:
    """Return by note what writes a proposal, with what the reviewer has `edited`."""
    op, at, wanted, model = planner.op, planner.at, proposal.data, proposal.model or ""
    if "entry" in wanted:
        entry = answers.approved_entry(proposal, source, op, edited, at)
        return {proposal.note_id: answers.approve(proposal, entry, op, sorted(edited))}
    if "link" in wanted:
        link = answers.proposed_link(proposal)
        return planner.link(link, source.id, model, proposal=proposal.id)
    if "relink" in wanted:
        relink, because = answers.proposed_relink(proposal), wanted["relink"]["because"]
        relinker = Relinker(op=op, at=at)
        return relinker.edits(relink, because, model, proposal=proposal.id)
    planned = PlannedSupersession(
        id=derive("change", op, "supersede", proposal.note_id, source.id),
        target=proposal.note_id,
        relation=wanted["supersession"]["relation"],
        reason=wanted["supersession"]["reason"],
    )
    edit = supersede(planned, source, model=model, op=op, at=at, proposal=proposal.id)
    return {proposal.note_id: edit}


async def _reject(runtime: Runtime, space: Namespace, change_id: str) -> Change:
    proposal = await _proposal(runtime, space, change_id)
    (target,) = await existing(runtime.store, space, [proposal.note_id])
    await _check_not_approved(runtime, space, proposal, target)
    record = answers.rejection(proposal, target, new_operation(), now(), "by a reviewer")
    await resolve(runtime.store.replace(space, [], [record]))
    return record


async def _check_not_approved(
    runtime: Runtime, namespace: Namespace, proposal: Change, target: Note
) -> None:
    if answers.is_settled(proposal, target):
        what = "was changed or removed since" if "relink" in proposal.data else "is there already"
        raise InvalidInputError(
            f"the link that proposal {proposal.id!r} is about {what}; see history({target.id!r})"
        )
    entries = answers.possible_answers([proposal], [target])
    for made in await resolve(runtime.store.changes_by_id(namespace, entries)):
        if made.data.get("proposal") == proposal.id:
            raise InvalidInputError(
                f"proposal {proposal.id!r} was approved by change {made.id!r}; undo that first"
            )


async def _proposal(runtime: Runtime, namespace: Namespace, change_id: str) -> Change:
    found = await existing_change(runtime.store, namespace, change_id)
    if found.kind != "proposal":
        raise InvalidInputError(
            f"change {change_id!r} is of kind {found.kind!r}, not a proposal; see proposals()"
        )
    if found.data.get("blanked"):
        raise InvalidInputError(
            f"proposal {change_id!r} quoted a text that was deleted or corrected since"
        )
    return found
