"""Pure: from notes that were found to LangChain documents and plain JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from langchain_core.documents import Document

from amem_integrations import ScoredNote


def to_document(hit: ScoredNote) -> Document:
    """Return a note as a document: its content word for word, everything else in `metadata`."""
    return Document(id=hit.note.id, page_content=hit.note.content, metadata=describe(hit))


def describe(hit: ScoredNote) -> dict[str, Any]:
    """Return what is known of a hit, as JSON values.

    `via` is `"match"`, or the path of links that led to the note. `similarity` is the cosine with the
    query, for thresholds; `score` only orders the hits of one search.
    """
    note = hit.note
    return {
        "note_id": note.id,
        "namespace": list(note.namespace),
        "score": float(hit.score),
        "similarity": None if hit.similarity is None else float(hit.similarity),
        "via": hit.via if isinstance(hit.via, str) else [asdict(step) for step in hit.via],
        "contexts": [entry.text for entry in note.contexts],
        "keywords": list(note.keywords),
        "tags": list(note.tags),
        "links": list(note.links),
        "speaker": note.speaker,
        "source": note.source,
        "thread": note.thread,
        "at": note.at.isoformat() if note.at else None,
        "recorded_at": note.recorded_at.isoformat(),
        "state": note.state,
        "metadata": dict(note.metadata),
    }
