"""The profile: the one digest of a namespace that says who its user is, written from the other digests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ..ids import clock, derive, new_operation, time_of
from ..notes import Namespace, Note
from ..prompts import ProfileReply
from ..runtime import Runtime, resolve
from .ask import ask, counting
from .digest_drafts import Draft, in_order
from .digest_offer import IS_TOPIC, Offer, sources_of_digests
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
    stored = await resolve(runtime.store.get(namespace, [profile_id(namespace), *changed]))
    old = next((note for note in stored if note.id == profile_id(namespace)), None)
    digests = [note for note in stored if note is not old and note.content][:MOST]
    if old is None or not old.content:
        found = await resolve(runtime.store.scan(namespace, where=IS_TOPIC, newest_first=True))
        digests = sorted(filter(_says, found), key=lambda one: -len(one.sources))[:MOST]
    if not digests:
        return Written()
    shown = [*digests, *([old] if old is not None else [])]
    sources = await sources_of_digests(runtime, namespace, shown)
    offer, since, op = (
        Offer(notes=(), digests=digests, sources=sources),
        clock.tick(),
        new_operation(),
    )
    user = _user(sources.values())
    async with counting(runtime, namespace, op, time_of(since)) as asking:
        values = {
            "user": user,
            "profile": old.content if old else "",
            "digests": offer.values["digests"],
        }
        reply = await ask(
            asking,
            "profile",
            ProfileReply,
            namespace=namespace,
            inputs={**values, "digests": offer.inputs["digests"]},
            values=values,
            attempts=min(calls, 2),
        )
        used = [one for name in reply.sources if (one := offer.digest(name)) is not None]
        ids = dict.fromkeys(i for one in (*([old] if old else []), *used) for i in one.sources)
        held = in_order(sources[i] for i in ids if i in sources)
        text = " ".join(reply.text.split())
        draft = Draft(
            topic=f"Who {user} is",
            text=text,
            sources=held,
            old=old,
            new_id=profile_id(namespace),
            most_words=MAX_WORDS,
        )
        drafts = [draft] if text and used and held else []
        return await write_drafts(asking, namespace, op, offer, drafts, since=since)


def _says(digest: Note) -> bool:
    return bool(digest.content)


def _user(notes: Iterable[Note]) -> str:
    """Return the name that the user goes by: of most of the notes that are by a user."""
    names = Counter(note.speaker for note in notes if note.source == "user" and note.speaker)
    return names.most_common(1)[0][0] if names else THE_USER
