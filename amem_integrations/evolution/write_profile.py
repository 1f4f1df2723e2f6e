"""The profile: the one digest of a namespace that says who its user is, written from the other digests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ..ids import clock, derive, new_operation, time_of
from ..notes import Namespace, Note
from ..prompts.replies import ProfileReply
from ..runtime import Runtime, resolve
from .ask import ask, counting
from .digest_drafts import Draft, in_order
from .digest_offer import IS_TOPIC, Offer, sources_of_digests
from .show import flat, speaker
from .write_digests import Written, write_drafts

MOST = 12  # digests shown
MAX_WORDS = 150  # 120 are asked for
THE_USER = "the user"


def profile_id(namespace: Namespace) -> str:
    """Return the id of the profile of a namespace."""
    return derive("digest", namespace, "profile")


async def write_profile(
    runtime: Runtime, namespace: Namespace, changed: Sequence[str], *, calls: int
) -> Written:
    """Write the profile anew after these digests have changed; one that is not there or is empty from all.

    Raises:
        ModelReplyError: No reply could be read.
        ModelUnavailableError: The model, or the embedder, did not answer.
    """
    old, digests = await _shown(runtime, namespace, changed)
    if not digests:
        return Written()
    shown = [*digests, *([old] if old is not None else [])]
    sources = await sources_of_digests(runtime, namespace, shown)
    offer, user = Offer(notes=(), digests=digests, sources=sources), _user(sources.values())
    since, op = clock.tick(), new_operation()
    async with counting(runtime, namespace, op, time_of(since)) as asking:
        text = flat(old.content) if old is not None else ""
        values = {"user": user, "profile": text, "digests": offer.values["digests"]}
        reply = await ask(
            asking,
            "profile",
            ProfileReply,
            namespace=namespace,
            inputs={**values, "digests": offer.inputs["digests"]},
            values=values,
            attempts=min(calls, 2),
        )
        drafts = _drafts(reply, offer, old, user, profile_id(namespace))
        return await write_drafts(asking, namespace, op, offer, drafts, since=since)


async def _shown(
    runtime: Runtime, namespace: Namespace, changed: Sequence[str]
) -> tuple[Note | None, list[Note]]:
    """Return the profile as it is, and the digests to write it anew from."""
    stored = await resolve(runtime.store.get(namespace, [profile_id(namespace), *changed]))
    old = next((note for note in stored if note.id == profile_id(namespace)), None)
    if old is not None and old.content:
        return old, [note for note in stored if note is not old and note.content][:MOST]
    found = await resolve(runtime.store.scan(namespace, where=IS_TOPIC, newest_first=True))
    says = [one for one in found if one.content]
    return old, sorted(says, key=lambda one: -len(one.sources))[:MOST]


def _drafts(
    reply: ProfileReply, offer: Offer, old: Note | None, user: str, new_id: str
) -> list[Draft]:
    """Return the profile that a reply wants; none if it names no digest that was shown."""
    used = [one for name in reply.sources if (one := offer.digest(name)) is not None]
    ids = [i for one in (*([old] if old is not None else []), *used) for i in one.sources]
    sources = in_order(offer.sources[i] for i in ids if i in offer.sources)
    text = " ".join(reply.text.split())
    if not (text and used and sources):
        return []
    about = f"Who {user} is"
    return [
        Draft(topic=about, text=text, sources=sources, old=old, new_id=new_id, most_words=MAX_WORDS)
    ]


def _user(notes: Iterable[Note]) -> str:
    """Return the name that the user goes by: of most of the notes that are by a user."""
    names = Counter(speaker(n) for n in notes if n.source == "user" and n.speaker)
    return names.most_common(1)[0][0] if names else THE_USER
