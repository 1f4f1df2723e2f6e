"""Deletes and corrections, with all that was made of the text; and what a killed process left."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from ..decisions import SETTLED, VISIBLE, Call, Decision, Record
from ..fetch import NOTES
from ..kinds import kind_of
from ..notes import Attempts, Note, Wording
from ..ports import NoteQuery, RecordQuery
from ..runtime import resolve
from ..stored_note import Purge, StoredNote
from .commit import Fate, redact, redact_inferred, settle, unsettled_calls
from .fold import first_state
from .projection import project
from .writer import Writer, earlier_values

# Decisions that were redacted, by id: as they were, and what is left of them.
Redacted = dict[str, tuple[Decision, Decision]]


async def forget(
    writer: Writer,
    note_id: str,
    correction: Callable[[Note], Note] | None = None,
    *,
    thorough: bool = False,
    only_if: Callable[[StoredNote], bool] = lambda _: True,
) -> Redacted | None:
    """Delete a note, or give the note another wording, with all that was made of the old one.

    Return the decisions that were redacted; None: the note is not there, or `only_if` does not hold. A second delete
    helps the first one to finish, and may make it thorough. After a thorough correction the note's own earlier wordings
    are gone from its history.

    Args:
        writer: Who forgets.
        note_id: Which note.
        correction: Gives the note its new wording; None deletes the note.
        thorough: Whether everything goes that was written by a call which was shown the text, whatever it says.
        only_if: What has to hold of the note as it stands when it goes.
    """
    stored = await writer.note(note_id)
    while True:
        if stored is None or (stored.is_deleted and correction) or not only_if(stored):
            return None
        if stored.is_deleted and (not thorough or stored.thorough >= stored.rev):
            break
        token, rev = writer.new_token(), stored.rev
        if correction is None:
            new = stored.tombstone(token, writer.new_seq(), thorough=thorough)
        else:
            made = _corrected(stored, token, writer.new_seq(), correction, thorough=thorough)
            (new,) = await writer.embed([made])
        await writer.swap_notes([(stored, new)])
        stored = await writer.note(note_id)
        if stored is None:  # the tombstone was collected
            redacted = await purge(writer, [replace(new, purge=Purge(rev, deleted=True))])
            return None if correction else redacted
        if stored.was_written_by(token) or (not correction and _is_another_life(stored, rev)):
            break
    return await purge(writer, [stored])


def _is_another_life(stands: StoredNote, rev: int) -> bool:
    """Return whether a note was deleted by somebody else, and added again since."""
    return stands.rev > rev and not stands.earlier


def _corrected(
    stored: StoredNote,
    token: str,
    seq: int,
    correction: Callable[[Note], Note],
    *,
    thorough: bool,
) -> StoredNote:
    """Return a note with its new wording, an empty view, and what is owed for the old one."""
    after = correction(stored.note)  # type: ignore[arg-type] # no tombstone is corrected
    was_deleted = stored.purge is not None and stored.purge.deleted
    rev = max(seq, stored.rev + 1)  # the clock of another process may be behind
    earlier = earlier_values(stored, after, token, rev)
    if thorough:
        earlier = tuple(one._replace(values={}) for one in earlier)
    return replace(
        stored,
        token=token,
        rev=rev,
        note=without_view(after),
        purge=Purge(stored.rev, deleted=was_deleted),
        thorough=stored.rev if thorough else stored.thorough,
        supersedes=(),
        vectors=None,
        embedded="",
        earlier=earlier,
    )


def without_view(note: Note) -> Note:
    """Return a note of which nothing is decided."""
    return replace(
        note,
        contexts=(),
        links={},
        supersessions={},
        state=first_state(note),
        failure=None,
        attempts=0,
        next_attempts=Attempts(),
        passages=(),
        kind=kind_of(note.content),
    )


async def purge(writer: Writer, notes: Iterable[StoredNote]) -> Redacted:
    """Redact everything that was made of the wordings of notes which are gone, say so in the notes, and return it.

    Anybody may purge, at any time, and again.

    Args:
        writer: Who purges.
        notes: The notes as they were read a moment ago; the `purge` of each says what is owed.
    """
    owing = {stored.id: stored for stored in notes if stored.purge is not None}
    redacted, projected = await _redact_all(writer, owing) if owing else ({}, {})
    # A tombstone is written by nobody else, unless more is owed or the note is added again.
    known = {key: one for key, one in owing.items() if one.is_deleted}
    known |= {key: one for key, one in projected.items() if key in owing}
    waiting = set(owing)
    while waiting:
        stands = known if known.keys() == waiting else await writer.whole_notes(waiting)
        known = {}
        # Of a note that owes more by now somebody else pays.
        paid = [one for key, one in sorted(stands.items()) if _is_paid(one, owing[key])]
        await writer.swap_notes(
            (one, replace(one, purge=None, token=writer.new_token())) for one in paid
        )
        waiting = {one.id for one in paid}
    return redacted


def _is_paid(stands: StoredNote, owed: StoredNote) -> bool:
    """Return whether a note owes nothing more than what was paid."""
    if stands.purge is None or owed.purge is None:
        return False
    return not (stands.purge.rev > owed.purge.rev or stands.thorough > owed.thorough)


async def _redact_all(
    writer: Writer, owing: Mapping[str, StoredNote]
) -> tuple[Redacted, dict[str, StoredNote]]:
    """Redact what was made of the gone wordings of notes, until nothing more is found; return it, and the notes it shows on."""
    owed = {key: one.purge for key, one in owing.items() if one.purge is not None}
    thorough = {key: one.thorough for key, one in owing.items() if one.thorough}

    def fate_of(source: Wording) -> Fate | None:
        gone = owed.get(source.id)
        if gone is None or source.rev > gone.rev:
            return None
        return "deleted" if gone.deleted else "corrected"

    # Of a note that was added again, a view may stem from decisions which `clear` has removed since.
    touched = {key for key, gone in owed.items() if gone.deleted and not owing[key].is_deleted}
    redacted: Redacted = {}
    wrote: dict[str, Record] = {}
    while True:
        made_from = {key: gone.rev for key, gone in owed.items()}
        found = await writer.decisions(RecordQuery(made_from=made_from))
        inferred = await _inferred(writer, thorough) if thorough else {}
        changed = []
        for key, decision in sorted((inferred | found).items()):
            touched |= set(decision.about)
            left = redact(decision, fate_of)
            left = redact_inferred(left) if key in inferred else left
            if left != decision:
                changed.append((decision, left))
                redacted[key] = (redacted.get(key, (decision,))[0], left)
        if not changed:
            break
        wrote |= await writer.swap_records(changed)
    projected = await project(writer, touched)
    # The writer of a decision does not settle what another writer has changed.
    await writer.swap_records(
        (one, replace(one, phase=SETTLED))
        for one in wrote.values()
        if isinstance(one, Decision) and one.phase == VISIBLE
    )
    return redacted, projected


async def _inferred(writer: Writer, gone: Mapping[str, int]) -> dict[str, Decision]:
    """Return the decisions of all calls that were shown a wording of one of these notes, up to a rev."""
    calls = await writer.find_records(RecordQuery(shown=gone))
    return await writer.decisions(RecordQuery(calls=frozenset(calls))) if calls else {}


async def clear(writer: Writer) -> int:
    """Delete all notes of the namespace with what was decided about them, and return the number of notes.

    Calls keep their costs. What is added meanwhile stays, with its decisions.
    """
    alive = await writer.find_notes(NoteQuery(alive=True))
    revs = {key: one.rev for key, one in alive.items()}
    while alive:
        await writer.swap_notes(
            (one, one.tombstone(writer.new_token(), writer.new_seq(), thorough=False))
            for _, one in sorted(alive.items())
        )
        found = await writer.find_notes(NoteQuery(alive=True))
        old = [one for key, one in found.items() if key in revs]
        alive = {one.id: one for one in old if not _is_another_life(one, revs[one.id])}
    await _remove_decisions(writer)
    owing = await writer.find_notes(NoteQuery(owing=True))
    await purge(writer, owing.values())
    return len(revs)


async def _remove_decisions(writer: Writer) -> None:
    """Remove the decisions that are about no living note, and what calls were shown of deleted notes alone.

    A form, which has no note, and no rev that tells it from the next one, becomes void.
    """
    records = (await writer.find_records(RecordQuery())).values()
    # Notes are read after the decisions: a note that was there to be decided about is found, unless it went since.
    alive = (await writer.find_notes(NoteQuery(alive=True))).keys()
    calls = [one for one in records if isinstance(one, Call)]
    stale = {one.id: one for one in calls if alive.isdisjoint(seen.id for seen in one.shown)}
    decisions = [one for one in records if isinstance(one, Decision)]
    forms = [one for one in decisions if one.stage == "form" and one.call in stale]
    gone = [one.id for one in decisions if one.stage != "form" and alive.isdisjoint(one.about)]
    # A form shows on no note.
    await writer.swap_records(
        (one, replace(one.voided(), phase=SETTLED)) for one in forms if not one.void
    )
    if gone:
        await resolve(writer.store.remove_decisions(writer.namespace, gone))
    await writer.swap_records((one, replace(one, shown=())) for one in stale.values() if one.shown)


async def sweep(writer: Writer, before: datetime) -> int:
    """Delete the notes that have expired, collect old tombstones, and return how many notes were deleted.

    A note that the user extends meanwhile stays.
    """
    time, count = writer.now(), 0
    for note_id in sorted(await writer.find_notes(NoteQuery(expired_at=time))):
        gone = await forget(writer, note_id, only_if=lambda stored: stored.is_expired(time))
        count += gone is not None
    await resolve(writer.store.remove_tombstones(writer.namespace, before))
    return count


async def resume(writer: Writer) -> None:
    """Finish what killed processes left: purge all that owe, settle all that is not settled."""
    await purge(writer, (await writer.find_notes(NoteQuery(owing=True))).values())
    for call_id in await unsettled_calls(writer):
        await settle(writer, call_id)


async def resume_after_power_cut(writer: Writer) -> None:
    """Finish what was left where the logs of both collections may have lost different ends: nothing is believed.

    The sources of every decision are looked at again, and every view is made anew.
    """
    records = (await writer.find_records(RecordQuery())).values()
    calls = {one.id for one in records if isinstance(one, Call)}
    calls |= {one.call for one in records if isinstance(one, Decision)}
    for call_id in sorted(calls):
        await settle(writer, call_id)
    await resume(writer)
    ids = sorted(await writer.find_notes(NoteQuery(alive=True)))
    for start in range(0, len(ids), NOTES):
        await project(writer, ids[start : start + NOTES])
