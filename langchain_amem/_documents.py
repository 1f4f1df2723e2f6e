"""Pure: from notes that were found to LangChain documents."""

from __future__ import annotations

from langchain_core.documents import Document

from amem_integrations import ScoredNote


def to_document(hit: ScoredNote) -> Document:
    """Return a note as a document: its content word for word, everything else in `metadata`."""
    return Document(id=hit.note.id, page_content=hit.note.content, metadata=hit.to_dict())
