"""Drafts of digests: what a model's reply wants written, by which notes, and what speaks against it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from .. import kinds, texts
from ..changes.derived import NOT_BY_USER, derived_note, text_of
from ..digests import is_users, topic
from ..embedding import embed
from ..ids import derive, now
from ..notes import Namespace, Note
from ..plans import HELD
from ..ports import Query
from ..prompts.replies import ProposedDigest
from ..runtime import Runtime, resolve
from .digest_offer import IS_TOPIC, Offer, is_enough, sources_of_digests
from .grounding import tells_of, unsupported
from .show import bare

MAX_WORDS = 90  # 70 are asked for
MOST = 16  # of a reply
SAME = 0.9  # cosine of two digests of one topic
NEAREST = 4  # digests that a new one is compared with
MAX_TOPIC = 120  # characters


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A digest as a model wants it: a new version of `old`, or a new one. `why_not` makes it a proposal.

    The profile has a `new_id` of its own, and may be longer than others.
    """

    topic: str
    text: str
    sources: tuple[Note, ...]
    old: Note | None = None
    why_not: str | None = None
    new_id: str = ""
    most_words: int = MAX_WORDS

    def keywords(self) -> tuple[str, ...]:
        """Return the words that the sources are found by, the most frequent first."""
        own = [note.own_entry.keywords for note in self.sources if note.own_entry]
        counts = Counter(word for words in own for word in words)
        return texts.clean_words([word for word, _ in counts.most_common()], texts.MAX_KEYWORDS)

    def written(self) -> tuple[str, ...]:
        """Return all texts of it."""
        return (self.text, self.topic, *self.keywords())

    def own_id(self, namespace: Namespace) -> str:
        """Return the id of the digest, which a new one has from its topic."""
        words = sorted(kinds.words_of(self.topic).split())
        own = self.new_id or derive("digest", namespace, words)
        return self.old.id if self.old is not None else own

    def note(self, namespace: Namespace, model: str, op: str, note_id: str = "") -> Note:
        """Return the note that it becomes; a new one can be given another id."""
        own = derived_note(note_id or self.own_id(namespace), namespace, "digest", op)
        metadata = {"profile": True} if self.new_id else {}
        return text_of(
            self.old or own.revised(metadata=metadata),
            text=self.text,
            topic=self.topic,
            keywords=self.keywords(),
            sources=self.sources,
            model=model,
            op=op,
            at=now(),
        )


def drafts_of(offer: Offer, proposed: Sequence[ProposedDigest]) -> tuple[list[Draft], int]:
    """Return what is to be written of a reply, and how much of it named what was not shown, or too little."""
    drafts: list[Draft] = []
    dropped = max(len(proposed) - MOST, 0)
    for item in proposed[:MOST]:
        cited = offer.cited(item.add)
        dropped += len(set(map(bare, item.add))) - len(cited)
        taken = {draft.old.id for draft in drafts if draft.old is not None}
        draft = _draft(offer, item, cited, taken)
        drafts += [] if draft is None else [draft]
        dropped += draft is None
    return drafts, dropped


def _draft(
    offer: Offer, item: ProposedDigest, cited: Sequence[Note], taken: Collection[str]
) -> Draft | None:
    """Return one digest of a reply; None if it is of one not shown or written already, or of too few notes."""
    old, parent = offer.digest(item.id), offer.digest(item.source)
    text, about = " ".join(item.text.split()), texts.inline(item.topic, MAX_TOPIC).strip(" .:")
    if not text or (item.id and old is None) or (item.source and parent is None):
        return None
    if old is None and about:
        old = next((one for one in offer.digests if is_same_topic(topic(one), about)), None)
    if old is not None and (old.id in taken or text == old.content):
        return None
    shown = offer.shown
    kept = [i for one in (old, parent) if one is not None for i in offer.sources_of(one)]
    people = sorted({note.speaker for note in shown.values() if note.speaker})
    sources = sources_used(text, [shown[i] for i in kept if i in shown], cited, people)
    if old is not None and (not about or is_same_topic(topic(old), about)):
        about = topic(old)
    draft = Draft(topic=about, text=text, sources=sources, old=old)
    if old is not None and not about:  # it went with a source, and the model gave no other
        draft = replace(draft, topic=", ".join(draft.keywords()[:3]))
    is_one = bool(draft.topic and sources) and (old is not None or is_enough(sources))
    return draft if is_one else None


def sources_used(
    text: str, kept: Sequence[Note], cited: Sequence[Note], people: Sequence[str]
) -> tuple[Note, ...]:
    """Return the sources of a text: what it cites, and of those it had before what it still says something of.

    What was dropped, or went to another digest in a split, goes from the sources too, unless something rests on it or
    too few would be left.
    """
    every = in_order([*kept, *cited])
    used = in_order([*(note for note in kept if tells_of(text, note, people)), *cited])
    return used if is_enough(used) and unsupported(text, used, people) is None else every


def in_order(notes: Iterable[Note]) -> tuple[Note, ...]:
    """Return notes by their time, each once."""
    unique = {note.id: note for note in notes}.values()
    return tuple(sorted(unique, key=lambda note: (note.when, note.seq)))


def is_same_topic(one: str, other: str) -> bool:
    """Return whether two topics have the same words."""
    return sorted(kinds.words_of(one).split()) == sorted(kinds.words_of(other).split())


def judged(draft: Draft, offer: Offer, *, review: bool) -> Draft:
    """Return the draft with the reason why it is not to be written, if there is one."""
    threads = {note.thread for note in draft.sources if note.thread}
    people = [n.speaker for n in offer.shown.values() if n.thread in threads and n.speaker]
    words = kinds.number_of_words(draft.text)
    most = draft.most_words
    why = f"the text has {words} words, more than {most}" if words > most else None
    why = why or unsupported(draft.text, draft.sources, people)
    if not draft.new_id:
        why = why or unsupported(draft.topic, draft.sources, people)
    if why is None and draft.old is not None and is_users(draft.old):
        why = NOT_BY_USER
    return replace(draft, why_not=why or (HELD if review else None))


async def without_known_topics(
    runtime: Runtime, namespace: Namespace, offer: Offer, drafts: Sequence[Draft]
) -> tuple[list[Draft], list[Offer]]:
    """Return the drafts but for new ones whose topic a digest has that was not shown, and what to ask for these.

    Shown that digest, the model rewrites it.
    """
    new = [draft for draft in drafts if draft.old is None]
    rows = await embed(
        runtime, [texts.embedding_text(draft.note(namespace, "", "")) for draft in new]
    )
    pairs = [(draft, row) for draft, row in zip(new, rows, strict=True) if row is not None]
    queries = [Query(vector=row, limit=NEAREST, where=IS_TOPIC) for _, row in pairs]
    found = await resolve(runtime.store.search(namespace, queries)) if queries else []
    ids = sorted({i for ranked in found for i, _ in ranked.dense} - {n.id for n in offer.digests})
    stored = {one.id: one for one in await resolve(runtime.store.get(namespace, ids))}
    kept, again = list(drafts), list[Offer]()
    for (draft, _), ranked in zip(pairs, found, strict=True):
        near = [(stored[i], cosine) for i, cosine in ranked.dense if i in stored]
        same = [
            n for n, c in near if n.content and (c >= SAME or is_same_topic(topic(n), draft.topic))
        ]
        if same:
            kept.remove(draft)
            sources = await sources_of_digests(runtime, namespace, same[:1])
            again.append(Offer(notes=draft.sources, digests=same[:1], sources=sources))
    return kept, again
