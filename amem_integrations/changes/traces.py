"""Gone is gone: take away what was written while a text was shown that is not there any more.

A model may copy what it is shown into contexts, keywords, tags and reasons, and copy that again later. Each
operation has a record of the notes that were shown (kind `prompt`), so of a note that was deleted or corrected
it is known what may quote it. What shares a word or a run of characters with the text that is gone, and cannot
have it from elsewhere, goes; in records of the history it is blanked. The records stay, so that the history
still replays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from ..fetch import all_changes
from ..ids import now
from ..notes import (
    RELATIONS,
    USER,
    Change,
    ChangeKind,
    ContextEntry,
    Link,
    Namespace,
    Note,
    Supersession,
)
from ..prompts import PROMPT_TEXTS
from ..runtime import Runtime, resolve
from .edits import STATED, Edit, change, without
from .quotes import Fragments, is_quote
from .rewrite import rewrite

# Where a model's words stand in the data of a record.
_Written = Sequence[tuple[Change, set[str]]]
WRITTEN = frozenset({"text", "keywords", "tags", "reason", "relation"})
_FROM_PROMPTS = Fragments(PROMPT_TEXTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """A text that is not there any more.

    Attributes:
        note_id: The note that it stood in.
        texts: The text, in parts.
        kept: What a corrected note says instead.
        corrected_at: When, if it was corrected rather than deleted. What the note brought to others after that
            comes from what it says now, and stays.
    """

    note_id: str
    texts: tuple[str, ...]
    kept: tuple[str, ...] = ()
    corrected_at: datetime | None = None


def texts_of(note: Note) -> tuple[str, ...]:
    """Return what a note says. What a model made of it goes with the note, and is not looked for elsewhere."""
    return _stated(note)


def corrections(changes: Iterable[Change]) -> list[Gone]:
    """Return the texts that these changes replaced in their own notes."""
    found = []
    for made in changes:
        steps: Mapping[str, Any] = made.data.get("fields", made.data)
        if made.kind in ("update", "undo") and not steps.keys().isdisjoint(STATED):
            texts = [steps[name] for name in ("content", "speaker") if name in steps]
            found.append(
                Gone(
                    note_id=made.note_id,
                    texts=tuple(str(step["before"] or "") for step in texts),
                    kept=tuple(str(step["after"] or "") for step in texts),
                    corrected_at=made.recorded_at,
                )
            )
    return found


async def remove_all_of(runtime: Runtime, namespace: Namespace, ops: Sequence[str]) -> None:
    """Remove all that a model wrote in these operations: it was shown a text that nobody knows any more."""
    store, at = runtime.store, now()
    changes = await resolve(store.changes_by_op(namespace, ops))
    steps = {}
    for note_id in {made.note_id for made in changes} - {""}:
        mine = [made for made in changes if made.note_id == note_id]
        steps[note_id] = _without_all(mine, f"{ops[0]}:unknown", at)
    await rewrite(runtime, namespace, f"{ops[0]}:unknown", steps, removing=True)
    blanked = [
        replace(made, data={**data, "blanked": True})
        for made in changes
        if (data := _blanked(made.data, bool)) != made.data
    ]
    if blanked:
        await resolve(store.rewrite_changes(namespace, blanked))


def _without_all(changes: Sequence[Change], op: str, at: datetime) -> Edit:
    """Return the edit that takes what these changes brought from their note."""
    entries = {made.id for made in changes}
    targets = {made.data["target"] for made in changes if made.kind == "link"}
    newer = {made.cause or "" for made in changes if made.kind == "supersede"}

    def edit(note: Note) -> tuple[Note, list[Change]]:
        revised = without(note, entries=entries, reasons=targets | newer)
        if revised == note:
            return note, []
        data = {"entries": sorted(entries), "links": [], "reasons": sorted(targets)}
        return revised, [change(op, "forget", note, recorded_at=at, data=data)]

    return edit


class Traces:
    """What is left of texts that are gone. Removing them again looks only at what was written since."""

    def __init__(
        self,
        runtime: Runtime,
        namespace: Namespace,
        op: str,
        gone: Sequence[Gone],
        *,
        whole: str | None = None,
    ) -> None:
        """Say what is gone; `op` names the operation that removes the traces.

        Chunks of a text that goes on are gone from the text, but stay in the history of its first note, `whole`.
        """
        self._whole = whole
        self._runtime, self._namespace, self._op = runtime, namespace, op
        self._gone = {item.note_id: item for item in gone}
        self._deleted = {item.note_id for item in gone if item.corrected_at is None}
        kept = Fragments(text for item in gone for text in item.kept)
        lost = Fragments(text for item in gone for text in item.texts)
        self._lost = lost.minus(kept).minus(_FROM_PROMPTS)
        self._ops: set[str] = set()
        self._rounds = 0

    async def remove(self, *, deleted: bool = False) -> None:
        """Remove all quotes. `deleted` says that the notes are gone: links to them and what they caused go too."""
        ids = list(self._gone)
        holders = await resolve(self._runtime.store.backlinks(self._namespace, ids))
        quoting = await self._clean(holders, await self._written_near(ids), deleted=deleted)
        seen = set(ids)
        while quoting := quoting - seen:  # who was shown a quote may have quoted it
            seen |= quoting
            quoting = await self._clean([], await self._written_near(sorted(quoting)))

    async def _written_near(self, ids: Sequence[str]) -> _Written:
        """Return what was written while these notes were shown or because of them, with what else was shown.

        What was looked at before is left out.
        """
        store = self._runtime.store
        mentions = await resolve(store.mentions(self._namespace, ids))
        shown = {made.op: made.data["shown"] for made in mentions if made.kind == "prompt"}
        ops = sorted(shown.keys() - self._ops)
        self._ops.update(ops)
        written = await resolve(store.changes_by_op(self._namespace, ops)) if ops else []
        changes = {made.id: made for made in (*written, *mentions) if made.note_id}
        return [
            (made, {*shown.get(made.op, ()), made.cause or ""} - {""}) for made in changes.values()
        ]

    async def _clean(
        self, holders: Sequence[Note], written: _Written, *, deleted: bool = False
    ) -> set[str]:
        """Remove quotes from notes and their records; return the ids of the notes that held some."""
        notes = {note.id: note for note in holders}
        await self._add(notes, [made.note_id for made, _ in written])
        own = {note.id: Fragments(_stated(note)) for note in notes.values()}
        shown: dict[str, set[str]] = {}
        for made, others in written:
            if made.note_id in own and self._quotes(made, own[made.note_id]):
                shown.setdefault(made.note_id, set()).update(others)
        await self._add(notes, {other for others in shown.values() for other in others})
        elsewhere = {
            note_id: Fragments(
                text for i in {note_id, *others} & notes.keys() for text in _stated(notes[i])
            )
            for note_id, others in shown.items()
        }
        await self._rewrite(notes, {*shown, *(note.id for note in holders)}, elsewhere, deleted)
        return await self._blank([made for made, _ in written], elsewhere, deleted=deleted)

    async def _add(self, notes: dict[str, Note], ids: Iterable[str]) -> None:
        missing = sorted(set(ids) - notes.keys() - self._deleted)
        if missing:
            stored = await resolve(self._runtime.store.get(self._namespace, missing))
            notes.update({note.id: note for note in stored})

    def _quotes(self, made: Change, elsewhere: Fragments) -> bool:
        return any(is_quote(text, self._lost, elsewhere) for text in _written_texts(made.data))

    async def _rewrite(
        self,
        notes: Mapping[str, Note],
        ids: Iterable[str],
        elsewhere: Mapping[str, Fragments],
        deleted: bool,
    ) -> None:
        self._rounds += 1
        op, at = f"{self._op}:{self._rounds}", now()
        steps = {i: self._edit(self._test(elsewhere.get(i)), op, at, deleted=deleted) for i in ids}
        base = {note_id: notes[note_id] for note_id in steps}
        await rewrite(self._runtime, self._namespace, op, steps, base=base, removing=True)

    def _test(self, elsewhere: Fragments | None) -> Callable[[str], bool]:
        """Return what tells quotes in texts on one note."""
        if elsewhere is None:
            return lambda _text: False
        return lambda text: is_quote(text, self._lost, elsewhere)

    def _edit(
        self, is_quoted: Callable[[str], bool], op: str, at: datetime, *, deleted: bool
    ) -> Edit:
        """Return the edit that takes the quotes from a note, and what came from notes that are gone."""
        kind: ChangeKind = "forget" if deleted else "retract"

        def edit(note: Note) -> tuple[Note, list[Change]]:
            entries = [
                entry.change
                for entry in note.contexts
                if self._is_caused(entry, note, deleted) or any(map(is_quoted, _texts(entry)))
            ]
            links = sorted(self._gone.keys() & note.links.keys()) if deleted else []
            supersessions = [
                newer
                for newer, s in note.supersessions.items()
                if self._is_superseding(newer, s, deleted)
            ]
            reasons = [t for t, link in note.links.items() if any(map(is_quoted, _of_link(link)))]
            reasons += [i for i, s in note.supersessions.items() if is_quoted(s.reason)]
            revised = without(
                note,
                entries=entries,
                links=links,
                supersessions=supersessions,
                reasons=reasons,
                merged_into=self._gone.keys(),
            )
            if revised == note:
                return note, []
            data: dict[str, Any] = {"entries": entries, "links": links, "reasons": reasons}
            if supersessions:
                data["supersessions"] = supersessions
            if revised.merged_into != note.merged_into:
                into = {"before": note.merged_into, "after": None}
                data["fields"] = {"merged_into": into}
            cause = next(iter(self._gone))
            return revised, [change(op, kind, note, cause=cause, recorded_at=at, data=data)]

        return edit

    def _is_caused(self, entry: ContextEntry, note: Note, deleted: bool) -> bool:
        """Return whether an entry came from a note that is gone, or from what a corrected one said before."""
        if entry.cause == note.id:
            return False
        return any(
            deleted if gone.corrected_at is None else entry.recorded_at <= gone.corrected_at
            for gone in (self._gone[i] for i in entry.came_from if i in self._gone)
        )

    def _is_superseding(self, newer: str, supersession: Supersession, deleted: bool) -> bool:
        """Return whether a note is superseded by one that is gone, or by what a corrected one said before.

        What the user decided about a corrected note stays.
        """
        gone = self._gone.get(newer)
        if gone is None:
            return False
        if gone.corrected_at is None:
            return deleted
        return supersession.model != USER and supersession.recorded_at <= gone.corrected_at

    async def _blank(
        self, written: Sequence[Change], elsewhere: Mapping[str, Fragments], *, deleted: bool
    ) -> set[str]:
        """Blank the quotes in the history of other notes; return the ids of the notes that had some."""
        store = self._runtime.store
        records = {made.id: made for made in written if made.cause in self._gone}
        for note_id in elsewhere.keys() - self._gone.keys():
            history = await all_changes(store, self._namespace, note_id)
            records |= {made.id: made for made in history}
        blanked = []
        for made in (made for made in records.values() if made.note_id != self._whole):
            test = (
                bool
                if self._came_from_gone(made, deleted)
                else self._test(elsewhere.get(made.note_id))
            )
            data = _blanked(made.data, test)
            if data != made.data:
                blanked.append(replace(made, data={**data, "blanked": True}))
        if blanked:
            await resolve(store.rewrite_changes(self._namespace, blanked))
        return {made.note_id for made in blanked} & elsewhere.keys()

    def _came_from_gone(self, made: Change, deleted: bool) -> bool:
        """Return whether all that a record holds of a model's words came from a text that is gone."""
        causes = made.data["shown"] if made.kind == "condense" else [made.cause or ""]
        return any(self._is_source(self._gone[i], made, deleted) for i in causes if i in self._gone)

    @staticmethod
    def _is_source(gone: Gone, made: Change, deleted: bool) -> bool:
        if made.note_id == gone.note_id:
            return False
        if gone.corrected_at is None:
            return deleted
        kinds = ("evolve", "supersede", "proposal", "condense")
        return made.kind in kinds and made.recorded_at <= gone.corrected_at


