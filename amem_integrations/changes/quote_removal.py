"""Gone is gone: take away what was written while a text was shown that is not there any more.

A model may copy what it is shown into contexts, keywords, tags and reasons, and copy that again later. The record
of each of its operations names all notes whose words may stand in what it wrote (see `quoted_from`), so what may
quote a note that was deleted or corrected is found at once. What shares a word or a run of characters with the
text that is gone, and cannot have it from elsewhere, goes; in records of the history it is blanked. The records
stay, so that the history still replays.

It is taken out of the notes first, then out of their history, in one write with the names of deleted notes in the
records of prompts. So whoever is interrupted leaves records by which the next one finds the same again: a record
that names a note which is not there says that its removal was not finished.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from ..fetch import all_changes
from ..ids import new_operation, now
from ..kinds import FORM
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
from ..runtime import Runtime, resolve
from .edits import LINK, SUPERSEDED, Edit, change, without
from .elsewhere import ALL, Elsewhere, text_named
from .gone_texts import Gone, without_chunks
from .quote_matching import (
    FROM_PROMPTS,
    Fragments,
    is_quote,
    own_words,
    texts_in,
    without_quotes_in,
    written_texts,
)
from .rewrite import rewrite

_Written = Sequence[tuple[Change, set[str]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Quotes:
    """Where quotes were found.

    Attributes:
        notes: The notes that are looked at, by id.
        edited: Those that may hold a quote, or a link to what is gone.
        elsewhere: What the texts on those that quote can have from elsewhere.
        caused: Records of what notes that are gone brought to others.
        prompts: Records of prompts that name the notes that are gone.
    """

    notes: Mapping[str, Note]
    edited: Collection[str]
    elsewhere: Elsewhere
    caused: Sequence[Change]
    prompts: Sequence[Change]


class QuoteRemoval:
    """What is left of texts that are gone. Removing them again looks only at what was written since."""

    def __init__(
        self,
        runtime: Runtime,
        namespace: Namespace,
        op: str,
        gone: Sequence[Gone],
        *,
        since: int,
        whole: str | None = None,
        known: Collection[str] | None = None,
    ) -> None:
        """Say what is gone.

        Args:
            runtime: The ports.
            namespace: Whose notes.
            op: Names the operation that removes it.
            gone: The texts.
            since: An instant before they began to go. What was written later is looked at in any case: a
                quote may have been copied again whose source says something else by now.
            whole: Chunks of a text that goes on are gone from the text, but stay in the history of this note.
            known: The operations of which it is known that they were shown no other text of deleted notes; None: all.
                Their records of prompts do not name these notes any more: what was written is without quotes.
        """
        self._whole, self._since, self._known = whole, since, known
        self._runtime, self._namespace, self._op = runtime, namespace, op
        self._gone = {item.note_id: item for item in gone}
        self._contexts = {item.note_id for item in gone if item.in_context}
        self._deleted = {item.note_id for item in gone if item.corrected_at is None}
        self._deleted -= self._contexts
        kept = Fragments(text for item in gone for text in item.kept)
        lost = Fragments(text for item in gone for text in item.texts)
        self._lost = lost.minus(kept).minus(FROM_PROMPTS)
        self._looked_at: set[str] = set()  # operations
        self._rounds, self._is_done = 0, False  # whether the notes are deleted by now

    async def remove(
        self,
        *,
        deleted: bool = False,
        read: Sequence[Change] | None = None,
    ) -> None:
        """Remove all quotes. `deleted` says that the notes are gone: links to them and what they caused go too.

        `read` are the changes that mention the notes, if these have been read.
        """
        self._is_done = deleted
        backlinks = self._runtime.store.backlinks(self._namespace, list(self._gone))
        holders = await resolve(backlinks)
        if self._deleted >= self._gone.keys() and not deleted:
            holders = [note for note in holders if note.kind == FORM]  # links go with the notes
        is_first = True
        while True:
            prompts, written = await self._written(read)
            if not (is_first or prompts):
                return
            quotes = await self._find(holders, prompts, written)
            await delete_forms(self._runtime, self._namespace, self._spoilt(quotes, written))
            await self._take_out(quotes)
            if not prompts:
                return
            holders, read, is_first = [], None, False  # until nothing more was written meanwhile

    async def _written(self, read: Sequence[Change] | None) -> tuple[list[Change], _Written]:
        """Return the prompts not looked at yet, and what was written then, with whose words may stand in it.

        What the notes that are gone brought to others is always among it.
        """
        store, sources = self._runtime.store, sorted(self._gone.keys() - self._contexts)
        mentions = (
            await resolve(store.mentions(self._namespace, sources, prompts_after=self._since))
            if read is None
            else [made for made in read if made.note_id not in self._gone]
        )
        named = {made.op: made for made in mentions if made.kind == "prompt"}
        prompts = [made for op, made in named.items() if op not in self._looked_at]
        ops = [made.op for made in prompts]
        self._looked_at.update(ops)
        written = await resolve(store.changes_by_op(self._namespace, ops)) if ops else []
        shown = {made.op: made.data["shown"] for made in prompts}
        changes = {made.id: made for made in (*written, *mentions) if made.note_id}
        return prompts, [
            (made, {*shown.get(made.op, ()), made.cause or ""} - {""}) for made in changes.values()
        ]

    async def _find(
        self, holders: Sequence[Note], prompts: Sequence[Change], written: _Written
    ) -> _Quotes:
        """Return the quotes in what was written; `holders` are looked at in any case."""
        notes = {note.id: note for note in holders}
        await self._add(notes, [made.note_id for made, _ in written])
        due = {made.note_id for made, _ in written if self._is_done and made.cause in self._gone}
        own = {note.id: Fragments(own_words(note)) for note in notes.values()}
        elsewhere = Elsewhere()
        for made, others in written:
            note = notes.get(made.note_id)
            if note is not None and self._quotes(made, note, own[note.id]):
                elsewhere.add(made, others)
                if note.kind == FORM:
                    elsewhere.add_all(note.id, others)
        for note in notes.values():
            if note.kind == FORM:  # it may quote in its content as well
                elsewhere.add_all(note.id, note.sources)
        await self._add(notes, elsewhere.named())
        elsewhere.notes = notes
        return _Quotes(
            notes=notes,
            edited={*elsewhere.note_ids(), *(note.id for note in holders), *(due & notes.keys())},
            elsewhere=elsewhere,
            caused=[made for made, _ in written if made.cause in self._gone],
            prompts=[made for made in prompts if not self._deleted.isdisjoint(made.data["shown"])],
        )

    async def _add(self, notes: dict[str, Note], ids: Iterable[str]) -> None:
        missing = sorted(set(ids) - notes.keys() - self._deleted)
        if missing:
            stored = await resolve(self._runtime.store.get(self._namespace, missing))
            notes.update({note.id: note for note in stored})

    def _quotes(self, made: Change, note: Note, elsewhere: Fragments) -> bool:
        """Return whether a record quotes, or the note of one that was blanked before the note was written."""
        texts = [*written_texts(made.data)]
        if made.data.get("blanked"):
            texts += [text for entry in note.contexts for text in texts_in(entry)]
            texts += [text for link in note.links.values() for text in _of_link(link)]
            texts += [supersession.reason for supersession in note.supersessions.values()]
        return any(is_quote(text, self._lost, elsewhere) for text in texts)

    def _spoilt(self, quotes: _Quotes, written: _Written) -> list[Note]:
        """Return the forms that have lost a source, or in which something quotes."""
        said = {note.id: [note.content] for note in quotes.notes.values() if note.kind == FORM}
        for made, _ in written:
            said.get(made.note_id, []).extend(written_texts(made.data))
        return [
            quotes.notes[form]
            for form, texts in said.items()
            if any(
                self._is_lost(i, quotes.notes[form].recorded_at) for i in quotes.notes[form].sources
            )
            or any(map(self._test(quotes, form), texts))
        ]

    async def _take_out(self, quotes: _Quotes) -> None:
        """Take the quotes out of the notes, then out of their history, until both are without.

        Who undoes a change meanwhile may have brought back what was in its record.
        """
        known = (quotes.notes[note_id] for note_id in quotes.edited)
        base = {note.id: note for note in known if note.kind != FORM}
        is_changed = True
        while is_changed:
            self._rounds += 1
            op = f"{self._op}:{self._rounds}"
            steps = {note_id: self._edit(quotes, op) for note_id in base}
            await rewrite(self._runtime, self._namespace, op, steps, base=base, removing=True)
            if records := [*await self._blanked(quotes), *self._without_deleted(quotes)]:
                await resolve(self._runtime.store.rewrite_changes(self._namespace, records))
            stored = await resolve(
                self._runtime.store.get(self._namespace, sorted(quotes.elsewhere.note_ids()))
            )
            base = {note.id: note for note in stored if note.kind != FORM}
            is_changed = any(self._edit(quotes, op)(note)[0] != note for note in base.values())

    def _test(self, quotes: _Quotes, note_id: str, text: str = ALL) -> Callable[[str], bool]:
        """Return what tells quotes in a text on a note."""
        words = quotes.elsewhere.words(note_id, text)
        return lambda said: words is not None and is_quote(said, self._lost, words)

    def _edit(self, quotes: _Quotes, op: str) -> Edit:
        """Return the edit that takes the quotes from a note, and what came from notes that are gone."""
        kind: ChangeKind = "forget" if self._is_done else "retract"
        cause = next(iter(self._gone))

        def edit(note: Note) -> tuple[Note, list[Change]]:
            def quotes_in(name: str, texts: Iterable[str]) -> bool:
                return any(map(self._test(quotes, note.id, name), texts))

            entries = [
                entry.change
                for entry in note.contexts
                if self._is_caused(entry, note) or quotes_in(entry.change, texts_in(entry))
            ]
            links = sorted(self._gone.keys() & note.links.keys()) if self._is_done else []
            superseded = note.supersessions.items()
            supersessions = [i for i, s in superseded if self._is_superseding(i, s)]
            linked = [i for i, link in note.links.items() if quotes_in(i, _of_link(link))]
            reasons = [f"{LINK}{target}" for target in linked]
            reasons += [
                f"{SUPERSEDED}{i}" for i, s in superseded if quotes_in(s.change, [s.reason])
            ]
            revised = without(
                note,
                entries=entries,
                links=links,
                supersessions=supersessions,
                reasons=reasons,
            )
            if revised == note:
                return note, []
            data: dict[str, Any] = {"entries": entries, "links": links, "reasons": reasons}
            if supersessions:
                data["supersessions"] = supersessions
            return revised, [change(op, kind, note, cause=cause, recorded_at=now(), data=data)]

        return edit

    def _is_lost(self, source: str, written: datetime) -> bool:
        gone = self._gone.get(source)
        if gone is None or gone.in_context:
            return False
        return gone.corrected_at is None or written <= gone.corrected_at

    def _is_caused(self, entry: ContextEntry, note: Note) -> bool:
        """Return whether an entry came from a note that is gone, or from what a corrected one said before."""
        if entry.cause == note.id:
            return False
        gone = self._gone.get(entry.cause)
        if gone is None or gone.in_context:
            return False
        return (
            self._is_done if gone.corrected_at is None else entry.recorded_at <= gone.corrected_at
        )

    def _is_superseding(self, newer: str, supersession: Supersession) -> bool:
        """Return whether a note is superseded by one that is gone, or by what a corrected one said before.

        What the user decided about a corrected note stays.
        """
        gone = self._gone.get(newer)
        if gone is None:
            return False
        if gone.corrected_at is None:
            return self._is_done
        return supersession.model != USER and supersession.recorded_at <= gone.corrected_at

    async def _blanked(self, quotes: _Quotes) -> list[Change]:
        """Return the records in the history of other notes that quote, without the quotes."""
        records = {made.id: made for made in quotes.caused}
        for note_id in quotes.elsewhere.note_ids() - (self._gone.keys() - self._contexts):
            history = await all_changes(self._runtime.store, self._namespace, note_id)
            records |= {made.id: made for made in history}
        records |= await self._of_wholes()
        chunks = {text for gone in self._gone.values() if gone.chunk_of for text in gone.texts}
        blanked = []
        for made in (made for made in records.values() if made.note_id != self._whole):
            data = self._without_quotes(made, quotes)
            data = without_chunks(data, chunks)
            if data != made.data:
                blanked.append(replace(made, data={**data, "blanked": True}))
        return blanked

    def _without_quotes(self, made: Change, quotes: _Quotes) -> Mapping[str, Any]:
        """Return the data of a record without the quotes."""
        test = self._test(quotes, made.note_id, made.id)

        def of(part: Mapping[str, Any], name: str) -> Callable[[str], bool] | None:
            text = text_named(part, name)
            known = text and quotes.elsewhere.words(made.note_id, text)
            return self._test(quotes, made.note_id, text) if text and known else None

        done = without_quotes_in(made.data, bool) if self._came_from_gone(made) else made.data
        return dict(without_quotes_in(done, test, of=of))

    async def _of_wholes(self) -> dict[str, Change]:
        """Return by id the history of texts that go on without a chunk."""
        wholes = {gone.chunk_of for gone in self._gone.values() if gone.chunk_of}
        found = dict[str, Change]()
        for note_id in wholes - self._gone.keys() - {self._whole}:
            history = await all_changes(self._runtime.store, self._namespace, note_id)
            found |= {made.id: made for made in history}
        return found

    def _without_deleted(self, quotes: _Quotes) -> list[Change]:
        """Return the records of prompts without the notes that are deleted: what was written is without them."""
        return [
            made.with_data(shown=[i for i in made.data["shown"] if i not in self._deleted])
            for made in quotes.prompts
            if self._known is None or made.op in self._known
        ]

    def _came_from_gone(self, made: Change) -> bool:
        """Return whether all that a record holds of a model's words came from a text that is gone."""
        gone = self._gone.get(made.cause or "")
        return gone is not None and gone.brought(made, deleted=self._is_done)


def _of_link(link: Link) -> tuple[str, str]:
    return link.reason, link.relation


async def delete_forms(runtime: Runtime, namespace: Namespace, forms: Sequence[Note]) -> None:
    """Delete forms for good, with their history; they are filled anew from what is left."""
    if forms:
        op, at = new_operation(), now()
        receipts = [change(op, "delete", form, recorded_at=at) for form in forms]
        await resolve(runtime.store.delete(namespace, [form.id for form in forms], receipts))
