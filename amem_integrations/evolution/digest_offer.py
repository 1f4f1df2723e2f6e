"""What a model is shown to keep digests current: new notes, the nearest digests, and near notes that are in none."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from .. import texts
from ..digests import IS_DIGEST, is_stale, is_users, topic
from ..filters import Condition, Conditions
from ..ids import now
from ..kinds import words_of
from ..notes import Namespace, Note
from ..ports import Indexed, Query, Ranked
from ..runtime import Runtime, resolve
from .ask import fits
from .show import aliases, bare, clipped, day_of, flat, lines, speaker

IS_TOPIC = (IS_DIGEST, Condition("metadata.profile", "$ne", True))  # any but the profile
STATEMENT = Condition("kind", "$eq", "statement")
DONE = Condition("state", "$eq", "done")

DIGESTS_SHOWN = 8
EARLIER_SHOWN = 6
DIGESTS_OF_A_NOTE = 3  # its nearest
EARLIER_OF_A_NOTE = 4
LEAST_SIMILARITY = 0.3  # of an earlier note to a new one; unrelated notes have about .1 with MiniLM
CONTENT_CHARS = 320
EARLIER_CHARS = 160  # of an earlier note
SHORT_CHARS = 40  # what a note of so few characters means is shown too
FEWEST = 3  # notes that say something, of a new digest
NOTES_SHOWN = 40  # for digests that are written anew
REPLY_TOKENS = 900

Notes = dict[str, Note]


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What is shown for one call.

    Attributes:
        notes: The notes to take up, in order of seq.
        digests: The digests that may be rewritten.
        earlier: Other notes that are in no digest.
        sources: The sources of the digests that are there, by id.
        anew: By the id of a stale digest the ids of the notes that it is written from.
    """

    notes: Sequence[Note]
    digests: Sequence[Note] = ()
    earlier: Sequence[Note] = ()
    sources: Mapping[str, Note] = field(default_factory=dict)
    anew: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def alias(self) -> dict[str, str]:
        """What each is called, by id."""
        earlier = aliases(self.earlier, "c")
        return {**aliases(self.digests, "d"), **earlier, **aliases(self.notes, "n")}

    @property
    def shown(self) -> Notes:
        """All notes whose words the model may take: what is shown, and what the digests shown were derived from."""
        shown = (*self.notes, *self.earlier, *self.digests)
        return {**self.sources, **{note.id: note for note in shown}}

    def cited(self, names: Iterable[str]) -> list[Note]:
        """Return the notes behind aliases, each once; one that was not shown, or is a digest, is left out."""
        by_alias = {self.alias[note.id]: note for note in (*self.notes, *self.earlier)}
        found = map(by_alias.get, map(bare, names))
        return list({note.id: note for note in found if note is not None}.values())

    def sources_of(self, digest: Note) -> Sequence[str]:
        """Return the ids of the notes that a new version of a digest has for sources in any case."""
        return self.anew.get(digest.id, digest.sources)

    def digest(self, name: str) -> Note | None:
        """Return the digest behind an alias, if it was shown."""
        return next((one for one in self.digests if self.alias[one.id] == bare(name)), None)

    @property
    def values(self) -> dict[str, str]:
        """What the prompt is filled with."""
        alias = self.alias
        return {
            "digests": lines([self._digest(one, alias) for one in self.digests]),
            "earlier": _under_days(self.earlier, alias, EARLIER_CHARS),
            "notes": _under_days(self.notes, alias),
        }

    @property
    def inputs(self) -> dict[str, object]:
        """The same as plain data."""
        alias = self.alias

        def plain(note: Note) -> dict[str, object]:
            day = texts.day(note.when)
            said = {"content": note.content, "speaker": note.speaker, "kind": note.kind, "day": day}
            return {"alias": alias[note.id], **said}

        digests = [
            {
                "alias": alias[one.id],
                "topic": topic(one),
                "text": one.content,
                "anew": [alias[i] for i in self.anew.get(one.id, ())],
            }
            for one in self.digests
        ]
        earlier, notes = (list(map(plain, some)) for some in (self.earlier, self.notes))
        return {"digests": digests, "earlier": earlier, "notes": notes}

    def _digest(self, one: Note, alias: Mapping[str, str]) -> str:
        text = one.content
        if one.id in self.anew:
            text = f"(write anew from {', '.join(alias[i] for i in self.anew[one.id])})"
        return f"[{alias[one.id]}] {flat(topic(one))}: {flat(text)}"


def _under_days(notes: Sequence[Note], alias: Mapping[str, str], most: int = CONTENT_CHARS) -> str:
    ordered = sorted(notes, key=lambda note: (note.when, note.seq))
    rows: list[str] = []
    for day, group in groupby(ordered, key=day_of):
        rows += [f"({day})", *(_line(note, alias[note.id], most) for note in group)]
    return lines(rows)


def _line(note: Note, alias: str, most: int) -> str:
    """Return a note in one line, with what it means if its own words do not say."""
    who, own = speaker(note), flat(note.own_entry.text) if note.own_entry else ""
    meaning = f" ({own})" if own and len(note.content) <= SHORT_CHARS else ""
    outdated = " (outdated)" if note.superseded_by is not None else ""
    said = clipped(note.content, most)
    return f"[{alias}] {who + ': ' if who else ''}{said}{meaning}{outdated}"


