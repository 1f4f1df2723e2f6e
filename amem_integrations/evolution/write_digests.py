"""Digests: notes that a model derives, each of which gathers what is known on one narrow topic, with its sources.

A model is asked about a batch of new notes and writes only the digests that they change. What it writes is checked
against the sources (see `grounding`); what fails is a proposal, and so is what would replace a text of the user.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from .. import texts
from ..changes.derived import proposed, write, written
from ..changes.edits import Edit, change_of_namespace, prompt_records, usage_records
from ..changes.quoted_from import sources_of
from ..changes.rewrite import rewrite
from ..digests import is_users
from ..embedding import embed
from ..ids import clock, derive, new_operation, now, time_of
from ..notes import Change, Namespace, Note
from ..ports import Indexed
from ..prompts.replies import DigestReply
from ..runtime import Runtime, resolve
from .ask import ask, counting
from .deleted_meanwhile import remove_what_is_gone
from .digest_drafts import Draft, drafts_of, judged, without_known_topics
from .digest_offer import Offer


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What came of one call: ids of digests that were written and of proposals, and how many answers were `dropped`.

    `again` is what to ask about once more, with digests that were not shown.
    """

    digests: tuple[str, ...] = ()
    proposals: tuple[str, ...] = ()
    dropped: int = 0
    again: tuple[Offer, ...] = ()

    def __add__(self, other: Written) -> Written:
        """Return what came of both, without what is to be asked once more."""
        return Written(
            digests=tuple(dict.fromkeys([*self.digests, *other.digests])),
            proposals=(*self.proposals, *other.proposals),
            dropped=self.dropped + other.dropped,
        )


async def write_digests(
    runtime: Runtime, namespace: Namespace, offer: Offer, *, until: int | None, calls: int
) -> Written:
    """Ask about a batch and write what comes of it; `until` is the `seq` up to which notes were considered by then.

    Raises:
        ModelReplyError: No reply could be read.
        ModelUnavailableError: The model, or the embedder, did not answer.
        ClaimLost: Another process has taken the digests over.
    """
    since, op = clock.tick(), new_operation()
    async with counting(runtime, namespace, op, time_of(since)) as asking:
        reply = await ask(
            asking,
            "digest",
            DigestReply,
            namespace=namespace,
            inputs=offer.inputs,
            values=offer.values,
            attempts=min(calls, 2),
        )
        drafts, dropped = drafts_of(offer, reply.digests)
        drafts, again = await without_known_topics(runtime, namespace, offer, drafts)
        asking.usage.count("digest", dropped=dropped)
        done = await write_drafts(asking, namespace, op, offer, drafts, since=since, until=until)
    return replace(done, dropped=dropped, again=tuple(again))


async def write_drafts(
    asking: Runtime,
    namespace: Namespace,
    op: str,
    offer: Offer,
    drafts: Sequence[Draft],
    *,
    since: int,
    until: int | None = None,
) -> Written:
    """Write what of the drafts stands in their sources, and propose the others; `asking` has counted what they cost."""
    drafts = [judged(draft, offer, review=asking.config.review) for draft in drafts]
    await asking.confirm_hold()
    records = [
        *await _prompt(asking, namespace, op, offer, drafts, since),
        *usage_records(op, namespace, asking.usage.cost(), time_of(since)),
    ]
    digests, proposals = await _write(asking, namespace, op, offer, drafts, records, until)
    await remove_what_is_gone(asking, namespace, offer.shown, since)
    return Written(digests=digests, proposals=proposals)


def considered(op: str, namespace: Namespace, until: int | None, attempts: int = 0) -> list[Change]:
    """Return the record that the notes up to a `seq` were considered, or how often that was tried in vain."""
    if until is None:
        return []
    data = {"until": until, "attempts": attempts}
    return [change_of_namespace(op, "considered", namespace, now(), data)]


