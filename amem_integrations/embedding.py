"""Call the embedder, check what it gives, and translate its failures.

An embedder is anybody's code. What it raises means that there is no vector now; a row that is no unit vector
(not finite, zero, of another length) is normalised, or taken for none.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from hashlib import blake2b

import numpy as np

from .conversation import Message
from .errors import AmemError, ModelReplyError, ModelUnavailableError, model_error, status_of
from .notes import Note, storable
from .ports import Embedder, MaybeAwaitable
from .runtime import Runtime, resolve
from .stored_note import StoredNote, Vector
from .texts import embedding_texts, spans, split, spoken

log = logging.getLogger("amem_integrations")

# Sessions of two LoCoMo conversations added whole and cut to 50, 100, 150, 200 tokens: the evidence is in the
# first 1000 tokens found for .59, .84, .86, .80 of the questions; uncut, where MiniLM reads 256, for .37.
PASSAGE_TOKENS = 150
FOR_TEXT = 0.6  # of what an embedder reads; the rest is left for context, keywords and tags

# Norms that differ from 1 by less than this are the rounding of float32.
ROUNDING = 1e-4

PROBE = "word"  # tells an embedder that is down from one that fails at a text
SLOW = 1.0  # seconds after which an error is a time-out, and not about a text

Encode = Callable[[list[str]], MaybeAwaitable[object]]


async def embed(runtime: Runtime, texts: Sequence[str]) -> list[Vector | None]:
    """Return a unit-length vector for each text, None where the embedder gave no usable one.

    The embedder is called once at most, if it does not fail; a text that stands there twice, or was embedded lately, is
    not embedded again.

    Raises:
        ModelUnavailableError: The embedder failed.
    """
    vectors: dict[str, Vector | None] = {t: runtime.vectors.get("document", t) for t in texts}
    missing = [text for text, known in vectors.items() if known is None]
    for text, row in zip(missing, await embed_by(runtime.embedder, missing), strict=True):
        vectors[text] = row
        if row is not None:
            runtime.vectors.put("document", text, row)
    return [vectors[text] for text in texts]


async def embed_by(embedder: Embedder, texts: Sequence[str]) -> list[Vector | None]:
    """Return a unit-length vector for each text by any embedder, None where it gave no usable one, or refused the text.

    Raises:
        ModelUnavailableError: The embedder failed.
    """
    return await _encoded(embedder, embedder.embed_documents, list(texts)) if texts else []


async def with_vectors(runtime: Runtime, notes: Sequence[StoredNote]) -> list[StoredNote]:
    """Return notes with the vectors of their words and attributes; those that have them already stay as they are.

    While the embedder fails, `runtime.degraded` is told why, notes keep the vectors that they have, and a later evolve
    makes others. Of a note of which the embedder refuses a passage, none has a vector.
    """
    try:
        return await _with_vectors(runtime.embedder, notes, partial(embed, runtime))
    except AmemError as error:
        runtime.degraded(error)
        log.warning("%s; notes have no new vectors until the next evolve", error)
        return list(notes)


async def with_vectors_anew(embedder: Embedder, notes: Sequence[StoredNote]) -> list[StoredNote]:
    """Return notes with the vectors that an embedder makes now, whatever vectors they have.

    Raises:
        ModelUnavailableError: The embedder failed.
    """
    bare = [replace(one, vectors=None, embedded="") for one in notes]
    return await _with_vectors(embedder, bare, partial(embed_by, embedder))


def size_of(embedder: Embedder) -> int:
    """Return how many tokens a passage has at most that an embedder reads."""
    window = getattr(embedder, "max_tokens", None)
    return min(PASSAGE_TOKENS, int(window * FOR_TEXT)) if window else PASSAGE_TOKENS


async def _with_vectors(
    embedder: Embedder,
    notes: Sequence[StoredNote],
    embed: Callable[[Sequence[str]], Awaitable[list[Vector | None]]],
) -> list[StoredNote]:
    """Return notes with the vectors that `embed` makes of texts which are as long as an embedder reads."""
    size, made = size_of(embedder), {stored.id: stored for stored in notes}
    wanted: dict[str, tuple[Note, list[str], str]] = {}
    for stored in notes:
        if (note := stored.note) is not None:
            passages = spans(note.content, size)
            note = note if passages == note.passages else replace(note, passages=passages)
            texts = embedding_texts(note)
            if (key := hash_of(texts)) != stored.embedded:
                wanted[stored.id] = note, texts, key
    once = list(dict.fromkeys(text for _, texts, _ in wanted.values() for text in texts))
    rows = dict(zip(once, await embed(once), strict=True))
    for note_id, (note, texts, key) in wanted.items():
        own = [row for text in texts if (row := rows[text]) is not None]
        if len(own) == len(texts):
            made[note_id] = replace(made[note_id], note=note, vectors=np.stack(own), embedded=key)
    return list(made.values())


def hash_of(texts: Sequence[str]) -> str:
    """Return a hash of the texts that are embedded with a note."""
    return blake2b("\0".join(texts).encode(errors="surrogatepass"), digest_size=12).hexdigest()


async def embed_query(runtime: Runtime, text: str) -> Vector | None:
    """Return a unit-length vector for a query, None if the embedder gave no usable one, or refused the text.

    Raises:
        ModelUnavailableError: The embedder failed.
    """
    # Half a surrogate pair, as of a cut emoji, is no character, and tokenisers refuse it.
    text = text.encode(errors="ignore").decode()
    if (known := runtime.vectors.get("query", text)) is not None:
        return known

    async def encode(texts: list[str]) -> object:
        return [await resolve(runtime.embedder.embed_query(texts[0]))]

    (row,) = await _encoded(runtime.embedder, encode, [text])
    if row is not None:
        runtime.vectors.put("query", text, row)
    return row


async def embed_said(runtime: Runtime, messages: Sequence[Message]) -> list[Vector]:
    """Return the vectors that messages have as they are stored, of a long one that of the first passage.

    Messages that were stored lately are not embedded again; those of which the embedder refuses the text are left out.

    Raises:
        ModelUnavailableError: The embedder failed.
    """
    size = size_of(runtime.embedder)
    first = [
        spoken(one.speaker or one.party, split(storable(one.text).strip(), size)[0].strip())
        for one in messages
    ]
    return [row for row in await embed(runtime, first) if row is not None]


async def _encoded(embedder: Embedder, encode: Encode, texts: list[str]) -> list[Vector | None]:
    """Return the rows of an embedder, which is anybody's code, as unit vectors; all None if they are not of the promised shape."""
    try:
        rows = await _answer(embedder, encode, texts)
    except ModelReplyError as error:  # one of the texts: the others have their vectors
        if len(texts) > 1:
            middle = len(texts) // 2
            first = await _encoded(embedder, encode, texts[:middle])
            return [*first, *await _encoded(embedder, encode, texts[middle:])]
        log.warning("embedder %s refused a text: %s", embedder.name, error)
        return [None]
    try:
        given = np.asarray(rows, dtype=np.float32)
    except Exception:  # such as of a tensor that wants a gradient
        log.exception("embedder %s gave no array of numbers", embedder.name)
        return [None] * len(texts)
    if given.shape != (wanted := (len(texts), embedder.dimensions)):
        log.error("embedder %s gave shape %s instead of %s", embedder.name, given.shape, wanted)
        return [None] * len(texts)
    exact = given.astype(np.float64)
    norms = np.sqrt(np.einsum("ij,ij->i", exact, exact))
    norms[np.abs(norms - 1) < ROUNDING] = 1
    usable = np.isfinite(norms) & (norms > np.finfo(np.float32).tiny)
    if not usable.all():
        log.error("embedder %s gave %d unusable vectors", embedder.name, np.sum(~usable))
    units = (given / np.where(usable, norms, 1)[:, None]).astype(np.float32)
    return [row if good else None for row, good in zip(units, usable, strict=True)]


async def _answer(
    embedder: Embedder, encode: Encode, texts: list[str], *, is_probe: bool = False
) -> object:
    """Return the answer of an embedder about texts.

    Raises:
        ModelReplyError: One of the texts is refused; so it is, too, where the embedder fails quickly, and then answers
            about another text.
        ModelUnavailableError: The embedder failed.
    """
    begun = time.monotonic()
    try:
        return await resolve(encode(texts))
    except Exception as raised:
        what = f"the embedder {embedder.name}"
        error = raised if isinstance(raised, AmemError) else model_error(what, raised)
        # A server that is busy or away says so by its status, or is slow to answer.
        is_odd = status_of(raised) in (None, 500) and time.monotonic() - begun < SLOW
        if isinstance(error, ModelUnavailableError) and is_odd and not is_probe:
            # An embedder that is down may answer about a text which it, or a cache before it, knows.
            await _answer(embedder, encode, [f"{PROBE} {time.time_ns()}"], is_probe=True)
            error = model_error(what, raised, status=400)
        if error is raised:
            raise
        raise error from raised
