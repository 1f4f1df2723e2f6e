"""Gone is gone: take away what was written while a text was shown that is not there any more.

A model may copy what it is shown into contexts, keywords, tags and reasons, and copy that again later. Each
operation has a record of the notes that were shown (kind `prompt`), so of a note that was deleted or corrected
it is known what may quote it. What shares a word or a run of characters with the text that is gone, and cannot
have it from elsewhere, goes; in records of the history it is blanked. The records stay, so that the history
still replays.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from ..fetch import all_changes
from ..ids import new_operation, now
from ..notes import (
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
from .quotes import Fragments, is_quote, without_quotes_in, written_texts
from .rewrite import rewrite

_Written = Sequence[tuple[Change, set[str]]]
_FROM_PROMPTS = Fragments(PROMPT_TEXTS)
UNSHOWN = ("link", "unlink", "proposal")  # what these hold is shown to no model


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """A text that is not there any more.

    Attributes:
        note_id: The note that it stood in.
        texts: The text, in parts.
        kept: What a corrected note says instead.
        corrected_at: When, if it was corrected rather than deleted. What the note brought to others after that
            comes from what it says now, and stays.
        in_context: Whether it stood in contexts of the note, which had quoted something. The history of the note
            must not hold it either, and what the note brought to others stays.
    """

    note_id: str
    texts: tuple[str, ...]
    kept: tuple[str, ...] = ()
    corrected_at: datetime | None = None
    in_context: bool = False


def texts_of(note: Note) -> tuple[str, str]:
    """Return what a note says. What a model made of it goes with the note, and is not looked for elsewhere."""
    return note.content, note.speaker or ""


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
    """Remove all that a model wrote in these operations: it was shown a text that nobody knows any more.

    What others, who were shown that, quoted of it goes first: by what was written it is known.
    """
    store, at, op = runtime.store, now(), f"{ops[0]}:unknown"
    changes = await resolve(store.changes_by_op(namespace, ops))
    by_note: dict[str, list[Change]] = {}
    for made in changes:
        by_note.setdefault(made.note_id, []).append(made)
    by_note.pop("", None)
    await _remove_quotes_of(runtime, namespace, by_note)
    steps = {note_id: _without_all(mine, op, at) for note_id, mine in by_note.items()}
    await rewrite(runtime, namespace, op, steps, removing=True)
    made_now = {made.id for made in changes}
    records = {made.id: made for made in changes}
    for note_id in by_note:  # an entry that was replaced since stands in the record of that, too
        history = await all_changes(store, namespace, note_id)
        records |= {made.id: made for made in history}
    blanked = [
        replace(made, data={**data, "blanked": True})
        for made in records.values()
        if (data := _without_entries(made.data, made_now, all_of_it=made.id in made_now))
        != made.data
    ]
    if blanked:
        await resolve(store.rewrite_changes(namespace, blanked))


async def _remove_quotes_of(
    runtime: Runtime, namespace: Namespace, by_note: Mapping[str, Sequence[Change]]
) -> None:
    """Remove what quotes the contexts that changes brought to notes, from other notes."""
    first = min((made.recorded_at for mine in by_note.values() for made in mine), default=None)
    notes = await resolve(runtime.store.get(namespace, list(by_note)))
    entries = [e for note in notes for e in note.contexts if first and e.recorded_at < first]
    kept = tuple(text for entry in entries for text in _texts(entry))
    for note_id, changes in by_note.items():
        brought = [made.data["entry"] for made in changes if "entry" in made.data]
        texts = tuple(text for entry in brought for text in written_texts(entry))
        if texts:
            gone = Gone(note_id=note_id, texts=texts, kept=kept, in_context=True)
            await Traces(runtime, namespace, new_operation(), [gone]).remove()


def _without_entries(value: Any, made: Collection[str], *, all_of_it: bool) -> Any:  # noqa: ANN401
    """Return the data of a record without the texts of entries that these changes made; or without any."""
    if isinstance(value, Mapping):
        inside = all_of_it or value.get("change") in made
        return (
            without_quotes_in(value, bool)
            if inside
            else {
                key: _without_entries(inner, made, all_of_it=False) for key, inner in value.items()
            }
        )
    return value


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Quotes:
    """What was found near some notes: who else says the same, by note id; and records, without the quotes."""

    notes: Mapping[str, Note]
    edited: Collection[str]
    elsewhere: Mapping[str, Fragments]
    blanked: Sequence[Change]
    lost: Collection[str]

    @property
    def holders(self) -> set[str]:
        """The notes whose contexts quoted, or may have before they lost it: who was shown them may have as well."""
        shown = {made.note_id for made in self.blanked if made.kind not in UNSHOWN}
        return shown & self.elsewhere.keys() | set(self.lost)

    @property
    def touched(self) -> set[str]:
        """All notes from which, or from whose history, something goes."""
        return {*self.edited, *(made.note_id for made in self.blanked)}

    def about(self, ids: Collection[str]) -> _Quotes:
        """Return what is about these notes."""
        blanked = [made for made in self.blanked if made.note_id in ids]
        return replace(self, edited={i for i in self.edited if i in ids}, blanked=blanked)


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
        self._contexts = {item.note_id for item in gone if item.in_context}
        self._deleted = {item.note_id for item in gone if item.corrected_at is None}
        self._deleted -= self._contexts
        kept = Fragments(text for item in gone for text in item.kept)
        lost = Fragments(text for item in gone for text in item.texts)
        self._lost = lost.minus(kept).minus(_FROM_PROMPTS)
        self._near = set(self._gone)  # the notes themselves, and those that quoted them
        self._ops: set[str] = set()
        self._rounds = 0

    async def remove(self, *, deleted: bool = False) -> None:
        """Remove all quotes. `deleted` says that the notes are gone: links to them and what they caused go too."""
        while await self._remove_found(deleted=deleted):
            pass  # until nothing is found that was written meanwhile

    async def _remove_found(self, *, deleted: bool) -> bool:
        """Remove what can be found now; return whether there were quotes.

        What quotes at the greatest distance goes first, so that after an interruption the way there is still known.
        """
        holders = await resolve(self._runtime.store.backlinks(self._namespace, list(self._gone)))
        written = await self._written_near(sorted(self._near))
        found = [await self._find(holders, written, deleted=deleted)]
        while new := found[-1].holders - self._near:
            self._near |= new
            found.append(await self._find([], await self._written_near(sorted(new))))
        for number in reversed(range(len(found))):
            nearer = {note_id for quotes in found[:number] for note_id in quotes.touched}
            mine = found[number].touched - nearer
            for quotes in found[number:]:
                await self._take_out(quotes.about(mine), deleted=deleted and quotes is found[0])
        return any(quotes.blanked for quotes in found)

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

    async def _find(
        self, holders: Sequence[Note], written: _Written, *, deleted: bool = False
    ) -> _Quotes:
        """Return the quotes in what was written; `holders` are looked at in any case."""
        notes = {note.id: note for note in holders}
        await self._add(notes, [made.note_id for made, _ in written])
        own = {note.id: Fragments(texts_of(note)) for note in notes.values()}
        shown: dict[str, set[str]] = {}
        for made, others in written:
            if made.note_id in own and self._quotes(made, own[made.note_id]):
                shown.setdefault(made.note_id, set()).update(others)
        await self._add(notes, {other for others in shown.values() for other in others})
        elsewhere = {
            note_id: Fragments(
                text for i in {note_id, *others} & notes.keys() for text in texts_of(notes[i])
            )
            for note_id, others in shown.items()
        }
        records = [made for made, _ in written]
        return _Quotes(
            notes=notes,
            edited={*shown, *(note.id for note in holders)},
            elsewhere=elsewhere,
            blanked=await self._blanked(records, elsewhere, deleted=deleted),
            # Something else that they quoted was removed, and with it what they quoted of this.
            lost={m.note_id for m in records if m.data.get("blanked") and m.kind not in UNSHOWN},
        )

    async def _add(self, notes: dict[str, Note], ids: Iterable[str]) -> None:
        missing = sorted(set(ids) - notes.keys() - self._deleted)
        if missing:
            stored = await resolve(self._runtime.store.get(self._namespace, missing))
            notes.update({note.id: note for note in stored})

    def _quotes(self, made: Change, elsewhere: Fragments) -> bool:
        return any(is_quote(text, self._lost, elsewhere) for text in written_texts(made.data))

    async def _take_out(self, quotes: _Quotes, *, deleted: bool) -> None:
        """Take the quotes out of the notes, then out of their history."""
        self._rounds += 1
        op, at = f"{self._op}:{self._rounds}", now()
        steps = {
            note_id: self._edit(self._test(quotes.elsewhere.get(note_id)), op, at, deleted=deleted)
            for note_id in quotes.edited
        }
        base = {note_id: quotes.notes[note_id] for note_id in steps}
        await rewrite(self._runtime, self._namespace, op, steps, base=base, removing=True)
        if quotes.blanked:
            await resolve(self._runtime.store.rewrite_changes(self._namespace, quotes.blanked))

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
                note, entries=entries, links=links, supersessions=supersessions, reasons=reasons
            )
            if revised == note:
                return note, []
            data = {"entries": entries, "links": links, "reasons": reasons}
            if supersessions:
                data["supersessions"] = supersessions
            cause = next(iter(self._gone))
            return revised, [change(op, kind, note, cause=cause, recorded_at=at, data=data)]

        return edit

    def _is_caused(self, entry: ContextEntry, note: Note, deleted: bool) -> bool:
        """Return whether an entry came from a note that is gone, or from what a corrected one said before."""
        gone = self._gone.get(entry.cause)
        if gone is None or gone.in_context or entry.cause == note.id:
            return False
        return deleted if gone.corrected_at is None else entry.recorded_at <= gone.corrected_at

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

    async def _blanked(
        self, written: Sequence[Change], elsewhere: Mapping[str, Fragments], *, deleted: bool
    ) -> list[Change]:
        """Return the records in the history of other notes that quote, without the quotes."""
        records = {made.id: made for made in written if made.cause in self._gone}
        for note_id in elsewhere.keys() - (self._gone.keys() - self._contexts):
            history = await all_changes(self._runtime.store, self._namespace, note_id)
            records |= {made.id: made for made in history}
        blanked = []
        for made in (made for made in records.values() if made.note_id != self._whole):
            test = (
                bool
                if self._came_from_gone(made, deleted)
                else self._test(elsewhere.get(made.note_id))
            )
            data = without_quotes_in(made.data, test)
            if data != made.data:
                blanked.append(replace(made, data={**data, "blanked": True}))
        return blanked

    def _came_from_gone(self, made: Change, deleted: bool) -> bool:
        """Return whether all that a record holds of a model's words came from a text that is gone."""
        gone = self._gone.get(made.cause or "")
        if gone is None or gone.in_context or made.note_id == made.cause:
            return False
        if gone.corrected_at is None:
            return deleted
        return (
            made.kind in ("evolve", "supersede", "proposal")
            and made.recorded_at <= gone.corrected_at
        )


def _texts(entry: ContextEntry) -> tuple[str, ...]:
    return (entry.text, *entry.keywords, *entry.tags)


def _of_link(link: Link) -> tuple[str, str]:
    return link.reason, link.relation
