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
from ..ids import now
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
from .quote_matching import Fragments, is_quote, without_quotes_in, written_texts
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


class QuoteRemoval:
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
        """Say what is gone; `op` names the operation that removes them.

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

    async def remove(self, *, deleted: bool = False, holders: Sequence[Note] | None = None) -> None:
        """Remove all quotes. `deleted` says that the notes are gone: links to them and what they caused go too.

        `holders` are the backlinks of the notes, if these have been read: before a deletion, or after a correction.
        """
        while await self._remove_found(holders, deleted=deleted):
            holders = None  # until nothing is found that was written meanwhile

    async def _remove_found(self, holders: Sequence[Note] | None, *, deleted: bool) -> bool:
        """Remove what can be found now; return whether there were quotes.

        What quotes at the greatest distance goes first, so that after an interruption the way there is still known.
        """
        if self._deleted >= self._gone.keys() and not deleted:
            holders = []  # links go with the notes
        elif holders is None:
            gone = list(self._gone)
            holders = await resolve(self._runtime.store.backlinks(self._namespace, gone))
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
        caused = {m.note_id for m, _ in written if deleted and m.cause in self._gone}
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
            edited={*shown, *(note.id for note in holders), *(caused & notes.keys())},
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
                if self._is_caused(entry, note, deleted) or any(map(is_quoted, texts_in(entry)))
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
            if not gone.in_context
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
        causes = made.data["shown"] if made.kind == "condense" else [made.cause or ""]
        return any(self._is_source(self._gone[i], made, deleted) for i in causes if i in self._gone)

    @staticmethod
    def _is_source(gone: Gone, made: Change, deleted: bool) -> bool:
        if gone.in_context or made.note_id == gone.note_id:
            return False
        if gone.corrected_at is None:
            return deleted
        kinds = ("evolve", "supersede", "proposal", "condense")
        return made.kind in kinds and made.recorded_at <= gone.corrected_at


def texts_in(entry: ContextEntry) -> tuple[str, ...]:
    """Return the texts of a context entry."""
    return (entry.text, *entry.keywords, *entry.tags)


def _of_link(link: Link) -> tuple[str, str]:
    return link.reason, link.relation