async def _prompt(
    runtime: Runtime,
    namespace: Namespace,
    op: str,
    offer: Offer,
    drafts: Sequence[Draft],
    since: int,
) -> list[Change]:
    """Return the record of whose words may stand in the drafts."""
    if not drafts:
        return []
    words = [text for draft in drafts for text in draft.written()]
    sources = await sources_of(runtime, namespace, offer.shown, words)
    # What a digest says comes from its sources, one of which may be gone by now.
    ids = dict.fromkeys([*sources.ids, *(i for one in offer.digests for i in one.sources)])
    return prompt_records(op, namespace, ids, now(), since=since, stale=sources.stale)


async def _write(
    runtime: Runtime,
    namespace: Namespace,
    op: str,
    offer: Offer,
    drafts: Sequence[Draft],
    records: Sequence[Change],
    until: int | None,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Write drafts, new digests first, then how far the notes were considered; return digests and proposals."""
    at, left = now(), list(records)
    notes = await _notes_of(runtime, namespace, op, drafts)
    good = [(draft, note) for draft, note in notes if draft.why_not is None]
    new = [note for draft, note in good if draft.old is None]
    if new:
        made = [written(None, note, op, at) for note in new]
        await _insert(runtime, namespace, new, [*left, *made])
        left = []
    waiting = [
        proposed(draft.old or draft.sources[-1], note, op, at, draft.why_not)
        for draft, note in notes
        if draft.why_not is not None
    ]
    left += [*waiting, *considered(op, namespace, until)]
    edits = {draft.old.id: _rewriting(draft, note, op, at) for draft, note in good if draft.old}
    edits |= {i: _in_vain for i in offer.anew if i not in edits}
    done = await rewrite(runtime, namespace, op, edits, records=left)
    if left and not edits:
        await resolve(runtime.store.replace(namespace, [], left))
    rewritten = [made.note_id for made in done.changes if made.kind == "digest"]
    waiting += [made for made in done.changes if made.kind == "proposal" and made not in waiting]
    return (*(note.id for note in new), *rewritten), tuple(made.id for made in waiting)


async def _notes_of(
    runtime: Runtime, namespace: Namespace, op: str, drafts: Sequence[Draft]
) -> list[tuple[Draft, Note]]:
    """Return the drafts with the notes they become; a new one whose id is that of another note gets its own."""
    new = [draft.own_id(namespace) for draft in drafts if draft.old is None]
    taken = {note.id for note in await resolve(runtime.store.get(namespace, new))}
    made = list[tuple[Draft, Note]]()
    for number, draft in enumerate(drafts):
        is_free = draft.old is not None or draft.own_id(namespace) not in taken
        own = "" if is_free else derive("digest", namespace, op, number)
        note = draft.note(namespace, runtime.model_name, op, own)
        taken.add(note.id)
        made.append((draft, note))
    return made


def _rewriting(draft: Draft, after: Note, op: str, at: datetime) -> Edit:
    """Return the edit that rewrites a digest, if it still says what it said when it was shown."""
    writing, shown = write(after, op, at), draft.old

    def edit(note: Note) -> tuple[Note, list[Change]]:
        if shown is None or (note.content, note.sources) != (shown.content, shown.sources):
            return note, []
        new, made = writing(note)
        return new.revised(attempts=0), made

    return edit


def _in_vain(note: Note) -> tuple[Note, list[Change]]:
    """Count that a stale digest was not written anew; one of the user waits for the user."""
    if is_users(note):
        return note, []
    return note.revised(attempts=note.attempts + 1), []


async def _insert(
    runtime: Runtime, namespace: Namespace, notes: Sequence[Note], records: Sequence[Change]
) -> None:
    rows = await embed(runtime, [texts.embedding_text(note) for note in notes])
    items = [
        Indexed(note=note, vector=row, text=texts.lexical_text(note))
        for note, row in zip(notes, rows, strict=True)
    ]
    await resolve(runtime.store.insert(namespace, items, records))