def _stated(note: Note) -> tuple[str, str]:
    return note.content, note.speaker or ""


def _texts(entry: ContextEntry) -> tuple[str, ...]:
    return (entry.text, *entry.keywords, *entry.tags)


def _of_link(link: Link) -> tuple[str, str]:
    return link.reason, link.relation


def _written_texts(value: Any, name: str = "") -> Iterable[str]:  # noqa: ANN401 - JSON values
    """Yield the texts of a record that a model wrote."""
    if isinstance(value, str):
        if name in WRITTEN and value:
            yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _written_texts(inner, key)
    elif isinstance(value, Sequence):
        for inner in value:
            yield from _written_texts(inner, name)


def _blanked(value: Any, goes: Callable[[str], bool], name: str = "") -> Any:  # noqa: ANN401 - JSON values
    """Return the data of a record without the texts of a model that have to go."""
    if isinstance(value, str):
        return "" if name in WRITTEN and value not in RELATIONS and goes(value) else value
    if isinstance(value, Mapping):
        return {key: _blanked(inner, goes, key) for key, inner in value.items()}
    if isinstance(value, Sequence):
        kept = [_blanked(inner, goes, name) for inner in value]
        return [inner for inner in kept if inner != ""] if name in ("keywords", "tags") else kept
    return value
