"""Digests put into a memory as the writer of digests stores them, without any model."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from amem_integrations import AgenticMemory, ContextEntry, Note, texts
from amem_integrations.ids import clock, derive, time_of
from amem_integrations.ports import Indexed


def put_digest(
    memory: AgenticMemory,
    text: str,
    sources: Sequence[Note],
    *,
    topic: str = "what is known",
    keywords: tuple[str, ...] = (),
    written: datetime | None = None,
    **fields: Any,
) -> Note:
    """Store a digest of notes of one namespace, and return it."""
    namespace, seq = sources[0].namespace, clock.tick()
    time = written or time_of(seq)
    digest = derive("digest", namespace, topic, text)
    entry = ContextEntry(
        text=topic,
        keywords=keywords,
        cause=digest,
        model="tester",
        change="",
        at=max(source.when for source in sources),
        recorded_at=time,
    )
    note = Note(
        id=digest,
        seq=seq,
        namespace=namespace,
        content=text,
        recorded_at=time,
        kind="digest",
        source="derived",
        sources=tuple(source.id for source in sources),
        contexts=(entry,),
        state="done",
        **fields,
    )
    (vector,) = memory.embedder.embed_documents([texts.embedding_text(note)])
    item = Indexed(note=note, vector=vector, text=texts.lexical_text(note))
    memory._runtime.store.insert(namespace, [item], [])
    return note
