"""Digests: notes that a model derives, each of which gathers what is known on one narrow topic, with its sources.

A model is asked about a batch of new notes and writes only the digests that they change. What it writes is checked
against the sources; what fails is a proposal. A digest that the user edited is only proposed to be rewritten.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from .. import kinds, texts
from ..changes.edits import (
    Edit,
    change,
    change_of_namespace,
    field_value,
    prompt_records,
    usage_records,
)
from ..changes.quoted_from import sources_of
from ..changes.rewrite import rewrite
from ..embedding import embed
from ..ids import clock, derive, new_operation, now, time_of
from ..notes import Change, ContextEntry, Namespace, Note
from ..plans import HELD
from ..ports import Indexed, Query
from ..prompts import DigestReply, ProposedDigest
from ..runtime import Runtime, resolve
from .ask import ask, counting
from .deleted_meanwhile import remove_what_is_gone
from .digest_offer import DIGEST, DIGESTS_SHOWN, Offer, sources_of_digests, topic_of
from .grounding import unsupported

MAX_WORDS = 90  # 70 are asked for
FEWEST = 3  # notes that say something, of a new digest
SAME = 0.9  # cosine of two digests of one topic
MAX_TOPIC = 120  # characters
WRITTEN = ("content", "own", "sources", "expires_at")  # fields of a digest that a change records


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What became of one batch: ids of digests and of proposals, and how many answers were about nothing shown."""

    digests: tuple[str, ...] = ()
    proposals: tuple[str, ...] = ()
    dropped: int = 0
    again: tuple[Offer, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A digest as a model wants it: a new version of `old`, or a new one."""

    topic: str
    text: str
    sources: tuple[Note, ...]
    old: Note | None = None
    why_not: str | None = None

    def keywords(self) -> tuple[str, ...]:
        """Return the words that the sources are found by, the most frequent first."""
        own = [note.own_entry.keywords for note in self.sources if note.own_entry]
        counts = Counter(word for words in own for word in words)
        return texts.clean_words([word for word, _ in counts.most_common()], texts.MAX_KEYWORDS)

    def applied(self, note: Note, model: str, made: str, at: datetime) -> Note:
        """Return the note with this as its text, topic and sources, by the change `made`."""
        entry = ContextEntry(
            text=self.topic,
            keywords=self.keywords(),
            cause=note.id,
            model=model,
            change=made,
            at=max(source.when for source in self.sources),
            recorded_at=at,
        )
        ends = [source.expires_at for source in self.sources if source.expires_at]
        others = tuple(each for each in note.contexts if each.cause != note.id)
        return note.revised(
            content=self.text,
            contexts=(entry, *others),
            sources=tuple(source.id for source in self.sources),
            expires_at=min(ends, default=None),
            state="done",
        )


async def write_digests(
    runtime: Runtime, namespace: Namespace, offer: Offer, *, until: int | None, calls: int
) -> Written:
    """Ask about a batch and write what comes of it; `until` is the `seq` up to which notes were considered by then.

    Raises:
        ModelReplyError: No reply could be read.
        ModelUnavailableError: The model, or the embedder, did not answer.
    """
    since, op = clock.tick(), new_operation()
    at = time_of(since)
    async with counting(runtime, namespace, op, at) as asking:
        reply = await ask(
            asking,
            "digest",
            DigestReply,
            namespace=namespace,
            inputs=offer.inputs,
            values=offer.values,
            attempts=min(calls, 2),
        )
        drafts, dropped = _drafts(offer, reply.digests)
        drafts, again = await _with_topics_known(asking, namespace, offer, drafts)
        drafts = [judged(draft, offer, review=runtime.config.review) for draft in drafts]
        asking.usage.count("digest", dropped=dropped)
        await runtime.confirm_hold()
        cost = usage_records(op, namespace, asking.usage.cost(), at)
        shown = await _prompt(runtime, namespace, op, offer, drafts, since)
        digests, proposals = await _write(runtime, namespace, op, drafts, [*shown, *cost], until)
    await remove_what_is_gone(runtime, namespace, offer.shown, since)
    return Written(
        digests=tuple(digests), proposals=tuple(proposals), dropped=dropped, again=tuple(again)
    )


def _drafts(offer: Offer, proposed: Sequence[ProposedDigest]) -> tuple[list[Draft], int]:
    """Return what is to be written of a reply, and how much of it named what was not shown, or says nothing."""
    drafts: list[Draft] = []
    dropped = 0
    taken: set[str] = set()
    for item in proposed:
        cited = offer.cited(item.add)
        dropped += len({name.strip("[]() ") for name in item.add}) - len(cited)
        draft = _draft(offer, item, cited, taken)
        if draft is None:
            dropped += 1
        else:
            drafts.append(draft)
            taken |= {draft.old.id} if draft.old else set()
    return drafts, dropped


def _draft(
    offer: Offer, item: ProposedDigest, cited: Sequence[Note], taken: Collection[str]
) -> Draft | None:
    """Return one digest of a reply; None if it is of one not shown, or cites too little."""
    old, parent = offer.digest(item.id), offer.digest(item.source)
    text, topic = " ".join(item.text.split()), _topic(item.topic)
    if not text or (item.id and old is None) or (item.source and parent is None):
        return None
    if old is None and parent is None:
        old = next(
            (one for one in offer.digests if topic and is_same_topic(topic_of(one), topic)), None
        )
    if old is not None and old.id in taken:
        return None
    kept = [i for one in (old, parent) if one is not None for i in one.sources]
    kept += offer.anew.get(old.id, ()) if old is not None else ()
    shown = offer.shown
    sources = _in_order([*(shown[i] for i in kept if i in shown), *cited])
    topic = (topic_of(old) or topic) if old is not None else topic
    if not topic or (old is None and not is_enough(sources)):
        return None
    if old is not None and text == old.content:
        return None
    return Draft(topic=topic, text=text, sources=sources, old=old)


def _in_order(notes: Iterable[Note]) -> tuple[Note, ...]:
    unique = {note.id: note for note in notes}.values()
    return tuple(sorted(unique, key=lambda note: (note.when, note.seq)))


def is_enough(sources: Iterable[Note]) -> bool:
    """Return whether these notes are enough for a digest: three that say something, of two threads or days."""
    saying = [note for note in sources if note.kind == "statement"]
    threads = {note.thread for note in saying if note.thread}
    days = {note.when.date() for note in saying}
    return len(saying) >= FEWEST and max(len(threads), len(days)) > 1


def _topic(text: str) -> str:
    return texts.inline(text, MAX_TOPIC).strip(" .:")


def is_same_topic(one: str, other: str) -> bool:
    """Return whether two topics have the same words."""
    return set(kinds.words_of(one).split()) == set(kinds.words_of(other).split())


async def _with_topics_known(
    runtime: Runtime, namespace: Namespace, offer: Offer, drafts: Sequence[Draft]
) -> tuple[list[Draft], list[Offer]]:
    """Return the drafts but for new ones of a topic that a digest has which was not shown, and what to ask for these.

    The model rewrites that digest when it is shown it.
    """
    new = [draft for draft in drafts if draft.old is None]
    rows = await embed(runtime, [texts.embedding_text(_blank(namespace, one)) for one in new])
    pairs = [(draft, row) for draft, row in zip(new, rows, strict=True) if row is not None]
    queries = [Query(vector=row, limit=DIGESTS_SHOWN, where=(DIGEST,)) for _, row in pairs]
    found = await resolve(runtime.store.search(namespace, queries)) if queries else []
    near = {i: cosine for ranked in found for i, cosine in ranked.dense}
    stored = {one.id: one for one in await resolve(runtime.store.get(namespace, list(near)))}
    others = {one.id for one in offer.digests}
    kept, again = list(drafts), list[Offer]()
    for (draft, _), ranked in zip(pairs, found, strict=True):
        for i, cosine in ranked.dense:
            if i in others or i not in stored:
                continue
            if cosine >= SAME or is_same_topic(topic_of(stored[i]), draft.topic):
                kept.remove(draft)
                old = await sources_of_digests(runtime, namespace, [stored[i]])
                again.append(Offer(notes=draft.sources, digests=[stored[i]], sources=old))
                break
    return kept, again


def _blank(namespace: Namespace, draft: Draft) -> Note:
    """Return the note of a draft, as it would be embedded."""
    at = now()
    note = Note(id="", seq=0, namespace=namespace, content="", recorded_at=at, kind="digest")
    return draft.applied(note, "", "", at)


def judged(draft: Draft, offer: Offer, *, review: bool) -> Draft:
    """Return the draft with the reason why it may not be written, if there is one."""
    threads = {note.thread for note in draft.sources}
    speakers = [note.speaker for note in offer.shown.values() if note.thread in threads]
    about = [name for name in speakers if name]
    why = _length_problem(draft.text)
    why = why or unsupported(draft.text, draft.sources, about)
    why = why or unsupported(draft.topic, draft.sources, about)
    if why is None and draft.old is not None and is_users(draft.old):
        why = "the user wrote what it says now"
    return replace(draft, why_not=why or (HELD if review else None))


def is_users(digest: Note) -> bool:
    """Return whether what a digest says is by the user."""
    return digest.attributes_source == "user"


def _length_problem(text: str) -> str | None:
    words = kinds.number_of_words(text)
    return f"the text has {words} words, more than {MAX_WORDS}" if words > MAX_WORDS else None


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
    written = [text for draft in drafts for text in (draft.text, draft.topic, *draft.keywords())]
    sources = await sources_of(runtime, namespace, offer.shown, written)
    # What a digest says comes from its sources, which may be gone by now.
    ids = dict.fromkeys([*sources.ids, *(i for one in offer.digests for i in one.sources)])
    return prompt_records(op, namespace, ids, now(), since=since, stale=sources.stale)


async def _write(
    runtime: Runtime,
    namespace: Namespace,
    op: str,
    drafts: Sequence[Draft],
    records: Sequence[Change],
    until: int | None,
) -> tuple[list[str], list[str]]:
    """Write drafts, new digests first, then how far the notes were considered; return digests and proposals."""
    model, at = runtime.model_name, now()
    new = [one for one in drafts if one.old is None and one.why_not is None]
    made = [_begun(namespace, draft, model, op, number, at) for number, draft in enumerate(new)]
    left = list(records)
    if made:
        notes = [note for note, _ in made]
        await _insert(runtime, namespace, notes, [*left, *(record for _, record in made)])
        left = []
    waiting = [
        _proposal(one, model, op, number, at) for number, one in enumerate(drafts) if one.why_not
    ]
    left += [*waiting, *considered(op, namespace, until)]
    old = {one.old.id: one for one in drafts if one.old is not None and one.why_not is None}
    edits = {i: _rewriting(draft, model, op, at) for i, draft in old.items()}
    base = {i: draft.old for i, draft in old.items() if draft.old is not None}
    done = await rewrite(runtime, namespace, op, edits, base=base, records=left)
    if not edits and left:
        await resolve(runtime.store.replace(namespace, [], left))
    rewritten = [one.note_id for one in done.changes if one.kind == "digest" and one.note_id]
    return [*(note.id for note, _ in made), *rewritten], [one.id for one in waiting]


def considered(op: str, namespace: Namespace, until: int | None, attempts: int = 0) -> list[Change]:
    """Return the record that the notes up to a `seq` were considered, or how often that was tried in vain."""
    if until is None:
        return []
    data = {"until": until, "attempts": attempts}
    return [change_of_namespace(op, "digest", namespace, now(), data)]


async def _insert(
    runtime: Runtime, namespace: Namespace, notes: Sequence[Note], records: Sequence[Change]
) -> None:
    rows = await embed(runtime, [texts.embedding_text(note) for note in notes])
    items = [
        Indexed(note=note, vector=row, text=texts.lexical_text(note))
        for note, row in zip(notes, rows, strict=True)
    ]
    await resolve(runtime.store.insert(namespace, items, records))


def _begun(
    namespace: Namespace, draft: Draft, model: str, op: str, number: int, at: datetime
) -> tuple[Note, Change]:
    """Return a new digest, and the record of it."""
    seq = clock.tick()
    empty = Note(
        id=derive("digest", namespace, op, number),
        seq=seq,
        namespace=namespace,
        content="",
        recorded_at=time_of(seq),
        source="derived",
        kind="digest",
        ops=(op,),
    )
    return _applied(draft, empty, model, op, at)


def _applied(
    draft: Draft,
    note: Note,
    model: str,
    op: str,
    at: datetime,
    **data: Any,  # noqa: ANN401 - JSON values
) -> tuple[Note, Change]:
    made = change(op, "digest", note, model=model, recorded_at=at)
    revised = draft.applied(note, model, made.id, at)
    fields = {
        name: {"before": _plain(note, name), "after": _plain(revised, name)} for name in WRITTEN
    }
    return revised, made.with_data(fields=fields, **data)


def _plain(note: Note, name: str) -> Any:  # noqa: ANN401 - JSON values
    value = field_value(note, name)
    return list(value) if isinstance(value, tuple) else value


def _rewriting(draft: Draft, model: str, op: str, at: datetime) -> Edit:
    """Return the edit that rewrites a digest, if it still says what it said when it was shown."""

    def edit(note: Note) -> tuple[Note, list[Change]]:
        if draft.old is None or note.content != draft.old.content:
            return note, []
        revised, made = _applied(draft, note, model, op, at)
        return revised, [made]

    return edit


def _proposal(draft: Draft, model: str, op: str, number: int, at: datetime) -> Change:
    """Return the record of a digest that is not written: about the digest, or else about its newest source."""
    about = draft.old or draft.sources[-1]
    wanted: Mapping[str, Any] = {
        "text": draft.text,
        "topic": {"text": draft.topic},
        "sources": [note.id for note in draft.sources],
        "id": draft.old.id
        if draft.old
        else derive("digest", about.namespace, op, "proposed", number),
    }
    data = {"digest": wanted, "rejected": draft.why_not}
    made = change(op, "proposal", about, cause=about.id, model=model, recorded_at=at, data=data)
    return replace(made, id=derive("change", op, "proposal", "digest", number))
