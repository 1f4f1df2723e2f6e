"""`AMemVectorStore`: LangChain's documents in the memory, by the interface that loaders and indexing feed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Self

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore

from amem_integrations import AgenticMemory, ConfigurationError, InvalidInputError, adapting


class AMemVectorStore(VectorStore):
    """The documents in one namespace of a memory, as a vector store.

    A document is one note, however long, found by `AMemRetriever` beside what an agent remembers; this store itself
    returns documents only, as they were added. A document with an id replaces the one of that id; nothing else is ever
    removed by adding. To replace what a source held before, use `langchain_core.indexing.index` with `cleanup`, or
    `add(…, replace=True)`.
    https://reference.langchain.com/python/langchain_core/vectorstores/

    Example:
        >>> from amem_integrations import AgenticMemory
        >>> from amem_integrations.testing import HashEmbedder
        >>> memory = AgenticMemory.open(":memory:", embedder=HashEmbedder())
        >>> store = AMemVectorStore(memory, ("team",))
        >>> ids = store.add_documents([Document("Prune in March.", metadata={"source": "trees.txt"})])
        >>> store.similarity_search("When do we prune?", k=1)[0].metadata
        {'source': 'trees.txt'}
    """

    def __init__(
        self,
        memory: AgenticMemory,
        namespace: Sequence[str],
        *,
        source: str = "source",
        evolve: bool = False,
    ) -> None:
        """Take a memory.

        Args:
            memory: Where the documents go.
            namespace: Whose they are.
            source: The field of a document's metadata that says where it comes from.
            evolve: Put documents as notes of a conversation, which are constructed, linked and evolve at once.

        Raises:
            ConfigurationError: `evolve` is neither True nor False.
            NamespaceError: The namespace is not a non-empty tuple of strings.
        """
        adapting.check_flags(evolve=evolve)
        self.memory, self._source, self._evolve = memory, source, evolve
        self._documents = adapting.Documents(memory, namespace)
        self.namespace = self._documents.namespace

    def add(
        self,
        documents: Iterable[Document],
        *,
        replace: bool = False,
        progress: bool | Callable[[int, int], None] = False,
    ) -> adapting.DocumentReport:
        """Add documents, which may be yielded by a loader, and return what that did; see `Documents.add`."""
        given: Iterable[adapting.DocumentInput] = map(self._input, documents)
        if isinstance(documents, Sequence):
            given = list(given)  # of which the progress knows how many there are
        return self._documents.add(given, replace=replace, evolve=self._evolve, progress=progress)

    async def aadd(self, documents: Iterable[Document], **options: Any) -> adapting.DocumentReport:
        """Call `add` in a thread."""
        return await adapting.in_thread(partial(self.add, documents, **options))

    # The asynchronous forms of what follows are LangChain's, in a thread. Unlike the base class, these methods refuse
    # options that they do not know.

    def add_documents(  # type: ignore[override]
        self,
        documents: Iterable[Document],
        *,
        ids: Sequence[str | None] | None = None,
        batch_size: int | None = None,  # of `index`
    ) -> list[str]:
        """Add documents, and return their ids.

        Raises:
            InvalidInputError: There are not as many `ids` as documents.
        """
        given = list(documents)
        names = [one.id for one in given] if ids is None else ids
        if len(names) != len(given):
            raise InvalidInputError(f"there are {len(names)} ids for {len(given)} documents")
        pairs = zip(given, names, strict=True)
        return self.add([one.model_copy(update={"id": name or one.id}) for one, name in pairs]).ids

    def delete(self, ids: list[str] | None = None, *, sources: Iterable[str] = ()) -> bool:  # type: ignore[override]
        """Remove documents for good, by id, or all of a source; return True.

        Raises:
            InvalidInputError: Neither was given.
        """
        if ids is None and not sources:
            raise InvalidInputError("name the ids or the sources of the documents to delete")
        self._documents.remove(ids=ids or [], sources=sources)
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return the documents of these ids, each with all of its text; unknown ones are left out."""
        return [_document(found) for found in self._documents.get(ids)]

    def similarity_search_with_score(
        self,
        query: str,
        k: int = 4,
        *,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - LangChain's name
        min_similarity: float | None = None,
    ) -> list[tuple[Document, float]]:
        """Return the documents found, best first, each with the cosine of the query and its text.

        `filter` is a condition on metadata, `{"source": "trees.txt"}` or with the operators of
        `AgenticMemory.search`.

        Raises:
            InvalidInputError: `filter` is none, such as a function.
        """
        if not query.strip():
            return []
        where: dict[str, Any] = {f"metadata.{adapting.RECORD}.id": {"$exists": True}}
        if filter:
            where = {"$and": [_on_metadata(filter), where]}
        asked: dict[str, Any] = {"namespace": self.namespace, "k": k, "where": where}
        hits = self.memory.search(query, min_similarity=min_similarity, **asked)
        found = [(adapting.described(hit.note), hit.similarity) for hit in hits]
        return [(_document(given), float(similarity or 0)) for given, similarity in found]

    def similarity_search(self, query: str, k: int = 4, **options: Any) -> list[Document]:
        """Return the documents found, best first; the options are those of `similarity_search_with_score`."""
        return [found for found, _ in self.similarity_search_with_score(query, k, **options)]

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        return lambda similarity: min(1.0, max(0.0, similarity))

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings | None = None,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Return the store of `memory=` and `namespace=` with these texts added; the memory has its embedder.

        Raises:
            ConfigurationError: `memory` or `namespace` is missing, or an `embedding` was given.
        """
        if embedding is not None or not {"memory", "namespace"} <= kwargs.keys():
            raise ConfigurationError(
                "give memory= and namespace=, but no embedding: the memory has its embedder"
            )
        store = cls(**kwargs)
        store.add_texts(texts, metadatas, ids=ids)
        return store

    def _input(self, document: Document) -> adapting.DocumentInput:
        source = document.metadata.get(self._source)
        return adapting.DocumentInput(
            text=document.page_content,
            id=document.id,
            source=None if source is None else str(source),
            metadata=document.metadata,
        )


def _document(given: adapting.DocumentInput) -> Document:
    return Document(id=given.id, page_content=given.text, metadata=dict(given.metadata))


def _on_metadata(conditions: Mapping[str, Any]) -> dict[str, Any]:
    """Return conditions on the metadata of documents as conditions on notes.

    Raises:
        InvalidInputError: They are no dict, but a function for example.
    """
    if not isinstance(conditions, Mapping) or not all(isinstance(name, str) for name in conditions):
        raise InvalidInputError(
            f"filter={conditions!r} must be a dict of field to value, such as {{'source': 'trees.txt'}}"
        )
    return {
        name if name.startswith("$") else f"metadata.{name}": (
            [_on_metadata(one) for one in test]
            if name in ("$or", "$and") and isinstance(test, list | tuple)
            else test
        )
        for name, test in conditions.items()
    }
