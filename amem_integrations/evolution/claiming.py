"""Hold the threads that a piece of work is about, where other processes may work on them too."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from ..claims import Hold, SharedClaims
from ..notes import Namespace, Note
from ..runtime import Runtime, resolve, to_the_end
from .construct import Part
from .deleted_meanwhile import as_they_are

PATIENCE = 1.5  # times what a claim lasts: long enough to see whether its holder lives
FIRST_LOOK, LAST_LOOK = 0.02, 0.5  # seconds from one look at what others hold to the next


def deadline(runtime: Runtime) -> float:
    """Return until when a caller waits for others, by the monotonic clock."""
    return time.monotonic() + PATIENCE * runtime.config.claim_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What may be worked on, by a runtime: `parts` on which no other process works; `busy` are the others.

    `finished` are notes that somebody else has finished meanwhile, as they are now.
    """

    runtime: Runtime
    parts: Sequence[Part]
    busy: Sequence[Part] = ()
    finished: Mapping[str, Note] = field(default_factory=dict)


@asynccontextmanager
async def holding(
    runtime: Runtime,
    claims: SharedClaims,
    namespace: Namespace,
    parts: Sequence[Part],
    until: float,
) -> AsyncIterator[Held]:
    """Hold the threads of these parts that no other process works on, and yield what is left to do in them.

    It waits for the others until a time of the monotonic clock.

    Raises:
        StoreError: The store does not answer.
    """
    hold = Hold(namespace)
    try:
        await _take(runtime, claims, hold, {part[0].thread for part in parts}, until)
        mine = [part for part in parts if part[0].thread in hold.threads]
        seen = {note.id: note for part in mine for note in part}
        now = await as_they_are(runtime, namespace, mine)
        left = [[note for note in part if _is_left(note, seen[note.id])] for part in now]
        yield Held(
            runtime=replace(runtime, hold=hold),
            parts=[part for part in left if part],
            busy=[part for part in parts if part[0].thread not in hold.threads],
            finished={note.id: note for part in now for note in part},
        )
    finally:
        await to_the_end(claims.release(hold))


async def _take(
    runtime: Runtime, claims: SharedClaims, hold: Hold, threads: set[str | None], until: float
) -> None:
    pause = FIRST_LOOK
    await resolve(claims.take(hold, threads))
    while (left := threads - hold.threads.keys()) and time.monotonic() < until:
        await resolve(runtime.pause(pause))
        pause = min(pause * 1.5, LAST_LOOK, runtime.config.claim_seconds / 5)
        await resolve(claims.take(hold, left))


def _is_left(note: Note, seen: Note) -> bool:
    """Return whether a note still waits for what it was to be worked on for when it was last seen."""
    if seen.state == "done":  # it is to be made again by a better model
        return note.attributes_source == seen.attributes_source
    return note.state != "done" and note.attempts == seen.attempts