async def offer_of(runtime: Runtime, namespace: Namespace, notes: Sequence[Note]) -> Offer:
    """Return what is shown for new notes, or for as many of them as the model can take."""
    first = min(note.seq for note in notes)
    stored = await resolve(runtime.store.get_indexed(namespace, [note.id for note in notes]))
    items = [item for item in stored if item.vector is not None]
    digests = await _nearest(runtime, namespace, items, IS_TOPIC, DIGESTS_OF_A_NOTE, -1.0)
    before = (STATEMENT, DONE, Condition("seq", "$lt", first))
    earlier = await _nearest(runtime, namespace, items, before, EARLIER_OF_A_NOTE, LEAST_SIMILARITY)
    earlier = _with_keywords_of(notes, earlier)
    taken = await in_digests(runtime, namespace, [note.id for note in earlier])
    shown = [one for one in digests if one.content][:DIGESTS_SHOWN]
    offer = Offer(
        notes=notes,
        digests=shown,
        earlier=[note for note in earlier if note.id not in taken][:EARLIER_SHOWN],
        sources=await sources_of_digests(runtime, namespace, shown),
    )
    while not fits(runtime, "digest", offer.values, REPLY_TOKENS):
        if offer.earlier or len(offer.digests) > 1:
            half = offer.digests[: (len(offer.digests) + 1) // 2]
            offer = replace(offer, earlier=(), digests=half)
        elif len(offer.notes) > 1:
            offer = replace(offer, notes=offer.notes[: len(offer.notes) // 2])
        else:
            break
    return offer


async def offer_anew(
    runtime: Runtime, namespace: Namespace, digests: Sequence[Note]
) -> tuple[Offer | None, list[Note]]:
    """Return what is shown to write stale ones of these digests anew, and those that have too few sources for it."""
    sources = await sources_of_digests(runtime, namespace, digests)
    stale = [one for one in digests if is_stale(one, sources)]
    notes = sources | await _successors(runtime, namespace, sources)
    anew = {one.id: _standing(one, notes) for one in stale}
    left = {i: [notes[n] for n in ids] for i, ids in anew.items()}
    enough = [one for one in stale if is_enough(left[one.id])]
    few = [one for one in stale if not is_enough(left[one.id]) and not is_users(one)]
    chosen = list[Note]()
    shown: Notes = {}
    for one in enough:
        more = {note.id: note for note in left[one.id]}
        if chosen and len(shown | more) > NOTES_SHOWN:
            break
        chosen.append(one)
        shown |= more
    if not chosen:
        return None, few
    ordered = sorted(shown.values(), key=lambda note: note.seq)
    return Offer(
        notes=ordered,
        digests=chosen,
        sources=sources,
        anew={one.id: anew[one.id] for one in chosen},
    ), few


def is_enough(sources: Iterable[Note]) -> bool:
    """Return whether these notes are enough for a digest: three that say something, of two threads or days."""
    saying = [note for note in sources if note.kind == "statement"]
    threads = {note.thread for note in saying if note.thread}
    days = {note.when.date() for note in saying}
    return len(saying) >= FEWEST and max(len(threads), len(days)) > 1


async def _successors(runtime: Runtime, namespace: Namespace, sources: Mapping[str, Note]) -> Notes:
    """Return the notes that take the place of others."""
    found = [note.superseded_by for note in sources.values()]
    ids = {i for i in found if i is not None} - sources.keys()
    return {note.id: note for note in await resolve(runtime.store.get(namespace, sorted(ids)))}


def _with_keywords_of(notes: Sequence[Note], earlier: Sequence[Note]) -> list[Note]:
    """Return the earlier notes that share a word of their keywords with new ones: praise is near to much."""
    words = {word for note in notes for word in _keyword_words(note)}
    return [note for note in earlier if not words.isdisjoint(_keyword_words(note))]


def _keyword_words(note: Note) -> set[str]:
    return set(words_of(" ".join(note.keywords)).split())


def _standing(digest: Note, notes: Mapping[str, Note]) -> list[str]:
    """Return what a digest is to be written from: its sources that are there, and what took the place of any."""
    time = now()
    ids = dict[str, None]()
    for source in digest.sources:
        note = notes.get(source)
        if note is not None and not note.is_expired(time):
            ids |= dict.fromkeys(filter(None, (source, note.superseded_by)))
    return [i for i in ids if i in notes and not notes[i].is_expired(time)]


async def sources_of_digests(
    runtime: Runtime, namespace: Namespace, digests: Sequence[Note]
) -> Notes:
    """Return the sources of digests that are there, by id."""
    ids = dict.fromkeys(i for one in digests for i in one.sources)
    return {note.id: note for note in await resolve(runtime.store.get(namespace, list(ids)))}


async def in_digests(runtime: Runtime, namespace: Namespace, ids: Sequence[str]) -> set[str]:
    """Return which of these notes are sources of a digest."""
    if not ids:
        return set()
    holders = await resolve(runtime.store.backlinks(namespace, ids))
    return {i for one in holders if one.kind == "digest" for i in one.sources} & set(ids)


async def _nearest(
    runtime: Runtime,
    namespace: Namespace,
    items: Sequence[Indexed],
    where: Conditions,
    each: int,
    floor: float,
) -> list[Note]:
    """Return what is nearest to each of some notes, what is so to most of them first."""
    queries = [Query(vector=item.vector, limit=each, where=where) for item in items]
    found: list[Ranked] = await resolve(runtime.store.search(namespace, queries)) if items else []
    scores: defaultdict[str, float] = defaultdict(float)
    for ranked in found:
        for note_id, cosine in ranked.dense:
            if cosine >= floor:
                scores[note_id] += cosine
    ids = sorted(scores, key=lambda note_id: (-scores[note_id], note_id))
    time = now()
    stored = await resolve(runtime.store.get(namespace, ids))
    return [note for note in stored if not note.is_expired(time)]
