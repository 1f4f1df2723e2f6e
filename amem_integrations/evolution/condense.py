"""Condense: the long context trail of a note becomes one entry, or, without a language model, loses what is not shown.

The rendered context of a note has room for its first entry and the newest others; what came before is stored and
not read any more. What a reviewer approved stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from .. import texts
from ..changes.edits import ENTRY, Edit, change, entry_json, prompt_records, usage_records
from ..changes.quote_matching import texts_in
from ..changes.quoted_from import sources_of
from ..changes.rewrite import rewrite
from ..errors import ModelReplyError
from ..ids import clock, derive, new_operation, now
from ..notes import Change, ContextEntry, Namespace, Note
from ..prompts.replies import CondenseReply
from ..runtime import Runtime, resolve
from .ask import ask, counting, fits
from .deleted_meanwhile import remove_what_is_gone
from .gate import form_problem
from .show import enriched, flat, lines, turns

ALIAS = "n1"
FEWEST = 2  # entries that can become one
REPLY_TOKENS = 120
STALE = "it was changed meanwhile"


async def to_condense(runtime: Runtime, namespace: Namespace, note: Note) -> list[ContextEntry]:
    """Return the entries of a trail that can become one: not the first, nor what a reviewer approved."""
    if len(texts.shown_entries(note)) == len(note.contexts):
        return []
    later = note.contexts[1:]
    made = await resolve(runtime.store.changes_by_id(namespace, [e.change for e in later]))
    approved = {each.id for each in made if each.data.get("proposal")}
    return [entry for entry in later if entry.change not in approved]


def unshown(note: Note, entries: Sequence[ContextEntry]) -> list[ContextEntry]:
    """Return those entries that a reader and the embedder do not see."""
    shown = {entry.change for entry in texts.shown_entries(note)}
    return [entry for entry in entries if entry.change not in shown]


async def condense_by_model(
    runtime: Runtime,
    namespace: Namespace,
    note: Note,
    entries: Sequence[ContextEntry],
    *,
    calls: int,
) -> str | None:
    """Put one entry in place of several, with at most `calls` calls; return why that failed, if it did.

    Of more than the model can take the oldest are condensed.

    Raises:
        ModelUnavailableError: The model did not answer.
    """
    while len(entries) > FEWEST and not fits(
        runtime, "condense", _values(note, entries), REPLY_TOKENS
    ):
        entries = entries[:-1]
    since, shown = clock.tick(), await _shown(runtime, namespace, note, entries)
    op, at = new_operation(), now()
    try:
        async with counting(runtime, namespace, op, at) as asking:
            text = await _ask(asking, namespace, note, entries, calls)
    except ModelReplyError as error:
        return str(error)
    cost = usage_records(op, namespace, asking.usage.cost(), at)
    if problem := form_problem(text):
        if cost:
            await resolve(runtime.store.replace(namespace, [], cost))
        return f"{runtime.model_name} gave no usable entry: {problem}"
    entry = _one(note, entries, text, runtime.model_name, op, at)
    sources = await sources_of(runtime, namespace, shown | {note.id: note}, texts_in(entry))
    ids = [note.id, *entry.causes, *sources.ids]
    prompt = prompt_records(op, namespace, ids, at, since=since, stale=sources.stale)
    records = [*prompt, *cost]
    done = await _replace(runtime, namespace, note, _edit(entries, entry, op, at), op, records)
    await remove_what_is_gone(runtime, namespace, shown, since, ops=(op,))
    return None if done else STALE


async def drop_unshown(
    runtime: Runtime, namespace: Namespace, note: Note, entries: Sequence[ContextEntry]
) -> str | None:
    """Remove entries, which the history keeps; return why that failed, if it did."""
    op, at = new_operation(), now()
    done = await _replace(runtime, namespace, note, _edit(entries, None, op, at), op)
    return None if done else STALE


async def _shown(
    runtime: Runtime, namespace: Namespace, note: Note, entries: Sequence[ContextEntry]
) -> dict[str, Note]:
    """Return the note and those that its entries came from, as they are before anything is made of them."""
    ids = [note.id, *_causes(entries)]
    return {each.id: each for each in await resolve(runtime.store.get(namespace, ids))}


async def _ask(
    runtime: Runtime, namespace: Namespace, note: Note, entries: Sequence[ContextEntry], calls: int
) -> str:
    shown = enriched(note, ALIAS)
    rows = [{"text": entry.text, "at": entry.at.isoformat()} for entry in entries]
    reply = await ask(
        runtime,
        "condense",
        CondenseReply,
        namespace=namespace,
        inputs={"note": shown, "entries": rows},
        values=_values(note, entries),
        problem_with=lambda reply: form_problem(reply.context) if calls > 1 else None,
        attempts=min(calls, 2),
    )
    return " ".join(reply.context.split())


def _values(note: Note, entries: Sequence[ContextEntry]) -> dict[str, str]:
    remarks = [f"- [{texts.day(entry.at)}] {flat(entry.text)}" for entry in entries]
    return {"note": turns([note]), "entries": lines(remarks)}


def _one(
    note: Note, entries: Sequence[ContextEntry], text: str, model: str, op: str, at: datetime
) -> ContextEntry:
    """Return the entry that stands for several."""
    newest = entries[-1]
    words = [word for entry in reversed(entries) for word in entry.keywords]
    tags = [tag for entry in reversed(entries) for tag in entry.tags]
    return ContextEntry(
        text=text,
        keywords=texts.clean_words(words, texts.MAX_WORDS),
        tags=texts.clean_words(tags, texts.MAX_WORDS),
        cause=newest.cause,
        causes=_causes(entries),
        model=model,
        change=derive("change", op, "condense", note.id, newest.cause),
        at=max(entry.at for entry in entries),
        recorded_at=at,
    )


def _causes(entries: Sequence[ContextEntry]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(cause for entry in entries for cause in entry.came_from))


async def _replace(
    runtime: Runtime,
    namespace: Namespace,
    note: Note,
    edit: Edit,
    op: str,
    records: Sequence[Change] = (),
) -> bool:
    """Write an edit with other records of it; return whether it changed the note."""
    done = await rewrite(
        runtime, namespace, op, {note.id: edit}, base={note.id: note}, records=records
    )
    return any(made.kind == "condense" for made in done.changes)


def _edit(
    entries: Sequence[ContextEntry], entry: ContextEntry | None, op: str, at: datetime
) -> Edit:
    """Return the edit that puts one entry, or none, in place of others; nothing if one of them is gone."""
    ids = {old.change for old in entries}

    def edit(note: Note) -> tuple[Note, list[Change]]:
        old = [each for each in note.contexts if each.change in ids]
        if len(old) < len(entries):
            return note, []
        kept = tuple(each for each in note.contexts if each.change not in ids)
        fields: dict[str, Any] = {
            f"{ENTRY}{each.change}": {"before": entry_json(each), "after": None} for each in old
        }
        if entry is not None:
            fields[f"{ENTRY}{entry.change}"] = {"before": None, "after": entry_json(entry)}
            kept = (*kept, entry)
        data = {"fields": fields, "shown": list(_causes(entries))}
        made = change(
            op,
            "condense",
            note,
            cause=entry.cause if entry else None,
            model=entry.model if entry else None,
            recorded_at=at,
            data=data,
        )
        return note.revised(contexts=kept), [made]

    return edit
