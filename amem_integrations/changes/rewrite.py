"""Rewrite notes: change by a pure edit, embed again, write; again for those that another writer changed.

No lock is held meanwhile. Edits are set operations on single notes, so doing one again on a newer
revision needs no second call of a model.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from .. import texts
from ..embedding import WITHOUT_EMBEDDER, embed, embed_if_possible
from ..errors import RevisionConflictError
from ..ids import now
from ..notes import Change, Namespace, Note
from ..ports import OPS_KEPT, Indexed, Vector
from ..runtime import RULES, Runtime, resolve
from .edits import Edit, chain, fail

MAX_TRIES = 50
NO_VECTOR = "the embedder gave no usable vector"
Follow = Callable[[Sequence[Change]], Mapping[str, Edit]]
# An embedder that is down, one that only asynchronous calls can use, none at all.


@dataclass(slots=True)
class Rewritten:
    """The notes as they are now, the changes made, and the notes because of which it was not gone on with."""

    notes: dict[str, Note] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    stale: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Edited:
    """A note before and after an edit, with the records of it."""

    old: Note
    new: Note
    records: Sequence[Change]

    @property
    def is_moved(self) -> bool:
        return self.new is not self.old


async def rewrite(  # noqa: PLR0913 - what one operation may need
    runtime: Runtime,
    namespace: Namespace,
    op: str,
    edits: Mapping[str, Edit],
    *,
    base: Mapping[str, Note] | None = None,
    records: Sequence[Change] = (),
    follow: Follow | None = None,
    removing: bool = False,
    again: bool = False,
    first: Collection[str] = (),
) -> Rewritten:
    """Apply edits to stored notes; one that has `op` among its last operations, or is gone, is left out.

    Args:
        runtime: The ports.
        namespace: Whose notes.
        op: Names the operation.
        edits: By note id.
        base: Notes as the caller knows them: only those that the store finds changed since are read.
        records: Further records of the operation, written with the changes.
        follow: Returns the edits of other notes that follow from changes; they are written in the same batch.
        removing: The edits take text away, which does not wait for the embedder.
        again: The operation may be an old one. Where a note does not remember that far back, the history
            says what was done.
        first: These are written before the others; if one is refused, `Rewritten.stale` says so, and it ends there.

    Raises:
        RevisionConflictError: Other writers kept getting in between.
        ModelUnavailableError: The embedder failed; nothing was written.
    """
    work = _Rewriting(runtime, namespace, op, follow, removing, again, first, dict(base or {}))
    return await work.all(dict(edits), list(records))


def conflict(ids: Iterable[str]) -> RevisionConflictError:
    """Return the error that notes could not be written."""
    return RevisionConflictError(
        f"notes {sorted(ids)} were changed by others {MAX_TRIES} times in a row; try again"
    )


@dataclass(slots=True)
class _Rewriting:
    """One call of `rewrite`, with the notes as they are known."""

    runtime: Runtime
    namespace: Namespace
    op: str
    follow: Follow | None
    removing: bool
    again: bool
    first: Collection[str]
    known: dict[str, Note]
    done: Rewritten = field(default_factory=Rewritten)

    async def all(self, left: dict[str, Edit], extra: list[Change]) -> Rewritten:
        """Write all edits, and `extra` records with them."""
        for _ in range(MAX_TRIES):
            wanted, edited = await self._with_following(left)
            if self.again:
                edited = await self._not_yet_done(edited)
            unwritten = await self._write(edited, extra)
            if not unwritten.isdisjoint(self.first):
                self.done.stale = unwritten & set(self.first)
                return self.done
            # If nothing was written, all is done anew, what follows too.
            if unwritten != {item.new.id for item in edited}:
                left, extra = wanted, []
            left = {note_id: edit for note_id, edit in left.items() if note_id in unwritten}
            if not left:
                return self.done
            self.known = {}
        raise conflict(left)

    async def _with_following(
        self, edits: dict[str, Edit]
    ) -> tuple[dict[str, Edit], list[_Edited]]:
        """Return the edits together with those that follow from their changes, and what they give."""
        edited = await self._edited(edits)
        if self.follow is None:
            return edits, edited
        wanted = dict(edits)
        for note_id, more in self.follow(
            [made for item in edited for made in item.records]
        ).items():
            wanted[note_id] = chain([wanted[note_id], more]) if note_id in wanted else more
        return wanted, await self._edited(wanted)

    async def _edited(self, edits: Mapping[str, Edit]) -> list[_Edited]:
        """Apply the edits to the notes as they are known; what is not known is read, and left out if gone."""
        if missing := [note_id for note_id in edits if note_id not in self.known]:
            stored = await resolve(self.runtime.store.get(self.namespace, missing))
            self.known.update({note.id: note for note in stored})
        return [_edit(self.known[i], edit, self.op) for i, edit in edits.items() if i in self.known]

    async def _not_yet_done(self, edited: Sequence[_Edited]) -> list[_Edited]:
        """Leave out what was done before by the history, where the note itself cannot tell.

        It cannot where it has forgotten its older operations, and where nothing but the history was written.
        """
        doubtful = [
            record.id
            for item in edited
            if not item.is_moved or len(item.old.ops) >= OPS_KEPT
            for record in item.records
        ]
        if not doubtful:
            return list(edited)
        made = await resolve(self.runtime.store.changes_by_id(self.namespace, doubtful))
        done = {record.note_id for record in made}
        return [_Edited(i.old, i.old, []) if i.old.id in done else i for i in edited]

    async def _write(self, edited: Sequence[_Edited], extra: Sequence[Change]) -> set[str]:
        """Write what was edited, add it to `done`, and return the ids of the notes that were not written.

        If no version was written, all ids are returned: a store may write all or nothing, records included.
        """
        moved = [item for item in edited if item.is_moved]
        rows = await _vectors(self.runtime, moved, removing=self.removing)
        edited = [_or_failed(item, rows, self.op) for item in edited]
        changes = [*extra, *(record for item in edited for record in item.records)]
        items = [_indexed(item, rows) for item in edited if item.is_moved]
        unwritten: set[str] = set()
        if items or changes:
            how = {"first": self.first} if self.first and _in_order(self.runtime) else {}
            replace = self.runtime.store.replace
            unwritten = await resolve(replace(self.namespace, items, changes, **how))
        if items and len(unwritten) == len(items):
            return {item.new.id for item in edited}
        self.done.notes |= {i.new.id: i.new for i in edited if i.new.id not in unwritten}
        self.done.changes += [made for made in changes if made.note_id not in unwritten]
        return unwritten


def _in_order(runtime: Runtime) -> bool:
    """Return whether who comes too late must not have written anything.

    It costs two requests more. Rules that hold no claim do without: what two of them write is the same.
    """
    is_free = runtime.model_name == RULES and runtime.hold is None
    return getattr(runtime.store, "remote", False) and not is_free


def _edit(note: Note, edit: Edit, op: str) -> _Edited:
    if op in note.ops:
        return _Edited(note, note, [])
    new, records = edit(note)
    return _Edited(note, note if new == note else next_revision(note, new, op), records)


def next_revision(old: Note, new: Note, op: str) -> Note:
    """Return a note as the store takes it in place of an older one, written by an operation."""
    return new.revised(revision=old.revision + 1, ops=(*old.ops, op)[-OPS_KEPT:])


async def _vectors(
    runtime: Runtime, moved: Sequence[_Edited], *, removing: bool
) -> dict[str, Vector | None]:
    """Return new vectors by note id; what reads the same as before keeps the one it has."""
    changed = [item.new for item in moved if _needs_vector(item)]
    wanted = [texts.embedding_text(note) for note in changed]
    if removing:
        until = "they change again, or reindex()"
        rows = await embed_if_possible(runtime, wanted, until=until, despite=WITHOUT_EMBEDDER)
    elif all(note.state == "pending" for note in changed):
        rows = await embed_if_possible(runtime, wanted)
    else:
        rows = await embed(runtime, wanted)
    return {note.id: row for note, row in zip(changed, rows, strict=True)}


def _needs_vector(item: _Edited) -> bool:
    """Return whether a note reads otherwise than before, or may have no vector: it was raw until now."""
    constructed = item.old.own_entry is None and item.new.own_entry is not None
    return constructed or texts.lexical_text(item.old) != texts.lexical_text(item.new)


def _or_failed(item: _Edited, rows: Mapping[str, Vector | None], op: str) -> _Edited:
    """Return what was edited; a note that was to be constructed, but got no vector, has failed instead."""
    if item.new.state != "constructed" or rows.get(item.new.id, ...) is not None:
        return item
    failed, records = fail(NO_VECTOR, op, now())(item.old)
    return _Edited(item.old, next_revision(item.old, failed, op), records)


def _indexed(item: _Edited, rows: Mapping[str, Vector | None]) -> Indexed:
    text = texts.lexical_text(item.new) if item.new.id in rows else None
    return Indexed(note=item.new, vector=rows.get(item.new.id), text=text)
