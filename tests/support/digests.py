"""Digests and facts as a model writes them, in one operation with the record of what it was shown."""

from __future__ import annotations

from collections.abc import Sequence

from amem_integrations import AgenticMemory, Note, texts
from amem_integrations.changes.derived import derived_note, text_of, write, written
from amem_integrations.changes.edits import prompt_records
from amem_integrations.changes.quoted_from import sources_of
from amem_integrations.changes.rewrite import rewrite
from amem_integrations.evolution.deleted_meanwhile import remove_what_is_gone
from amem_integrations.ids import clock, derive, new_operation, now
from amem_integrations.kinds import Kind
from amem_integrations.ports import Indexed
from amem_integrations.runtime import resolve, run


def digest(
    memory: AgenticMemory,
    sources: Sequence[Note],
    *,
    text: str | None = None,
    topic: str | None = None,
    name: str = "d",
    kind: Kind = "digest",
    shown: Sequence[Note] = (),
    meanwhile=lambda: None,
) -> Note:
    """Write a digest, or write it anew, and return it as it is stored; by default it says all its sources say."""
    said = " ".join(note.content for note in sources) if text is None else text
    about = said[:30] if topic is None else topic
    return run(_write(memory._runtime, sources, said, about, name, kind, shown, meanwhile))


async def _write(runtime, sources, text, topic, name, kind, shown, meanwhile) -> Note:
    space, since = sources[0].namespace, clock.tick()
    op, at = new_operation(), now()
    note_id = derive("digest", space, name)
    stored = await resolve(runtime.store.get(space, [note_id]))
    seen = {note.id: note for note in (*sources, *stored, *shown)}
    before = stored[0] if stored else derived_note(note_id, space, kind, op)
    words = text.split()[-4:]
    after = text_of(
        before,
        text=text,
        topic=topic,
        keywords=words,
        sources=sources,
        model="writer",
        op=op,
        at=at,
    )
    meanwhile()
    found = await sources_of(runtime, space, seen, [text, topic, *words])
    records = prompt_records(op, space, found.ids, at, since=since, stale=found.stale)
    if stored:
        await rewrite(runtime, space, op, {note_id: write(after, op, at)}, records=records)
    else:
        vector = runtime.embedder.embed_documents([texts.embedding_text(after)])[0]
        item = Indexed(note=after, vector=vector, text=texts.lexical_text(after))
        changes = [written(None, after, op, at), *records]
        await resolve(runtime.store.insert(space, [item], changes))
    current = await remove_what_is_gone(runtime, space, seen, since)
    return next(iter(await resolve(runtime.store.get(space, [note_id]))), current.get(note_id))
