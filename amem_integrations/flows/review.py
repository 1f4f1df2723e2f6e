"""Review: what waits for a person's decision, and the decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, overload

from ..decisions import Decision, Switch
from ..errors import InvalidInputError
from ..fetch import existing, get
from ..ids import now
from ..journal.changes import change_of_item
from ..journal.history import toggle_all
from ..notes import USER, Change, Namespace, check_namespace
from ..ports import RecordQuery
from ..runtime import Runtime, resolve
from ..texts import MAX_KEYWORDS, MAX_TAGS, clean_words
from .history import VOID, FoundEdit, FoundItem, find_changes
from .writing import writing


async def proposals(runtime: Runtime, *, namespace: Sequence[str]) -> list[Change]:
    """Return what the gate stopped, or (`MemoryConfig.review`) held back, and nobody has answered yet, oldest first.

    Each says in `after` what would be written, and (`why`) why it was not: a sentence for an earlier note (`evolve`), a
    `link`, another strength of a link (`relink`), or that a note takes the place of another (`supersede`).
    """
    space, store = check_namespace(namespace), runtime.store
    records = await resolve(store.find_records(space, RecordQuery(waiting=True)))
    decisions = [one for one in records.values() if isinstance(one, Decision) and one.shows]
    time = now()
    notes = await get(store, space, sorted({i for one in decisions for i in one.about}))
    alive = {note.id for note in notes if not note.is_expired(time)}
    return [
        change_of_item(decision, item)
        for decision in sorted(decisions, key=lambda one: (one.seq, one.id))
        for item in decision.items
        if item.switch == "waiting" and alive.issuperset(_ends(decision, item.number))
    ]


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
    """Write what was proposed; return the change, which can be undone: then the proposal waits again.

    Args:
        change_id: Which proposal; or several, for which it returns a change each.
        namespace: Whose memory.
        context: Another text for a sentence; then the change is the user's.
        keywords: Other keywords for it.
        tags: Other tags for it.

    Raises:
        InvalidInputError: It is no proposal, was approved already, or its text is empty; of several, none is written.
        NoteNotFoundError: There is no such proposal in this namespace.
    """
    given = {"context": context, "keywords": keywords, "tags": tags}
    edited = {name: value for name, value in given.items() if value is not None}
    if edited and isinstance(change_id, list | tuple):
        raise InvalidInputError("context=, keywords= and tags= are for a single proposal")
    return await _answer(runtime, check_namespace(namespace), change_id, "on", edited)


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
    """Take a proposal off the list, or several; return each as it is now. `approve` may still be called.

    Raises:
        InvalidInputError: It is no proposal, or was approved; of several, none is rejected.
        NoteNotFoundError: There is no such proposal in this namespace.
    """
    return await _answer(runtime, check_namespace(namespace), change_id, "rejected", {})


async def _answer(
    runtime: Runtime,
    space: Namespace,
    change_id: str | list[str] | tuple[str, ...],
    switch: Switch,
    edited: Mapping[str, Any],
) -> Change | list[Change]:
    """Set the switches of proposals, with what the reviewer has `edited`; return the proposals as they are now."""
    ids = list(change_id) if isinstance(change_id, list | tuple) else [change_id]
    found = [_proposal(one) for one in await find_changes(runtime, space, ids)]
    ends = {end for one in found for end in _ends(one.decision, one.place[1])}
    await existing(runtime.store, space, sorted(ends))
    edits = [_edited(one, edited) if switch == "on" else {} for one in found]
    known = {one.decision.id: one.decision for one in found}
    wanted = dict.fromkeys([one.place for one in found], switch)
    async with writing(runtime, space) as writer:
        flips = await toggle_all(writer, wanted, known, **(edits[0] if edited else {}))
    answered = []
    for one in found:
        if one.item is None or one.place not in flips:
            raise InvalidInputError(f"proposal {one.id!r} cannot be answered: {VOID}")
        item = one.item.flipped(flips[one.place], **(edits[0] if edited else {}))
        answered.append(change_of_item(one.decision, item))
    return answered if isinstance(change_id, list | tuple) else answered[0]


def _proposal(found: FoundEdit | FoundItem) -> FoundItem:
    """Return a change that was found, if it is a proposal that was not approved."""
    if not isinstance(found, FoundItem) or found.flip is not None:
        kind = "undo" if isinstance(found, FoundItem) else found.kind
        raise InvalidInputError(
            f"change {found.id!r} is of kind {kind!r}, not a proposal; see proposals()"
        )
    item = found.item
    if item is None:
        raise InvalidInputError(f"proposal {found.id!r} cannot be answered: {VOID}")
    if item.first_switch != "waiting":
        raise InvalidInputError(
            f"change {found.id!r} was written when it was made, and is not a proposal; see proposals()"
        )
    if item.is_on:
        raise InvalidInputError(f"proposal {found.id!r} was approved; undo({found.id!r}) first")
    return found


def _edited(found: FoundItem, edited: Mapping[str, Any]) -> dict[str, Any]:
    """Return other values for the item of a proposal.

    Raises:
        InvalidInputError: There is no text, or the proposal is none of a text.
    """
    item = found.item
    if item is None or item.kind != "sentence":
        if edited:
            raise InvalidInputError(
                f"proposal {found.id!r} is no context entry; give no context, keywords or tags"
            )
        return {}
    text = edited.get("context", item.text)
    if not isinstance(text, str) or not text.strip():
        raise InvalidInputError(f"the entry of proposal {found.id!r} is empty; give context=")
    if not edited:
        return {}
    words = {name: edited.get(name, item.data.get(name, ())) for name in ("keywords", "tags")}
    kept = {
        "keywords": list(clean_words(words["keywords"], MAX_KEYWORDS)),
        "tags": list(clean_words(words["tags"], MAX_TAGS)),
    }
    return {"text": " ".join(text.split()), "data": {**item.data, **kept}, "by": USER}


def _ends(decision: Decision, number: int) -> set[str]:
    """Return the ids of the notes that an item is about."""
    item = decision.item(number)
    named = () if item is None else (item.to, item.other)
    return {decision.note, *named} - {""}
